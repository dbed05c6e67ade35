"""What a report shows of a run beside its steps: the final comparison, the items that changed, the charts."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.report.answers import Answers, answers_of
from skillopt.report.comparison import SEED, Arm, ArmResult, Flips, compare, flips
from skillopt.report.curves import Curves, curves
from skillopt.report.run import RunView, Split, Which
from skillopt.values import whole

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
    arms = [Arm(which, answers_under(view, which, split)) for which in WHICH]
    results = compare(arms, seed_of(view))
    filled = tuple(_told(view, split, which, result) for which, result in zip(WHICH, results, strict=True))
    measured = tuple(result for result in filled if result.hard is not None)
    return FinalComparison(split, measured) if measured else None


def read_flips(view: RunView, split: Split, before: Which = "seed", after: Which = "best") -> Flips | None:
    """The items that changed between two skills of a run; None when one of them has no rows."""
    old, new = answers_under(view, before, split), answers_under(view, after, split)
    return flips(old, new) if old.ids and new.ids else None


def curves_of(view: RunView) -> Curves:
    """The series of the run's charts."""
    baseline, n = view.seed_at_gate()
    return curves(view.rows, baseline, view.charges(), n, view.gate_metric)


def answers_under(view: RunView, which: Which, split: Split) -> Answers:
    """The answers of the pass in which a skill was measured; none where it was not."""
    name = view.pass_of(which, split)
    return view.answers(name) if name is not None else answers_of(())


def seed_of(view: RunView) -> int:
    """The run's seed, from which p-values draw."""
    seed = view.config.get("seed")
    return whole(seed) if isinstance(seed, int) else SEED


def _told(view: RunView, split: Split, which: Which, result: ArmResult) -> ArmResult:
    if result.hard is not None:
        return result
    told = view.measured(which, split)
    return ArmResult(which, told.n or 0, 0, told.hard, told.soft, None)
