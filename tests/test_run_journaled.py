"""A model behind the journal: asked once, stored before use, kept when nobody waits any more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillopt.models.errors import ModelError
from skillopt.models.types import Message, ModelSpec, Reply, Request, Usage
from skillopt.run.journal import Journal
from skillopt.run.journaled import JournaledModel, identity, journal_key

SPEC = ModelSpec("target", "openai", "m", "http://localhost/v1")


class Slow:
    """Answers ``reply to <prompt>`` once ``gate`` is open; counts what it is asked."""

    def __init__(self, journal: Journal) -> None:
        self.spec = SPEC
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None
        self.journal = journal

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request.messages[-1].content)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return Reply(f"reply to {request.messages[-1].content}", Usage(3, 2))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def request(text: str = "q", **changes: Any) -> Request:
    return replace(Request((Message("system", "s"), Message("user", text))), **changes)


# keys


def test_what_can_change_the_reply_changes_the_key() -> None:
    asked = request()
    others = [
        journal_key(identity(SPEC), replace(asked, **change))
        for change in (
            {"max_tokens": 5},
            {"temperature": 0.0},
            {"temperature": 0.5},
            {"reasoning_effort": "low"},
            {"json_schema": {"type": "object"}},
            {"grammar": "root ::= [a-z]"},
            {"replicate": 1},
            {"messages": (Message("user", "q"),)},
            {"messages": (Message("system", "s"), Message("assistant", "q"))},
            {"messages": (Message("system", "sq"), Message("user", ""))},
        )
    ]
    specs = [
        journal_key(identity(replace(SPEC, **change)), asked)
        for change in (
            {"provider": "local"},
            {"model": "n"},
            {"base_url": "http://other/v1"},
            {"temperature": 0.0},
            {"reasoning_effort": "high"},
            {"parameters": {"top_k": 1}},
        )
    ]
    keys = [journal_key(identity(SPEC), asked), *others, *specs]
    assert len(set(keys)) == len(keys)


def test_what_cannot_change_the_reply_does_not_change_the_key() -> None:
    asked = request()
    for change in ({"stage": "analyst"}, {"priority": 9}, {"timeout": 1.0}):
        assert journal_key(identity(SPEC), replace(asked, **change)) == journal_key(identity(SPEC), asked)
    for change in ({"role": "optimizer"}, {"reply_style": "compact"}):
        assert journal_key(identity(replace(SPEC, **change)), asked) == journal_key(identity(SPEC), asked)


# calls


def test_an_answered_call_is_never_sent_again(tmp_path: Path, journal: Journal) -> None:
    async def first() -> Reply:
        slow = Slow(journal)
        slow.gate.set()
        model = JournaledModel(slow, journal)
        reply = await model.complete(request())
        assert await model.complete(request(stage="other", timeout=1.0)) == reply
        assert slow.asked == ["q"]
        assert await model.complete(request(replicate=1)) != reply
        assert slow.asked == ["q", "q"]
        return reply

    async def later() -> Reply:
        slow = Slow(journal)  # its gate stays shut
        return await asyncio.wait_for(JournaledModel(slow, journal).complete(request()), 5)

    reply = asyncio.run(first())
    assert reply.key == journal_key(identity(SPEC), request())
    assert asyncio.run(later()) == reply


def test_a_reply_is_stored_before_it_is_handed_out(journal: Journal) -> None:
    async def check() -> None:
        slow = Slow(journal)
        slow.gate.set()
        reply = await JournaledModel(slow, journal).complete(request())
        assert journal.get(reply.key) == reply

    asyncio.run(check())


def test_equal_calls_in_flight_are_one_request(journal: Journal) -> None:
    async def check() -> None:
        slow = Slow(journal)
        model = JournaledModel(slow, journal)
        waiting = [asyncio.ensure_future(model.complete(request())) for _ in range(5)]
        await asyncio.sleep(0.01)
        slow.gate.set()
        assert len({reply.text for reply in await asyncio.gather(*waiting)}) == 1
        assert slow.asked == ["q"]

    asyncio.run(check())


def test_a_failure_is_told_to_all_who_wait_and_stored_for_nobody(journal: Journal) -> None:
    async def check() -> None:
        slow = Slow(journal)
        slow.error = ModelError("provider", "down")
        slow.gate.set()
        model = JournaledModel(slow, journal)
        found = await asyncio.gather(*(model.complete(request()) for _ in range(3)), return_exceptions=True)
        assert [str(error) for error in found] == ["provider: down"] * 3
        slow.error = None
        assert (await model.complete(request())).text == "reply to q"
        assert len(slow.asked) == 2

    asyncio.run(check())


# cancellation


def test_a_paid_reply_is_kept_when_all_who_wait_are_cancelled(journal: Journal) -> None:
    async def check() -> None:
        slow = Slow(journal)
        model = JournaledModel(slow, journal)
        waiting = [asyncio.ensure_future(model.complete(request())) for _ in range(2)]
        await asyncio.sleep(0.01)
        for task in waiting:
            task.cancel()
        assert all(
            isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*waiting, return_exceptions=True)
        )
        slow.gate.set()
        await model.drain(5)
        assert journal.get(journal_key(identity(SPEC), request())) is not None

    asyncio.run(check())


def test_one_who_gives_up_does_not_take_the_reply_from_the_others(journal: Journal) -> None:
    async def check() -> None:
        slow = Slow(journal)
        model = JournaledModel(slow, journal)
        impatient, patient = (asyncio.ensure_future(model.complete(request())) for _ in range(2))
        await asyncio.sleep(0.01)
        impatient.cancel()
        slow.gate.set()
        assert (await patient).text == "reply to q"

    asyncio.run(check())


def test_drain_waits_so_long_and_no_longer(journal: Journal) -> None:
    async def check() -> None:
        slow = Slow(journal)
        model = JournaledModel(slow, journal)
        task = asyncio.ensure_future(model.complete(request()))
        await asyncio.sleep(0.01)
        started = asyncio.get_running_loop().time()
        await model.drain(0.05)
        assert 0.04 < asyncio.get_running_loop().time() - started < 1
        with pytest.raises(asyncio.CancelledError):
            await task
        await model.drain(5)  # nothing is left: it returns at once

    asyncio.run(asyncio.wait_for(check(), 10))


def test_an_error_that_nobody_waits_for_is_no_noise(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        slow = Slow(journal)
        slow.error = ModelError("provider", "down")
        model = JournaledModel(slow, journal)
        task = asyncio.ensure_future(model.complete(request()))
        await asyncio.sleep(0.01)
        task.cancel()
        slow.gate.set()
        await model.drain(5)

    asyncio.run(check())
    assert caplog.text == ""


# scopes


def test_a_scope_collects_the_keys_of_what_it_used(journal: Journal) -> None:
    async def check() -> None:
        slow = Slow(journal)
        slow.gate.set()
        model = JournaledModel(slow, journal)
        mine: set[str] = set()
        others: set[str] = set()
        assert model.scoped(mine).spec is model.spec
        await model.scoped(others).complete(request("theirs"))
        await model.scoped(mine).complete(request("mine"))
        await model.scoped(mine).complete(request("theirs"))
        assert mine == {journal_key(identity(SPEC), request("mine")), journal_key(identity(SPEC), request("theirs"))}
        slow.error = ModelError("provider", "down")
        with pytest.raises(ModelError):
            await model.scoped(mine).complete(request("lost"))
        assert len(mine) == 2

    asyncio.run(check())


# ahead of the turn


def test_a_call_ahead_is_the_call_of_the_turn(journal: Journal) -> None:
    async def check() -> None:
        slow = Slow(journal)
        model = JournaledModel(slow, journal)
        early = asyncio.ensure_future(model.ahead(7).complete(request()))
        await asyncio.sleep(0.01)
        turn = asyncio.ensure_future(model.complete(request(priority=3)))
        slow.gate.set()
        assert await early == await turn == await model.ahead(7).complete(request())
        assert slow.asked == ["q"]

    asyncio.run(check())


@pytest.mark.parametrize("joined", [True, False])
def test_what_fails_ahead_is_told_once_in_its_turn_and_then_asked_again(journal: Journal, joined: bool) -> None:
    async def check() -> None:
        slow = Slow(journal)
        model = JournaledModel(slow, journal)
        slow.error = ModelError("timeout", "too slow")
        early = asyncio.ensure_future(model.ahead(7).complete(request()))
        await asyncio.sleep(0.01)
        turn = asyncio.ensure_future(model.complete(request())) if joined else None
        await asyncio.sleep(0.01)
        slow.gate.set()
        with pytest.raises(ModelError):
            await early
        if not joined:
            with pytest.raises(ModelError):
                await model.ahead(7).complete(request())
        with pytest.raises(ModelError):
            await (turn or model.complete(request()))
        assert slow.asked == ["q"]
        slow.error = None
        assert (await model.complete(request())).text == "reply to q"
        assert slow.asked == ["q", "q"]
        await model.drain(1.0)

    asyncio.run(check())


def test_a_call_ahead_lets_others_go_first(journal: Journal) -> None:
    async def check() -> None:
        seen: list[int] = []

        class Noting(Slow):
            async def complete(self, request: Request) -> Reply:
                seen.append(request.priority)
                return await super().complete(request)

        inner = Noting(journal)
        inner.gate.set()
        view = JournaledModel(inner, journal).ahead(7)
        await view.complete(request("a", priority=3))
        await view.complete(request("b", priority=9))
        assert seen == [7, 9]

    asyncio.run(check())
