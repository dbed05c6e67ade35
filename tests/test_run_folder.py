"""The run folder: one process at a time, files that follow from the journal, and folders that are refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from skillopt.files import remove_temporaries, write_atomic, write_changed
from skillopt.run.folder import FolderError, RunFolder, dump_json, in_use, peek_meta
from skillopt.run.journal import JournalError

HOLDER = """
    import sys, time
    from pathlib import Path
    from skillopt.run.folder import RunFolder
    folder = RunFolder(Path(sys.argv[1]))
    folder.commit("step_0001", {"row": 1}, {"steps/a.txt": b"a"})
    print("ready", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that works in the folder."""
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def tree(root: Path) -> dict[str, bytes]:
    """The files below a folder but the journal's and the lock."""
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith(("journal.", ".lock"))}


# one process at a time


def test_a_second_process_is_refused_and_a_dead_one_does_not_block(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with holder(root) as process:
        with pytest.raises(FolderError, match=r"run is in use by another process; wait for it or choose another"):
            RunFolder(root)
        assert peek_meta(root, "version") == "3", "reading does not need the lock"
        process.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
        process.wait()
        with RunFolder(root) as folder:
            assert folder.journal.record("step_0001") == {"row": 1}
            assert tree(root) == {"steps/a.txt": b"a"}


def test_two_openings_in_one_process_are_refused_too(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run"), pytest.raises(FolderError, match="in use"):
        RunFolder(tmp_path / "run")
    RunFolder(tmp_path / "run").close()


def test_who_looks_at_the_lock_does_not_keep_a_run_from_starting(tmp_path: Path) -> None:
    looking = FileLock(tmp_path / ".lock", thread_local=False)
    looking.acquire()
    over = threading.Timer(0.1, looking.release)
    over.start()
    RunFolder(tmp_path).close()
    over.join()


def test_a_run_at_work_is_seen_and_the_lock_is_never_made_by_looking(tmp_path: Path) -> None:
    assert not in_use(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with RunFolder(tmp_path):
        assert in_use(tmp_path)
    assert not in_use(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_lock_that_is_a_link_is_none_of_ours(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "other"):
        (tmp_path / "run").mkdir()
        (tmp_path / "run/.lock").symlink_to(tmp_path / "other/.lock")
        assert not in_use(tmp_path / "run")


def test_a_folder_whose_journal_is_refused_is_not_left_locked(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with RunFolder(root) as folder:
        folder.journal.set_meta("version", "99")
    for _ in range(2):
        with pytest.raises(JournalError, match="another version"):
            RunFolder(root)


def test_a_journal_that_fails_to_close_releases_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "run")

    def fail() -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(folder.journal, "_flush", fail)
        with pytest.raises(OSError, match="disk full"):
            folder.close()
    RunFolder(tmp_path / "run").close()


# files


def test_a_commit_renders_its_files(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "deep" / "run") as folder:
        folder.commit("step_0001", {}, {"history.json": b"[]\n", "steps/step_0001/ä.txt": "ä".encode()})
        assert tree(folder.root) == {"history.json": b"[]\n", "steps/step_0001/ä.txt": "ä".encode()}


def test_a_file_that_holds_its_content_is_left_alone(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as folder:
        folder.commit("a", {}, {"x.txt": b"x", "y.txt": b"y"})
        path = folder.root / "x.txt"
        os.utime(path, (1, 1))
        folder.commit("b", {}, {"x.txt": b"x", "y.txt": b"z"})
        assert folder.restore() == 0
        assert path.stat().st_mtime == 1
        assert (folder.root / "y.txt").read_bytes() == b"z"


def test_missing_torn_and_changed_files_are_rendered_again(tmp_path: Path) -> None:
    files = {name: f"content of {name}\n".encode() for name in ("a.json", "steps/b.json", "steps/c.json", "d/e/f.md")}
    with RunFolder(tmp_path / "run") as folder:
        folder.commit("step_0001", {}, files)
    root = tmp_path / "run"
    (root / "a.json").unlink()
    shutil.rmtree(root / "d")
    (root / "steps" / "b.json").write_bytes(b"conte")
    (root / "steps" / "c.json").write_bytes(b"CONTENT OF steps/c.json\n")
    with RunFolder(root) as folder:
        assert folder.restore() == 4
        assert folder.restore() == 0
    assert tree(root) == files


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as folder:
        folder.commit("a", {}, {"steps/x.txt": b"x"})
        for leftover in (".x.txt.123.tmp", "steps/.x.txt.123.tmp"):
            (folder.root / leftover).write_bytes(b"half")
        (folder.root / "mine.tmp").write_bytes(b"a user's file")
        folder.restore()
        assert tree(folder.root) == {"steps/x.txt": b"x", "mine.tmp": b"a user's file"}


def test_what_was_only_written_is_no_part_of_the_journal(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as folder:
        folder.write({"summary.json": b"{}\n"})
        assert list(folder.journal.files()) == []
        (folder.root / "summary.json").unlink()
        assert folder.restore() == 0


def test_no_secret_reaches_a_file(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with RunFolder(root, lambda text: text.replace("s3cret", "***")) as folder:
        folder.commit("a", {"text": "s3cret"}, {"x.md": b"my s3cret"})
        folder.write({"y.md": b"s3cret"})
        assert tree(root) == {"x.md": b"my ***", "y.md": b"***"}
        (root / "x.md").unlink()
        folder.restore()
        assert tree(root)["x.md"] == b"my ***"
    assert b"s3cret" not in (root / "journal.sqlite").read_bytes()


def test_a_folder_can_be_moved_and_copied(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as folder:
        folder.commit("a", {"v": 1}, {"steps/x.txt": b"x"})
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    (tmp_path / "run").rename(tmp_path / "moved")
    for name in ("copy", "moved"):
        (tmp_path / name / "steps" / "x.txt").unlink()
        with RunFolder(tmp_path / name) as folder:
            assert folder.journal.record("a") == {"v": 1}
            assert folder.restore() == 1
        assert tree(tmp_path / name) == {"steps/x.txt": b"x"}
    assert not (tmp_path / "run").exists()


# folders that are refused


def test_a_folder_of_the_published_implementation_is_read_never_continued(tmp_path: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    (root / "runtime_state.json").write_text('{"last_completed_step": 4}', encoding="utf-8")
    (root / "history.json").write_text("[]", encoding="utf-8")
    before = tree(root)
    with pytest.raises(FolderError, match=r"published implementation.*can be read .*but not continued"):
        RunFolder(root)
    assert {path.name: path.read_bytes() for path in root.iterdir()} == before


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text("x", encoding="utf-8")
    with pytest.raises(FolderError, match="is a file; out_root must name a folder"):
        RunFolder(path)


@pytest.mark.parametrize("name", ["run", "100% sure", "a?b#c", "%41", "läuft 🙂"])
def test_peek_reads_a_folder_of_any_name(tmp_path: Path, name: str) -> None:
    if os.name == "nt" and "?" in name:
        pytest.skip("no such name on Windows")
    root = tmp_path / name
    assert peek_meta(root, "identity") is None
    with RunFolder(root) as folder:
        folder.journal.set_meta("identity", "x")
        assert peek_meta(root, "identity") == "x"
        assert peek_meta(root, "other") is None
    assert peek_meta(root, "identity") == "x"


def test_peek_at_what_is_no_journal_is_none(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"garbage" * 100)
    assert peek_meta(tmp_path, "identity") is None


# atomic files


def test_json_files_are_utf8_without_nan() -> None:
    assert dump_json({"ä": [1, None]}) == '{\n  "ä": [\n    1,\n    null\n  ]\n}\n'.encode()
    assert json.loads(dump_json({"half": "a\ud83d"})) == {"half": "a?"}
    with pytest.raises(ValueError, match="JSON"):
        dump_json({"x": float("nan")})


@pytest.mark.parametrize("durable", [True, False])
def test_an_interrupted_write_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    path = tmp_path / "x" / "a.txt"
    write_atomic(path, b"old", durable=durable)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_atomic(path, b"new", durable=durable)
    assert path.read_bytes() == b"old"
    remove_temporaries(tmp_path, [Path("x")])
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


def test_write_changed_says_whether_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert write_changed(path, b"abc")
    assert not write_changed(path, b"abc")
    assert write_changed(path, b"abd")
    assert write_changed(path, b"")
    assert not write_changed(path, b"")
