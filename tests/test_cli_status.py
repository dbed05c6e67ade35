"""What ``skillopt status`` says of a folder, and that it changes nothing in it."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from skillopt.cli.status import Status, main, status_lines, status_of
from skillopt.report.folder import anchored, is_run, run_of_skill
from skillopt.report.run import read_run
from skillopt.run.journal import Journal

CONFIG = {"env": "searchqa", "num_epochs": 2, "steps_per_epoch": 3, "azure_openai_api_key": "sk-published-secret"}


def row(step: int, action: str, tokens: int = 100) -> dict[str, Any]:
    spent = {"analyst": {"calls": 2, "prompt_tokens": tokens, "completion_tokens": 10}}
    return {"step": step, "epoch": 1, "action": action, "current_score": 0.5, "best_score": 0.5, "tokens": spent}


ROWS = [row(1, "accept_new_best"), row(2, "reject"), row(3, "reject"), row(4, "skip_no_patches")]
POINTERS = {
    "last_completed_step": 4,
    "current_skill_path": "/elsewhere/run/skills/skill_v0004.md",
    "current_score": 0.5,
    "current_origin": "step_0001",
    "best_skill_path": "/elsewhere/run/best_skill.md",
    "best_score": 0.5,
    "best_step": 1,
    "best_origin": "step_0001",
}


def write(root: Path, **files: Any) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        text = value if isinstance(value, str) else json.dumps(value)
        suffix = "jsonl" if name == "events" else "json"
        (root / f"{name}.{suffix}").write_text(text, encoding="utf-8")
    return root


def published(root: Path, **files: Any) -> Path:
    """A run folder as the published implementation leaves it."""
    write(root, **{"config": CONFIG, "history": ROWS, "runtime_state": POINTERS, **files})
    (root / "best_skill.md").write_text("# Skill\n", encoding="utf-8")
    return root


def ours(root: Path, *events: dict[str, Any], **files: Any) -> Path:
    """A run folder with a journal and a log of events."""
    lines = "".join(json.dumps(event) + "\n" for event in events)
    published(root, events=lines, **files)
    Journal(root / "journal.sqlite").close()
    return root


def told(root: Path) -> Status:
    return status_of(read_run(root))


def test_a_published_run_that_finished(tmp_path: Path) -> None:
    tokens = {"rollout": {"prompt_tokens": 4000, "completion_tokens": 321}, "_total": {"total_tokens": 4321}}
    status = told(published(tmp_path / "run", summary={"total_steps": 4, "token_summary": tokens}))
    assert (status.state, status.reason, status.go_on) == ("finished", None, None)
    assert (status.steps_done, status.steps_total) == (4, 6)
    assert status.actions == {"accept_new_best": 1, "reject": 2, "skip_no_patches": 1}
    assert (status.best_score, status.best_step, status.current_score) == (0.5, 1, 0.5)
    assert status.best_skill == str(tmp_path / "run" / "best_skill.md")
    assert status.tokens == 4321
    assert any("cannot" in note or "not continued" in note for note in status.notes)


def test_a_published_run_that_did_not_finish_cannot_be_continued(tmp_path: Path) -> None:
    status = told(published(tmp_path / "run"))
    assert (status.state, status.reason, status.go_on) == ("stopped", "unfinished", None)
    assert status.tokens == 4 * 110


def test_no_key_of_a_published_configuration_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = published(tmp_path / "run")
    assert main([str(root)]) == main([str(root), "--json"]) == 0
    assert "sk-published-secret" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("events", "summary", "state", "reason"),
    [
        ([{"event": "run_started"}, {"event": "run_finished"}], {"stop_reason": "completed"}, "finished", None),
        ([{"event": "run_started"}, {"event": "run_stopped", "reason": "budget"}], {}, "stopped", "budget"),
        ([{"event": "run_stopped", "reason": "budget"}, {"event": "run_started"}], {}, "stopped", "killed"),
        (
            [{"event": "run_stopped", "reason": "interrupted"}, {"event": "run_started"}, {"event": "item_done"}],
            {"stop_reason": "interrupted"},
            "stopped",
            "killed",
        ),
        ([], {"stop_reason": "budget"}, "stopped", "budget"),
        ([], {"stop_reason": "completed"}, "finished", None),
        ([], {}, "stopped", "killed"),
    ],
)
def test_the_state_is_that_of_the_newest_process(
    tmp_path: Path, events: list[dict[str, Any]], summary: dict[str, Any], state: str, reason: str | None
) -> None:
    status = told(ours(tmp_path / "run", *events, summary=summary))
    assert (status.state, status.reason) == (state, reason)
    assert (status.go_on is None) == (state == "finished")


def test_a_run_whose_lock_is_held_is_running(tmp_path: Path) -> None:
    root = ours(tmp_path / "run", {"event": "run_started"})
    with FileLock(root / ".lock"):
        status = told(root)
        assert (status.state, status.go_on) == ("running", None)
    assert told(root).state == "stopped"


def test_asking_does_not_take_the_lock(tmp_path: Path) -> None:
    root = ours(tmp_path / "run", {"event": "run_started"})
    (root / ".lock").touch()
    told(root)
    with FileLock(root / ".lock", timeout=0):
        assert told(root).state == "running"


def test_a_spent_budget_comes_with_the_command_that_goes_on(tmp_path: Path) -> None:
    stop = {"event": "run_stopped", "reason": "budget", "detail": "budget.max_calls=100 is reached (100 spent)"}
    go_on = told(ours(tmp_path / "run", stop)).go_on
    assert go_on is not None
    assert go_on.endswith(f"resume {tmp_path / 'run'} budget.max_calls=200")


def test_torn_files_are_named_and_the_rest_is_told(tmp_path: Path) -> None:
    root = ours(tmp_path / "run", {"event": "run_started"}, history=json.dumps(ROWS)[:50], summary='{"stop')
    (root / "events.jsonl").write_text('{"event": "run_started"}\n{"event": "run_fin', encoding="utf-8")
    status = told(root)
    assert status.reason == "killed"
    assert (status.steps_done, status.best_score, status.actions) == (4, 0.5, {})
    assert [note.split()[0] for note in status.notes] == ["summary.json", "history.json"]


def test_a_file_that_no_parser_gets_through_is_torn_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = published(tmp_path / "run", history="[" * 100_000)
    assert main([str(root)]) == 0
    assert "note: history.json is torn" in capsys.readouterr().out


def test_a_run_that_was_just_begun_is_new_and_can_go_on(tmp_path: Path) -> None:
    root = write(tmp_path / "run", config=CONFIG)
    Journal(root / "journal.sqlite").close()
    status = told(root)
    assert (status.state, status.reason, status.detail, status.steps_done) == ("new", None, "", 0)
    assert status.go_on is not None


def test_a_run_without_its_journal_costs_what_its_summary_says(tmp_path: Path) -> None:
    part = {"requests": 3, "cost_usd": 1.5, "known_usd": 1.5, "unknown_requests": 0}
    summary = {"cost_summary": {"target": part, "_total": part}}
    status = told(published(tmp_path / "run", history=[], summary=summary))
    assert (status.requests, status.cost_usd) == (3, 1.5)
    lost = {**part, "cost_usd": None, "known_usd": 0.25, "unknown_requests": 1}
    status = told(write(tmp_path / "run", summary={"cost_summary": {"target": part, "optimizer": lost}}))
    assert (status.requests, status.cost_usd, status.cost_known_usd) == (6, None, 1.75)
    assert "cost: unknown (at least $1.75)" in status_lines(status)


def test_no_file_outside_is_told(tmp_path: Path) -> None:
    secret = write(tmp_path, secret={"best_score": 0.123}) / "secret.json"
    root = write(tmp_path / "run", config=CONFIG, history=ROWS)
    for name in ("runtime_state.json", "best_skill.md"):
        try:
            (root / name).symlink_to(secret)
        except OSError as error:
            pytest.skip(f"no links can be made here: {error}")
    status = told(root)
    assert (status.best_skill, status.best_score) == (None, 0.5)


def test_an_evaluation_at_work_is_no_training(tmp_path: Path) -> None:
    root = write(tmp_path / "run", config=CONFIG)
    with closing(Journal(root / "journal.sqlite")) as journal:
        journal.set_meta("identity", json.dumps({"kind": "evaluation", "config": {}}))
    status = told(root)
    assert (status.kind, status.go_on) == ("evaluation", None)
    assert not any(line.startswith("steps:") for line in status_lines(status))


def test_values_of_another_shape_are_left_out(tmp_path: Path) -> None:
    odd = {"last_completed_step": "four", "best_score": "high", "best_skill_path": None, "current_score": float("nan")}
    root = write(tmp_path / "run", config=[], history={"rows": []}, runtime_state=odd, summary="[]")
    status = told(root)
    assert (status.steps_done, status.steps_total, status.best_score, status.best_skill) == (0, None, None, None)
    json.loads(json.dumps(status.current_score), parse_constant=lambda _: pytest.fail("NaN is no JSON"))


def test_a_journal_that_is_none_is_tolerated(tmp_path: Path) -> None:
    root = published(tmp_path / "run")
    (root / "journal.sqlite").write_bytes(b"not a database at all" * 100)
    assert told(root).tokens == 4 * 110


def test_a_folder_of_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert f"{tmp_path} is not a run folder" in capsys.readouterr().err


RUNNING = [
    {"at": 0.0, "event": "run_started", "epochs": 1, "steps": 2, "train": 48, "val": 24, "test": 0},
    {"at": 1.0, "event": "step_started", "epoch": 1, "step": 1, "steps": 2},
    {"at": 1.0, "event": "stage_started", "stage": 1},
    {"at": 1.0, "event": "pass_started", "label": "test initial", "total": 48},
    {"at": 1.0, "event": "pass_started", "label": "step 1 rollout", "total": 24},
    *(
        {"at": 5.0 * done, "event": "item_done", "label": "step 1 rollout", "done": done, "total": 24, "hard": 1.0}
        for done in range(1, 15)
    ),
]


def test_a_run_at_work_says_what_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ours(tmp_path / "run", *RUNNING, history=[], runtime_state={})
    assert not any(line.startswith("now: ") for line in said(root, capsys)), "it is not running"
    with FileLock(root / ".lock"):
        lines = said(root, capsys)
        assert main([str(root), "--json"]) == 0
        now = json.loads(capsys.readouterr().out)["now"]
    assert "now: step 1 of 2, test initial 0/48, rollout 14/24, about 9 min left" in lines
    assert now == {
        "epoch": 1,
        "step": 1,
        "steps": 2,
        "doing": "rollout",
        "passes": [
            {"label": "test initial", "done": 0, "total": 48},
            {"label": "step 1 rollout", "done": 14, "total": 24},
        ],
        "seconds_left": 530.0,
    }


@pytest.mark.parametrize(
    ("events", "line"),
    [
        ([], None),
        (RUNNING[:1], "starting"),
        ([*RUNNING[:1], {"event": "baseline_started"}], "measuring the seed"),
        ([*RUNNING[:2], {"event": "stage_started", "stage": 2}], "step 1 of 2, reflect"),
        ([*RUNNING, {"event": "test_started", "name": "best"}], "final test, test initial 0/48, step 1 rollout 14/24"),
        ([{"event": "pass_started", "label": "x\x1b[31m", "total": 1}], "x"),
    ],
)
def test_what_a_run_does_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], events: list[dict[str, Any]], line: str | None
) -> None:
    root = ours(tmp_path / "run", *events, history=[], runtime_state={})
    with FileLock(root / ".lock"):
        told = [each.removeprefix("now: ") for each in said(root, capsys) if each.startswith("now: ")]
    assert bool(told) is (line is not None)
    assert all(each.startswith(str(line)) and "\x1b" not in each for each in told)


def said(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main([str(root)]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_folder_of_runs_names_some_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [published(tmp_path / ("deep/" if number % 2 else "") / f"run{number}") for number in range(7)]
    assert main([str(tmp_path)]) == 2
    said = capsys.readouterr().err
    names = [str(run.relative_to(tmp_path)) for run in sorted(runs)]
    assert f"{tmp_path} is not a run folder: " in said
    assert said.endswith(f". Runs below it: {', '.join(names[:5])}, …\n")


def test_json_holds_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(ours(tmp_path / "run")), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["steps_done"], found["actions"]["reject"]) == ("stopped", 4, 2)


def test_lines_for_a_person(tmp_path: Path) -> None:
    lines = status_lines(told(ours(tmp_path / "run", {"event": "run_stopped", "reason": "interrupted"})))
    for expected in ("state: stopped (interrupted)", "steps: 4 of 6", "current: 0.5000 (step_0001)"):
        assert expected in lines
    assert "  accept_new_best  1" in lines
    assert lines[-1].startswith("go on with: ")


def test_nothing_is_written(tmp_path: Path) -> None:
    root = ours(tmp_path / "run", {"event": "run_started"})
    before = {path.name: path.stat().st_mtime_ns for path in root.iterdir()}
    told(root)
    assert {path.name: path.stat().st_mtime_ns for path in root.iterdir()} == before


def test_stored_paths_are_found_where_the_folder_lies_now(tmp_path: Path) -> None:
    root = published(tmp_path / "run")
    (root / "skills").mkdir()
    (root / "skills" / "skill_v0004.md").write_text("x", encoding="utf-8")
    moved = Path(shutil.move(root, tmp_path / "moved"))
    assert anchored(moved, "/elsewhere/run/skills/skill_v0004.md", "x") == moved / "skills" / "skill_v0004.md"
    assert anchored(moved, r"C:\runs\run\skills\skill_v0004.md", "x") == moved / "skills" / "skill_v0004.md"
    assert anchored(moved, "/elsewhere/run/gone.md", "best_skill.md") == moved / "best_skill.md"
    assert anchored(moved, None, "best_skill.md") == moved / "best_skill.md"


def test_the_run_of_a_skill_is_the_nearest_folder_above_it(tmp_path: Path) -> None:
    root = published(tmp_path / "run")
    deep = root / "steps" / "step_0001" / "candidate_skill.md"
    deep.parent.mkdir(parents=True)
    deep.write_text("x", encoding="utf-8")
    assert run_of_skill(deep) == run_of_skill(root / "best_skill.md") == root
    assert run_of_skill(tmp_path / "skill.md") is None
    write(tmp_path, config={"name": "some other project"})
    assert not is_run(tmp_path)
