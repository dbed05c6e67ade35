"""What a report shows of a run beside its steps: the final comparison, the items that changed, the charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillopt.report.comparison import SEED, Arm, ArmResult, Flips, compare, flips
from skillopt.report.curves import Curves, curves
from skillopt.report.run import RunView, Split, Which
from skillopt.report.values import whole

WHICH: tuple[Which, ...] = ("seed", "best", "final")


@dataclass(frozen=True, slots=True)
class FinalComparison:
    """The seed, the best and the last skill on a split, as far as they were measured there; each but the first is
    compared with the seed. An arm without rows in the folder has the means that the run wrote down and no lift."""

    split: Split
    arms: tuple[ArmResult, ...]


def arm_title(name: str) -> str:
    """What a page calls a skill: the seed is what the others are compared with. Pure."""
    return "seed (baseline)" if name == "seed" else name


def read_final(view: RunView, split: Split) -> FinalComparison | None:
    """The final comparison on the selection items (``val``) or the test items; None when nothing was measured there."""
    arms = [Arm(which, rows_of(view, which, split)) for which in WHICH]
    results = compare(arms, seed_of(view))
    filled = tuple(_told(view, split, which, result) for which, result in zip(WHICH, results, strict=True))
    measured = tuple(result for result in filled if result.hard is not None)
    return FinalComparison(split, measured) if measured else None


def read_flips(view: RunView, split: Split, before: Which = "seed", after: Which = "best") -> Flips | None:
    """The items that changed between two skills of a run; None when one of them has no rows."""
    old, new = rows_of(view, before, split), rows_of(view, after, split)
    return flips(old, new) if old and new else None


def curves_of(view: RunView) -> Curves:
    """The series of the run's charts."""
    baseline = view.measured("seed", "val")
    return curves(view.rows, baseline.hard, view.charges(), baseline.n)


def rows_of(view: RunView, which: Which, split: Split) -> tuple[Mapping[str, Any], ...]:
    """The rows of the pass in which a skill was measured."""
    name = view.pass_of(which, split)
    return view.results(name, 0, None).rows if name is not None else ()


def seed_of(view: RunView) -> int:
    """The run's seed, from which p-values draw."""
    return whole(view.config.get("seed")) or SEED


def _told(view: RunView, split: Split, which: Which, result: ArmResult) -> ArmResult:
    if result.hard is not None:
        return result
    told = view.measured(which, split)
    return ArmResult(which, told.n or 0, 0, told.hard, told.soft, None)
