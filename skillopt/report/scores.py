"""What a run says of the scores of its first, best and last skill, without a look at its items. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from skillopt.gate.rules import gate_score
from skillopt.report.nouns import Measured
from skillopt.types import fate_of
from skillopt.values import fraction, label, mapping, text, whole

Which = Literal["seed", "best", "final"]
Split = Literal["val", "test"]
Rows = Sequence[Mapping[str, Any]]

BASELINE_PASS = "selection_eval_baseline"
TEST_PASSES: Mapping[Which, str] = {"seed": "test_eval_baseline", "best": "test_eval", "final": "test_eval_final"}
_TEST_KEYS: Mapping[Which, str] = {"seed": "baseline_test", "best": "test", "final": "final_test"}
_ORIGIN = re.compile(r"step_(\d{1,9})")
_STEP_PASS = re.compile(r"steps/step_(\d{1,9})/selection_eval")


@dataclass(frozen=True, slots=True)
class GateMetric:
    """The score that a run's gate compares: ``hard``, ``soft``, or ``mixed`` with the ``weight`` of the soft one."""

    name: str = "hard"
    weight: float = 0.5

    @property
    def words(self) -> str:
        """What a chart calls such a score."""
        return {"hard": "Accuracy (hard score)", "soft": "Soft score", "mixed": "Mixed score"}.get(self.name, "Score")

    def score(self, hard: float | None, soft: float | None) -> float | None:
        """A hard and a soft mean as the gate sees them; None where it cannot."""
        if self.name in ("hard", "soft"):
            return hard if self.name == "hard" else soft
        if self.name != "mixed" or hard is None or soft is None or not 0 <= self.weight <= 1:
            return None
        return gate_score(hard, soft, "mixed", self.weight)

    def of_rollouts(self, row: Mapping[str, Any]) -> float | None:
        """The score of a step's training rollouts, from its row of history."""
        hard, soft = (row.get(f"train_{kind}", row.get(f"rollout_{kind}")) for kind in ("hard", "soft"))
        return self.score(fraction(hard), fraction(soft))

    def of_candidate(self, row: Mapping[str, Any]) -> float | None:
        """The score of a step's candidate on the selection items, from its row of history."""
        hard, soft = (row.get(f"val_{kind}", row.get(f"selection_{kind}")) for kind in ("hard", "soft"))
        own = self.score(fraction(hard), fraction(soft))
        return fraction(row.get("candidate_gate_score")) if own is None else own


HARD = GateMetric()


def metric_of(config: Mapping[str, Any]) -> GateMetric:
    """The gate's metric by a run's configuration; ``unknown`` for another name, in which nothing can be scored."""
    name, weight = text(config.get("gate_metric")) or "hard", fraction(config.get("gate_mixed_weight"))
    return GateMetric(name if name in ("hard", "soft", "mixed") else "unknown", 0.5 if weight is None else weight)


def origin_of(which: Which, summary: Mapping[str, Any], pointers: Mapping[str, Any], rows: Rows) -> str:
    """Where the best or the last skill comes from: ``initial_skill``, ``step_0003``, ``slow_update_epoch_02`` …"""
    key = "best_origin" if which == "best" else "current_origin"
    sources = (pointers, summary, rows[-1] if rows else {})
    found = next((label(source[key]) for source in sources if source.get(key)), "initial_skill")
    return "initial_skill" if which == "seed" else found


def selection_pass(origin: str, rows: Rows = ()) -> str:
    """The pass in which the skill of an origin was measured on the selection items. The empty block of epoch 1 leaves
    the score of the skill before it."""
    if origin.startswith("slow_update_epoch_"):
        return f"slow_update/{origin.removeprefix('slow_update_')}/selection_eval"
    if origin.startswith("slow_update_placeholder"):
        accepted = [whole(row.get("step")) for row in rows if fate_of(str(row.get("action"))) == "accepted"]
        origin = f"step_{accepted[-1]:04d}" if accepted else "initial_skill"
    return f"steps/{origin}/selection_eval" if _ORIGIN.fullmatch(origin) else BASELINE_PASS


def told_test(which: Which, summary: Mapping[str, Any]) -> Measured:
    """The scores on the test items. ``n`` counts items that could not be measured, too."""
    key = _TEST_KEYS[which]
    hard, soft = fraction(summary.get(f"{key}_hard")), fraction(summary.get(f"{key}_soft"))
    return Measured(hard, soft, whole(summary.get("test_n")) or None) if hard is not None else Measured()


def told_selection(
    which: Which,
    summary: Mapping[str, Any],
    pointers: Mapping[str, Any],
    rows: Rows,
    *,
    metric: str,
    stale: bool,
) -> Measured:
    """The scores on the selection items.

    ``metric`` is the gate's: the scores that a run keeps of its best and its last skill are in it. ``stale`` says that
    a run keeps the score of another text for a skill that was never measured, as the published implementation does.
    """
    name = selection_pass(origin_of(which, summary, pointers, rows), rows)
    step = _STEP_PASS.fullmatch(name)
    found: list[tuple[Any, Any]] = []
    if which == "final":
        found.append((summary.get("final_selection_hard"), summary.get("final_selection_soft")))
    if step:
        row = next((row for row in rows if row.get("step") == int(step[1])), {})
        found.append((row.get("val_hard", row.get("selection_hard")), row.get("val_soft", row.get("selection_soft"))))
    elif name == BASELINE_PASS:
        gate = mapping(rows[0].get("gate")) if rows else {}
        found.append((summary.get("baseline_selection_hard"), None))
        found.append((gate.get("current_score") if metric == "hard" else None, None))
    if metric == "hard" and (which == "best" or not stale):
        found.append((pointers.get("best_score" if which == "best" else "current_score"), None))
    scores = ((fraction(hard), fraction(soft)) for hard, soft in found)
    hard, soft = next(((hard, soft) for hard, soft in scores if hard is not None), (None, None))
    return Measured(hard, soft, whole(summary.get("selection_n")) or None) if hard is not None else Measured()
