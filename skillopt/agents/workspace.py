"""The directory that a program works in: fresh, private, far from everything else, and gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skillopt.models.types import File

if sys.platform != "win32":
    import fcntl

_PREFIX, _HELD = "skillopt-", "in-use"
LARGEST_FILE = 16 << 20
"""Bytes of one collected file at most."""


class WorkspaceError(ValueError):
    """A workspace that cannot be made as it was asked for. The message says what to change."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """``work`` is the program's current directory, ``home`` its HOME, ``temporary`` its TMPDIR. ``desk`` holds what we
    hand it by path (a schema, a system prompt, images) and what it hands us. All lie in ``root``."""

    root: Path

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def desk(self) -> Path:
        return self.root / "desk"


@contextmanager
def open_workspace(files: Sequence[File], away_from: Sequence[Path] = ()) -> Iterator[Workspace]:
    """A workspace with ``files`` in it, in no directory of ``away_from`` and beside no file of it; removed at the end,
    whatever happens.

    Raises ``WorkspaceError`` for a path that leaves the workspace, and when the machine's temporary directories lie in
    ``away_from``.
    """
    for file in files:
        check_path(file.path)
    root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_base(away_from)))  # mode 0700
    held = None
    try:
        held = _hold(root)
        space = Workspace(root)
        for folder in (space.work, space.home, space.temporary, space.desk):
            folder.mkdir(mode=0o700)
        for file in files:
            write_private(space.work / PurePosixPath(file.path), file.content)
        yield space
    finally:
        _remove(root)
        if held is not None:
            os.close(held)


def remove_abandoned(away_from: Sequence[Path] = ()) -> None:
    """Removes the workspaces of this user that processes left behind which were killed: a login may lie in them."""
    if sys.platform == "win32":
        return
    for root in _base(away_from).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it is in use, it is not ours, or it is no workspace
            held = os.open(root / _HELD, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(held).st_uid == os.getuid():
                    _remove(root)
            finally:
                os.close(held)


def _hold(root: Path) -> int | None:
    """Locks a workspace as long as the descriptor is open: until this process ends, in whatever way."""
    if sys.platform == "win32":
        return None
    fresh = root / f"{_HELD}-soon"
    held = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    fresh.rename(root / _HELD)  # it is never there without its lock
    return held


def check_path(path: str) -> None:
    """Refuses a path that is not plainly inside the workspace. Raises ``WorkspaceError``."""
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") for part in parts) or any(sign in path for sign in "\\:\0"):
        raise WorkspaceError(
            f"the path {path!r} cannot be in a workspace: it must be relative, with forward slashes and without '..'"
        )


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only this user can read, and the directories that it lies in."""
    for folder in reversed(path.parents):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
    with open(descriptor, "wb") as handle:
        handle.write(content)


def collect(work: Path, paths: Sequence[str], largest: int = LARGEST_FILE) -> tuple[tuple[File, ...], tuple[str, ...]]:
    """The files that were left at ``paths``, and notes about those that are there but cannot be taken: symbolic links
    are not followed, larger files than ``largest`` bytes are left. What is missing is left out."""
    files: list[File] = []
    notes: list[str] = []
    for path in paths:
        check_path(path)
        found = _look(work, path)
        if found is None:
            continue
        if not stat.S_ISREG(found.st_mode):
            notes.append(f"{path} was not collected: it is no plain file")
        elif found.st_size > largest:
            notes.append(f"{path} was not collected: its {found.st_size} bytes are more than {largest}")
        else:
            files.append(File(path, (work / path).read_bytes()))
    return tuple(files), tuple(notes)


def _look(work: Path, path: str) -> os.stat_result | None:
    """What stands at ``path``; a link on the way to it is what stands there. None: nothing."""
    place, found = work, None
    for part in path.split("/"):
        place = place / part
        try:
            found = place.lstat()
        except OSError:
            return None
        if stat.S_ISLNK(found.st_mode):
            return found
    return found


def _base(away_from: Sequence[Path]) -> Path:
    forbidden = [path.parent.resolve() if path.is_file() else path.resolve() for path in away_from]
    for candidate in (tempfile.gettempdir(), "/var/tmp", "/dev/shm"):
        base = Path(candidate).resolve()
        inside = any(base == path or path in base.parents for path in forbidden)
        if base.is_dir() and os.access(base, os.W_OK) and not inside:
            return base
    raise WorkspaceError(
        "no temporary directory lies outside of the run folder and the data set: set TMPDIR to one that does"
    )


def _remove(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():  # a program may leave directories that nobody may list or write to
        for folder, inner, _ in os.walk(root):
            for name in inner:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
        shutil.rmtree(root, ignore_errors=True)
