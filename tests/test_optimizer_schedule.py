from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.optimizer.schedule import SCHEDULES, make_schedule


def budgets(name: str, hi: int, lo: int, total: int, steps: int | None = None) -> list[int]:
    schedule = make_schedule(name, hi, lo, total)
    return [schedule.budget(step) for step in range(1, (steps or total) + 1)]


@pytest.mark.parametrize(
    ("name", "hi", "lo", "total", "expected"),
    [
        ("cosine", 4, 2, 40, [4] * 13 + [3] * 13 + [2] * 14),
        ("cosine", 4, 2, 8, [4, 4, 3, 3, 3, 2, 2, 2]),
        ("cosine", 10, 2, 4, [9, 6, 3, 2]),
        ("linear", 10, 2, 4, [8, 6, 4, 2]),
        ("linear", 4, 2, 4, [4, 3, 2, 2]),  # 3.5 and 2.5 go to the even neighbour
        ("constant", 4, 2, 3, [4, 4, 4]),
        ("constant", 1, 2, 3, [1, 1, 1]),
        ("autonomous", 4, 2, 2, [999, 999]),
        ("linear", 4, 2, 1, [4]),
        ("cosine", 4, 2, 1, [4]),
        ("cosine", 2, 2, 3, [2, 2, 2]),
        ("cosine", 2, 0, 2, [1, 0]),
    ],
)
def test_published_tables(name: str, hi: int, lo: int, total: int, expected: list[int]) -> None:
    assert budgets(name, hi, lo, total) == expected


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_after_the_last_step_the_budget_stays(name: str) -> None:
    assert budgets(name, 4, 2, 4, steps=7)[3:] == [2, 2, 2, 2]
    assert budgets(name, 4, 2, 0, steps=2) == [4, 4]


@given(st.sampled_from(["linear", "cosine"]), st.integers(0, 30), st.integers(0, 30), st.integers(0, 60))
def test_a_decaying_schedule_goes_down_to_its_floor(name: str, lo: int, more: int, total: int) -> None:
    found = budgets(name, lo + more, lo, total, steps=total + 3)
    assert found == sorted(found, reverse=True)
    assert all(lo <= budget <= lo + more for budget in found)
    assert found[-1] == (lo if total > 1 else lo + more)


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lr_scheduler='cosin'.*cosine"):
        make_schedule("cosin", 4, 2, 8)
    for name in ("linear", "cosine"):
        with pytest.raises(ValueError, match=r"learning_rate=1 is below optimizer\.min_learning_rate=2"):
            make_schedule(name, 1, 2, 8)
        with pytest.raises(ValueError, match="min_learning_rate=-1"):
            make_schedule(name, 1, -1, 8)
    with pytest.raises(ValueError, match="learning_rate=-1"):
        make_schedule("constant", -1, 0, 8)
    for name in SCHEDULES:
        with pytest.raises(ValueError, match="from 1, not 0"):
            make_schedule(name, 4, 2, 8).budget(0)
