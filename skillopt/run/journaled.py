"""A model behind the journal: a call that was answered once is never sent again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from hashlib import sha256
from typing import Any

from skillopt.models.pricing import Price, cost_of_call
from skillopt.models.types import ChatModel, ModelSpec, Reply, Request
from skillopt.run.exchange import attachments, has_more, key_parts, message_detail
from skillopt.run.journal import Journal


def journal_key(model: str, request: Request) -> str:
    """Hash of everything that can change the reply: the ``identity`` of the model, the settings, the messages."""
    schema = None if request.json_schema is None else _json(request.json_schema)
    settings = (request.max_tokens, request.temperature, request.reasoning_effort, request.grammar, request.replicate)
    asked = sha256(f"{model}{settings!r}{schema}".encode())
    for message in request.messages:
        content = message.content.encode("utf-8", "surrogatepass")
        asked.update(f"\n{message.role} {len(content)}\n".encode())
        asked.update(content)
        if message.images or message.tool_calls or message.tool_call_id:
            asked.update(f"\n+{_json(message_detail(message))}".encode())
    if has_more(request):
        asked.update(f"\n+{_json(key_parts(request))}".encode())
    return asked.hexdigest()[:32]


def identity(spec: ModelSpec) -> str:
    """What tells one model from another in a journal key."""
    return _json([spec.provider, spec.model, spec.base_url, spec.temperature, spec.reasoning_effort, spec.parameters])


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=dict)


class JournaledModel:
    """``ChatModel`` that answers from the journal, else asks ``inner`` and stores the reply before handing it out.

    Equal calls in flight share one request. A request, once sent, is finished and stored even if all who wait for it
    are cancelled: it is paid. ``scoped`` gives a view whose replies are collected for a commit.
    """

    def __init__(
        self,
        inner: ChatModel,
        journal: Journal,
        before_sending: Callable[[], Awaitable[None]] | None = None,
        price: Price | None = None,
    ) -> None:
        """``before_sending`` is awaited before each request that the journal cannot answer. ``price`` is that of the
        model, None where it is not known."""
        self.spec = inner.spec
        self._inner = inner
        self._journal = journal
        self._before_sending = before_sending
        self._price = price
        self._flights: dict[str, asyncio.Task[Reply]] = {}
        self._ahead: set[str] = set()  # flights that nobody has asked for in his turn yet
        self._identity = identity(inner.spec)

    async def complete(self, request: Request) -> Reply:
        key = journal_key(self._identity, request)
        reply = self._journal.get(key)
        if reply is not None:
            return reply
        flight = self._flight(key, request)
        self._ahead.discard(key)
        if flight.done():  # it failed ahead of its turn: that is told once, like any failure
            self._flights.pop(key)
        return await asyncio.shield(flight)

    async def complete_ahead(self, request: Request) -> Reply:
        """``complete`` for a request whose turn comes later. Its failure is kept for the first who asks in his turn, so
        that nothing is tried more often than it would be then; it is raised here too."""
        key = journal_key(self._identity, request)
        reply = self._journal.get(key)
        if reply is not None:
            return reply
        if key not in self._flights:
            self._ahead.add(key)
        return await asyncio.shield(self._flight(key, request))

    def _flight(self, key: str, request: Request) -> asyncio.Task[Reply]:
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.create_task(self._fetch(key, request))
            flight.add_done_callback(lambda done: self._landed(key, done))
        return flight

    async def _fetch(self, key: str, request: Request) -> Reply:
        if self._before_sending is not None:
            await self._before_sending()
        reply = await self._inner.complete(request)
        attached = attachments(request) if has_more(request) else ()
        cost = cost_of_call(reply.cost_usd, reply.usage, self._price)
        stored = self._journal.put(
            key,
            self.spec.role,
            request.stage,
            request.messages,
            reply,
            attached=attached,
            cost_usd=cost,
            item=request.item,
        )
        return await stored

    def _landed(self, key: str, flight: asyncio.Task[Reply]) -> None:
        failed = flight.cancelled() or flight.exception() is not None  # marks it as seen: those who waited are told
        if failed and key in self._ahead:
            return
        self._ahead.discard(key)
        if self._flights.get(key) is flight:
            del self._flights[key]

    async def drain(self, timeout: float) -> None:
        """Waits up to ``timeout`` seconds for the requests in flight, then cancels the rest."""
        flights: Collection[asyncio.Task[Reply]] = list(self._flights.values())
        if not flights:
            return
        _, late = await asyncio.wait(flights, timeout=timeout)
        for flight in late:
            flight.cancel()
        if late:
            await asyncio.wait(late)

    def ahead(self, priority: int) -> AheadModel:
        """A view for calls ahead of their turn, which go after all those of a lower ``priority``."""
        return AheadModel(self, priority)

    def scoped(self, keys: set[str]) -> ScopedModel:
        return ScopedModel(self, keys)


class ScopedModel:
    """A view of a journaled model that adds the key of every reply to ``keys``."""

    def __init__(self, model: JournaledModel, keys: set[str]) -> None:
        self.spec = model.spec
        self._model = model
        self._keys = keys

    async def complete(self, request: Request) -> Reply:
        reply = await self._model.complete(request)
        self._keys.add(reply.key)
        return reply


class AheadModel:
    """A view of a journaled model that asks ahead of the turn and leaves no other trace."""

    def __init__(self, model: JournaledModel, priority: int) -> None:
        self.spec = model.spec
        self._model = model
        self._priority = priority

    async def complete(self, request: Request) -> Reply:
        later = max(request.priority, self._priority)
        return await self._model.complete_ahead(replace(request, priority=later))
