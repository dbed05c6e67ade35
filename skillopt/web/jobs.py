"""Commands that the dashboard started: each has a file that says which process it is, and a log of what it printed.

They outlive the dashboard. What came of a run is read from its folder; the files here say only whom to interrupt and
what was printed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from skillopt.report.files import read_mapping, tail_lines
from skillopt.values import count, fraction, text, texts
from skillopt.web.process import interrupt, start_mark

PROGRAM = (sys.executable, "-m", "skillopt")
_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}-[0-9a-f]{4}")
_LOG_TAIL, _RECORD_LIMIT = 1 << 17, 1 << 16


class JobError(Exception):
    """A command cannot be started or stopped; the message says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """A command: ``words`` behind ``skillopt``, the run ``folder`` it works in, its process and when that began."""

    id: str
    kind: str
    words: tuple[str, ...]
    folder: str
    pid: int
    mark: str
    created: float

    @property
    def command(self) -> str:
        """The line that a person would type."""
        return shlex.join(["skillopt", *self.words])


class Jobs:
    """The commands of the dashboard, in files below ``state``. They run in ``cwd`` with ``environ``."""

    def __init__(self, state: Path, cwd: Path, environ: Mapping[str, str], program: Sequence[str] = PROGRAM) -> None:
        self._state, self._cwd, self._environ, self._program = state, cwd, dict(environ), tuple(program)
        self._lock = threading.Lock()
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, kind: str, words: Sequence[str], folder: Path) -> Job:
        """Starts ``skillopt WORDS…`` in the background. Raises ``JobError``."""
        with self._lock:
            if any(self._alive(job) for job in self.of_folder(folder)):
                raise JobError(f"a process already works in {folder.name}")
            id_ = f"{time.strftime('%Y%m%d-%H%M%S')}-{_place(folder)}-{secrets.token_hex(2)}"
            try:
                self._state.mkdir(parents=True, exist_ok=True, mode=0o700)
                job = self._launch(id_, kind, tuple(words), folder)
                record = json.dumps(asdict(job), ensure_ascii=False, indent=1)
                (self._state / f"{id_}.json").write_text(record + "\n", encoding="utf-8")
            except OSError as error:
                raise JobError(f"the command could not be started: {error.strerror}") from error
            return job

    def _launch(self, id_: str, kind: str, words: tuple[str, ...], folder: Path) -> Job:
        # Its own group: a Ctrl-C that ends the dashboard must not end the training, and on Windows only a group can be
        # interrupted.
        apart: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        opened = os.open(self._state / f"{id_}.log", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(opened, "wb") as log:
            child = subprocess.Popen(
                [*self._program, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._cwd,
                env={**self._environ, "PYTHONUNBUFFERED": "1"},
                **apart,
            )
        self._children[id_] = child
        return Job(id_, kind, words, str(folder), child.pid, start_mark(child.pid), time.time())

    def get(self, id_: str) -> Job | None:
        """The command with this id; None when there is none."""
        if not _ID.fullmatch(id_):
            return None
        return _job(read_mapping(self._state, f"{id_}.json", _RECORD_LIMIT))

    def of_folder(self, folder: Path) -> list[Job]:
        """The commands that worked in a run folder, the newest first."""
        jobs = (self.get(name) for name in self._names() if f"-{_place(folder)}-" in name)
        found = [job for job in jobs if job is not None and job.folder == str(folder)]
        return sorted(found, key=lambda job: job.created, reverse=True)

    def _names(self) -> list[str]:
        try:
            return [name.removesuffix(".json") for name in os.listdir(self._state) if name.endswith(".json")]
        except OSError:
            return []

    def alive(self, job: Job) -> bool:
        """Whether its process still runs."""
        with self._lock:
            return self._alive(job)

    def _alive(self, job: Job) -> bool:
        child = self._children.get(job.id)
        if child is not None:
            if child.poll() is None:
                return True
            del self._children[job.id]
            return False
        return bool(job.mark) and start_mark(job.pid) == job.mark

    def at_work(self, folder: Path) -> Job | None:
        """The command that works in a run folder now."""
        return next((job for job in self.of_folder(folder) if self.alive(job)), None)

    def stop(self, job: Job) -> None:
        """Interrupts its process as Ctrl-C does: requests in flight are waited for, a second time they are not. Raises
        ``JobError``."""
        if not self.alive(job):
            raise JobError("its process has ended already")
        try:
            interrupt(job.pid)
        except OSError as error:
            raise JobError(f"its process could not be interrupted: {error.strerror}") from error

    def log(self, job: Job, lines: int = 400) -> list[str]:
        """The end of what it printed."""
        found = tail_lines(self._state, f"{job.id}.log", _LOG_TAIL)
        return [line.decode("utf-8", "replace") for line in found[-lines:]]

    def log_size(self, job: Job) -> int:
        """How many bytes it has printed."""
        try:
            return (self._state / f"{job.id}.log").stat().st_size
        except OSError:
            return 0


def _place(folder: Path) -> str:
    """What the ids of all commands for a run folder have in common."""
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]


def _job(stored: Mapping[str, Any]) -> Job | None:
    """The command of a record; None when it is torn, or none that was written here."""
    names = [stored.get(name) for name in ("id", "kind", "folder", "mark")]
    pid, created = count(stored.get("pid")), fraction(stored.get("created"))
    if not all(isinstance(name, str) for name in names) or not pid or pid < 0 or created is None:
        return None
    id_, kind, folder, mark = map(text, names)
    return Job(id_, kind, texts(stored.get("words")), folder, pid, mark, created)
