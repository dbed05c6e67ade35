"""The meter of a run: admits requests while the budget lasts, and books every one that ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from skillopt.models.errors import StopRequested
from skillopt.models.pricing import DIGITS, Price, cost, cost_of_call
from skillopt.models.types import Attempt
from skillopt.run.costs import Unpriced
from skillopt.run.journal import Journal
from skillopt.types import Role

Prices = Mapping[Role, Price | None]


@dataclass(frozen=True, slots=True)
class Caps:
    """Upper bounds of a run over all its processes; None is no bound, 0 is a bound of nothing."""

    requests: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    usd: float | None = None


class SpendMeter:
    """``Meter`` of a run. It counts what earlier processes of the run spent too.

    What a request cost is what its provider says, else its tokens by the price of its role. ``usd`` is the sum of what
    is known, ``unknown`` the number of requests whose cost nobody knows.
    """

    def __init__(
        self,
        journal: Journal,
        caps: Caps,
        clock: Callable[[], float] = time.monotonic,
        prices: Prices | None = None,
    ) -> None:
        spent, unpriced = journal.spent(), journal.unpriced()
        self._journal = journal
        self._caps = caps
        self._clock = clock
        self._prices: Prices = prices or {}
        self._started = clock()
        self._seconds_before = float(journal.meta("wall_seconds") or 0.0)
        self._stop: StopRequested | None = None
        self._requests_before = spent.requests
        self._bound, self._uncounted = bound_of(unpriced, self._prices)
        self.requests = spent.requests
        self.tokens = spent.tokens
        self.usd = spent.usd
        self.unknown = sum(each.requests for each in unpriced)
        self.in_flight = 0

    def admit(self) -> None:
        """Raises ``StopRequested`` once a cap is reached or a stop was asked for; else counts the request."""
        self._stop = self._stop or self._over_cap()
        if self._stop is not None:
            raise StopRequested(self._stop.reason, self._stop.detail)
        self.requests += 1
        self.in_flight += 1

    def record(self, attempt: Attempt) -> None:
        answered = attempt.kind == "ok"
        spent = cost_of_call(attempt.cost_usd, attempt.usage, self._prices.get(attempt.role), answered=answered)
        if spent is None:
            self.unknown += 1
            self._uncounted += answered
        else:
            self.usd = round(self.usd + spent, DIGITS)
        self.in_flight -= 1
        self.tokens += attempt.usage.total_tokens
        self._journal.book(attempt, spent)

    @property
    def cost_usd(self) -> float | None:
        """What the run cost so far, in US dollars; None while a part of it is not known, or will not be."""
        if self.unknown or (not self.requests and (not self._prices or None in self._prices.values())):
            return None
        return self.usd

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
        for name, spent, cap, digits in (
            ("budget.max_calls", self.requests, caps.requests, ".0f"),
            ("budget.max_tokens", self.tokens, caps.tokens, ".0f"),
            ("budget.max_seconds", self.seconds(), caps.seconds, ".0f"),
            ("budget.max_usd", round(self.usd + self._bound, DIGITS), caps.usd, ".4g"),
        ):
            if cap is not None and spent >= cap:
                return StopRequested("budget", f"{name}={cap:.12g} is reached ({spent:{digits}} spent)")
        if caps.usd is not None and self._uncounted:
            return StopRequested("error", _NOT_HELD.format(self._uncounted))
        return None


_NOT_HELD = (
    "budget.max_usd cannot be held: the cost of {} answered requests is not known, since neither a cost nor tokens "
    "came with them; cap budget.max_calls instead"
)


def bound_of(unpriced: Iterable[Unpriced], prices: Prices) -> tuple[float, int]:
    """What earlier requests of unknown cost have cost at most by today's prices, in US dollars, and how many of the
    answered ones no price can tell anything of."""
    bound, left = 0.0, 0
    for each in unpriced:
        price = prices.get(each.role)
        if price is None:
            left += each.answered
        else:
            bound += cost(each.usage, price)
            left += 0 if price.free else each.blank
    return round(bound, DIGITS), left
