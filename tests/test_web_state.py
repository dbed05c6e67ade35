"""The pure and small parts: progress from events, the form from the schema, paths, processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra webui is not installed")

from hypothesis import given
from hypothesis import strategies as st

from skillopt.config import iter_keys, load_config
from skillopt.run.progress import Progress, after
from skillopt.web.forms import advanced_groups, basic_groups, filled, offered, overrides, run_name_problem
from skillopt.web.jobs import JobError, Jobs
from skillopt.web.paths import PathError, configurations, confined, shipped
from skillopt.web.process import start_mark
from skillopt.web.render import Allowance
from skillopt.web.state import read_live, result_words


@pytest.mark.parametrize(
    ("stage", "result", "words"),
    [
        (1, {"hard": 0.5}, "50% right"),
        (1, {"hard": None}, ""),
        (2, {"failure_patches": 2, "success_patches": 1}, "3 patches"),
        (3, {"merged": 4}, "4 merged"),
        (4, {"ranked": 2, "merged": 4}, "2 of 4 edits"),
        (5, {"before": 1000, "after": 2500}, "+1,500 characters"),
        (6, {"action": "accept_new_best"}, "accept new best"),
    ],
)
def test_a_stage_says_what_came_of_it(stage: int, result: dict[str, object], words: str) -> None:
    done = after(Progress(), None, "stage_done", {"stage": stage, **result}).stages[stage - 1]
    assert result_words(done) == words
    assert result_words(after(Progress(), None, "stage_started", {"stage": stage}).stages[stage - 1]) == ""


HOSTILE = st.none() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5) | st.just([{}])


@given(st.integers(1, 6), st.dictionaries(st.sampled_from(("hard", "merged", "ranked", "after", "action")), HOSTILE))
def test_no_result_breaks_the_words(stage: int, result: dict[str, object]) -> None:
    done = after(Progress(), None, "stage_done", {**result, "stage": stage}).stages[stage - 1]
    assert isinstance(result_words(done), str)


def test_events_are_followed_from_where_they_were_left(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(json.dumps({"event": "step_started", "step": 1, "steps": 3}) + '\n{"event": "st', encoding="utf-8")
    first = read_live(tmp_path)
    assert first.progress.step == 1
    with open(path, "a", encoding="utf-8") as handle:
        handle.write('ep_started", "step": 2, "steps": 3}\n')
    second = read_live(tmp_path, first)
    assert second.progress.step == 2
    assert second.version == first.version
    (tmp_path / "history.json").write_text("[]", encoding="utf-8")
    assert read_live(tmp_path, second).version != second.version
    path.write_text(json.dumps({"event": "step_started", "step": 1, "steps": 9}) + "\n", encoding="utf-8")
    assert read_live(tmp_path, second).progress.steps == 9  # a shorter file is another file


def test_of_a_long_file_the_end_is_read_and_no_time_is_guessed(tmp_path: Path) -> None:
    start = {"at": 0.0, "event": "run_started", "epochs": 1, "steps": 1, "train": 40, "val": 20, "test": 40}
    done = {"event": "item_done", "label": "step 1 rollout", "total": 99_999, "hard": 1.0, "pad": "x" * 900}
    lines = [json.dumps(start), *(json.dumps({**done, "at": n, "done": n}) for n in range(1, 101))]
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    short = read_live(tmp_path).progress
    assert short.seconds_left(short.at) is not None
    lines += [json.dumps({**done, "at": n, "done": n}) for n in range(101, 6001)]
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    long = read_live(tmp_path).progress
    assert long.passes[0].done == 6000
    assert long.seconds_left(long.at) is None


def test_the_form_has_every_key_that_it_may_have_once() -> None:
    config = load_config("configs/searchqa/default.yaml", (), {}, environ={})
    groups = [*basic_groups({}, config), *advanced_groups({}, config)]
    names = [field.name for group in groups for field in group.fields]
    assert sorted(names) == sorted(info.dotted for info in iter_keys() if offered(info))
    assert not any("key" in name.rpartition("_")[2] for name in names)
    assert all(field.value == "" for group in groups for field in group.fields)
    hints = {field.name: field.hint for group in groups for field in group.fields}
    assert hints["env.workers"] == "24"  # what the file says, not the default of the schema


def test_only_what_was_filled_in_is_sent() -> None:
    sent = [
        ("train.num_epochs", "2"),
        ("train.seed", ""),
        ("env.out_root", "/etc"),
        ("model.azure_api_key", "x"),
        ("x", "y"),
    ]
    values = filled([*sent, ("model.target", "a b; $(rm)"), ("model.codex_exec_path", "/bin/sh")])
    assert overrides(values) == ["model.target=a b; $(rm)", "train.num_epochs=2"]


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a b", "-x", "a\n", "x" * 101, "a\\b", "é"])
def test_names_that_no_run_folder_gets(name: str) -> None:
    assert run_name_problem(name)


def test_paths_stay_below_the_folders_that_may_be_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "data", root / ".git", outside):
        folder.mkdir(parents=True)
        (folder / "items.json").write_text("[]", encoding="utf-8")
    (root / "~").mkdir()
    (root / "link").symlink_to(outside)
    assert confined("data", [root]) == root / "data"
    assert confined(str(root / "data" / "items.json"), [root]) == root / "data" / "items.json"
    for bad in (
        "../outside",
        str(outside),
        "link/items.json",
        ".git/items.json",
        "nope",
        "",
        "a\0b",
        "/etc/passwd",
        "~",
        "~/x",
        "x" * 300,
        "a/" * 9999,
    ):
        with pytest.raises(PathError):
            confined(bad, [root])
    assert shipped("data/samples/searchqa-mini", tmp_path)
    assert not shipped("data", root)
    assert not shipped("../data/samples/searchqa-mini", tmp_path)


def test_shipped_configurations_are_offered_and_links_out_are_not(tmp_path: Path) -> None:
    (tmp_path / "configs" / "_base_").mkdir(parents=True)
    for name in ("mine.yaml", "_base_/default.yaml"):
        (tmp_path / "configs" / name).write_text("env:\n  name: searchqa\n", encoding="utf-8")
    (tmp_path / "other.yaml").write_text("x: 1\n", encoding="utf-8")
    (tmp_path / "configs" / "out.yaml").symlink_to(tmp_path / "other.yaml")
    names = configurations(tmp_path)
    assert "configs/searchqa/default.yaml" in names
    assert "configs/mine.yaml" in names
    assert "configs/out.yaml" not in names
    assert not any("_base_" in name for name in names)


def test_a_process_is_known_by_its_start(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        mark = start_mark(child.pid)
        assert mark
        assert start_mark(child.pid) == mark
        assert start_mark(os.getpid()) not in ("", mark)
    finally:
        child.kill()
        child.wait()
    assert start_mark(child.pid) != mark


def test_a_job_outlives_the_dashboard_and_another_process_is_never_stopped(tmp_path: Path) -> None:
    sleeper = (sys.executable, "-c", "import time; time.sleep(60)")
    jobs = Jobs(tmp_path / "state", tmp_path, dict(os.environ), sleeper)
    job = jobs.start("train", ["x"], tmp_path / "run")
    again = Jobs(tmp_path / "state", tmp_path, {}, sleeper)  # the dashboard was started anew
    try:
        assert again.at_work(tmp_path / "run") == job
        with pytest.raises(JobError, match="already works"):
            again.start("train", ["x"], tmp_path / "run")
        record = json.loads((tmp_path / "state" / f"{job.id}.json").read_text(encoding="utf-8"))
        other = record | {"mark": "of an earlier process with this id"}
        (tmp_path / "state" / f"{job.id}.json").write_text(json.dumps(other), encoding="utf-8")
        stale = again.get(job.id)
        assert stale is not None
        with pytest.raises(JobError, match="ended"):
            again.stop(stale)
    finally:
        jobs.stop(job)
    child = jobs._children[job.id]
    child.wait(10)
    assert not jobs.alive(job)
    assert (tmp_path / "state" / f"{job.id}.log").stat().st_mode & 0o077 == 0
    assert jobs.get("../../etc/passwd") is None


def test_a_page_holds_only_so_much_text() -> None:
    allowed = Allowance(10)
    assert allowed.take("12345", 10) == "12345"
    assert allowed.take("123456789", 10).startswith("12345\n… 4 more")
    assert allowed.take("x").startswith("\n…")


@pytest.mark.parametrize(
    "torn",
    [
        {"pid": float("inf")},
        {"pid": -1},
        {"pid": "7"},
        {"created": 10**400},
        {"mark": None},
        {"folder": ["x"]},
        [],
        None,
    ],
)
def test_a_record_that_was_not_written_here_is_no_command(tmp_path: Path, torn: object) -> None:
    id_ = "20200101-000000-00000000-0000"
    record = {"id": id_, "kind": "train", "words": ["x"], "folder": "x", "pid": 7, "mark": "m", "created": 1.0}
    path = tmp_path / f"{id_}.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    jobs = Jobs(tmp_path, tmp_path, {})
    assert jobs.get(id_) is not None
    path.write_text(json.dumps({**record, **torn} if isinstance(torn, dict) else torn), encoding="utf-8")
    assert jobs.get(id_) is None
