"""A run that was killed, wherever that was, and went on is the run that was not: same files, nothing paid twice."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fakes.folders import Killed, kills, rows, stored, tree
from fakes.world import Call, Played, World, run

import skillopt.files
from skillopt.engine.resume import ResumeError
from skillopt.report.run import read_run
from skillopt.run.folder import FolderError
from skillopt.run.journal import Journal, JournalError, JournalWriteError

SMALL = {
    "train.num_epochs": 3,
    "train.batch_size": 4,
    "gradient.minibatch_size": 4,
    "optimizer.slow_update_samples": 2,
    "logging.predictions": "none",
}
MIXED = {
    **SMALL,
    "train.accumulation": 2,
    "train.batch_size": 2,
    "optimizer.lr_control_mode": "autonomous",
    "optimizer.slow_update_gate_with_selection": False,
    "optimizer.longitudinal_pair_policy": "changed",
    "evaluation.gate_metric": "soft",
    "logging.predictions": "all",
}


def scattered(call: Call) -> float:
    """Every call takes another time, so that replies come one by one."""
    return (int(call.key[:4], 16) % 97 + 1) / 100


def nothing_from_success(system: str, user: str) -> Played:
    empty = {"batch_size": 1, "success_patterns": [], "patch": {"reasoning": "", "edits": []}}
    return empty if '"success_patterns"' in system else None


def small_world(**scripts: Any) -> World:
    """Two validation items that both need rules: its baseline is 0.0, which is a score like any other."""
    return World(train=4, val=2, test=2, latency=scattered, scripts=scripts)


# name, overrides, world, what it must have in its history
CASES: dict[str, tuple[dict[str, Any], Callable[[], World], list[str]]] = {
    "patch": (SMALL, small_world, ["accept_new_best", "reject", "reject"]),
    "mixed": (MIXED, small_world, ["accept_new_best", "reject", "reject"]),
    "rewrite": (
        {**SMALL, "optimizer.skill_update_mode": "rewrite"},
        small_world,
        ["accept_new_best", "reject", "reject"],
    ),
    "skips": (
        {**SMALL, "train.batch_size": 5, "optimizer.learning_rate": 3},
        lambda: World(5, 2, 2, {"analyst": nothing_from_success}, scattered),
        ["accept_new_best", "accept_new_best", "skip_no_patches"],
    ),
}


def check_resumed(killed: Killed, world: World, overrides: dict[str, Any], whole: dict[str, Any]) -> None:
    """The folder that a kill left, run to its end, against the run that was not killed."""
    ending = run(world, killed.root, overrides)
    assert ending.reason == "completed"
    asked = [call.key for call in world.work()]
    assert sorted(asked) == sorted(whole["keys"] - killed.held), f"{killed.moment}: asked again or not at all"
    assert tree(killed.root) == whole["tree"], killed.moment
    assert stored(killed.root) == whole["stored"], killed.moment


@pytest.mark.parametrize(
    ("case", "every", "first"),
    [("patch", 2, 0), ("patch", 2, 1), ("mixed", 9, 0), ("rewrite", 9, 4), ("skips", 9, 2)],
)
def test_a_kill_at_any_write_changes_nothing(tmp_path: Path, case: str, every: int, first: int) -> None:
    overrides, make_world, actions = CASES[case]
    world, root = make_world(), tmp_path / "run"
    with kills(root, tmp_path / "kills", lambda number: number % every == first) as taken:
        ending = run(world, root, overrides)
    assert ending.reason == "completed"
    assert [row["action"] for row in rows(root)] == actions
    whole = {"keys": {call.key for call in world.work()}, "tree": tree(root), "stored": stored(root)}
    assert len(world.work()) == len(whole["keys"]), "no call was asked twice"
    assert taken.moments > 100
    assert len(taken.made) >= taken.moments // every
    for killed in taken.made:
        check_resumed(killed, make_world(), overrides, whole)


class Blow(BaseException):
    """Ends a process in the middle, with everything that Python does on the way out."""


@pytest.mark.parametrize("error", [Blow(), OSError(errno.ENOSPC, "No space left on device")], ids=["blow", "full disk"])
@pytest.mark.parametrize("at", [1, 5, 9, 14, 19, 23, 28, 33, 41, 55, 70])
def test_an_error_at_a_write_leaves_a_folder_that_goes_on(tmp_path: Path, error: BaseException, at: int) -> None:
    left = [at]
    failed = []
    transaction, replace = Journal._transaction, os.replace

    def counted(writing: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            failed.append(writing)
            raise JournalWriteError(str(error)) if writing == "journal" and isinstance(error, OSError) else error

    def failing_transaction(journal: Journal, statements: Any) -> None:
        counted("journal")
        transaction(journal, statements)

    def failing_replace(source: Path, target: Path) -> None:
        counted("file")
        replace(source, target)

    world, root = small_world(), tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "_transaction", failing_transaction)
        patch.setattr(skillopt.files.os, "replace", failing_replace)
        try:
            run(world, root, SMALL)
        except type(error):
            pass
        else:  # files that are rendered behind the requests of the next stage are tried again
            assert failed == ["file"]
    held = {key for key, *_ in stored(root)["replies"]}
    again = small_world()
    assert run(again, root, SMALL).reason == "completed"
    assert held.isdisjoint(call.key for call in again.work())
    undisturbed = tmp_path / "undisturbed"
    run(small_world(), undisturbed, SMALL)
    assert tree(root) == tree(undisturbed)
    assert stored(root) == stored(undisturbed)


PROCESS = """
    import sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    from fakes.world import World, run
    from test_engine_resume import SMALL, scattered
    run(World(4, 2, 2, {}, lambda call: scattered(call) / 10), Path(sys.argv[2]), SMALL, real_time=True)
"""


def replies_in(root: Path) -> set[str]:
    try:
        with closing(sqlite3.connect(f"{(root / 'journal.sqlite').as_uri()}?mode=ro", uri=True)) as db:
            return {key for (key,) in db.execute("SELECT key FROM replies")}
    except sqlite3.DatabaseError:
        return set()


def test_a_process_that_was_really_killed(tmp_path: Path) -> None:
    root = tmp_path / "run"
    for enough in (8, 20):
        command = [sys.executable, "-c", textwrap.dedent(PROCESS), str(Path(__file__).parent), str(root)]
        process = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while len(replies_in(root)) < enough and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert len(replies_in(root)) >= enough
    held = replies_in(root)
    world, undisturbed = small_world(), tmp_path / "undisturbed"
    assert run(world, root, SMALL).reason == "completed"
    assert held.isdisjoint(call.key for call in world.work())
    run(small_world(), undisturbed, SMALL)
    assert tree(root) == tree(undisturbed)
    assert stored(root) == stored(undisturbed)


# what else may happen between two processes


def stopped_and_whole(tmp_path: Path, cap: int, overrides: dict[str, Any] = SMALL) -> tuple[Path, dict[str, Any]]:
    """A run that a budget stopped, and the files of the one that nothing stopped."""
    run(small_world(), tmp_path / "undisturbed", overrides)
    root = tmp_path / "run"
    ending = run(small_world(), root, {**overrides, "budget.max_calls": cap})
    assert ending.reason == "budget"
    return root, tree(tmp_path / "undisturbed")


def test_files_that_were_deleted_torn_or_changed_do_no_harm(tmp_path: Path) -> None:
    root, whole = stopped_and_whole(tmp_path, 38)
    assert (root / "slow_update/epoch_02/slow_result.json").exists()
    (root / "history.json").unlink()
    (root / "runtime_state.json").write_bytes((root / "runtime_state.json").read_bytes()[:20])
    (root / "slow_update/epoch_02/slow_result.json").write_bytes(b'{"action": ')
    (root / "steps/step_0001/patches/minibatch_fail_000.json").write_bytes(b"")
    (root / "skills/skill_v0001.md").write_bytes(b"somebody else's skill")
    (root / "best_skill.md").write_bytes(b"somebody else's skill")
    shutil.rmtree(root / "selection_eval_baseline")
    assert run(small_world(), root, SMALL).reason == "completed"
    assert tree(root) == whole


def test_a_folder_that_was_moved_or_copied_goes_on_where_it_is(tmp_path: Path) -> None:
    root, whole = stopped_and_whole(tmp_path, 30)
    shutil.copytree(root, tmp_path / "copy")
    root.rename(tmp_path / "moved")
    for name in ("copy", "moved"):
        assert run(small_world(), tmp_path / name, SMALL).reason == "completed"
        assert tree(tmp_path / name) == whole
    assert not root.exists()


def test_no_path_in_the_state_is_absolute(tmp_path: Path) -> None:
    root, _ = stopped_and_whole(tmp_path, 30)
    for path in root.rglob("*"):
        if path.is_file() and not path.name.startswith("journal.") and path.name != "events.jsonl":
            text = path.read_text(encoding="utf-8")
            if path.name in ("config.json", "summary.json"):  # where out_root is said as it was given
                text = text.replace(f'"out_root": "{root}"', "")
            assert str(tmp_path) not in text, path


@pytest.mark.parametrize("cap", [3, 8, 20, 27, 33, 40])
def test_a_run_that_was_stopped_is_the_same_run_in_the_end(tmp_path: Path, cap: int) -> None:
    root, whole = stopped_and_whole(tmp_path, cap)
    world = small_world()
    held = replies_in(root)
    assert run(world, root, SMALL).reason == "completed"
    assert held.isdisjoint(call.key for call in world.work())
    assert tree(root) == whole
    assert stored(root) == stored(tmp_path / "undisturbed")


def test_the_buffer_of_a_rejected_step_survives(tmp_path: Path) -> None:
    """The step after a rejected one is told of it, whichever process it runs in."""
    overrides = {**SMALL, "train.num_epochs": 1, "train.batch_size": 2}

    def noisy(system: str, user: str) -> Played:
        edits = [{"op": "append", "target": "", "content": "- rule: make noise 77"}]
        summary = [{"failure_type": "quiet", "count": 1, "description": "too quiet"}]
        return {"batch_size": 1, "failure_summary": summary, "patch": {"reasoning": "", "edits": edits}}

    root = tmp_path / "run"
    world = World(train=4, val=2, test=1, scripts={"analyst": noisy})
    ending = run(world, root, {**overrides, "budget.max_calls": 12})
    assert (ending.reason, [row["action"] for row in rows(root)]) == ("budget", ["reject"])
    world = World(train=4, val=2, test=1, scripts={"analyst": noisy})
    run(world, root, overrides)
    told = [call.user for call in world.of("analyst")]
    assert told
    assert all("## Previous Steps" in text and "make noise 77" in text for text in told)


def test_a_finished_run_sends_nothing_and_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "run"
    first = run(small_world(), root, SMALL)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}
    world = small_world()
    again = run(world, root, SMALL)
    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}
    assert world.calls == []
    assert {path.name for path in before} == {path.name for path in after}
    assert [path.name for path in before if before[path] != after[path] and path.name != ".lock"] == []
    assert (again.reason, again.summary) == ("completed", first.summary)


def test_a_finished_run_restores_what_was_deleted(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(small_world(), root, SMALL)
    whole = tree(root)
    (root / "best_skill.md").unlink()
    shutil.rmtree(root / "steps")
    run(small_world(), root, SMALL)
    assert tree(root) == whole


class WithoutHandlers(asyncio.SelectorEventLoop):
    """A loop as Windows has them: it wakes up for a signal and takes no handlers."""

    def add_signal_handler(self, *_: object) -> None:
        raise NotImplementedError

    def remove_signal_handler(self, sig: int) -> bool:
        raise NotImplementedError


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("loop_of", [asyncio.new_event_loop, WithoutHandlers])
def test_an_interrupted_process_keeps_what_is_in_flight(
    tmp_path: Path, loop_of: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Ctrl-C: the calls in flight are waited for and kept, and the run says so."""
    root = tmp_path / "run"

    async def work() -> tuple[str, World]:
        from fakes.world import ENVIRON, prepared

        from skillopt.config import Redactor
        from skillopt.engine.session import train

        world = World(4, 2, 2, {}, lambda call: 0.0 if call.stage == "probe" else 0.15)
        task = asyncio.ensure_future(train(prepared(world, root, SMALL), ENVIRON, Redactor(()), [], world.clients))
        while not world.work():
            await asyncio.sleep(0.005)
        os.kill(os.getpid(), 2)
        return (await task).reason, world

    before = signal.getsignal(signal.SIGINT)
    with closing(loop_of()) as loop:
        reason, world = loop.run_until_complete(work())
    assert signal.getsignal(signal.SIGINT) is before
    assert reason == "interrupted"
    in_flight = {call.key for call in world.work()}
    assert in_flight
    assert replies_in(root) == in_flight
    assert run(small_world(), root, SMALL).reason == "completed"


def test_a_second_ctrl_c_is_told_as_an_interruption(tmp_path: Path) -> None:
    asked: list[str] = []

    def interrupt(system: str, user: str) -> Played:
        asked.append(user)
        if len(asked) == 5:
            raise KeyboardInterrupt
        return None

    with pytest.raises(KeyboardInterrupt):
        run(World(scripts={"rollout": interrupt}), tmp_path / "run", real_time=True)
    view = read_run(tmp_path / "run")
    assert (view.status, view.stop_reason) == ("stopped", "interrupted")


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_journal_on_another_disk_is_the_folders_own(tmp_path: Path) -> None:
    """A link is followed where the run goes on, so another configuration is refused there as everywhere."""
    root = tmp_path / "run"
    run(World(), root)
    journal = root / "journal.sqlite"
    moved = tmp_path / "other disk" / "journal.sqlite"
    moved.parent.mkdir()
    journal.rename(moved)
    journal.symlink_to(moved)
    world = World()
    assert run(world, root).reason == "completed"
    assert world.calls == []
    with pytest.raises(ResumeError, match="made with another configuration"):
        run(World(), root, {"optimizer.learning_rate": 9})


def test_a_journal_that_cannot_be_read_is_no_missing_one(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(), root)
    (root / "journal.sqlite").write_bytes(b"something else" * 99)
    with pytest.raises((FolderError, JournalError), match="journal"):
        run(World(), root)
    assert (root / "journal.sqlite").read_bytes() == b"something else" * 99


@pytest.mark.parametrize("identity", [None, '{"kind": 5', '{"kind": "training", "items": {}}', "[]"])
def test_a_journal_that_does_not_say_what_it_is_of_is_left_alone(tmp_path: Path, identity: str | None) -> None:
    root = tmp_path / "run"
    run(World(), root)
    with closing(sqlite3.connect(root / "journal.sqlite")) as db, db:
        if identity is None:
            db.execute("DELETE FROM meta WHERE key='identity'")
        else:
            db.execute("UPDATE meta SET value=? WHERE key='identity'", (identity,))
    before = tree(root)
    with pytest.raises(FolderError, match="does not say"):
        run(World(), root)
    assert {name: content for name, content in tree(root).items() if ".sqlite" not in name} == {
        name: content for name, content in before.items() if ".sqlite" not in name
    }
