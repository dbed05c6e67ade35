from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt.gate.rules import Outcomes, Strict, gate_score
from skillopt.types import Failure, Outcome, Score

FAILED = Failure("timeout", "no answer")


def hard(*values: float | None) -> dict[str, Outcome | None]:
    """Items i0, i1, … with these pass values; None was not measured."""
    return {f"i{n}": None if value is None else Score(value, value) for n, value in enumerate(values)}


@pytest.mark.parametrize(
    ("candidate", "current", "best", "action", "new_best"),
    [
        ((1, 1, 0), (1, 0, 0), (1, 0, 0), "accept_new_best", True),
        ((1, 0, 0), (1, 0, 0), (1, 0, 0), "reject", False),
        ((0, 1, 0), (1, 0, 0), (1, 0, 0), "reject", False),
        ((0, 0, 0), (1, 0, 0), (1, 0, 0), "reject", False),
        ((1, 1, 0), (1, 0, 0), (1, 1, 0), "accept", False),
        ((1, 1, 0), (1, 0, 0), (1, 1, 1), "accept", False),
        ((1, 0, 0), (1, 0, 0), (0, 0, 0), "reject", False),
        ((), (), (), "reject", False),
    ],
)
def test_strict_decisions(
    candidate: tuple[float, ...], current: tuple[float, ...], best: tuple[float, ...], action: str, new_best: bool
) -> None:
    verdict = Strict().decide(hard(*candidate), hard(*current), hard(*best))
    assert (verdict.action, verdict.new_best, verdict.rule) == (action, new_best, "strict")


@pytest.mark.parametrize(
    ("candidate", "best", "new_best"),
    [((0, 0), (1, 0), False), ((1, 0), (1, 0), False), ((1, 1), (1, 0), True), ((None, None), (1, 0), False)],
)
def test_without_a_gate_everything_is_accepted(
    candidate: tuple[float | None, ...], best: tuple[float, ...], new_best: bool
) -> None:
    verdict = Strict(use_gate=False).decide(hard(*candidate), hard(1, 1), hard(*best))
    assert (verdict.action, verdict.new_best) == ("force_accept", new_best)


def test_a_verdict_tells_what_it_rests_on() -> None:
    verdict = Strict().decide(hard(1, 1, 0, 0, 1), hard(0, 0, 1, 0, 1), hard(0, 0, 0, 0, 0))
    assert (verdict.pairs, verdict.wins, verdict.losses, verdict.ties, verdict.excluded) == (5, 2, 1, 2, 0)
    assert (verdict.candidate_score, verdict.current_score, verdict.best_score) == (0.6, 0.4, 0.0)
    assert verdict.estimate == pytest.approx(0.2)
    assert verdict.metric == "hard"


def test_what_is_not_measured_counts_on_neither_side() -> None:
    candidate: Outcomes = {"a": Score(1, 1), "b": FAILED, "c": Score(0, 0), "e": Score(1, 1)}
    current: Outcomes = {"a": Score(0, 0), "b": Score(1, 1), "c": None, "d": Score(1, 1), "e": Score(1, 1)}
    verdict = Strict().decide(candidate, current, candidate)
    assert (verdict.pairs, verdict.excluded) == (2, 3)
    assert (verdict.candidate_score, verdict.current_score) == (1.0, 0.5)
    assert verdict.action == "accept"  # against itself the candidate wins nothing
    # Each comparison leaves out its own items.
    verdict = Strict().decide(hard(1, 0, 0), hard(0, 0, None), hard(None, 0, 0))
    assert (verdict.action, verdict.current_score, verdict.best_score) == ("accept", 0.0, 0.0)


def test_nothing_measured_decides_nothing() -> None:
    verdict = Strict().decide({"a": FAILED}, hard(1), {})
    assert (verdict.action, verdict.new_best, verdict.pairs, verdict.excluded) == ("reject", False, 0, 2)
    assert (verdict.candidate_score, verdict.current_score, verdict.best_score, verdict.estimate) == (None,) * 4


@pytest.mark.parametrize(
    ("metric", "weight", "score"),
    [("hard", 0.3, 0.2), ("soft", 0.3, 0.7), ("mixed", 0.0, 0.2), ("mixed", 1.0, 0.7), ("mixed", 0.5, 0.45)],
)
def test_gate_score(metric: str, weight: float, score: float) -> None:
    assert gate_score(0.2, 0.7, metric, weight) == pytest.approx(score, abs=1e-15)  # type: ignore[arg-type]


def test_gate_score_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="gate_metric='f1'"):
        gate_score(0, 0, "f1", 0.5)  # type: ignore[arg-type]
    for weight in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="gate_mixed_weight"):
            gate_score(0, 0, "mixed", weight)


@pytest.mark.parametrize(
    ("metric", "weight", "action"),
    [
        ("hard", 0.5, "reject"),
        ("soft", 0.5, "accept_new_best"),
        ("mixed", 0.0, "reject"),
        ("mixed", 1.0, "accept_new_best"),
        ("mixed", 0.9, "accept_new_best"),
        ("mixed", 0.5, "reject"),
        ("mixed", 0.1, "reject"),
    ],
)
def test_the_metric_decides(metric: str, weight: float, action: str) -> None:
    candidate: Outcomes = {"a": Score(0, 0.9), "b": Score(1, 1)}
    current: Outcomes = {"a": Score(1, 0.2), "b": Score(1, 0.7)}
    rule = Strict(metric=metric, weight=weight)  # type: ignore[arg-type]
    verdict = rule.decide(candidate, current, current)
    assert verdict.action == action
    if metric == "mixed" and weight == 0.5:  # a tie but for rounding
        assert verdict.estimate == pytest.approx(0)


def test_rounding_is_a_tie() -> None:
    candidate: Outcomes = {"a": Score(1, 0.1 + 0.2), "b": Score(1, 0.3)}
    current: Outcomes = {"a": Score(1, 0.3), "b": Score(1, 0.3)}
    verdict = Strict(metric="soft").decide(candidate, current, current)
    assert (verdict.action, verdict.wins, verdict.ties) == ("reject", 0, 2)
    close: Outcomes = {"a": Score(1, 0.3001), "b": Score(1, 0.3)}
    assert Strict(metric="soft").decide(close, current, current).action == "accept_new_best"


FRACTIONS = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 1.0])
OUTCOMES = st.one_of(st.none(), st.just(FAILED), st.builds(Score, st.sampled_from([0.0, 1.0]), FRACTIONS))
TABLES = st.dictionaries(st.sampled_from("abcdefgh"), OUTCOMES)
RULES = st.builds(Strict, st.sampled_from(["hard", "soft", "mixed"]), st.sampled_from([0.0, 0.3, 0.5, 1.0]))


@given(RULES, TABLES, TABLES, TABLES)
def test_a_verdict_agrees_with_itself(rule: Strict, candidate: Outcomes, current: Outcomes, best: Outcomes) -> None:
    verdict = rule.decide(candidate, current, best)
    assert verdict.wins + verdict.losses + verdict.ties == verdict.pairs
    assert verdict.pairs + verdict.excluded == len({*candidate, *current})
    assert verdict.new_best == (verdict.action == "accept_new_best")
    if verdict.action != "reject":
        assert verdict.estimate is not None
        assert verdict.estimate > 0
        assert verdict.wins > 0
    elif verdict.estimate is not None:
        assert verdict.estimate <= 1e-12
    turned = Strict(rule.metric, rule.weight, use_gate=False).decide(candidate, current, best)
    assert turned.action == "force_accept"
    if verdict.new_best:
        assert turned.new_best


@given(RULES, TABLES, TABLES, st.randoms(use_true_random=False))
def test_neither_order_nor_unmeasured_items_matter(
    rule: Strict, candidate: Outcomes, current: Outcomes, rng: object
) -> None:
    before = rule.decide(candidate, current, current)
    turned = dict(reversed(list(candidate.items())))
    assert rule.decide(turned, current, current) == before
    more = rule.decide({**candidate, "new": FAILED}, {**current, "new": Score(1, 1)}, current)
    assert (more.action, more.estimate, more.pairs) == (before.action, before.estimate, before.pairs)


@given(RULES, TABLES)
def test_a_skill_never_beats_itself(rule: Strict, outcomes: Outcomes) -> None:
    verdict = rule.decide(outcomes, outcomes, outcomes)
    assert (verdict.action, verdict.wins, verdict.losses) == ("reject", 0, 0)


@given(RULES, TABLES, TABLES)
def test_of_two_skills_at_most_one_beats_the_other(rule: Strict, one: Outcomes, other: Outcomes) -> None:
    there, back = rule.decide(one, other, other), rule.decide(other, one, one)
    assert "reject" in (there.action, back.action)
    assert (there.wins, there.losses, there.pairs) == (back.losses, back.wins, back.pairs)


# before all outcomes are there

COMPLETE = st.fixed_dictionaries(dict.fromkeys("abcdef", OUTCOMES))
KNOWN = st.sets(st.sampled_from("abcdef"))


@settings(max_examples=300)
@given(RULES, st.booleans(), COMPLETE, COMPLETE, COMPLETE, KNOWN, KNOWN)
def test_what_is_settled_is_what_is_decided(
    rule: Strict,
    use_gate: bool,
    candidate: Outcomes,
    current: Outcomes,
    best: Outcomes,
    known: set[str],
    known_of_current: set[str],
) -> None:
    """Whatever the rest will be."""
    rule = replace(rule, use_gate=use_gate)
    so_far = {name: candidate[name] for name in known}
    settled = rule.settled(so_far, {name: current[name] for name in known_of_current}, "abcdef")
    accepted = rule.decide(candidate, current, best).action != "reject"
    assert settled in (None, accepted)
    assert rule.settled(candidate, current, "abcdef") == accepted, "in the end it is settled"


@given(RULES, COMPLETE, COMPLETE, KNOWN)
def test_what_is_not_settled_can_still_go_both_ways(
    rule: Strict, candidate: Outcomes, current: Outcomes, known: set[str]
) -> None:
    so_far = {name: candidate[name] for name in known}
    if rule.settled(so_far, current, "abcdef") is None:
        worst, best = dict(so_far), dict(so_far)
        for name in set("abcdef") - known:
            old = current[name]
            if not isinstance(old, Score):
                continue
            value = rule._score(old)
            worst[name], best[name] = Score(0, 0) if value > 0 else None, Score(1, 1) if value < 1 else None
        actions = {rule.decide(each, current, current).action == "reject" for each in (worst, best)}
        assert actions == {True, False}


@pytest.mark.parametrize(
    ("candidate", "current", "settled"),
    [
        ((), (1, 1, 0), None),
        ((), (1, 1, 1), False),  # nothing to gain
        ((1,), (0, 1, 1), None),  # two to lose
        ((1,), (0, 0, 0), True),  # nothing to lose
        ((1, 1), (0, 0, 1), True),  # one to lose, two won
        ((0, 1), (1, 1, 0), False),  # a tie at best
        ((None, 1), (1, 0, 0), True),
        ((1,), (0, None, None), True),  # what the current skill lacks counts on neither side
        ((0,), (0, 0, 0), None),
    ],
)
def test_when_a_verdict_is_settled(
    candidate: tuple[float | None, ...], current: tuple[float | None, ...], settled: bool | None
) -> None:
    assert Strict().settled(hard(*candidate), hard(*current), ["i0", "i1", "i2"]) is settled
