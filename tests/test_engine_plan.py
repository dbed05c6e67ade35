from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.engine.plan import plan_epochs, slow_update_sample, steps_per_epoch

TEN = [f"t{n}" for n in range(10)]


def ids(*numbers: int) -> tuple[str, ...]:
    return tuple(f"t{number}" for number in numbers)


GOLDEN = [
    ids(6, 4, 1, 9),
    ids(7, 8, 0, 5),
    ids(2, 3),
    ids(3, 5, 0, 4),
]
SAMPLE = ids(6, 7, 5, 3, 4, 8, 1, 2, 0, 9)


def test_published_plan_of_ten_items() -> None:
    first, second = plan_epochs(TEN, 4, 2, 2, seed=42)
    batches = [batch for step in first.steps for batch in step.batches]
    assert [batch.seed for batch in batches] == [1043, 1044, 1045, 1046]
    assert [batch.index for batch in batches] == [0, 1, 2, 3]
    assert [len(batch.items) for batch in batches] == [4, 4, 2, 4]
    assert [batch.items for batch in batches] == GOLDEN
    assert [batch.seed for step in second.steps for batch in step.batches] == [2043, 2044, 2045, 2046]
    assert [(s.step, s.epoch, s.step_in_epoch) for s in (*first.steps, *second.steps)] == [
        (1, 1, 0),
        (2, 1, 1),
        (3, 2, 0),
        (4, 2, 1),
    ]


@pytest.mark.parametrize(
    ("size", "batch", "accumulation", "steps"),
    [
        (400, 40, 1, 10),
        (80, 40, 1, 2),
        (107, 40, 1, 3),
        (50, 40, 1, 2),
        (35, 40, 1, 1),
        (10, 4, 2, 2),
        (8, 4, 2, 1),
        (1, 1, 1, 1),
    ],
)
def test_steps_per_epoch(size: int, batch: int, accumulation: int, steps: int) -> None:
    assert steps_per_epoch(size, batch, accumulation) == steps
    (epoch,) = plan_epochs(range(size), batch, accumulation, 1, seed=0)
    assert len(epoch.steps) == steps


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2**31))
def test_every_epoch_sees_every_item(size: int, batch_size: int, accumulation: int, epochs: int, seed: int) -> None:
    items = list(range(size))
    plan = plan_epochs(items, batch_size, accumulation, epochs, seed)
    assert [epoch.epoch for epoch in plan] == list(range(1, epochs + 1))
    steps = [step for epoch in plan for step in epoch.steps]
    assert [step.step for step in steps] == list(range(1, len(steps) + 1))
    for epoch in plan:
        batches = [batch for step in epoch.steps for batch in step.batches]
        assert all(len(step.batches) == accumulation for step in epoch.steps)
        assert [batch.seed for batch in batches] == [seed + 1000 * epoch.epoch + n + 1 for n in range(len(batches))]
        whole = -(-size // batch_size)
        assert Counter(item for batch in batches[:whole] for item in batch.items) == Counter(items)
        for batch in batches[whole:]:
            assert len(set(batch.items)) == len(batch.items) == min(size, batch_size)
    assert plan_epochs(items, batch_size, accumulation, epochs, seed) == plan
    assert plan_epochs(items, batch_size, accumulation, epochs + 1, seed)[:epochs] == plan
    assert items == list(range(size))


@pytest.mark.parametrize(
    ("size", "batch", "accumulation", "named"),
    [(0, 4, 1, "train_size"), (4, 0, 1, "batch_size"), (4, 4, 0, "accumulation")],
)
def test_sizes_below_one_are_refused(size: int, batch: int, accumulation: int, named: str) -> None:
    with pytest.raises(ValueError, match=rf"train\.{named}=0"):
        plan_epochs(range(size), batch, accumulation, 1, seed=0)


def test_slow_update_sample_is_the_start_of_one_order() -> None:
    assert slow_update_sample(TEN, 42, 2, 10) == SAMPLE
    assert slow_update_sample(TEN, 42, 2, 3) == SAMPLE[:3]
    assert slow_update_sample(TEN, 42, 2, 99) == SAMPLE
    assert slow_update_sample(TEN, 42, 2, 0) == ()
    # The published seeds make it the order of epoch 2 e.
    order = [
        item for step in plan_epochs(TEN, 4, 1, 4, seed=42)[3].steps for batch in step.batches for item in batch.items
    ]
    assert tuple(order) == SAMPLE
