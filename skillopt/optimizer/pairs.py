"""Longitudinal pairs: the same items under the skill of the last epoch and under today's. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from skillopt.optimizer.minibatch import is_failure
from skillopt.optimizer.trajectory import (
    Block,
    Fitted,
    conversation,
    fit_blocks,
    outcome_fields,
    question_of,
    trim_middle,
)
from skillopt.types import Rollout

Category = Literal["regressed", "persistent_fail", "improved", "stable_success"]
PairPolicy = Literal["mixed", "changed", "unchanged"]

CATEGORIES: tuple[Category, ...] = ("regressed", "persistent_fail", "improved", "stable_success")
"""In the order in which they matter, and are shown."""
_POLICY: dict[PairPolicy, frozenset[Category]] = {
    "mixed": frozenset(CATEGORIES),
    "changed": frozenset({"improved", "regressed"}),
    "unchanged": frozenset({"persistent_fail", "stable_success"}),
}
_TITLES: dict[Category, str] = {
    "regressed": "Regressed (passed before, fails now)",
    "persistent_fail": "Persistent failures (failed before, fails now)",
    "improved": "Improved (failed before, passes now)",
    "stable_success": "Stable successes (passed before, passes now)",
}
_ROW_TASK_TOKENS = 500


@dataclass(frozen=True, slots=True)
class Pair:
    """One item's two rollouts, both measured."""

    prev: Rollout
    curr: Rollout

    @property
    def category(self) -> Category:
        before, now = not is_failure(self.prev), not is_failure(self.curr)
        if before and now:
            return "stable_success"
        if before:
            return "regressed"
        return "improved" if now else "persistent_fail"

    def row(self) -> dict[str, Any]:
        """A row of ``comparison_pairs.json``."""
        task, _ = trim_middle(question_of(self.curr), _ROW_TASK_TOKENS)
        return {
            "id": self.curr.item.id,
            "task": task,
            "category": self.category,
            "prev": _side(self.prev),
            "curr": _side(self.curr),
        }


@dataclass(frozen=True, slots=True)
class Pairing:
    """Pairs in item order. ``excluded`` items had a side that is missing or could not be measured."""

    pairs: tuple[Pair, ...]
    excluded: int = 0

    def chosen(self, policy: PairPolicy) -> Pairing:
        """Only the pairs that ``policy`` shows to the optimizer."""
        return Pairing(tuple(pair for pair in self.pairs if pair.category in _POLICY[policy]), self.excluded)

    def counts(self) -> dict[Category, int]:
        found = Counter(pair.category for pair in self.pairs)
        return {category: found[category] for category in CATEGORIES}

    def rows(self) -> list[dict[str, Any]]:
        """The content of ``comparison_pairs.json``."""
        return [pair.row() for pair in self.pairs]

    def means(self) -> tuple[float | None, float | None]:
        """Mean hard score before and now over the pairs; None without pairs."""
        if not self.pairs:
            return None, None
        return _mean_hard([pair.prev for pair in self.pairs]), _mean_hard([pair.curr for pair in self.pairs])


def pair_up(prev: Sequence[Rollout], curr: Sequence[Rollout]) -> Pairing:
    """Pairs by item id, in the order of ``curr``. An unmeasured side is no failure: such an item is only counted."""
    before = {rollout.item.id: rollout for rollout in prev}
    now = {rollout.item.id: rollout for rollout in curr}
    ids = list(dict.fromkeys([*now, *before]))
    both = [Pair(before[id_], now[id_]) for id_ in ids if id_ in before and id_ in now]
    pairs = tuple(pair for pair in both if pair.prev.score is not None and pair.curr.score is not None)
    return Pairing(pairs, len(ids) - len(pairs))


def comparison_text(pairing: Pairing, *, each: int, total: int) -> Fitted:
    """The pairs for a prompt, what got worse first; ``each`` and ``total`` bound the tokens as in ``fit_blocks``.

    Stable successes show no conversation: they say what to keep, not what to mend.
    """
    counts = pairing.counts()
    summary = [f"- {category}: {count}" for category, count in counts.items()]
    if pairing.excluded:
        summary.append(f"- left out, not measured on both sides: {pairing.excluded}")
    ordered = [pair for category in CATEGORIES for pair in pairing.pairs if pair.category == category]
    fitted = fit_blocks([_block(pair) for pair in ordered], each=each, total=total)
    head = f"{len(pairing.pairs)} items, answered once with either skill.\n" + "\n".join(summary)
    return Fitted(f"{head}\n\n{fitted.text}".rstrip(), fitted.trimmed, fitted.tokens_left_out)


def _block(pair: Pair) -> Block:
    category = pair.category
    fields = [f"question: {question_of(pair.curr)}"]
    fields += [f"before, {field}" for field in outcome_fields(pair.prev)]
    fields += [f"now, {field}" for field in outcome_fields(pair.curr)]
    parts = []
    if category != "stable_success":
        prompt = pair.curr.user_prompt.strip()
        parts = [
            ("task prompt", "" if prompt == question_of(pair.curr) else prompt),
            ("conversation before", conversation(pair.prev)),
            ("conversation now", conversation(pair.curr)),
        ]
    rest = "\n".join(f"{title}:\n{body}" for title, body in parts if body)
    return Block(f"{_TITLES[category]} (id: {pair.curr.item.id})", tuple(fields), rest)


def _side(rollout: Rollout) -> dict[str, Any]:
    score = rollout.score
    return {
        "hard": 0 if is_failure(rollout) else 1,
        "soft": score.soft if score else None,
        "predicted_answer": rollout.answer,
        "fail_reason": score.reason if score else "",
    }


def _mean_hard(rollouts: Sequence[Rollout]) -> float:
    return math.fsum(rollout.score.hard for rollout in rollouts if rollout.score) / len(rollouts)
