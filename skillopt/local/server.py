"""A model on this machine behind an OpenAI-style address, as long as a context lasts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

from skillopt.extras import install_hint
from skillopt.local.child import ChildSpec
from skillopt.local.errors import LocalError

SLOTS = 4
CONTEXT_TOKENS = 4096
READY_SECONDS = 120.0
TERMINATE_SECONDS = 5.0
COMMAND = (sys.executable, "-m", "skillopt.local.child")
_ENGINE = "xllamacpp"
_TAIL_LINES = 30
_HEALTH_PAUSE = 0.1


class LocalServer:
    """llama.cpp's server for one GGUF file, in a process of its own that never outlives this one.

    ``slots`` requests run side by side, each with a context of ``context`` tokens; ``threads`` defaults to the cores
    that this process may use. Entering raises ``LocalError`` when the server dies or is not ready in
    ``ready_seconds``, with the last lines it printed.
    """

    def __init__(
        self,
        path: Path,
        *,
        slots: int = SLOTS,
        context: int = CONTEXT_TOKENS,
        threads: int | None = None,
        ready_seconds: float = READY_SECONDS,
        environ: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.path = path
        self._spec = ChildSpec(str(path), slots, context, threads or usable_cores(), os.getpid())
        self._ready_seconds = ready_seconds
        self._environ = environ
        self._command = tuple(command)
        self._process: Process | None = None
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._pump: asyncio.Task[None] | None = None
        self._address = ""

    @property
    def base_url(self) -> str:
        """The address for an OpenAI-style client, like ``http://127.0.0.1:40123/v1``."""
        return f"{self._address}/v1"

    @property
    def pid(self) -> int | None:
        """The process of the server, None when there is none."""
        return None if self._process is None else self._process.pid

    async def __aenter__(self) -> LocalServer:
        if not self.path.is_file():
            listed = "skillopt models list"
            raise LocalError(f"no such model file: {self.path}. '{listed}' shows what is here", command=listed)
        if self._command == COMMAND and find_spec(_ENGINE) is None:
            install = install_hint("local")
            raise LocalError(f"running a model on this machine needs its engine: {install}", command=install)
        try:
            await asyncio.wait_for(self._start(), self._ready_seconds)
        except asyncio.TimeoutError:
            await self._stop()
            raise LocalError(self._account(f"was not ready after {self._ready_seconds:g} s")) from None
        except BaseException:  # cancellation too: a child is never left behind
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, self._spec.to_json(), stdin=PIPE, stdout=PIPE, stderr=PIPE, **self._apart()
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._pump = asyncio.create_task(_keep_lines(self._process.stderr, self._tail.append))
        self._address = _address_in(await self._process.stdout.readline())
        if not self._address:
            await self._report_death()
        health = asyncio.create_task(_healthy(f"{self._address}/health"))
        death = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait((health, death), return_when=asyncio.FIRST_COMPLETED)
            if not health.done():
                await self._report_death()
            await health
        finally:
            health.cancel()
            death.cancel()

    def _apart(self) -> dict[str, Any]:
        """In a session of its own, so that Ctrl-C in the terminal does not take the server from under its user."""
        environ = {**(os.environ if self._environ is None else self._environ), "OMP_WAIT_POLICY": "PASSIVE"}
        if sys.platform == "win32":
            return {"env": environ, "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        return {"env": environ, "start_new_session": True}

    async def _report_death(self) -> None:
        assert self._process is not None
        code = await self._process.wait()
        if self._pump is not None:
            await asyncio.wait((self._pump,), timeout=1)
        raise LocalError(self._account(f"ended at its start with status {code}"))

    def _account(self, what: str) -> str:
        said = "\n".join(f"  {line}" for line in self._tail) or "  (it printed nothing)"
        return f"the server of {self.path.name} {what}. What it said:\n{said}"

    async def _stop(self) -> None:
        """Ends the child and waits for it. When this is cancelled it is killed at once, and still waited for."""
        ending = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            self._send("SIGKILL")
            await ending
            raise

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        self._send("SIGTERM")
        try:
            await asyncio.wait_for(process.wait(), TERMINATE_SECONDS)
        except asyncio.TimeoutError:
            self._send("SIGKILL")
            await process.wait()
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait((self._pump,))
        _close(process)
        self._process = None

    def _send(self, name: str) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.Signals[name])


def usable_cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


async def _keep_lines(stream: asyncio.StreamReader, keep: Callable[[str], None]) -> None:
    """Reads as long as the child prints, so that it never waits for a reader."""
    rest = b""
    while block := await stream.read(1 << 16):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            if line.strip():
                keep(line.decode("utf-8", "replace").rstrip())
        rest = rest[-4096:]
    if rest.strip():
        keep(rest.decode("utf-8", "replace"))


def _address_in(line: bytes) -> str:
    """The address in the line that the child prints when it listens; empty where there is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return ""
    return str(found.get("address", "")).rstrip("/") if isinstance(found, dict) else ""


async def _healthy(url: str) -> None:
    """Returns when the server says that it is ready."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError):
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(_HEALTH_PAUSE)


def _close(process: Process) -> None:
    transport = getattr(process, "_transport", None)  # asyncio closes its pipes only with the transport
    if transport is not None:
        transport.close()
