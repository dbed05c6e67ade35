"""JSON replies: what is taken, what is asked again, what is given up."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from skillopt.models.errors import ModelError
from skillopt.models.structured import QUOTED_CHARS, ReplyError, ask, parse_json_reply
from skillopt.models.types import Message, ModelSpec, Reply, Request


class Edit(BaseModel):
    op: Literal["append", "delete"]
    content: str = ""


class Patch(BaseModel):
    reasoning: str
    edits: list[Edit]


GOOD: dict[str, Any] = {"reasoning": "why", "edits": [{"op": "append", "content": "- a {rule} ```json"}]}
J = json.dumps(GOOD)

TAKEN: list[tuple[str, str, Any, bool]] = [
    ("alone", J, GOOD, False),
    ("with space", f"\n {J} \n", GOOD, False),
    ("with a BOM", f"\ufeff{J}", GOOD, False),
    ("fenced", f"```json\n{J}\n```", GOOD, False),
    ("fenced without a name", f"```\n{J}\n```", GOOD, False),
    ("fenced in prose", f"Here it is:\n```json\n{J}\n```\nDone.", GOOD, False),
    ("in prose", f"I propose {J} as discussed.", GOOD, False),
    ("prose with brackets", f"See [1] and {{name}} and f(x) = {{}}: {J}", GOOD, False),
    ("prose with an open bracket", f"use {{ to open, don't forget: {J}", GOOD, False),
    ("prose with quotes", f'He said "no {J} or so', GOOD, False),
    ("the same twice", f"{J}\nAgain:\n{J}", GOOD, False),
    ("empty object", "{}", {}, False),
    ("empty object in prose", "Nothing to do: {}", {}, False),
    ("trailing comma", J[:-1] + ",}", GOOD, True),
    ("trailing comma in prose", f"So: {J[:-1]}, }}", GOOD, True),
    ("comma and bracket in a string", '{"a": "x,}", "b": [1,],}', {"a": "x,}", "b": [1]}, True),
    ("raw line break in a string", '{"new_skill": "# A\n- b\n"}', {"new_skill": "# A\n- b\n"}, True),
    ("escapes", r'{"a": "\"}{\\", "b": "\u00e9"}', {"a": '"}{\\', "b": "é"}, False),
]

NOT_TAKEN: list[tuple[str, str, str]] = [
    ("empty", "", "no JSON object"),
    ("prose", "I have nothing to propose.", "no JSON object"),
    ("number", "3", "no JSON object"),
    ("list", json.dumps([GOOD]), "JSON list"),
    ("empty list", "[]", "JSON list"),
    ("fenced list", f"```json\n[{J}]\n```", "JSON list"),
    ("two objects", f'{J} or {{"reasoning": "other", "edits": []}}', "2 different JSON objects"),
    ("cut in a string", J[:-20], "cut or unbalanced"),
    ("cut after a value", J[:-1], "cut or unbalanced"),
    ("cut in a fence", f"```json\n{J[:-2]}\n```", "cut or unbalanced"),
    ("whole, then a cut one", f'{J}\n{{"reasoning": "oth', "cut or unbalanced"),
    ("missing comma", '{"a": 1 "b": 2}', "not valid"),
    ("single quotes", "{'a': 1}", "not valid"),
    ("comment", '{"a": 1 // one\n}', "not valid"),
    ("NaN", '{"a": NaN}', "not valid"),
    ("deep", '{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "not valid"),
]


@pytest.mark.parametrize(("text", "value", "repaired"), [pytest.param(*row[1:], id=row[0]) for row in TAKEN])
def test_taken_at_once(text: str, value: Any, repaired: bool) -> None:
    parsed = parse_json_reply(text)
    assert (parsed.value, parsed.repaired) == (value, repaired)


@pytest.mark.parametrize(("text", "word"), [pytest.param(*row[1:], id=row[0]) for row in NOT_TAKEN])
def test_not_taken_and_why(text: str, word: str) -> None:
    with pytest.raises(ReplyError, match=word):
        parse_json_reply(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (J[:-2], GOOD),
        (f"```json\n{J[:-1]}\n```", GOOD),
        ("{'a': 1}", {"a": 1}),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ('{"a": 1 // one\n}', {"a": 1}),
    ],
)
def test_the_second_reply_may_be_repaired(text: str, value: Any) -> None:
    parsed = parse_json_reply(text, allow_repair=True)
    assert parsed.value == value
    assert parsed.repaired


@pytest.mark.parametrize("text", ["", "prose", f"[{J}]", f'{J} or {{"other": 1}}', "{", '{"', '{"a": NaN} {"b": 1 2}'])
def test_some_replies_no_repair_can_save(text: str) -> None:
    with pytest.raises(ReplyError):
        parse_json_reply(text, allow_repair=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_an_object_in_a_fence_is_read_as_it_is(value: dict[str, Any], ascii_only: bool, indented: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=2 if indented else None)
    assert parse_json_reply(f"Well, it's this:\n```json\n{text}\n```\n").value == value


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=4), st.data())
def test_a_cut_object_is_never_taken_for_a_shorter_one(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    with pytest.raises(ReplyError):
        parse_json_reply(cut)


class Scripted:
    spec = ModelSpec("optimizer", "fake", "m", "")

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(self.texts[len(self.requests) - 1], key=f"k{len(self.requests)}")


ASK = Request((Message("system", "s"), Message("user", "u")), max_tokens=99, stage="analyst", priority=3)


def test_a_good_reply_costs_one_call_and_asks_for_its_shape() -> None:
    model = Scripted(f"```json\n{J}\n```")
    got = asyncio.run(ask(model, ASK, Patch))
    assert got.value.edits[0].op == "append"
    assert (got.repaired, got.reasked) == (False, False)
    assert model.requests[0].json_schema == Patch.model_json_schema()


def test_a_given_schema_stays() -> None:
    model = Scripted(J)
    asyncio.run(ask(model, Request(ASK.messages, json_schema={"type": "object"}), Patch))
    assert model.requests[0].json_schema == {"type": "object"}


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (J[:-3], "cut or unbalanced"),
        (json.dumps({"reasoning": "r", "edits": [{"op": "append"}, {"op": "bend"}]}), '"edits[1].op"'),
        (json.dumps({"edits": []}), '"reasoning": Field required'),
        (f"[{J}]", "JSON list"),
    ],
)
def test_a_bad_reply_is_asked_again_with_its_error(bad: str, word: str) -> None:
    model = Scripted(bad, J)
    got = asyncio.run(ask(model, ASK, Patch))
    assert got.reasked
    assert not got.repaired
    again = model.requests[1]
    assert again.messages[:2] == ASK.messages
    assert again.messages[2] == Message("assistant", bad)
    assert again.messages[3].role == "user"
    assert word in again.messages[3].content
    assert (again.max_tokens, again.stage, again.priority) == (99, "analyst", 3)


def test_a_cut_second_reply_is_repaired_as_a_last_resort() -> None:
    got = asyncio.run(ask(Scripted(J[:-2], J[:-2]), ASK, Patch))
    assert got.repaired
    assert got.reasked
    assert got.value.model_dump() == GOOD


def test_twice_unusable_is_an_error_that_keeps_the_reply() -> None:
    worse = json.dumps({"reasoning": 1, "edits": "none"})
    with pytest.raises(ModelError) as caught:
        asyncio.run(ask(Scripted("prose", worse), ASK, Patch))
    assert caught.value.kind == "invalid_output"
    assert caught.value.raw == worse
    assert '"reasoning"' in str(caught.value)
    assert "1 more" in str(caught.value)


def test_a_long_bad_reply_is_quoted_by_its_ends() -> None:
    bad = "a" * 9000 + "z" * 9000
    model = Scripted(bad, J)
    asyncio.run(ask(model, ASK, Patch))
    quoted = model.requests[1].messages[2].content
    assert len(quoted) < QUOTED_CHARS + 100
    assert quoted.startswith("a")
    assert quoted.endswith("z")
    assert "14000 characters left out" in quoted


def test_errors_of_the_call_pass_through() -> None:
    class Dead(Scripted):
        async def complete(self, request: Request) -> Reply:
            raise ModelError("timeout", "late")

    with pytest.raises(ModelError, match="late"):
        asyncio.run(ask(Dead(), ASK, Patch))
