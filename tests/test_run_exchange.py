"""What a call has beside its texts: in the key of the journal, in its store, and in what ``skillopt calls`` shows."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillopt.models.pricing import Price
from skillopt.models.types import File, Image, Message, ModelSpec, Reply, Request, Tool, ToolCall, Usage
from skillopt.run.calls import stored_calls
from skillopt.run.journal import Journal
from skillopt.run.journaled import JournaledModel, identity, journal_key

SPEC = ModelSpec("target", "openai", "m", "http://localhost/v1")
PICTURE = Image("image/png", b"\x89PNG secret-free bytes")
TOOL = Tool("search", "Looks it up.", {"type": "object", "properties": {"q": {"type": "string"}}})
CALL = ToolCall("call_1", "search", '{"q": "x"}')
PLAIN = Request((Message("system", "s"), Message("user", "q")))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def key(request: Request) -> str:
    return journal_key(identity(SPEC), request)


def messages(*more: Message, **user: Any) -> Request:
    return Request((Message("system", "s"), Message("user", "q", **user), *more))


# keys

VARIANTS = [
    PLAIN,
    replace(PLAIN, tools=(TOOL,)),
    replace(PLAIN, tools=(TOOL,), tool_choice="required"),
    replace(PLAIN, tools=(replace(TOOL, description="Other."),)),
    replace(PLAIN, tools=(replace(TOOL, parameters={"type": "object"}),)),
    replace(PLAIN, tools=(TOOL, replace(TOOL, name="open"))),
    replace(PLAIN, files=(File("task.md", b"do it"),)),
    replace(PLAIN, files=(File("other.md", b"do it"),)),
    replace(PLAIN, files=(File("task.md", b"do it well"),)),
    replace(PLAIN, files=(File("a", b"do it"), File("b", b"do it"))),
    replace(PLAIN, collect=("answer.txt",)),
    replace(PLAIN, collect=("answer.txt", "b")),
    messages(images=(PICTURE,)),
    messages(images=(PICTURE, PICTURE)),
    messages(images=(replace(PICTURE, media_type="image/webp"),)),
    messages(images=(replace(PICTURE, data=b"other"),)),
    messages(Message("assistant", "", tool_calls=(CALL,))),
    messages(Message("assistant", "", tool_calls=(replace(CALL, arguments="{}"),))),
    messages(Message("assistant", "", tool_calls=(replace(CALL, id="call_2"),))),
    messages(Message("assistant", "")),
    messages(Message("tool", "found", tool_call_id="call_1")),
    messages(Message("tool", "found", tool_call_id="call_2")),
]


def test_all_that_can_change_the_reply_changes_the_key() -> None:
    keys = [key(request) for request in VARIANTS]
    assert len(set(keys)) == len(keys)
    assert keys == [key(request) for request in VARIANTS]


def test_what_is_not_there_leaves_the_key_as_it_was() -> None:
    assert key(replace(PLAIN, tool_choice="required")) == key(PLAIN), "a choice among no tools is none"
    assert key(messages(images=(), tool_calls=(), tool_call_id="")) == key(PLAIN)


# the store

AGENT = Reply(
    "done",
    Usage(10, 5, 4, 1, 3),
    events=(
        {"role": "assistant", "content": "I look"},
        {"type": "tool_call", "cmd": "ls", "obs": "task.md\n", "exit_code": 0},
    ),
    files=(File("answer.txt", "42 ä\n".encode()), File("plot.png", b"\x89PNG\xff\x00")),
    cost_usd=0.25,
)

REPLIES = [
    Reply("plain", Usage(1, 2, 3, 4)),
    Reply("", Usage(1, 2), tool_calls=(CALL, ToolCall("b", "open", "not json {"))),
    Reply("kept", Usage(9, 1, 0, 0, 7)),
    Reply("told", Usage(9, 1), cost_usd=0.0),
    AGENT,
]


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply.text or "tools")
def test_a_reply_comes_back_whole(tmp_path: Path, reply: Reply) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    stored = asyncio.run(journal.put("k", "target", "rollout", PLAIN.messages, reply))
    assert stored == replace(reply, key="k")
    assert journal.get("k") == stored
    journal.close()
    again = Journal(tmp_path / "journal.sqlite")
    assert again.get("k") == stored
    again.close()


def test_what_a_provider_says_of_the_cost_counts_before_a_price(journal: Journal) -> None:
    class Client:
        spec = SPEC

        async def complete(self, request: Request) -> Reply:
            told = 0.5 if request.messages[-1].content == "told" else None
            usage = Usage() if request.messages[-1].content == "uncounted" else Usage(1_000_000, 0)
            return Reply("hi", usage, cost_usd=told)

    async def costs(price: Price | None) -> list[float | None]:
        model = JournaledModel(Client(), journal, None, price)
        asked = [
            Request((Message("user", text),), replicate=price is None) for text in ("told", "by price", "uncounted")
        ]
        first = [(await model.complete(request)).cost_usd for request in asked]
        assert first == [(await model.complete(request)).cost_usd for request in asked], "also from the journal"
        return first

    assert asyncio.run(costs(Price(2.0, 1.0))) == [0.5, 2.0, None]
    assert asyncio.run(costs(None)) == [0.5, None, None]


def test_no_secret_gets_into_what_belongs_to_a_call(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal(path, lambda text: text.replace("s3cret", "***"))

    class Client:
        spec = SPEC

        async def complete(self, request: Request) -> Reply:
            events = ({"type": "tool_call", "cmd": "env", "obs": "KEY=s3cret", "exit_code": 0},)
            call = ToolCall("1", "search", '{"q": "s3cret"}')
            return Reply("s3cret", Usage(1, 1), "", (call,), events, (File("out.txt", b"s3cret"),))

    request = replace(
        messages(Message("assistant", "", tool_calls=(ToolCall("0", "search", "s3cret"),))),
        tools=(replace(TOOL, description="s3cret"),),
        files=(File("task.md", b"s3cret"),),
    )
    reply = asyncio.run(JournaledModel(Client(), journal).complete(request))
    assert reply == journal.get(reply.key)
    assert "s3cret" not in repr(reply)
    assert reply.files[0].content == b"***"
    journal.close()
    shown = json.dumps(list(stored_calls(tmp_path)))
    assert shown.count("***") == 7
    assert "s3cret" not in shown
    assert b"s3cret" not in path.read_bytes()


# what is shown


def test_a_call_is_shown_as_it_was_asked_and_answered(tmp_path: Path, journal: Journal) -> None:
    class Client:
        spec = SPEC

        async def complete(self, request: Request) -> Reply:
            return AGENT

    request = replace(
        messages(
            Message("assistant", "", tool_calls=(CALL,)),
            Message("tool", "found", tool_call_id="call_1"),
            images=(PICTURE,),
        ),
        tools=(TOOL,),
        files=(File(".agents/skills/x/SKILL.md", "# Skill ä\n".encode()), File("a.bin", b"\xff\x00")),
        collect=("answer.txt",),
    )
    asyncio.run(JournaledModel(Client(), journal).complete(request))
    (call,) = stored_calls(tmp_path)
    assert call["messages"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q", "images": [PICTURE.digest]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_1", "name": "search", "arguments": '{"q": "x"}'}],
        },
        {"role": "tool", "content": "found", "tool_call_id": "call_1"},
    ]
    assert call["tools"] == [{"name": "search", "description": "Looks it up.", "parameters": dict(TOOL.parameters)}]
    assert (call["tool_choice"], call["collect"]) == ("auto", ["answer.txt"])
    skill, binary = call["files"]
    assert skill == {"path": ".agents/skills/x/SKILL.md", "content": "# Skill ä\n"}
    assert binary["content"].startswith("sha256:")
    assert binary["content"].endswith("(2 bytes)")
    assert call["events"] == list(AGENT.events)
    assert call["reply_files"][0] == {"path": "answer.txt", "content": "42 ä\n"}
    assert (call["reply"], call["cost_usd"], call["cache_write_tokens"]) == ("done", 0.25, 3)
    json.dumps(call)
    assert PICTURE.data not in (tmp_path / "journal.sqlite").read_bytes()


def test_a_plain_call_is_stored_as_it_always_was(tmp_path: Path, journal: Journal) -> None:
    asyncio.run(journal.put("k", "target", "rollout", PLAIN.messages, Reply("hi", Usage(3, 1))))
    (call,) = stored_calls(tmp_path)
    assert set(call) == {
        *("key", "role", "stage", "part", "item", "at", "messages", "reply"),
        *("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "cost_usd"),
    }
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        messages, extra = db.execute("SELECT messages, extra FROM replies").fetchone()
    db.close()
    assert [len(entry) for entry in json.loads(messages)] == [2, 2]
    assert extra is None
