"""How many requests may be in flight at one endpoint: caps a role, priorities, and a window that follows the server.

Three rules, one each for a different fact about servers:

* A *cap* a role is what the user allows.
* A place whose request was refused with 429 or 503 *rests* for as long as the server asked. So callers that wait do not
  take its turn: in a storm that refuses everything, all places rest and nobody sends; when one request in five is
  refused by chance, only that place idles.
* The *window* (shared by the roles) is additive-increase, multiplicative-decrease as in TCP. It is halved, at most once
  a round-trip, when the refusals of a round are more than chance, and grows with success.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from skillopt.types import Role

LONGEST_REST = 60.0
"""Seconds a refused place rests at most: then one request asks again, whatever the server said about later."""


class Window:
    """The number of requests the endpoint seems to bear. Arithmetic only; all times are counted in answers.

    Requests carry the ``round`` in which they were sent: answers to requests that were sent before the last cut say
    nothing about the window after it.
    """

    def __init__(self, ceiling: int) -> None:
        self.size = float(ceiling)
        self.round = 0
        self._ceiling = float(ceiling)
        self._known_good = float(ceiling)  # below this the window grows by 1 a success, as in TCP's slow start
        self._answers = self._refusals = 0
        self._grew = False

    def succeeded(self, round_: int) -> None:
        """A request of ``round_`` was answered."""
        if round_ != self.round:
            return
        self._grew = True
        self.size = min(self._ceiling, self.size + (1.0 if self.size < self._known_good else 1.0 / self.size))
        self._answered()

    def refused(self, round_: int, load: int) -> None:
        """A request of ``round_`` was refused while ``load`` places were busy or resting."""
        if round_ != self.round:
            return
        self._refusals += 1
        used = min(self.size, float(load))
        if used >= 2.0 and self._refusals >= max(2.0, used / 2.5):
            self._cut(used)
        else:
            self._answered()

    def _answered(self) -> None:
        self._answers += 1
        if self._answers >= self.size:
            self._answers = self._refusals = 0

    def _cut(self, used: float) -> None:
        if self._grew:  # a cut right after a cut is the same storm: it says nothing about where the limit is
            self._known_good = max(1.0, self.size / 2.0)
        self.size = max(1.0, used / 2.0)
        self.round += 1
        self._answers = self._refusals = 0
        self._grew = False


@dataclass(frozen=True, slots=True)
class LimiterState:
    """What a progress display may show. ``resting`` places wait out a refusal; ``refused`` counts refusals so far."""

    in_flight: int
    waiting: int
    resting: int
    window: int
    refused: int


class Slot:
    """A place for one request: ``async with limiter.slot(...) as slot``. Tell it how the request was received."""

    __slots__ = ("_limiter", "_priority", "_role", "_round")

    def __init__(self, limiter: Limiter, role: Role, priority: int) -> None:
        self._limiter = limiter
        self._role: Role = role
        self._priority = priority
        self._round = 0

    async def __aenter__(self) -> Slot:
        await self._limiter._acquire(self._role, self._priority)
        self._round = self._limiter._window.round
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter._release(self._role)

    def succeeded(self) -> None:
        """The server answered the request."""
        self._limiter._succeeded(self._round)

    def refused(self, seconds: float) -> None:
        """The server refused the request as one too many and wants none for ``seconds``."""
        self._limiter._refused(self._round, seconds)


class Limiter:
    """Admission to one endpoint (one base URL). Share it between all models that speak to that endpoint.

    ``caps``: the most requests in flight, by role. Waiting calls go in the order of their priority (lower first), then
    of their arrival. It belongs to the event loop that uses it first and uses no task, lock or polling.
    """

    def __init__(self, caps: Mapping[Role, int]) -> None:
        if not caps or min(caps.values()) < 1:
            raise ValueError(f"each role needs a cap of at least 1, got {dict(caps)}")
        self._caps = dict(caps)
        self._window = Window(sum(caps.values()))
        self._busy: dict[Role, int] = dict.fromkeys(caps, 0)
        self._in_flight = self._resting = self._total_refused = 0
        self._queues: dict[Role, list[tuple[int, int, asyncio.Future[None]]]] = {role: [] for role in caps}
        self._arrivals = itertools.count()
        self._last_success: float | None = None

    def slot(self, role: Role, priority: int = 0) -> Slot:
        """A place for one request of ``role``; entered, it waits until there is one."""
        if role not in self._caps:
            raise ValueError(f"no cap was given for the role {role!r}")
        return Slot(self, role, priority)

    @property
    def last_success(self) -> float | None:
        """When the endpoint last answered a request (clock of the event loop), or None."""
        return self._last_success

    def state(self) -> LimiterState:
        """A snapshot for a progress display."""
        waiting = sum(not future.done() for queue in self._queues.values() for _, _, future in queue)
        return LimiterState(self._in_flight, waiting, self._resting, int(self._window.size), self._total_refused)

    def _room(self) -> bool:
        return self._in_flight + self._resting < int(self._window.size)

    async def _acquire(self, role: Role, priority: int) -> None:
        queue = self._queues[role]
        if not queue and self._busy[role] < self._caps[role] and self._room():
            self._take(role)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(queue, (priority, next(self._arrivals), future))
        self._grant()
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._grant()  # drops the dead entry if it stands at the head
            else:
                self._release(role)  # the place came in the same breath as the cancellation: hand it on
            raise

    def _take(self, role: Role) -> None:
        self._busy[role] += 1
        self._in_flight += 1

    def _release(self, role: Role) -> None:
        self._busy[role] -= 1
        self._in_flight -= 1
        self._grant()

    def _succeeded(self, round_: int) -> None:
        self._last_success = asyncio.get_running_loop().time()
        self._window.succeeded(round_)

    def _refused(self, round_: int, seconds: float) -> None:
        self._total_refused += 1
        self._window.refused(round_, self._in_flight + self._resting)
        self._resting += 1
        asyncio.get_running_loop().call_later(min(seconds, LONGEST_REST), self._rested)

    def _rested(self) -> None:
        self._resting -= 1
        self._grant()

    def _grant(self) -> None:
        while self._room():
            first: tuple[int, int, Role] | None = None
            for role, queue in self._queues.items():
                while queue and queue[0][2].done():  # cancelled while it waited
                    heapq.heappop(queue)
                if queue and self._busy[role] < self._caps[role]:
                    head = (queue[0][0], queue[0][1], role)
                    first = head if first is None or head < first else first
            if first is None:
                return
            future = heapq.heappop(self._queues[first[2]])[2]
            self._take(first[2])
            future.set_result(None)
