"""The run folder: who may write in it, what it holds, and how its files follow from the journal."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from skillopt.files import inside, remove_temporaries, write_changed
from skillopt.run.journal import Journal

JOURNAL = "journal.sqlite"
LOCK = ".lock"
FINISH = "finish"
TEST = "test"
ENDS = (TEST, FINISH)
"""The commits of a run's end: without them it goes on."""
_OURS = ("config.json", "summary.json", "history.json", "best_skill.md", "results.jsonl", "skills", "steps")
# Files that a person or a script opens first: worth an fsync each. All others can be rendered again.
_DURABLE = ("history.json", "runtime_state.json", "summary.json", "best_skill.md", "config.json")
_BEHIND = 0.01
"""Seconds in which the next stage has sent its requests."""
PATIENCE = 200_000_000
"""The most instructions that SQLite may need for what a reader asks of a journal: some seconds."""
_AT_ONCE = 10_000
_LONGEST_VALUE = 128 << 20
"""The most bytes of a text or a reply in a journal."""
_ODD_SCHEMA = (  # views and triggers, virtual tables, generated columns
    "SELECT 1 FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%' UNION ALL "
    "SELECT 1 FROM sqlite_master AS kept, pragma_table_xinfo(kept.name) AS part WHERE part.hidden <> 0 LIMIT 1"
)
_ASKING = 0.5
"""Seconds for which the lock is asked for: who only looks whether it is held may hold it for an instant."""


class FolderError(ValueError):
    """A run folder that cannot be used as asked; the message says why and what to do."""


def dump_json(value: Any) -> bytes:
    """The bytes of a JSON artifact: UTF-8, two-space indent, no NaN, newline at the end. A half surrogate, which UTF-8
    cannot hold, becomes a question mark."""
    return (json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode("utf-8", "replace")


class RunFolder:
    """An open run folder, locked against other processes until ``close``.

    ``mask`` is applied to all text that is rendered, so that no secret reaches a file.
    """

    def __init__(self, root: Path, mask: Callable[[str], str] = lambda text: text) -> None:
        refuse_foreign(root)
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self._mask = mask
        self._waiting: dict[str, bytes] = {}
        self._lock = FileLock(root / LOCK)
        try:
            self._lock.acquire(timeout=_ASKING)
        except Timeout:
            raise FolderError(f"{root} is in use by another process; wait for it or choose another out_root") from None
        try:
            self.journal = Journal(root / JOURNAL, mask)
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        try:
            self._render_waiting()
            self.journal.close()
        finally:
            self._lock.release()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def commit(
        self,
        name: str,
        record: Mapping[str, Any],
        files: Mapping[str, bytes],
        keys: Iterable[str] = (),
        *,
        behind: bool = False,
    ) -> None:
        """Commits the record with its files, charges it with ``keys``, then renders the files: at once, or ``behind``
        the requests that the event loop can send meanwhile, and before whatever is written next."""
        masked = {path: self._mask(content.decode()).encode() for path, content in files.items()}
        self.journal.commit(name, record, masked, keys)
        self._waiting |= masked
        if behind:
            asyncio.get_running_loop().call_later(_BEHIND, self._render_behind)
        else:
            self._render_waiting()

    def remove(self, paths: Iterable[str]) -> None:
        """Takes committed files away, from the journal and from the folder."""
        gone = list(paths)
        self.journal.withdraw([], gone)
        for path in gone:
            (self.root / path).unlink(missing_ok=True)

    def write(self, files: Mapping[str, bytes]) -> None:
        """Writes files that no commit holds: views of a run that is not finished."""
        self._render_waiting()
        self._render((path, self._mask(content.decode()).encode()) for path, content in files.items())

    def restore(self) -> int:
        """Renders again every committed file that is missing, torn or changed. Returns how many."""
        files = list(self.journal.files())
        remove_temporaries(self.root, {Path(), *(Path(path).parent for path, _ in files)})
        return self._render(files)

    def _render_behind(self) -> None:
        with suppress(OSError):  # it is tried again with the next commit, which can tell
            self._render_waiting()

    def _render_waiting(self) -> None:
        self._render(self._waiting.items())
        self._waiting = {}

    def _render(self, files: Iterable[tuple[str, bytes]]) -> int:
        return sum(write_changed(self.root / path, content, durable=path in _DURABLE) for path, content in files)


def refuse_foreign(root: Path) -> None:
    """Raises ``FolderError`` when no run may write in ``root``. Reads only."""
    if root.exists() and not root.is_dir():
        raise FolderError(f"{root} is a file; out_root must name a folder")
    if (root / JOURNAL).exists():
        if not (root / JOURNAL).is_file():
            raise FolderError(f"{root / JOURNAL} is no file; choose another out_root")
        return
    if (root / "runtime_state.json").exists():
        raise FolderError(
            f"{root} holds a run without a journal (made by the published implementation, or its {JOURNAL} was "
            "deleted): it can be read (status, eval) but not continued. Choose another out_root"
        )
    ours = [name for name in _OURS if (root / name).exists()]
    if ours:
        raise FolderError(
            f"{root} holds files of something else ({', '.join(ours)}), which a run would overwrite; "
            "choose another out_root"
        )


def holds_files(root: Path) -> bool:
    """Whether a folder holds files that a run has written, or would overwrite."""
    return any((root / name).exists() for name in (*_OURS, "runtime_state.json"))


def in_use(root: Path) -> bool:
    """Whether a process holds the run's lock. To find out, it is taken for an instant, on POSIX together with others
    who ask, on Windows alone. It is never created."""
    lock = root / LOCK
    if lock.is_symlink() or not lock.is_file():
        return False
    if sys.platform == "win32":
        try:
            with FileLock(lock, timeout=0):
                return False
        except Timeout:
            return True
    import fcntl  # not on Windows

    try:
        handle = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(handle)
    return False


class _Reader(sqlite3.Connection):
    """A connection that ends after ``PATIENCE`` instructions of SQLite: a schema may hold a question without an end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._left = PATIENCE // _AT_ONCE
        self.text_factory = lambda content: content.decode("utf-8", "replace")
        self.set_progress_handler(self._is_late, _AT_ONCE)
        self.execute("PRAGMA trusted_schema=OFF")
        if sys.version_info >= (3, 11):
            self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)

    def execute(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:  # type: ignore[override]
        """As always, but what is asked for may hold half a character, which SQLite cannot."""
        known = [value.encode("utf-8", "replace").decode() if isinstance(value, str) else value for value in values]
        return super().execute(query, known)

    def _is_late(self) -> bool:
        self._left -= 1
        return self._left < 0


@contextmanager
def reading(root: Path) -> Iterator[sqlite3.Connection | None]:
    """A connection that only reads a folder's journal, without the lock; None when there is no journal, or one that
    lies elsewhere. Raises ``FolderError`` for one whose tables are views or work as they are read, and, as the caller
    does with it, ``sqlite3.Error``."""
    path = inside(root, JOURNAL)
    if path is None or not path.is_file():
        yield None
        return
    # Without a write-ahead log nobody writes, and SQLite need not put its shared memory beside the journal.
    how = "mode=ro" if _is_written(root) else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=2.0, factory=_Reader)) as db:
        if db.execute(_ODD_SCHEMA).fetchone():
            raise FolderError(f"the journal in {root} is not read: it holds more than tables and indices")
        yield db


def journal_problem(root: Path) -> str:
    """Why a folder's journal is not read; '' where it is, or where there is none."""
    try:
        with reading(root):
            return ""
    except FolderError as error:
        return str(error)
    except sqlite3.Error:  # also of one that is being written; who asks for something of it is told
        return ""


def _is_written(root: Path) -> bool:
    """Whether a journal has a write-ahead log. What lies beside it and is no plain file of the folder must not be
    opened."""
    beside = [f"{JOURNAL}-{kind}" for kind in ("wal", "shm", "journal")]
    found = {name: inside(root, name) for name in beside if os.path.lexists(root / name)}
    return beside[0] in found and all(path is not None and path.is_file() for path in found.values())


def peek(root: Path, sql: str, values: Sequence[str | None] = ()) -> tuple[Any, ...] | None:
    """The first row of a query on a folder's journal, read without the lock; None when it cannot be read."""
    try:
        with reading(root) as db:
            row: tuple[Any, ...] | None = db.execute(sql, values).fetchone() if db else None
            return row
    except (sqlite3.Error, FolderError):
        return None


def ask(root: Path, sql: str, values: Sequence[str | None] = ()) -> tuple[Any, ...] | None:
    """The first row of a query on the journal of a folder in which a run is to go on; None when there is no journal, or
    nothing in it yet. It is the user's own folder: a journal that is a link is followed, as the run will. Raises
    ``FolderError`` for one that cannot be read, which must not be taken for none."""
    path = root / JOURNAL
    if not path.exists():
        return None
    if not path.is_file():
        raise FolderError(f"{path} is no file; choose another out_root")
    how = "mode=ro" if path.with_name(f"{JOURNAL}-wal").exists() or path.is_symlink() else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, timeout=10.0)) as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name='meta'").fetchone():
                return None
            row: tuple[Any, ...] | None = db.execute(sql, values).fetchone()
            return row
    except sqlite3.Error as error:
        raise FolderError(f"the journal {path} cannot be read: {error}") from None


def peek_file(root: Path, path: str) -> bytes | None:
    """What the newest commit holds as the file ``path``, also before it is rendered; None when no commit has it."""
    row = peek(root, "SELECT content FROM files WHERE path=?", (path,))
    return zlib.decompress(row[0]) if row else None


def peek_meta(root: Path, key: str) -> str | None:
    """Reads one meta value of a run folder's journal without locking it; None when there is none."""
    row = peek(root, "SELECT value FROM meta WHERE key=?", (key,))
    return str(row[0]) if row else None
