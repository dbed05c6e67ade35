"""Which trajectories go to one analyst: failures and successes apart, in item order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.optimizer.context import Settings
from skillopt.types import Rollout, SourceType

COMPACT_SIZE = 4
_HARD_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Minibatch:
    """Rollouts of one outcome for one analyst call; ``index`` counts those of its kind in a micro-batch, from 0."""

    kind: SourceType
    index: int
    rollouts: tuple[Rollout, ...]


def is_failure(rollout: Rollout) -> bool:
    """Measured, and no part of it passed. What could not be measured is neither a failure nor a success."""
    return rollout.score is not None and rollout.score.hard < _HARD_EPSILON


class Minibatcher:
    """Closes a minibatch as soon as enough rollouts of one outcome are there.

    It is fed in item order, so that what stands in a minibatch depends on the outcomes alone and not on who was done
    first; the analyst of a closed minibatch can start while later items still run.
    """

    def __init__(self, settings: Settings) -> None:
        limit = COMPACT_SIZE if settings.compact else settings.minibatch_size
        self._size = max(min(settings.minibatch_size, limit), 1)
        failures_only = settings.failure_only or settings.compact
        wanted: Sequence[SourceType] = ("failure",) if failures_only else ("failure", "success")
        self._open: dict[SourceType, list[Rollout]] = {kind: [] for kind in wanted}
        self._closed: dict[SourceType, int] = dict.fromkeys(wanted, 0)

    def add(self, rollout: Rollout) -> Minibatch | None:
        """The minibatch that this rollout completes, if it does."""
        kind: SourceType = "failure" if is_failure(rollout) else "success"
        if rollout.score is None or kind not in self._open:
            return None
        self._open[kind].append(rollout)
        return self._close(kind) if len(self._open[kind]) == self._size else None

    def flush(self) -> tuple[Minibatch, ...]:
        """What is left at the end of a micro-batch, as short last minibatches; failures first."""
        return tuple(self._close(kind) for kind, rollouts in self._open.items() if rollouts)

    def _close(self, kind: SourceType) -> Minibatch:
        batch = Minibatch(kind, self._closed[kind], tuple(self._open[kind]))
        self._open[kind] = []
        self._closed[kind] += 1
        return batch
