"""How much better one skill is than another on the same items, and how sure that is. Pure, standard library only."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

_Z = NormalDist().inv_cdf(0.975)
# 97.5 % quantiles of Student's t distribution for 1, 2, … 30 degrees of freedom.
_T = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139),
    *(2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963),
    *(2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272),
)
_ROUNDING = 1e-12
_FLIPS = 10_000
_EXACT_UP_TO = 13  # 2 ** 13 sign patterns are fewer than _FLIPS random ones
_UNIT = 2.0**-20  # sign flips add up differences in whole multiples of this


@dataclass(frozen=True, slots=True)
class Lift:
    """``after - before`` over the ``n`` items measured under both, scores in [0, 1].

    ``lift`` is the mean difference, ``low`` to ``high`` its 95 % confidence interval, ``p_value`` the two-sided p-value
    of no difference. ``wins`` items rose, ``losses`` fell.
    """

    n: int
    before_mean: float
    after_mean: float
    lift: float
    low: float
    high: float
    p_value: float
    wins: int
    losses: int

    @property
    def shown(self) -> Literal["better", "worse"] | None:
        """What has been shown: the interval leaves 0 out on one side. None: no difference."""
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else None


def paired_lift(before: Mapping[str, float], after: Mapping[str, float], seed: int) -> Lift | None:
    """The lift of ``after`` over ``before`` on the items that both have; None when there are none.

    Where every item is passed or failed (differences of -1, 0 and 1), the p-value is that of the exact McNemar test
    and the interval is Tango's score interval for paired proportions: both hold for a handful of items, and the
    interval has a width even when no item changed, which a bootstrap's has not. With partial credit the p-value is
    that of the sign-flip test, exact for few changed items, else with 10,000 flips drawn from ``seed``; the interval is
    Student's t. The exact tests are the more careful ones: where the p-value is above 0.05 the interval is made to
    reach zero, so that the two never say different things.
    """
    ids = [item_id for item_id in before if item_id in after]
    n = len(ids)
    if n == 0:
        return None
    differences = [_difference(after[item_id], before[item_id]) for item_id in ids]
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    if all(d in (-1, 0, 1) for d in differences):
        p_value = sign_test(wins, losses)
        low, high = _tango_interval(wins, losses, n)
    else:
        p_value = _sign_flip_test(differences, seed)
        low, high = _t_interval(differences)
    if p_value > 0.05:
        low, high = min(low, 0.0), max(high, 0.0)
    return Lift(
        n=n,
        before_mean=math.fsum(before[item_id] for item_id in ids) / n,
        after_mean=math.fsum(after[item_id] for item_id in ids) / n,
        lift=math.fsum(differences) / n,
        low=low,
        high=high,
        p_value=p_value,
        wins=wins,
        losses=losses,
    )


def _difference(after: float, before: float) -> float:
    difference = after - before
    return difference if abs(difference) > _ROUNDING else 0.0


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided p-value of rises being as likely as falls (for pass or fail: the exact McNemar test)."""
    changed = wins + losses
    ways = tail = 1
    for k in range(min(wins, losses)):  # each binomial from the one before: they have a digit an item
        ways = ways * (changed - k) // (k + 1)
        tail += ways
    return min(1.0, 2 * tail / (1 << changed))


def _tango_interval(wins: int, losses: int, n: int) -> tuple[float, float]:
    """Tango's (1998) score interval: all differences that the score test does not reject at 5 %."""
    return -_upper_limit(losses, wins, n), _upper_limit(wins, losses, n)


def _upper_limit(wins: int, losses: int, n: int) -> float:
    """The largest difference that is not rejected, by bisection: the statistic falls as the difference rises."""
    low, high = (wins - losses) / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _score_statistic(wins, losses, n, middle) >= -_Z:
            low = middle
        else:
            high = middle
    return high


def _score_statistic(wins: int, losses: int, n: int, delta: float) -> float:
    """How many standard errors the observed difference is above ``delta``, the errors being those under ``delta``."""
    # The most likely share of losses, given that the share of wins is larger by delta, solves a x² + b x + c = 0.
    a, b, c = 2 * n, -wins - losses + (2 * n - wins + losses) * delta, -losses * delta * (1 - delta)
    share = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * share + delta * (1 - delta))
    gap = wins - losses - n * delta
    if variance <= 0:
        return 0.0 if gap == 0 else math.copysign(math.inf, gap)
    return gap / math.sqrt(variance)


def _t_interval(differences: Sequence[float]) -> tuple[float, float]:
    n = len(differences)
    if n == 1:
        return -1.0, 1.0
    mean = math.fsum(differences) / n
    variance = math.fsum((d - mean) ** 2 for d in differences) / (n - 1)
    half = _t_quantile(n - 1) * math.sqrt(variance / n)
    return max(-1.0, mean - half), min(1.0, mean + half)


def _t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t distribution; beyond the table by its expansion around the normal one."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = _Z
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def _sign_flip_test(differences: Sequence[float], seed: int) -> float:
    """How often a sum at least as far from zero comes up when each difference is as likely to have the other sign."""
    sizes = [round(abs(d) / _UNIT) for d in differences if d]
    observed = abs(sum(round(d / _UNIT) for d in differences))
    total, count = sum(sizes), len(sizes)
    # Bit p of every size as one number with a bit an item: flipping all signs at once is then a bitwise and.
    planes = [
        int("".join("1" if size >> place & 1 else "0" for size in reversed(sizes)), 2)
        for place in range(max(sizes).bit_length())
    ]

    def reaches(signs: int) -> bool:
        positive = sum((signs & plane).bit_count() << place for place, plane in enumerate(planes))
        return abs(2 * positive - total) >= observed

    if count <= _EXACT_UP_TO:
        return sum(map(reaches, range(1 << count))) / (1 << count)
    draw = random.Random(seed).getrandbits
    # The observed signs are one of the patterns, so the p-value is never 0.
    return (sum(reaches(draw(count)) for _ in range(_FLIPS)) + 1) / (_FLIPS + 1)
