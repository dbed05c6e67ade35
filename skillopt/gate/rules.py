"""Whether a candidate takes the place of the current skill. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from skillopt.types import Outcome, Score

Metric = Literal["hard", "soft", "mixed"]
GateAction = Literal["accept_new_best", "accept", "reject", "force_accept"]
Outcomes = Mapping[str, Outcome | None]
"""Item id to outcome; a failure, None and an id that is not there all mean: not measured."""

# Scores are sums of fractions: a difference below this is rounding, and a tie.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Verdict:
    """A gate's decision and what it rests on.

    ``candidate_score`` and ``current_score`` are gate scores over the same ``pairs`` items, the ones measured under
    both skills; ``estimate`` is their difference. On ``wins`` of them the candidate is better, on ``losses`` worse, on
    ``ties`` equal; ``excluded`` items lack a measurement on at least one side. ``best_score`` is taken over the items
    measured under candidate and best. Scores are None when no item is measured on both sides. ``new_best`` says that
    the candidate is now the best skill as well.
    """

    action: GateAction
    new_best: bool
    rule: str
    metric: Metric
    candidate_score: float | None
    current_score: float | None
    best_score: float | None
    pairs: int
    wins: int
    losses: int
    ties: int
    excluded: int
    estimate: float | None


class GateRule(Protocol):
    """A way to decide from per-item outcomes of three skills on the selection items."""

    def decide(self, candidate: Outcomes, current: Outcomes, best: Outcomes) -> Verdict:
        """Judge ``candidate``, which training would go on from in place of ``current``. Pure."""

    def settled(self, candidate: Outcomes, current: Outcomes, items: Iterable[str]) -> bool | None:
        """Whether training will go on from ``candidate``, from outcomes that are not complete yet. Pure.

        None until nothing can change it any more. ``items`` are the ids that both sides are measured on; one that a
        side does not name is still to come.
        """


def gate_score(hard: float, soft: float, metric: Metric, weight: float) -> float:
    """The score that a gate compares: ``hard``, ``soft``, or ``(1 - weight) · hard + weight · soft`` for ``mixed``.

    Raises ``ValueError`` for another metric, and for a weight outside [0, 1] where it counts.
    """
    if metric == "hard":
        return hard
    if metric == "soft":
        return soft
    if metric != "mixed":
        raise ValueError(f"evaluation.gate_metric={metric!r}: use hard, soft or mixed")
    if not 0 <= weight <= 1:
        raise ValueError(f"evaluation.gate_mixed_weight={weight}: needs to be between 0 and 1")
    return (1 - weight) * hard + weight * soft


@dataclass(frozen=True, slots=True)
class Strict:
    """The published rule: what scores strictly higher than the current skill is accepted, a tie is not.

    An accepted candidate that also scores strictly higher than the best skill is the new best. Each of the two
    comparisons is over the items measured under both skills; with none there is nothing to win. ``use_gate=False``
    accepts every candidate (``force_accept``) and makes it the best only when it scores strictly higher than the best.
    """

    metric: Metric = "hard"
    weight: float = 0.5
    use_gate: bool = True

    def decide(self, candidate: Outcomes, current: Outcomes, best: Outcomes) -> Verdict:
        to_current, to_best = _pairs(candidate, current), _pairs(candidate, best)
        candidate_score, current_score = self._scores(to_current)
        higher = _higher(candidate_score, current_score)
        score_beside_best, best_score = self._scores(to_best)
        higher_than_best = _higher(score_beside_best, best_score)
        action: GateAction = "reject"
        if not self.use_gate:
            action = "force_accept"
        elif higher:
            action = "accept_new_best" if higher_than_best else "accept"
        wins = sum(_higher(self._score(new), self._score(old)) for new, old in to_current)
        losses = sum(_higher(self._score(old), self._score(new)) for new, old in to_current)
        return Verdict(
            action=action,
            new_best=action != "reject" and higher_than_best,
            rule="strict",
            metric=self.metric,
            candidate_score=candidate_score,
            current_score=current_score,
            best_score=best_score,
            pairs=len(to_current),
            wins=wins,
            losses=losses,
            ties=len(to_current) - wins - losses,
            excluded=len(candidate.keys() | current.keys()) - len(to_current),
            estimate=None if candidate_score is None or current_score is None else candidate_score - current_score,
        )

    def settled(self, candidate: Outcomes, current: Outcomes, items: Iterable[str]) -> bool | None:
        """The sum of the differences decides. What is still to come may get any score in [0, 1], or none: then the item
        leaves the pairing and adds nothing."""
        if not self.use_gate:
            return True
        least, most = [], []
        for item_id in items:
            new, old = self._range(candidate, item_id), self._range(current, item_id)
            if new is None or old is None:
                continue
            both_known = item_id in candidate and item_id in current
            least.append(new[0] - old[1] if both_known else min(0.0, new[0] - old[1]))
            most.append(new[1] - old[0] if both_known else max(0.0, new[1] - old[0]))
        # Means are compared, and only beyond rounding: what is near that bound is left open.
        if math.fsum(most) < _ROUNDING / 2:
            return False
        return True if math.fsum(least) > 2 * _ROUNDING * len(least) else None

    def _range(self, outcomes: Outcomes, item_id: str) -> tuple[float, float] | None:
        """The scores that an item can have; None when it has none for good."""
        if item_id not in outcomes:
            return 0.0, 1.0
        score = outcomes[item_id]
        if not isinstance(score, Score):
            return None
        return self._score(score), self._score(score)

    def _score(self, score: Score) -> float:
        return gate_score(score.hard, score.soft, self.metric, self.weight)

    def _scores(self, pairs: list[tuple[Score, Score]]) -> tuple[float | None, float | None]:
        """The gate scores of both sides of the pairs: of the means of hard and soft, as published."""
        new, old = (self._score_of_means([pair[side] for pair in pairs]) for side in (0, 1))
        return new, old

    def _score_of_means(self, scores: list[Score]) -> float | None:
        if not scores:
            return None
        hard = math.fsum(score.hard for score in scores) / len(scores)
        soft = math.fsum(score.soft for score in scores) / len(scores)
        return gate_score(hard, soft, self.metric, self.weight)


def _pairs(candidate: Outcomes, other: Outcomes) -> list[tuple[Score, Score]]:
    """The scores of the items that were measured on both sides, the candidate's first."""
    pairs = []
    for item_id, new in candidate.items():
        old = other.get(item_id)
        if isinstance(new, Score) and isinstance(old, Score):
            pairs.append((new, old))
    return pairs


def _higher(score: float | None, other: float | None) -> bool:
    return score is not None and other is not None and score - other > _ROUNDING
