"""Trackers: what they get of a training, whose run it goes to, and that none of them can harm the training."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fakes import trackers as fakes
from fakes.folders import read_json, rows
from fakes.trackers import Fake
from fakes.world import ENVIRON, World, configuration, run

from skillopt.config import ConfigError
from skillopt.engine.session import Ending
from skillopt.extras import install_hint
from skillopt.run.events import Events
from skillopt.trackers import Entry, Found, Outcome, Start, find_trackers, tracking
from skillopt.trackers.listener import Tracking
from skillopt.trackers.marks import FILE, Mark, Marks
from skillopt.trackers.records import Record, Recorder, finite, row_metrics, summary_metrics

Patch = pytest.MonkeyPatch
HALF = 25
"""Calls after which a training of the small world has done some of its steps."""
ALL = ("mlflow", "wandb", "tensorboard")
INSTALL: Mapping[str, Callable[[Patch], Fake]] = {
    "mlflow": fakes.mlflow,
    "wandb": fakes.wandb,
    "tensorboard": fakes.tensorboard,
}
PACKAGES = {"mlflow": "mlflow", "wandb": "wandb", "tensorboard": "tensorboardX"}


def train(root: Path, *names: str, notes: list[str] | None = None, **overrides: Any) -> Ending:
    given = {key.replace("__", "."): value for key, value in overrides.items()}

    def listen(kind: str, fields: Mapping[str, Any]) -> None:
        if kind == "note" and notes is not None:
            notes.append(fields["text"])

    return run(World(), root, {"logging.trackers": names, **given}, listeners=[listen])


# what a tracker gets


@pytest.mark.parametrize("name", ALL)
def test_a_tracker_gets_the_numbers_of_each_step_and_the_texts(tmp_path: Path, monkeypatch: Patch, name: str) -> None:
    fake = INSTALL[name](monkeypatch)
    root = tmp_path / "my_run"
    notes: list[str] = []
    ending = train(root, name, notes=notes)
    found, history = fake.run, rows(root)
    assert not [note for note in notes if "tracker" in note]
    for key in ("train_hard", "best_score", "edit_budget", "tokens_total", "skill_len", "wall_time_s"):
        wanted = [(row["step"], float(row[key])) for row in history if row.get(key) is not None]
        assert found.curve(f"skillopt/{key}") == wanted, key
    measured = [(row["step"], row["val_hard"]) for row in history if row["val_hard"] is not None]
    assert found.curve("skillopt/val_hard") == [(0, ending.summary["baseline_selection_hard"]), *measured]
    assert [step for step, _ in found.curve("skillopt/run_tokens")] == [row["step"] for row in history]
    last = history[-1]["step"]
    assert found.curve("skillopt/summary/test_hard") == [(last, ending.summary["test_hard"])]
    tokens = ending.summary["token_summary"]["_total"]["total_tokens"]
    assert found.curve("skillopt/summary/total_tokens") == [(last, tokens)]
    assert not any(name_.startswith("/") or "//" in name_ for name_, _, _ in found.metrics)
    texts = " ".join(found.texts.values())
    assert (root / "best_skill.md").read_text(encoding="utf-8") in texts
    assert "+- rule: " in texts
    assert json.dumps(history[0]["action"]) in texts
    assert '"stop_reason": "completed"' in texts
    assert threading.get_ident() not in found.threads, "a server that is slow must not hold up the training"


def test_texts_are_artifacts_under_their_names_in_the_run_folder(tmp_path: Path, monkeypatch: Patch) -> None:
    fake = fakes.mlflow(monkeypatch)
    root = tmp_path / "run"
    train(root, "mlflow")
    texts = {name.removeprefix("skillopt/"): text for name, text in fake.run.texts.items()}
    for name in ("best_skill.md", "history.json", "summary.json", "config.json"):
        assert texts.pop(name) == (root / name).read_text(encoding="utf-8"), name
    skills = {path.relative_to(root).as_posix(): path.read_bytes().decode() for path in root.glob("skills/*")}
    assert {name: text for name, text in texts.items() if name.startswith("skills/")} == skills
    diffs = {name for name in texts if name.startswith("diffs/")}
    changed = [row for row in rows(root) if row["action"] in ("accept", "accept_new_best", "reject")]
    assert diffs == {"diffs/best.diff", *(f"diffs/step_{row['step']:04d}_{row['action']}.diff" for row in changed)}
    assert fake.run.parameters["skillopt/batch_size"] == "3"
    assert len(fake.run.parameters) > 100
    assert ENVIRON["OPENAI_API_KEY"] not in str(fake.run)


def test_several_at_once_get_the_same(tmp_path: Path, monkeypatch: Patch) -> None:
    found = [INSTALL[name](monkeypatch) for name in ALL]
    train(tmp_path / "run", *ALL)
    first, second, third = (sorted(fake.run.metrics) for fake in found)
    assert first == second == third
    assert len(first) > 30
    assert [fake.run.status for fake in found] == ["FINISHED", "exit 0", "closed"]


def test_the_prefix_is_before_every_name(tmp_path: Path, monkeypatch: Patch) -> None:
    fake = fakes.mlflow(monkeypatch)
    train(tmp_path / "run", "mlflow", logging__tracker_prefix="lab/skill.")
    names = {name for name, _, _ in fake.run.metrics} | set(fake.run.texts) | set(fake.run.parameters)
    assert all(name.startswith("lab/skill.") for name in names)


def test_a_run_of_its_own_is_named_after_the_folder(tmp_path: Path, monkeypatch: Patch) -> None:
    mlflow, wandb = fakes.mlflow(monkeypatch), fakes.wandb(monkeypatch)
    train(tmp_path / "my_run", "mlflow", "wandb")
    assert [(fake.run.name, fake.run.place) for fake in (mlflow, wandb)] == [("my_run", "skillopt")] * 2


def test_where_runs_go_is_read_from_dotenv_too(tmp_path: Path, monkeypatch: Patch) -> None:
    fake = fakes.mlflow(monkeypatch, uri_set=False)
    environ = {"MLFLOW_TRACKING_URI": "http://tracking/", "MLFLOW_EXPERIMENT_NAME": "mine"}
    (found,) = find_trackers(("mlflow",), environ)
    found.open(Start(tmp_path, "run", "", {}))
    assert fake.run.place == "http://tracking/mine"


# the host's run


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_run_of_the_host_is_joined_and_left_open(tmp_path: Path, monkeypatch: Patch, name: str) -> None:
    fake = INSTALL[name](monkeypatch)
    host = fake.start_host()
    train(tmp_path / "run", name)
    assert fake.run is host
    assert host.status == "RUNNING"
    assert host.parameters == {}, "the host's configuration is its own"
    assert {metric.partition("/")[0] for metric, _, _ in host.metrics} == {"skillopt"}
    assert host.curve("skillopt/train_hard")


# resume


@pytest.mark.parametrize("name", ALL)
def test_a_resumed_training_goes_on_in_its_run_and_repeats_nothing(
    tmp_path: Path, monkeypatch: Patch, name: str
) -> None:
    fake = INSTALL[name](monkeypatch)
    root = tmp_path / "run"
    assert train(root, name, budget__max_calls=HALF).reason == "budget"
    some = len(rows(root))
    assert fake.run.status == {"mlflow": "KILLED", "wandb": "exit 1", "tensorboard": "closed"}[name]
    assert not fake.run.curve("skillopt/summary/test_hard")
    if name == "tensorboard":  # the fake writes no event files
        (root / "tensorboard").mkdir()
        (root / "tensorboard/events").touch()
    assert train(root, name).reason == "completed"
    assert some < len(rows(root))
    steps = [step for step, _ in fake.run.curve("skillopt/train_hard")]
    assert steps == list(range(1, len(rows(root)) + 1))
    assert len(fake.run.curve("skillopt/summary/test_hard")) == 1
    assert fake.run.status == {"mlflow": "FINISHED", "wandb": "exit 0", "tensorboard": "closed"}[name]
    assert read_json(root / FILE)[name]["step"] == len(rows(root))


def test_another_run_gets_the_steps_before_it_too(tmp_path: Path, monkeypatch: Patch) -> None:
    fake = fakes.mlflow(monkeypatch)
    root = tmp_path / "run"
    train(root, "mlflow", budget__max_calls=HALF)
    fake.start_host()
    train(root, "mlflow")
    assert len(fake.runs["host"].curve("skillopt/train_hard")) == len(rows(root))
    assert len(fake.runs["run1"].curve("skillopt/train_hard")) < len(rows(root))


def test_a_run_that_is_gone_is_replaced(tmp_path: Path, monkeypatch: Patch) -> None:
    fake = fakes.mlflow(monkeypatch)
    root = tmp_path / "run"
    train(root, "mlflow", budget__max_calls=HALF)
    fake.runs.clear()
    train(root, "mlflow")
    assert len(fake.run.curve("skillopt/train_hard")) == len(rows(root))


def test_trackers_are_no_part_of_what_a_run_was_made_with(tmp_path: Path, monkeypatch: Patch) -> None:
    fakes.mlflow(monkeypatch)
    root = tmp_path / "run"
    train(root, budget__max_calls=HALF)
    assert not (root / FILE).exists()
    assert train(root, "mlflow").reason == "completed"


@pytest.mark.parametrize("torn", [b"", b"{", b'{"mlflow": 3}', b"\xff"])
def test_torn_marks_are_as_good_as_none(tmp_path: Path, torn: bytes) -> None:
    (tmp_path / FILE).write_bytes(torn)
    marks = Marks(tmp_path)
    assert marks.of("mlflow") == Mark()
    marks.set("mlflow", Mark(run="r", step=2))
    assert Marks(tmp_path).of("mlflow") == Mark(run="r", step=2)


# failures


@pytest.mark.parametrize("name", ALL)
def test_a_tracker_that_is_not_installed_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: Patch, name: str
) -> None:
    fakes.absent(monkeypatch, PACKAGES[name])
    world = World()
    with pytest.raises(ConfigError, match=f"logging.trackers: {name}.*{re.escape(install_hint(name))}"):
        run(world, tmp_path / "run", {"logging.trackers": [name]})
    assert world.calls == []
    assert not (tmp_path / "run").exists()


def test_all_trackers_that_are_not_installed_are_named_at_once(monkeypatch: Patch) -> None:
    for package in ("mlflow", "wandb"):
        fakes.absent(monkeypatch, package)
    fakes.tensorboard(monkeypatch)
    with pytest.raises(ConfigError, match=r"mlflow cannot be used \(.*wandb cannot be used \(") as refused:
        find_trackers(("mlflow", "tensorboard", "wandb"), {})
    assert str(refused.value).endswith(f"; install them with: {install_hint('mlflow', 'wandb')}")


def test_a_package_that_breaks_on_import_is_refused_in_plain_words(monkeypatch: Patch) -> None:
    fakes.mlflow(monkeypatch)
    monkeypatch.setattr("mlflow.active_run", lambda: {}["descriptors"])
    with pytest.raises(ConfigError, match="mlflow cannot be used"):
        find_trackers(("mlflow",), {})


@pytest.mark.parametrize(
    ("environ", "fine"), [({}, False), ({"WANDB_API_KEY": "k"}, True), ({"WANDB_MODE": "offline"}, True)]
)
def test_wandb_asks_no_one_for_a_key(monkeypatch: Patch, environ: dict[str, str], fine: bool) -> None:
    fakes.wandb(monkeypatch, key=False)
    if fine:
        find_trackers(("wandb",), environ)
        return
    with pytest.raises(ConfigError, match="WANDB_MODE=offline"):
        find_trackers(("wandb",), environ)


CALLS = {
    "mlflow": ("create_experiment", "create_run", "log_batch", "log_text", "set_terminated"),
    "wandb": ("init", "define_metric", "log", "log_artifact", "finish"),
    "tensorboard": ("open", "add_scalar", "add_text", "flush", "close"),
}


FAILED = {"mlflow": "FAILED", "wandb": "exit 1"}
"""What the services show of a run that failed."""
ENDS = ("set_terminated", "finish")


@pytest.mark.parametrize(("name", "function"), [(name, function) for name in ALL for function in CALLS[name]])
def test_whatever_fails_is_said_once_and_the_training_goes_on(
    tmp_path: Path, monkeypatch: Patch, name: str, function: str
) -> None:
    fake = INSTALL[name](monkeypatch)

    def broken(used: str) -> None:
        if used == function:
            raise OSError(f"no {ENVIRON['OPENAI_API_KEY']} here")

    fake.broken = broken
    notes: list[str] = []
    other = fakes.mlflow(monkeypatch) if name != "mlflow" else fakes.tensorboard(monkeypatch)
    second = "mlflow" if name != "mlflow" else "tensorboard"
    ending = train(tmp_path / "run", name, second, notes=notes)
    assert ending.reason == "completed"
    said = [note for note in notes if "tracker" in note]
    assert said == [f"tracker {name} is off from here on, the training goes on: OSError: no *** here"]
    assert fake.used.count(function) <= 2, "it is off"
    assert other.run.curve("skillopt/summary/test_hard"), "the other one goes on"
    if name in FAILED and function not in ENDS:
        assert {run.status for run in fake.runs.values()} <= {FAILED[name]}, "a run must not look as if it went on"
    assert ENVIRON["OPENAI_API_KEY"] not in (tmp_path / "run/events.jsonl").read_text(encoding="utf-8")


class Hanging:
    """A tracker that waits until it is let go."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.run = "hanging"
        self.free = threading.Event()
        self.logged: list[Entry] = []

    def log(self, entry: Entry) -> None:
        self.free.wait(10)
        self.logged.append(entry)

    def close(self, outcome: Outcome) -> None:
        pass


def row(step: int) -> dict[str, Any]:
    return {"step": step, "action": "accept", "train_hard": 0.5}


def test_a_tracker_that_hangs_is_left_behind(tmp_path: Path) -> None:
    notes: list[str] = []
    start = Start(tmp_path, "run", "", {})
    opened: list[Hanging] = []

    def open_(start: Start) -> Hanging:
        opened.append(Hanging(start))
        return opened[0]

    began = time.monotonic()
    listener = Tracking([Found("slow", open_)], start, notes.append)
    for step in range(1, 4):
        listener("step_done", {"row": row(step)})
    listener("run_finished", {"reason": "completed"})
    listener.close(grace=0.05)
    assert time.monotonic() - began < 5
    assert notes == ["tracker slow: it did not end within 0.05 s; what it holds may be lost"]
    opened[0].free.set()


@pytest.mark.parametrize(
    ("error", "waits"),
    [(None, True), (ValueError, True), (SystemExit, True), (KeyboardInterrupt, False), (asyncio.CancelledError, False)],
)
def test_who_breaks_off_does_not_wait_long(
    tmp_path: Path, monkeypatch: Patch, error: type[BaseException] | None, waits: bool
) -> None:
    monkeypatch.setattr("skillopt.trackers.HASTE_SECONDS", 0.05)
    tracker = Hanging(Start(tmp_path, "run", "", {}))
    notes: list[str] = []
    events = Events(lambda kind, fields: notes.append(str(fields.get("text"))) if kind == "note" else None)
    slow = threading.Timer(0.5, tracker.free.set)
    with (
        pytest.raises(error) if error else nullcontext(),
        tracking([Found("slow", lambda start: tracker)], tracker.start, events, str),
    ):
        events.emit("step_done", row=row(1))
        slow.start()
        if error:
            raise error
    assert notes == ([] if waits else ["tracker slow: it did not end within 0.05 s; what it holds may be lost"])
    assert [entry.step for entry in tracker.logged] == ([1] if waits else [])
    tracker.free.set()
    slow.cancel()


def test_a_run_that_cannot_be_remembered_is_ended(tmp_path: Path, monkeypatch: Patch) -> None:
    fake = fakes.mlflow(monkeypatch)
    (tmp_path / FILE).mkdir()
    (found,) = find_trackers(("mlflow",), {})
    notes: list[str] = []
    Tracking([found], Start(tmp_path, "run", "", {}), notes.append).close()
    assert fake.run.status == "FAILED"
    assert len(notes) == 1


# records


def records(*events: tuple[str, dict[str, Any]]) -> list[Record]:
    recorder = Recorder()
    return [record for kind, fields in events for record in recorder.records(kind, fields)]


def test_guidance_is_logged_once_it_is_committed() -> None:
    done = ("step_done", {"row": row(2), "tokens": 10, "cost_usd": None})
    ends = [("slow_update_done", {"epoch": 1}), ("meta_skill_done", {"epoch": 1})]
    assert len(records(done, *ends)) == 1
    *_, last = records(done, *ends, ("epoch_started", {}), ("step_started", {}))
    assert last == Record(2, files={"skills/skill_v0002.md": "skills/skill_v0002.md"})


def test_nothing_stands_for_what_is_not_known() -> None:
    (record,) = records(("step_done", {"row": {**row(1), "cost_usd": None}, "tokens": 10, "cost_usd": None}))
    assert record.metrics == {"train_hard": 0.5, "accepted": 1.0, "errors": 0.0, "run_tokens": 10.0}
    assert finite({"a": float("nan"), "b": True, "c": "1", "d": None, "e": float("inf"), "f": 2}) == {"f": 2.0}
    assert summary_metrics({}) == {}
    assert row_metrics({"action": "reject", "errors": {"analyst": 2}, "timing": {"rollout": 1.5}}) == {
        "accepted": 0.0,
        "errors": 2.0,
        "seconds/rollout": 1.5,
    }


# configuration


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("mlflow,wandb", ("mlflow", "wandb")),
        (["TensorBoard", "mlflow", "tensorboard"], ("tensorboard", "mlflow")),
        ("", ()),
        (None, ()),
    ],
)
def test_the_list_of_trackers(tmp_path: Path, value: Any, names: tuple[str, ...]) -> None:
    assert configuration(tmp_path, {"logging.trackers": value}).logging.trackers == names


def test_an_unknown_tracker_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"logging.trackers .*did you mean wandb\?"):
        configuration(tmp_path, {"logging.trackers": ["wanb"]})


@pytest.mark.parametrize("value", ["", "a", "a/", "a/b-c_d.e/", "run."])
def test_prefixes_that_fit_in_any_name(tmp_path: Path, value: str) -> None:
    assert configuration(tmp_path, {"logging.tracker_prefix": value}).logging.tracker_prefix == value


@pytest.mark.parametrize("value", ["/", "/a", "a//b", "../a", "a/../b/", "a b", "ä/", "a:", "."])
def test_prefixes_that_do_not(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"logging\.tracker_prefix"):
        configuration(tmp_path, {"logging.tracker_prefix": value})


# the real ones


def test_the_real_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="needs the extra tensorboard")
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    root = tmp_path / "run"
    notes: list[str] = []
    train(root, "tensorboard", notes=notes, budget__max_calls=HALF)
    train(root, "tensorboard", notes=notes)
    assert not [note for note in notes if "tracker" in note]
    found = EventAccumulator(str(root / "tensorboard"), {"scalars": 0, "tensors": 0})
    found.Reload()
    # Both trainings may have begun in one second, which names their files.
    steps = sorted(event.step for event in found.Scalars("skillopt/train_hard"))
    assert steps == list(range(1, len(rows(root)) + 1))
    tags = found.Tags()["tensors"]
    assert any(tag.startswith("skillopt/skills/skill.md") for tag in tags), tags


def test_the_real_mlflow(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    try:
        root = tmp_path / "run"
        notes: list[str] = []
        train(root, "mlflow", notes=notes, budget__max_calls=HALF)
        train(root, "mlflow", notes=notes)
        assert not [note for note in notes if "tracker" in note]
        client = mlflow.MlflowClient()
        experiment = client.get_experiment_by_name("skillopt")
        (own,) = client.search_runs([experiment.experiment_id])
        history = client.get_metric_history(own.info.run_id, "skillopt/train_hard")
        assert sorted(metric.step for metric in history) == list(range(1, len(rows(root)) + 1))
        assert own.info.status == "FINISHED"
        assert {entry.path for entry in client.list_artifacts(own.info.run_id, "skillopt")} >= {"skillopt/skills"}
        with mlflow.start_run() as host:
            train(tmp_path / "hosted", "mlflow")
        joined = client.get_run(host.info.run_id)
        assert joined.data.metrics["skillopt/summary/test_hard"] == 1.0
    finally:
        mlflow.set_tracking_uri(before)


def test_the_real_wandb_offline(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    wandb = pytest.importorskip("wandb", reason="needs the extra wandb")
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "run"
    notes: list[str] = []
    settings = {**ENVIRON, "WANDB_MODE": "offline"}
    ending = run(
        World(),
        root,
        {"logging.trackers": ["wandb"]},
        environ=settings,
        listeners=[lambda kind, fields: notes.append(fields["text"]) if kind == "note" else None],
    )
    assert ending.reason == "completed"
    assert not [note for note in notes if "tracker" in note]
    assert wandb.run is None
    (stored,) = root.glob("wandb/offline-run-*/run-*.wandb")
    # wandb writes in a process of its own, which a busy machine keeps waiting.
    deadline = time.monotonic() + 60
    while b"skillopt/train_hard" not in stored.read_bytes():
        assert time.monotonic() < deadline, "nothing was written"
        time.sleep(0.2)
