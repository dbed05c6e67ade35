"""Longitudinal pairs, the slow update and the meta skill."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fakes.scripted import ScriptedModel, rollout

from skillopt.models.errors import ModelError, StopRequested
from skillopt.optimizer.context import Settings
from skillopt.optimizer.meta_skill import MetaSkill, meta_skill
from skillopt.optimizer.pairs import PairPolicy, comparison_text, pair_up
from skillopt.optimizer.slow_update import SlowUpdate, slow_update
from skillopt.skill import Skill

OLD = Skill("# Old\n")
NEW = Skill("# New\n\n<!-- SLOW_UPDATE_START -->\n- old guidance\n<!-- SLOW_UPDATE_END -->\n")
# item: before → now
HARDS = {1: (1.0, 1.0), 2: (1.0, 0.0), 3: (0.0, 1.0), 4: (0.0, 0.0), 5: (0.3, 0.0), 6: (None, 1.0), 7: (0.0, None)}
PREV = [rollout(n, before, answer=f"was {n}") for n, (before, _) in HARDS.items()]
CURR = [rollout(n, now, answer=f"is {n}") for n, (_, now) in HARDS.items()]
PAIRING = pair_up([*PREV, rollout(8)], CURR)


def slow(script: Any, **settings: Any) -> tuple[SlowUpdate, ScriptedModel]:
    model = ScriptedModel(script)
    return asyncio.run(slow_update(model, Settings(**settings), OLD, NEW, PAIRING)), model


def meta(script: Any, memory: str = "", **settings: Any) -> tuple[MetaSkill, ScriptedModel]:
    model = ScriptedModel(script)
    return asyncio.run(meta_skill(model, Settings(**settings), OLD, NEW, memory, PAIRING)), model


def test_categories_in_item_order_and_the_unmeasured_left_out() -> None:
    assert [(pair.curr.item.id, pair.category) for pair in PAIRING.pairs] == [
        ("item-1", "stable_success"),
        ("item-2", "regressed"),
        ("item-3", "improved"),
        ("item-4", "persistent_fail"),
        ("item-5", "regressed"),
    ]
    assert PAIRING.excluded == 3
    before, now = PAIRING.means()
    assert (before, now) == (pytest.approx(2.3 / 5), pytest.approx(2 / 5))
    assert pair_up([], []).means() == (None, None)


@pytest.mark.parametrize(
    ("policy", "ids"),
    [("mixed", [1, 2, 3, 4, 5]), ("changed", [2, 3, 5]), ("unchanged", [1, 4])],
)
def test_policies(policy: PairPolicy, ids: list[int]) -> None:
    assert [pair.curr.item.id for pair in PAIRING.chosen(policy).pairs] == [f"item-{n}" for n in ids]
    assert PAIRING.chosen(policy).excluded == 3


def test_rows_of_the_file() -> None:
    assert PAIRING.rows()[1] == {
        "id": "item-2",
        "task": "question 2?",
        "category": "regressed",
        "prev": {"hard": 1, "soft": 1.0, "predicted_answer": "was 2", "fail_reason": ""},
        "curr": {"hard": 0, "soft": 0.0, "predicted_answer": "is 2", "fail_reason": "wrong answer"},
    }


def test_what_got_worse_is_shown_first() -> None:
    text = comparison_text(PAIRING, each=0, total=0).text
    order = [text.index(f"question {n}?") for n in (2, 5, 4, 3, 1)]
    assert order == sorted(order)
    assert "- regressed: 2" in text
    assert "not measured on both sides: 3" in text
    assert "before, answer: was 2" in text
    assert "now, answer: is 2" in text
    assert "conversation now" not in text[text.index("question 1?") :], "a stable success shows no conversation"


def test_the_comparison_is_trimmed_to_the_prompt_s_budget() -> None:
    long = [rollout(n, 0.0, user_prompt="word " * 5000) for n in range(4)]
    pairing = pair_up(long, long)
    model = ScriptedModel([{"slow_update_content": "- x"}])
    got = asyncio.run(slow_update(model, Settings(max_prompt_tokens=2500), OLD, NEW, pairing))
    assert got.trimmed == 4
    assert got.tokens_left_out > 10_000
    assert len(model.user()) < 4 * 2600
    assert all(f"question {n}?" in model.user() for n in range(4))


def test_slow_update() -> None:
    got, model = slow([{"reasoning": "r", "slow_update_content": "\n- new guidance\n"}])
    assert (got.content, got.reasoning, got.error) == ("- new guidance", "r", None)
    assert model.stages == ["slow_update"]
    assert model.requests[0].max_tokens == 16_384
    assert "## Previous Guidance\n- old guidance" in model.user()
    assert "# Old" in model.user()


@pytest.mark.parametrize("content", ["", "  \n", None])
def test_an_empty_slow_update_is_no_content(content: Any) -> None:
    got, _ = slow([{"slow_update_content": content}])
    assert (got.content, got.error) == (None, None)


def test_a_failed_slow_update_is_an_error_and_no_content() -> None:
    got, _ = slow([ModelError("refused", "no")])
    assert got.content is None
    assert got.error is not None
    assert got.error.kind == "refused"
    got, model = slow([{"reasoning": "no key"}] * 2)
    assert got.error is not None
    assert got.error.kind == "invalid_output"
    assert len(model.requests) == 2


@pytest.mark.parametrize("ask", [slow, meta])
@pytest.mark.parametrize("error", [ModelError("auth", "bad key"), StopRequested("budget")])
def test_what_ends_a_run_is_raised(ask: Any, error: Exception) -> None:
    with pytest.raises(type(error)):
        ask([error])


def test_meta_skill_replaces_the_memory() -> None:
    got, model = meta([{"reasoning": "r", "meta_skill_content": "- advice"}], "old advice")
    assert (got.content, got.memory, got.reasoning) == ("- advice", "- advice", "r")
    assert model.stages == ["meta_skill"]
    assert "## Optimizer Meta Skill\nold advice" in model.user()


@pytest.mark.parametrize("script", [[{"meta_skill_content": " "}], [ModelError("timeout", "slow")]])
def test_the_last_memory_is_never_lost(script: Any) -> None:
    got, _ = meta(script, "old advice")
    assert (got.content, got.memory) == (None, "old advice")


def test_compact_calls_are_small_and_ask_for_one_key() -> None:
    for got, model in (
        slow([{"slow_update_content": "- x"}], style="compact"),
        meta([{"meta_skill_content": "- x"}], style="compact"),
    ):
        assert got.content == "- x"
        request = model.requests[0]
        assert request.max_tokens == 512
        assert '"reasoning"' not in model.system()
