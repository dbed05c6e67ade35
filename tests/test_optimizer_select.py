"""Ranking to the budget, and the autonomous learning rate."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from fakes.scripted import ScriptedModel, no_calls
from hypothesis import given
from hypothesis import strategies as st

from skillopt.models.errors import ModelError, StopRequested
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.items import Candidate, EditItem, Patch, Suggestion
from skillopt.optimizer.select import (
    LrDecision,
    RankingReply,
    Selection,
    decide_learning_rate,
    render_pool,
    select,
    valid_indices,
)
from skillopt.skill import Skill

CONTEXT = OptimizerContext(Skill("# Skill\n"), previous_steps="- Step 1 ended with reject.")
MERGED = Patch("m", tuple(EditItem(op="append", content=f"- rule {n}", support_count=n) for n in range(4)))


def choose(script: Any, budget: int | None, merged: Patch = MERGED, **settings: Any) -> tuple[Selection, ScriptedModel]:
    model = ScriptedModel(script)
    return asyncio.run(select(model, CONTEXT, Settings(**settings), merged, budget)), model


def rate(script: Any, merged: Patch = MERGED) -> LrDecision:
    model = ScriptedModel(script)
    return asyncio.run(
        decide_learning_rate(model, CONTEXT, Settings(), merged, rollout_n=40, rollout_hard=0.5, rollout_soft=0.25)
    )


@pytest.mark.parametrize("budget", [4, 9, None])
def test_no_call_when_nothing_has_to_be_chosen(budget: int | None) -> None:
    chosen, _ = choose(no_calls, budget)
    assert chosen == Selection(MERGED)
    assert "ranking_details" not in chosen.to_dict("patch")


def test_budget_zero_selects_nothing_without_a_call() -> None:
    chosen, _ = choose(no_calls, 0)
    assert (chosen.patch.items, chosen.indices, chosen.fallback) == ((), (), None)


def test_a_negative_budget_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="negative"):
        choose(no_calls, -1)


def test_ranked_edits_file() -> None:
    chosen, model = choose([{"reasoning": "k", "selected_indices": [2, 0]}], 3)
    assert [item.to_dict()["content"] for item in chosen.patch.items] == ["- rule 2", "- rule 0"]
    content = chosen.to_dict("patch")
    assert content["ranking_details"] == {"reasoning": "k", "selected_indices": [2, 0]}
    assert content["reasoning"] == "m [note: selected 2/4]"
    assert model.stages == ["ranking"]
    assert "budget=3" in model.user()
    assert "## Previous Steps\n- Step 1" in model.user()


@pytest.mark.parametrize(
    ("raw", "budget", "expected"),
    [
        ([3, 1, 0], 2, [3, 1]),
        ([3, 3, 1], 3, [3, 1]),
        ([True, False, 2], 3, [2]),
        (["1", " 2 ", 3.0], 3, [1, 2, 3]),
        ([9, -1, 4, 0], 3, [0]),
        ([None, "x", {}, [1], 1.5, 1], 3, [1]),
        ([1], 3, [1]),
    ],
)
def test_which_indices_count(raw: list[Any], budget: int, expected: list[int]) -> None:
    chosen, _ = choose([{"selected_indices": raw}], budget)
    assert chosen.indices == tuple(expected)
    assert chosen.fallback is None


@pytest.mark.parametrize("raw", [None, [], [True], [17], ["first"]])
def test_no_valid_index_keeps_the_first_and_says_so(raw: Any) -> None:
    chosen, _ = choose([{"selected_indices": raw}], 2)
    assert chosen.patch.items == MERGED.items[:2]
    assert chosen.fallback is not None
    assert (chosen.fallback.stage, chosen.fallback.kind) == ("ranking", "invalid_output")


@pytest.mark.parametrize("kind", ["refused", "provider", "context_overflow"])
def test_a_failed_ranking_keeps_the_first(kind: Any) -> None:
    chosen, _ = choose([ModelError(kind, "no")], 2)
    assert chosen.patch.items == MERGED.items[:2]
    assert chosen.fallback is not None
    assert chosen.fallback.kind == kind


@pytest.mark.parametrize("error", [ModelError("auth", "bad key"), StopRequested("budget")])
def test_what_ends_a_run_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        choose([error], 2)
    with pytest.raises(type(error)):
        rate([error])


@given(st.lists(st.integers(-5, 12), max_size=12), st.integers(0, 9), st.integers(0, 9))
def test_valid_indices(indices: list[int], n_items: int, budget: int) -> None:
    got = valid_indices(indices, n_items, budget)
    assert len(got) == len(set(got)) <= budget
    assert all(0 <= index < n_items for index in got)


@given(st.lists(st.none() | st.booleans() | st.floats() | st.text(max_size=4) | st.integers(), max_size=6))
def test_any_list_of_indices_is_read(raw: list[Any]) -> None:
    indices = RankingReply.model_validate({"selected_indices": raw}).selected_indices
    assert not any(isinstance(index, bool) for index in indices)


def test_only_entries_open_a_line_with_an_index() -> None:
    items = (
        EditItem(op="replace", target="[7] old\n[8] older", content="[0] new\n## Heading\n[1] x", support_count=3),
        Suggestion(type="clarify", title="t", motivation="m", instruction="[9] line\n[3] line"),
        Candidate(title="c", change_summary=["[2] a"], new_skill="# S\n[5] x"),
    )
    pool = render_pool(items)
    assert re.findall(r"(?m)^\[(\d+)\]", pool) == ["0", "1", "2"]
    assert not re.search(r"(?m)^#", pool)
    assert pool.startswith("[0] op=replace support=3 source=unknown\n")


@pytest.mark.parametrize(
    ("raw", "applied", "kept"),
    [(2, 2, 2), (9, 4, 9), (-3, 0, 0), ("about 3 edits", 3, 3), ("-2", 0, 0), (2.0, 2, 2), (0, 0, 0)],
)
def test_learning_rate_is_read_and_clamped(raw: Any, applied: int, kept: int) -> None:
    decision = rate([{"learning_rate": raw, "reasoning": "r", "confidence": "low", "risk_notes": "one"}])
    content = decision.to_dict()
    assert (content["learning_rate"], content["raw_learning_rate"]) == (applied, kept)
    assert content["clamped"] == (applied != kept)
    assert content["available_update_items"] == 4
    assert (content["fallback"], content["risk_notes"], content["confidence"]) == (False, ["one"], "low")
    assert "error" not in content
    assert '"learning_rate"' in content["raw_response"]


@pytest.mark.parametrize(
    "script", [[ModelError("provider", "down")], [{"learning_rate": True}] * 2, [{"learning_rate": "few"}] * 2]
)
def test_an_undecided_learning_rate_is_zero(script: Any) -> None:
    content = rate(script).to_dict()
    assert (content["learning_rate"], content["raw_learning_rate"], content["fallback"]) == (0, None, True)
    assert content["error"]


def test_no_items_no_question() -> None:
    assert rate(no_calls, Patch()).learning_rate == 0
