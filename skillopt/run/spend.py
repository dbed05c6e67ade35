"""The meter of a run: admits requests while the budget lasts, and books every one that ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from skillopt.models.errors import StopRequested
from skillopt.models.types import Attempt
from skillopt.run.journal import Journal


@dataclass(frozen=True, slots=True)
class Caps:
    """Upper bounds of a run over all its processes; None is no bound, 0 is a bound of nothing."""

    requests: int | None = None
    tokens: int | None = None
    seconds: float | None = None


class SpendMeter:
    """``Meter`` of a run. It counts what earlier processes of the run spent too."""

    def __init__(self, journal: Journal, caps: Caps, clock: Callable[[], float] = time.monotonic) -> None:
        spent = journal.spent()
        self._journal = journal
        self._caps = caps
        self._clock = clock
        self._started = clock()
        self._seconds_before = float(journal.meta("wall_seconds") or 0.0)
        self._stop: StopRequested | None = None
        self._requests_before = spent.requests
        self.requests = spent.requests
        self.tokens = spent.tokens
        self.in_flight = 0

    def admit(self) -> None:
        """Raises ``StopRequested`` once a cap is reached or a stop was asked for; else counts the request."""
        self._stop = self._stop or self._over_cap()
        if self._stop is not None:
            raise StopRequested(self._stop.reason, self._stop.detail)
        self.requests += 1
        self.in_flight += 1

    def record(self, attempt: Attempt) -> None:
        self.in_flight -= 1
        self.tokens += attempt.usage.total_tokens
        self._journal.book(attempt)

    def stop(self, reason: StopRequested) -> None:
        """From now on no request is admitted. The first reason stands."""
        self._stop = self._stop or reason

    @property
    def stopped(self) -> StopRequested | None:
        """Why no request is admitted any more; None while they are."""
        return self._stop

    def seconds(self) -> float:
        """Wall clock of all processes of the run, in seconds."""
        return self._seconds_before + self._clock() - self._started

    def seconds_left(self) -> float | None:
        """How long the run may still take, in seconds; None where no cap bounds it."""
        return None if self._caps.seconds is None else max(0.0, self._caps.seconds - self.seconds())

    def time_is_up(self) -> StopRequested:
        """The stop of a run whose seconds are spent."""
        return StopRequested("budget", f"budget.max_seconds={self._caps.seconds:g} is reached")

    def save(self) -> None:
        """Keeps the wall clock for the next process. A process that found every answer in the journal spent nothing."""
        if self.requests > self._requests_before:
            self._journal.set_meta("wall_seconds", f"{self.seconds():.3f}")

    def _over_cap(self) -> StopRequested | None:
        caps = self._caps
        for name, spent, cap in (
            ("budget.max_calls", self.requests, caps.requests),
            ("budget.max_tokens", self.tokens, caps.tokens),
            ("budget.max_seconds", self.seconds(), caps.seconds),
        ):
            if cap is not None and spent >= cap:
                return StopRequested("budget", f"{name}={cap:.12g} is reached ({spent:.0f} spent)")
        return None
