from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.data.errors import DataError
from skillopt.data.ratio import parse_ratio, ratio_counts, ratio_split

WEIGHTS = st.tuples(*[st.integers(1, 50)] * 3)


@pytest.mark.parametrize(
    ("total", "counts"),
    [
        (2000, (400, 200, 1400)),
        (400, (80, 40, 280)),
        (534, (107, 53, 374)),
        (177, (35, 18, 124)),
        (246, (49, 25, 172)),
        (92, (18, 9, 65)),
        (1, (0, 0, 1)),
        (2, (1, 0, 1)),
        (5, (1, 0, 4)),
        (0, (0, 0, 0)),
    ],
)
def test_published_sizes(total: int, counts: tuple[int, int, int]) -> None:
    assert ratio_counts(total, (2, 1, 7)) == counts


def test_equal_fractions_go_to_the_larger_weight() -> None:
    assert ratio_counts(1, (1, 1, 1)) == (1, 0, 0)
    assert ratio_counts(2, (1, 3, 4)) == (0, 1, 1)  # 0.25, 0.75, 1
    assert ratio_counts(5, (1, 1, 8)) == (1, 0, 4)  # 0.5, 0.5, 4: the first of equal weights
    assert ratio_counts(2, (1, 1, 2)) == (1, 0, 1)
    assert ratio_counts(1, (1, 2, 1)) == (0, 1, 0)


@given(total=st.integers(0, 10_000), weights=WEIGHTS)
def test_counts_are_all_of_it_and_near_the_exact_share(total: int, weights: tuple[int, int, int]) -> None:
    counts = ratio_counts(total, weights)
    assert sum(counts) == total
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count * sum(weights) - total * weight) < sum(weights)


@given(items=st.lists(st.integers(), unique=True, max_size=60), weights=WEIGHTS, seed=st.integers(0, 99))
def test_a_split_is_the_shuffled_list_in_three_slices(
    items: list[int], weights: tuple[int, int, int], seed: int
) -> None:
    before = list(items)
    parts = ratio_split(items, weights, seed)
    expected = list(items)
    random.Random(seed).shuffle(expected)
    assert [item for part in parts for item in part] == expected
    assert tuple(map(len, parts)) == ratio_counts(len(items), weights)
    assert items == before


def test_seed_zero_is_a_seed() -> None:
    items = list(range(50))
    assert ratio_split(items, (2, 1, 7), 0) != ratio_split(items, (2, 1, 7), 42)


def test_ratio_text() -> None:
    assert parse_ratio("2:1:7") == (2, 1, 7)
    assert parse_ratio(" 10 : 1:1 ") == (10, 1, 1)


@pytest.mark.parametrize("text", ["", "2:1", "2:1:7:1", "2:0:7", "2:-1:7", "2:a:7", "2:1.5:7", "2::7", "²:1:7"])
def test_a_bad_ratio_is_refused_by_name(text: str) -> None:
    with pytest.raises(DataError, match=r"env\.split_ratio=.*2:1:7"):
        parse_ratio(text)
