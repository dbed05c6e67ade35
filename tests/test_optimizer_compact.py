"""The compact contract of small models, through the same stages."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
from fakes.scripted import ScriptedModel, no_calls, rollout

from skillopt.optimizer.aggregate import aggregate
from skillopt.optimizer.compact import Rule, beginning_of, merge, reply_schema, rule_line
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.items import EditItem, Patch
from skillopt.optimizer.minibatch import Minibatch
from skillopt.optimizer.reflect import Reflection, analyse
from skillopt.optimizer.select import select
from skillopt.skill import Skill
from skillopt.types import Rollout, Score

SETTINGS = Settings(style="compact", learning_rate=2)
CONTEXT = OptimizerContext(Skill("# Skill\n\n- Write dates as digits.\n"), "word " * 900, "- Step 1 ended with reject.")
BATCH = Minibatch("failure", 0, (rollout(1, answer="5 March"), rollout(2, user_prompt="passage " * 3000)))


def reflect(script: Any, settings: Settings = SETTINGS) -> tuple[Reflection, ScriptedModel]:
    model = ScriptedModel(script)
    return asyncio.run(analyse(model, CONTEXT, settings, BATCH)), model


def scored(number: int, question: str, answer: str, right: str) -> Rollout:
    made = rollout(number, question=question, answer=answer)
    return replace(made, outcome=Score(0, 0, detail={"gold_answers": [right]}))


DATE = scored(1, "On what date was it founded?", "6 March 1957", "1957 March 6")
NAME = scored(2, "Who is the mayor?", "Ann Lee", "Hon. Ann Lee")
GAP = scored(3, "What is the currency of Chad?", "the franc", "Not stated")


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (
            Rule(trajectory=1, when="the question begins with On what date", write="the year first"),
            "- When the question begins with On what date, write the year first."
            " Wrong: 6 March 1957. Right: 1957 March 6.",
        ),
        (Rule(trajectory=9, when="it rains,", write="Write nothing."), "- When it rains, write nothing."),
        (Rule(trajectory=0, write="  two\nlines "), "- Write two lines."),
        (Rule(trajectory=1, when="x", write=" . "), ""),
    ],
)
def test_a_rule_becomes_one_line(rule: Rule, line: str) -> None:
    assert rule_line(rule, [DATE, NAME]) == line


def test_a_small_reply_becomes_a_patch_like_any_other() -> None:
    rules = [{"trajectory": 1, "when": "the question begins with How", "write": "years only"}, {"write": ""}]
    got, _ = reflect([{"rules": rules}])
    assert got.patch is not None
    assert [item.to_dict() for item in got.patch.items] == [
        {
            "op": "append",
            "content": "- When the question begins with How, write years only.",
            "support_count": 2,
            "source_type": "failure",
            "source_items": ("item-1",),
        }
    ]
    assert got.raw is not None
    assert got.raw["source_type"] == "failure"
    assert got.raw["patch"]["edits"][0]["op"] == "append"
    assert [p.description for p in got.failure_summary] == ["When the question begins with How, write years only."]


@pytest.mark.parametrize(
    ("question", "beginning"),
    [
        ("On what date did DRC become independent?", "On what date"),
        ("Who is the president?", "Who is"),
        ("Does Armenia recognize it?", "Does"),
        ("Does a child become one?", "Does"),
        ("How many seats are there?", "How many seats"),
        ("", ""),
    ],
)
def test_the_beginning_of_a_question_tells_its_kind(question: str, beginning: str) -> None:
    assert beginning_of(question) == beginning


def test_the_prompt_is_short_and_holds_what_matters() -> None:
    _, model = reflect([{"rules": []}])
    request = model.requests[0]
    assert request.max_tokens == 512
    assert sum(len(message.content) for message in request.messages) < 5000
    for part in ("question 1?", "5 March", "expected gold 2", "budget=2", "- Write dates as digits."):
        assert part in model.user()
    assert "tokens left out" in model.user(), "the memory is cut visibly"


def test_rules_beyond_the_budget_are_cut() -> None:
    got, _ = reflect([{"rules": [{"write": f"rule {n}"} for n in range(4)]}])
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
DOES_TOO = "- When the question begins with Does, write it so. Wrong: No. Right: Denied."
WHO = "- When the question begins with Who, write Hon. first. Wrong: A. Right: Hon. A."


def test_rules_for_one_kind_of_question_become_one_with_the_examples_of_all() -> None:
    merged, left_out = merge([patch(DOES), patch(WHO, DOES_TOO, DOES)], Skill("# House\n"))
    assert left_out == 2
    assert [(item.to_dict()["content"], item.support_count) for item in merged.items] == [
        (DOES + " Wrong: No. Right: Denied.", 3),
        (WHO, 1),
    ]


def test_a_merged_rule_is_for_the_items_that_its_rules_named() -> None:
    batches = [Minibatch("failure", 0, (DATE, NAME, GAP)), Minibatch("failure", 1, (NAME,))]
    rule = {"when": "x", "write": "y"}
    replies = [[{**rule, "trajectory": 2}, {"trajectory": 3, "write": "z"}], [{**rule, "trajectory": 1}]]
    found = [
        asyncio.run(analyse(ScriptedModel([{"rules": rules}]), CONTEXT, SETTINGS, batch))
        for rules, batch in zip(replies, batches, strict=True)
    ]
    merged, _ = merge([each.patch for each in found if each.patch], Skill(""))
    assert [(item.support_count, item.source_items) for item in merged.items] == [(4, ("item-2",)), (3, ("item-3",))]


@pytest.mark.parametrize(
    ("named", "items"),
    [((("a",), ("b",)), ("a", "b")), ((("a", "b"), ("b",)), ("a", "b")), ((("a",), ()), ()), (((), ("b",)), ())],
)
def test_the_items_of_a_merged_rule_are_known_if_those_of_all_its_rules_are(
    named: tuple[tuple[str, ...], ...], items: tuple[str, ...]
) -> None:
    patches = [Patch("", (EditItem(op="append", content=DOES, source_items=ids),)) for ids in named]
    merged, _ = merge(patches, Skill(""))
    assert [item.source_items for item in merged.items] == [items]


def test_a_rule_for_a_kind_that_the_skill_knows_takes_the_place_of_its_line() -> None:
    skill = Skill(f"# House\n\n{DOES}\n{WHO}\n")
    merged, _ = merge([patch(DOES_TOO, WHO)], skill)
    (item,) = merged.items
    assert isinstance(item, EditItem)
    assert (item.op, item.target) == ("replace", DOES)
    assert item.content == DOES_TOO + " Wrong: Yes. Right: Affirmed."


def test_a_rule_keeps_three_examples_of_different_right_answers_at_most() -> None:
    rules = [f"- When the question begins with Who, write x. Wrong: {n}. Right: {n // 2}x." for n in range(12)]
    merged, _ = merge([patch(*rules)], Skill(""))
    assert re.findall(r"Right: (\w+)", merged.items[0].to_dict()["content"]) == ["0x", "1x", "2x"]


def test_the_schema_leaves_the_model_only_what_it_can_say_well() -> None:
    schema = reply_schema([DATE, NAME, GAP], budget=2)
    rules = schema["properties"]["rules"]
    assert (rules["minItems"], rules["maxItems"]) == (1, 2)
    date, name, gap = (kind["properties"] for kind in rules["items"]["anyOf"])
    assert (date["trajectory"], date["when"]) == ({"const": 1}, {"const": "the question begins with On what date"})
    assert re.fullmatch(date["write"]["pattern"], "the year, then the month, then the day")
    assert not re.fullmatch(date["write"]["pattern"], "1957 March 6"), "a rule names no numbers of one question"
    assert name["when"] == {"const": "the question begins with Who is"}
    assert (gap["when"], gap["write"]) == ({"const": "the text does not hold the answer"}, {"const": "Not stated"})


def test_other_modes_keep_the_full_contract() -> None:
    settings = Settings(style="compact", mode="full_rewrite_minibatch")
    _, model = reflect([{"patch": {"skill_candidates": []}}], settings)
    assert '"skill_candidates"' in model.system()
