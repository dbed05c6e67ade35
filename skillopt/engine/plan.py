"""Which items each step works on: batches, seeds and samples, all fixed before the first call. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class BatchPlan(Generic[T]):
    """One micro-batch of a step. ``index`` counts from 0 within the epoch; ``seed`` names its random stream."""

    index: int
    seed: int
    items: tuple[T, ...]


@dataclass(frozen=True)
class StepPlan(Generic[T]):
    """One optimizer step: ``step`` counts from 1 over all epochs, ``epoch`` from 1, ``step_in_epoch`` from 0."""

    step: int
    epoch: int
    step_in_epoch: int
    batches: tuple[BatchPlan[T], ...]


@dataclass(frozen=True)
class EpochPlan(Generic[T]):
    """One pass over the training items; ``epoch`` counts from 1."""

    epoch: int
    steps: tuple[StepPlan[T], ...]


def steps_per_epoch(train_size: int, batch_size: int, accumulation: int) -> int:
    """How many steps see every one of ``train_size`` items, at ``batch_size · accumulation`` items a step.

    Raises ``ValueError`` when one of them is below 1.
    """
    for name, value in (("train_size", train_size), ("batch_size", batch_size), ("accumulation", accumulation)):
        if value < 1:
            raise ValueError(f"train.{name}={value}: needs to be at least 1")
    return -(-train_size // (batch_size * accumulation))


def plan_epochs(
    items: Sequence[T], batch_size: int, accumulation: int, num_epochs: int, seed: int
) -> tuple[EpochPlan[T], ...]:
    """The plan of a whole run over the training ``items`` (or their ids), given in file order.

    Each epoch is shuffled and cut into consecutive micro-batches. The last one that holds items may be short; where
    accumulation asks for further ones, each takes its items from a new shuffle of all of them, which are then seen
    twice. Raises ``ValueError`` for sizes below 1; no epochs is an empty plan.
    """
    steps = steps_per_epoch(len(items), batch_size, accumulation)
    return tuple(
        _plan_epoch(epoch, _batches(items, batch_size, steps * accumulation, seed + 1000 * epoch), accumulation)
        for epoch in range(1, num_epochs + 1)
    )


def slow_update_sample(items: Sequence[T], seed: int, epoch: int, n: int) -> tuple[T, ...]:
    """The ``n`` training items (all, when there are fewer) on which epoch ``epoch`` compares its first and last skill.

    A larger sample begins with the smaller one. Pair policy ``changed`` looks for further pairs in this order.
    """
    return tuple(_shuffled(items, seed + 2000 * epoch)[:n])


def _batches(items: Sequence[T], size: int, count: int, epoch_seed: int) -> list[BatchPlan[T]]:
    order = _shuffled(items, epoch_seed)
    batches = []
    for index in range(count):
        seed = epoch_seed + index + 1
        chunk = order[index * size : (index + 1) * size] or _shuffled(items, seed)[:size]
        batches.append(BatchPlan(index, seed, tuple(chunk)))
    return batches


def _plan_epoch(epoch: int, batches: list[BatchPlan[T]], accumulation: int) -> EpochPlan[T]:
    steps = len(batches) // accumulation
    return EpochPlan(
        epoch,
        tuple(
            StepPlan(
                step=(epoch - 1) * steps + number + 1,
                epoch=epoch,
                step_in_epoch=number,
                batches=tuple(batches[number * accumulation : (number + 1) * accumulation]),
            )
            for number in range(steps)
        ),
    )


def _shuffled(items: Sequence[T], seed: int) -> list[T]:
    order = list(items)
    random.Random(seed).shuffle(order)
    return order
