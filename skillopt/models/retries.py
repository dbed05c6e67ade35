"""When a failed request is tried again. Pure: no clock, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

from skillopt.models.errors import ErrorKind
from skillopt.models.wire import Fault


@dataclass(frozen=True, slots=True)
class Retries:
    """What one call may cost. ``attempts`` requests that fail by something that can pass; ``patience`` seconds without
    any answer from a rate-limited endpoint; no counted request starts ``deadline`` seconds after the call's start.
    ``connect`` (seconds) bounds opening a connection, ``timeout`` a whole request, whatever else holds for it. Kinds in
    ``final`` are never tried again."""

    attempts: int = 4
    first_pause: float = 0.25
    longest_pause: float = 8.0
    patience: float = 600.0
    deadline: float = float("inf")
    connect: float = 15.0
    timeout: float | None = None
    final: frozenset[ErrorKind] = field(default_factory=frozenset)


@dataclass(slots=True)
class Tries:
    """What one call has cost so far. Times are of the event loop's clock."""

    started: float
    requests: int = 0
    counted: int = 0
    limited: int = 0
    limited_since: float | None = None

    def book(self, fault: Fault, now: float) -> None:
        """Count one more faulty request."""
        self.requests += 1
        if fault.then == "wait":
            self.limited += 1
            self.limited_since = now if self.limited_since is None else self.limited_since
        elif fault.then == "count":
            self.counted += 1


def next_pause(
    fault: Fault, tries: Tries, retries: Retries, now: float, last_success: float | None, draw: float
) -> float | None:
    """Seconds to wait before the next request of a call whose last one (booked in ``tries``) was ``fault``; None: no
    more. ``draw`` is uniform in [0, 1); ``last_success`` is when the endpoint last answered any call."""
    if fault.kind in retries.final or fault.then in ("stop", "rewrite"):
        return None
    if fault.then == "count":
        if tries.counted >= retries.attempts:
            return None
        pause = draw * min(retries.longest_pause, retries.first_pause * 2.0 ** (tries.counted - 1))
        return pause if now + pause - tries.started < retries.deadline else None
    backoff = min(30.0, 2.0 ** min(tries.limited - 1, 5)) * (0.5 + 0.5 * draw)
    # A server that says "at once" again and again must not be asked at the speed of the network.
    pause = backoff if fault.retry_after is None else fault.retry_after or 0.1 * backoff
    since: float = max(tries.limited_since or now, last_success or 0.0)
    return pause if now + pause - since < retries.patience else None
