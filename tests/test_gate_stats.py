from __future__ import annotations

import itertools
import math
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt.gate.stats import _T, Lift, _t_quantile, paired_lift, sign_test


def passes(wins: int, losses: int, n: int) -> Lift:
    """The lift when ``wins`` of ``n`` items turn from failed to passed and ``losses`` back."""
    before = {str(i): float(wins <= i < wins + losses) for i in range(n)}
    after = {str(i): float(i < wins) for i in range(n)}
    lift = paired_lift(before, after, seed=1)
    assert lift is not None
    return lift


def differences(*values: float) -> Lift:
    lift = paired_lift(
        {str(i): 0.5 for i in range(len(values))}, {str(i): 0.5 + d for i, d in enumerate(values)}, seed=1
    )
    assert lift is not None
    return lift


def test_no_common_item_no_lift() -> None:
    assert paired_lift({}, {}, 0) is None
    assert paired_lift({"a": 1.0}, {"b": 1.0}, 0) is None


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [(0.01, 0.2, "better"), (-0.2, -0.01, "worse"), (-0.1, 0.1, None), (0.0, 0.2, None), (-0.2, 0.0, None)],
)
def test_a_difference_is_shown_when_its_interval_leaves_0_out(low: float, high: float, shown: str | None) -> None:
    assert Lift(9, 0.5, 0.5, (low + high) / 2, low, high, 0.5, 1, 1).shown == shown


def test_only_common_items_count() -> None:
    lift = paired_lift({"a": 0.0, "b": 1.0, "x": 1.0}, {"b": 1.0, "a": 1.0, "y": 0.0}, 0)
    assert lift is not None
    assert (lift.n, lift.before_mean, lift.after_mean, lift.lift, lift.wins, lift.losses) == (2, 0.5, 1.0, 0.5, 1, 0)


@pytest.mark.parametrize(
    ("wins", "losses", "p_value"),
    [
        (0, 0, 1),
        (1, 0, 1),
        (1, 1, 1),
        (5, 0, 0.0625),
        (6, 0, 0.03125),
        (0, 6, 0.03125),
        (8, 2, 112 / 1024),
        (12, 2, 212 / 2**14),
    ],
)
def test_exact_sign_test(wins: int, losses: int, p_value: float) -> None:
    assert sign_test(wins, losses) == p_value


def test_a_large_sign_test_stays_a_number() -> None:
    assert 0 < sign_test(900, 500) < 1e-20
    assert sign_test(700, 700) == 1.0


@pytest.mark.parametrize(
    ("wins", "losses", "n", "low", "high"),
    [
        (12, 2, 50, 0.0611, 0.3447),
        (2, 12, 50, -0.3447, -0.0611),
        (0, 0, 20, -0.1611, 0.1611),  # z² / (n + z²)
        (5, 0, 20, 0.0, 0.4687),  # the exact test does not reject
        (6, 0, 20, 0.0905, 0.5190),
    ],
)
def test_interval_for_pass_or_fail(wins: int, losses: int, n: int, low: float, high: float) -> None:
    lift = passes(wins, losses, n)
    assert [lift.low, lift.high] == pytest.approx([low, high], abs=1e-4)
    assert lift.lift == (wins - losses) / n


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """For every outcome of 8 items, weighed by its probability."""
    n, up, down = 8, 0.3, 0.1
    covered = 0.0
    for wins, losses in itertools.product(range(n + 1), repeat=2):
        if wins + losses <= n:
            ways = math.comb(n, wins) * math.comb(n - wins, losses)
            lift = passes(wins, losses, n)
            if lift.low <= up - down <= lift.high:
                covered += ways * up**wins * down**losses * (1 - up - down) ** (n - wins - losses)
    assert 0.94 < covered < 1


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.integers(0, n), st.just(n))))
def test_interval_and_p_value_agree(case: tuple[int, int, int]) -> None:
    wins, losses, n = case[0], min(case[1], case[2] - case[0]), case[2]
    lift, turned = passes(wins, losses, n), passes(losses, wins, n)
    assert -1 <= lift.low <= lift.lift <= lift.high <= 1
    assert lift.low < lift.high
    assert (lift.p_value <= 0.05) == (not lift.low <= 0 <= lift.high)
    assert [turned.low, turned.high] == pytest.approx([-lift.high, -lift.low])
    assert turned.p_value == lift.p_value


def test_t_quantiles() -> None:
    """The table against the area under the density, by Simpson's rule; what follows it continues it."""
    for freedom, quantile in enumerate(_T, start=1):
        log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
        steps = 400
        width = quantile / steps
        heights = [
            math.exp(log_scale - (freedom + 1) / 2 * math.log1p((i * width) ** 2 / freedom)) for i in range(steps + 1)
        ]
        area = width / 3 * (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]))
        assert area == pytest.approx(0.475, abs=2e-7)
    assert _t_quantile(31) == pytest.approx(2.039513, abs=1e-5)
    assert _t_quantile(10**6) == pytest.approx(1.959966, abs=1e-5)


def test_partial_credit_uses_the_sign_flip_test() -> None:
    values = (0.1, 0.25, -0.05, 0.3, 0.2, 0.15, 0.0)
    changed = [d for d in values if d]
    far = sum(
        abs(sum(d * s for d, s in zip(changed, signs, strict=True))) >= sum(changed) - 1e-9
        for signs in itertools.product((1, -1), repeat=len(changed))
    )
    lift = differences(*values)
    assert lift.p_value == far / 2 ** len(changed)
    assert (lift.wins, lift.losses, lift.n) == (5, 1, 7)


def test_few_items_with_partial_credit_prove_nothing() -> None:
    assert (differences(0.5).low, differences(0.5).high) == (-1.0, 1.0)
    same = differences(0.5, 0.5)
    assert same.low == 0.0
    assert same.p_value == 0.5
    none = differences(0.0, 1e-17, 0.0)
    assert (none.wins, none.losses, none.p_value) == (0, 0, 1.0)
    assert none.low < 0 < none.high


def test_many_items_are_quick_and_depend_on_the_seed_alone() -> None:
    rng = random.Random(7)
    before = {str(i): rng.random() for i in range(1400)}
    after = {key: min(1.0, max(0.0, value + rng.gauss(0.02, 0.2))) for key, value in before.items()}
    started = time.perf_counter()
    lift = paired_lift(before, after, seed=3)
    assert time.perf_counter() - started < 5
    assert lift is not None
    assert lift == paired_lift(before, dict(reversed(after.items())), seed=3)
    assert 0 < lift.low < lift.lift < lift.high < 0.05
    assert 0 < lift.p_value < 0.05


SCORES = st.sampled_from([0.0, 0.2, 0.5, 2 / 3, 1.0])


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.integers(0, 30).map(str), st.tuples(SCORES, SCORES), min_size=1))
def test_lift_of_any_scores(scores: dict[str, tuple[float, float]]) -> None:
    before, after = ({key: pair[side] for key, pair in scores.items()} for side in (0, 1))
    lift = paired_lift(before, after, seed=0)
    assert lift is not None
    assert lift.n == len(scores)
    assert lift.lift == pytest.approx(lift.after_mean - lift.before_mean)
    assert -1 <= lift.low <= lift.lift + 1e-12
    assert lift.lift - 1e-12 <= lift.high <= 1
    assert 0 < lift.p_value <= 1
    if lift.p_value > 0.05:
        assert lift.low <= 0 <= lift.high
    assert paired_lift(before, before, seed=0).lift == 0  # type: ignore[union-attr]
