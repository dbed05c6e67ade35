"""The merge of one side of a step, begun while the analysts of the other side are still at work."""

from __future__ import annotations

import asyncio

from skillopt.concurrency import cancel_all
from skillopt.engine.context import Scope
from skillopt.optimizer.aggregate import merge_side
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.reflect import Reflection, patches_of
from skillopt.types import SourceType

_SIDES: tuple[SourceType, ...] = ("failure", "success")


class Sides:
    """Merges a side as soon as all of its analysts have answered.

    The aggregation asks the same in its turn and finds it answered or in flight. A side whose analyst failed waits for
    its turn: the run may end there. So does everything in a run that a budget bounds.
    """

    def __init__(self, scope: Scope, told: OptimizerContext, settings: Settings, batches: int) -> None:
        """``batches`` is the number of micro-batches whose analysts are to come."""
        self._context = scope.context
        self._told = told
        self._settings = settings
        self._batches_left = batches
        self._analysts: dict[SourceType, list[asyncio.Future[Reflection]]] = {side: [] for side in _SIDES}
        self._work: list[asyncio.Task[None]] = []

    def started(self, side: SourceType, analyst: asyncio.Future[Reflection]) -> None:
        """An analyst of ``side`` was asked."""
        self._analysts[side].append(analyst)

    def complete(self) -> None:
        """All analysts of one more micro-batch were asked."""
        self._batches_left -= 1
        idle = self._context.capped or self._context.meter.stopped is not None
        if self._batches_left or idle or not all(self._analysts.values()):
            return
        self._work = [asyncio.ensure_future(self._merge(side)) for side in _SIDES]

    async def close(self) -> None:
        await cancel_all(self._work)

    async def _merge(self, side: SourceType) -> None:
        done, _ = await asyncio.wait(self._analysts[side])
        if any(analyst.cancelled() or analyst.exception() or analyst.result().error for analyst in done):
            return
        patches = patches_of((analyst.result() for analyst in done), side)
        await merge_side(self._context.ahead_of_turn().scope().optimizer, self._told, self._settings, patches, side)
