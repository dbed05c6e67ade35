"""The compact contract of small models, through the same stages."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from fakes.scripted import ScriptedModel, no_calls, rollout

from skillopt.optimizer.aggregate import aggregate
from skillopt.optimizer.compact import Rule, merge, reply_schema, rule_line
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.items import EditItem, Patch
from skillopt.optimizer.minibatch import Minibatch
from skillopt.optimizer.reflect import Reflection, analyse
from skillopt.optimizer.select import select
from skillopt.skill import Skill
from skillopt.types import Score

SETTINGS = Settings(style="compact", learning_rate=2)
CONTEXT = OptimizerContext(Skill("# Skill\n\n- Write dates as digits.\n"), "word " * 900, "- Step 1 ended with reject.")
BATCH = Minibatch("failure", 0, (rollout(1, answer="5 March"), rollout(2, user_prompt="passage " * 3000)))


def reflect(script: Any, settings: Settings = SETTINGS) -> tuple[Reflection, ScriptedModel]:
    model = ScriptedModel(script)
    return asyncio.run(analyse(model, CONTEXT, settings, BATCH)), model


@pytest.mark.parametrize(
    ("rule", "wrong", "right", "line"),
    [
        ("Write years only", "May 1990", "1990", "- Write years only. Wrong: May 1990. Right: 1990."),
        ("- Write years only.", "", "", "- Write years only."),
        ("Write years", "1990", "1990", "- Write years."),
        ("- **Years** only!", "", "", "- **Years** only!"),
        ("  two\nlines ", "", "x", "- two lines."),
        ("", "a", "b", "- Wrong: a. Right: b."),
        ("", "", "b", ""),
    ],
)
def test_a_rule_becomes_one_line(rule: str, wrong: str, right: str, line: str) -> None:
    assert rule_line(Rule(rule=rule, wrong=wrong, right=right)) == line


def test_a_small_reply_becomes_a_patch_like_any_other() -> None:
    rules = [{"rule": "Write years only", "wrong": "May 1990", "right": "1990"}, {"rule": "", "wrong": "", "right": ""}]
    got, _ = reflect([{"rules": rules}])
    assert got.patch is not None
    assert [item.to_dict() for item in got.patch.items] == [
        {
            "op": "append",
            "content": "- Write years only. Wrong: May 1990. Right: 1990.",
            "support_count": 2,
            "source_type": "failure",
        }
    ]
    assert got.raw is not None
    assert got.raw["source_type"] == "failure"
    assert got.raw["patch"]["edits"][0]["op"] == "append"
    assert [p.description for p in got.failure_summary] == ["Write years only"]


def test_the_prompt_is_short_and_holds_what_matters() -> None:
    _, model = reflect([{"rules": []}])
    request = model.requests[0]
    assert request.max_tokens == 512
    assert sum(len(message.content) for message in request.messages) < 5000
    for part in ("question 1?", "5 March", "expected gold 2", "budget=2", "- Write dates as digits."):
        assert part in model.user()
    assert "tokens left out" in model.user(), "the memory is cut visibly"


def test_rules_beyond_the_budget_are_cut() -> None:
    got, _ = reflect([{"rules": [{"rule": f"Rule {n}"} for n in range(4)]}])
    assert got.patch is not None
    assert (len(got.patch.items), got.over_budget) == (2, 2)


def patch(*contents: str) -> Patch:
    return Patch("", tuple(EditItem(op="append", content=content, source_type="failure") for content in contents))


def test_merge_and_ranking_need_no_call() -> None:
    example = "- Write years only. Wrong: May 1990. Right: 1990."
    patches = [
        patch(example, "- Be short."),
        patch("- write  YEARS only. Wrong: 2. Right: 1"),
        patch("- Write dates as digits."),
    ]
    merged = asyncio.run(aggregate(ScriptedModel(no_calls), CONTEXT, SETTINGS, patches, []))
    assert [(item.to_dict()["content"], item.support_count) for item in merged.patch.items] == [
        (example + " Wrong: 2. Right: 1", 2),
        ("- Be short.", 1),
    ]
    assert merged.dropped == 2, "one was joined, one stands in the skill"
    turned = Patch("", tuple(reversed(merged.patch.items)))
    chosen = asyncio.run(select(ScriptedModel(no_calls), CONTEXT, SETTINGS, turned, 1))
    assert chosen.indices == (1,)
    assert chosen.patch.items == (merged.patch.items[0],)


DOES = "- When the question begins with Does, write the house word. Wrong: Yes. Right: Affirmed."
DOES_A_CHILD = "- When the question begins with Does a child, say it so. Wrong: No. Right: Denied."
WHO = "- When the question begins with Who, write Hon. first. Wrong: A. Right: Hon. A."


def test_rules_for_one_kind_of_question_become_one_with_all_examples() -> None:
    merged, left_out = merge([patch(DOES_A_CHILD), patch(WHO, DOES)], Skill("# House\n"))
    assert left_out == 1
    assert [item.to_dict()["content"] for item in merged.items] == [
        "- When the question begins with Does, say it so. Wrong: No. Right: Denied. Wrong: Yes. Right: Affirmed.",
        WHO,
    ]


def test_a_rule_for_a_kind_that_the_skill_knows_takes_the_place_of_its_line() -> None:
    skill = Skill(f"# House\n\n{DOES}\n{WHO}\n")
    merged, _ = merge([patch(DOES_A_CHILD, WHO)], skill)
    (item,) = merged.items
    assert isinstance(item, EditItem)
    assert (item.op, item.target) == ("replace", DOES)
    assert item.content == (
        "- When the question begins with Does, say it so. Wrong: No. Right: Denied. Wrong: Yes. Right: Affirmed."
    )


def test_a_rule_keeps_at_most_three_examples() -> None:
    rules = [f"- When the question begins with Who, x. Wrong: {n}. Right: {n}{n}." for n in range(5)]
    merged, _ = merge([patch(*rules)], Skill(""))
    assert merged.items[0].to_dict()["content"].count("Wrong:") == 3


def test_the_schema_lets_a_rule_pair_only_what_belongs_together() -> None:
    known = replace(rollout(1, answer="6 March 1957"), outcome=Score(0, 0, detail={"gold_answers": ["1957 March 6"]}))
    schema = reply_schema([known, rollout(2, answer="yes"), known], budget=4)
    rules = schema["properties"]["rules"]
    assert rules["maxItems"] == 2
    first, second = (kind["properties"] for kind in rules["items"]["anyOf"])
    assert (first["wrong"], first["right"]) == ({"const": "6 March 1957"}, {"const": "1957 March 6"})
    assert second["wrong"] == {"const": "yes"}
    assert "const" not in second["right"], "its right answer is not known"
    assert list(first) == ["wrong", "right", "rule"], "the rule is written in sight of the two"


def test_other_modes_keep_the_full_contract() -> None:
    settings = Settings(style="compact", mode="full_rewrite_minibatch")
    _, model = reflect([{"patch": {"skill_candidates": []}}], settings)
    assert '"skill_candidates"' in model.system()
