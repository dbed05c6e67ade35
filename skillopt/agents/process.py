"""One run of a program: bounded in time, output, CPU and memory, and nothing of it is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from skillopt.agents import tree

MIB = 1 << 20
_POLL = 0.02
_LOOK = 1.0
_DRAIN = 0.5
_FORCED = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use. ``output_bytes`` bounds each of its two streams. On Linux, ``memory_bytes`` bounds the
    resident memory of all its processes together, ``cpu_seconds`` and ``file_bytes`` (of one file) each of them.
    ``grace`` is how many seconds its processes have to end by themselves before they are killed."""

    output_bytes: int = 16 * MIB
    cpu_seconds: int | None = 3600
    memory_bytes: int | None = 4096 * MIB
    file_bytes: int | None = 1024 * MIB
    grace: float = 0.5


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended. ``returncode`` is negative for a signal, None when it is unknown. ``stdout`` and ``stderr`` are
    cut at the limit when ``overflowed``; ``out_of_memory``: it was stopped for using too much."""

    returncode: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    overflowed: bool
    seconds: float
    out_of_memory: bool = False


async def run_process(
    argv: Sequence[str],
    *,
    stdin: bytes,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    limits: Limits | None = None,
) -> Finished:
    """Runs ``argv`` in a session of its own, writes ``stdin`` and closes it, and waits at most ``timeout`` seconds.

    However it ends (by itself, by the time, by too much output, by cancellation of this task), all its processes are
    gone when this returns: also those that made a session of their own or kept its output open. Raises ``OSError``
    when the program cannot be started.
    """
    limits = limits or Limits()
    loop = asyncio.get_running_loop()
    mark, started = secrets.token_hex(16), time.monotonic()
    transport, child = await loop.subprocess_exec(
        lambda: _Child(limits.output_bytes, loop),
        *argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**env, tree.MARK: mark},
        **_own_group(),
    )
    pid = transport.get_pid()
    run = tree.Run.of(pid, mark)
    try:
        _cap(pid, limits)
        _feed(transport, stdin)
        hungry = await _wait(pid, child, started + timeout, limits.memory_bytes)
        timed_out = not hungry and not child.over.done()
    finally:
        try:
            await _end(run, child, limits.grace)
        finally:
            transport.close()
    seconds = time.monotonic() - started
    status = transport.get_returncode()
    return Finished(status, child.text(1), child.text(2), timed_out, child.overflowed, seconds, hungry)


class _Child(asyncio.SubprocessProtocol):
    """What comes out of the program. ``over`` is done when it has exited or written too much."""

    def __init__(self, most: int, loop: asyncio.AbstractEventLoop) -> None:
        self._most = most
        self._chunks: dict[int, list[bytes]] = {1: [], 2: []}
        self._room = {1: most, 2: most}
        self._open = {1, 2}
        self.overflowed = False
        self.over: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.drained: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self._room[fd]:
            self._chunks[fd].append(data[: self._room[fd]])
        self._room[fd] -= min(len(data), self._room[fd])
        if not self._room[fd]:
            self.overflowed = True
            _done(self.over)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            _done(self.drained)

    def process_exited(self) -> None:
        _done(self.exited)
        _done(self.over)

    def text(self, fd: int) -> bytes:
        return b"".join(self._chunks[fd])


async def _wait(pid: int, child: _Child, deadline: float, memory: int | None) -> bool:
    """Waits for the end of the run or for its ``deadline``; returns True at once when it takes too much memory."""
    while not child.over.done() and (left := deadline - time.monotonic()) > 0.0:
        await asyncio.wait({child.over}, timeout=left if memory is None else min(left, _LOOK))
        if memory is not None and not child.over.done() and tree.resident(pid) > memory:
            return True
    return False


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _feed(transport: asyncio.SubprocessTransport, stdin: bytes) -> None:
    pipe = cast(asyncio.WriteTransport | None, transport.get_pipe_transport(0))  # uvloop's is none by its class
    if pipe is not None and not pipe.is_closing():  # the program may have ended already
        pipe.write(stdin)
        pipe.close()  # after all is written; a program that does not read makes no error of ours


async def _end(run: tree.Run, child: _Child, grace: float) -> None:
    """Ends whatever still lives. The kill itself awaits nothing, so that a second Ctrl-C cannot come between."""
    try:
        if not child.exited.done() and tree.send(run, kill=False):
            deadline = time.monotonic() + grace
            while time.monotonic() < deadline and tree.living(run):
                await asyncio.sleep(_POLL)
    finally:
        tree.send(run, kill=True)
    deadline = time.monotonic() + _FORCED
    while time.monotonic() < deadline and tree.send(run, kill=True):  # a fork may have escaped the round before
        await asyncio.sleep(_POLL)
    await asyncio.wait({child.exited, child.drained}, timeout=_DRAIN)


def _own_group() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _cap(pid: int, limits: Limits) -> None:
    """Sets the limits from outside, right after the start: nothing runs between fork and exec. Memory is watched
    instead: the engines of JavaScript reserve far more than they use, and crash where they cannot."""
    if sys.platform != "linux":
        return
    import resource

    caps = {
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_CORE: 0,
    }
    with contextlib.suppress(OSError):  # it has ended already
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")  # when this machine runs short, it goes before we do
        for what, most in caps.items():
            if most is not None:
                _, hard = resource.prlimit(pid, what)
                most = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.prlimit(pid, what, (most, most))
