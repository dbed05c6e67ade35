"""An agent program as a ``ChatModel``: each call is one run of it, or a few when the first ones fail."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from skillopt.agents.attempt import Result, Setting, attempt
from skillopt.agents.process import Limits
from skillopt.agents.sandbox import Sandbox
from skillopt.agents.table import CLIS
from skillopt.models.errors import ModelError
from skillopt.models.limiter import Limiter, Slot
from skillopt.models.profile import ResolvedRole
from skillopt.models.retries import Retries, Tries, next_pause
from skillopt.models.types import Attempt, Meter, Reply, Request, Usage
from skillopt.models.wire import Fault

RETRIES = Retries()


class CLIModel:
    """A ``ChatModel`` over a program.

    ``agent``: it works with its tools in a workspace that holds ``Request.files``, and its reply has a trajectory and
    the files to collect. Otherwise it only answers: no tools, nothing to write to, an empty workspace.
    ``limits`` is what each run may use, ``hidden`` are directories and files that no run may see, ``empty_retries`` is
    how often a run that ended without an answer is done again (None: EXEC_EMPTY_RESPONSE_RETRIES of ``environ``, else
    once). ``extra_environment`` is handed to the program as it is.
    """

    def __init__(
        self,
        resolved: ResolvedRole,
        environ: Mapping[str, str],
        limiter: Limiter,
        meter: Meter,
        *,
        agent: bool,
        sandbox: Sandbox | None = None,
        limits: Limits | None = None,
        hidden: tuple[Path, ...] = (),
        empty_retries: int | None = None,
        extra_environment: Mapping[str, str] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: random.Random | None = None,
    ) -> None:
        self.spec = resolved.spec
        self._setting = Setting(
            spec=resolved.spec,
            cli=CLIS[resolved.spec.provider],
            agent=agent,
            environ=environ,
            program=resolved.program,
            home=resolved.home,
            sandbox=sandbox or Sandbox(),
            limits=limits or Limits(),
            hidden=hidden,
            extra=extra_environment or {},
        )
        self._timeout = resolved.timeout
        self._limiter = limiter
        self._meter = meter
        self._empty_retries = _empty_retries(environ) if empty_retries is None else empty_retries
        self._sleep = sleep
        self._draw = (jitter or random.Random()).random

    async def complete(self, request: Request, retries: Retries = RETRIES) -> Reply:
        """The reply of one run. A rate limit is waited out as long as ``retries`` allows, a run without an answer is
        done again with a reminder; nothing else is tried again. Raises ``ModelError`` and ``StopRequested``."""
        clock = asyncio.get_running_loop().time
        retries = replace(retries, attempts=min(retries.attempts, self._empty_retries + 1))
        tries = Tries(started=clock())
        while True:
            result = await self._run(request, reminder=tries.counted > 0)
            if isinstance(result.value, Reply):
                return result.value
            tries.book(result.value, clock())
            pause = next_pause(result.value, tries, retries, clock(), self._limiter.last_success, self._draw())
            if pause is None:
                raise self._error(result.value, tries.requests)
            await self._sleep(pause)

    async def _run(self, request: Request, reminder: bool) -> Result:
        """One run, admitted before it starts and booked when it has ended in whatever way."""
        role = self.spec.role
        timeout = self._timeout if self._timeout is not None else request.timeout
        async with self._limiter.slot(role, request.priority) as slot:
            self._meter.admit()
            kind, usage, cost = "cancelled", Usage(), None
            started = time.perf_counter()
            try:
                result = await attempt(self._setting, request, timeout, reminder=reminder)
                kind = "ok" if isinstance(result.value, Reply) else result.value.kind
                usage, cost = result.usage, result.cost_usd
                _report(slot, result)
                return result
            finally:
                seconds = time.perf_counter() - started
                self._meter.record(Attempt(role, request.stage, kind, usage, seconds, cost))

    def _error(self, fault: Fault, runs: int) -> ModelError:
        often = f" ({runs} runs)" if runs > 1 else ""
        named = f" {self.spec.model!r}" if self.spec.model else ""
        said = f"{self.spec.role} model{named} by {self._setting.cli.title}: {fault.message}{often}"
        return ModelError(fault.kind, said, raw=fault.raw, about=fault.about)


def _empty_retries(environ: Mapping[str, str]) -> int:
    text = environ.get("EXEC_EMPTY_RESPONSE_RETRIES", "").strip()
    return int(text) if text.isdecimal() else 1


def _report(slot: Slot, result: Result) -> None:
    """Tells the limiter how the run was received."""
    if isinstance(result.value, Reply) or result.value.kind == "empty":
        slot.succeeded()
    elif result.value.then == "wait":
        slot.refused(1.0 if result.value.retry_after is None else result.value.retry_after)
