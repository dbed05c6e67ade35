"""What ``skillopt status`` says of a folder, and that it changes nothing in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from skillopt.cli.runfolder import anchored, is_run, read_run, run_of_skill
from skillopt.cli.status import Status, main, status_lines, status_of
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
    total = {"_total": {"calls": 9, "total_tokens": 4321}}
    status = told(published(tmp_path / "run", summary={"total_steps": 4, "token_summary": total}))
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
    assert [note.split()[0] for note in status.notes] == ["history.json", "summary.json"]


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
