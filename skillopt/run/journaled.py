"""A model behind the journal: a call that was answered once is never sent again."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Collection

from skillopt.models.types import ChatModel, ModelSpec, Reply, Request
from skillopt.run.journal import Journal


def journal_key(spec: ModelSpec, request: Request) -> str:
    """Hash of everything that can change the reply: the model, its parameters, the messages, the replicate."""
    asked = [
        [spec.provider, spec.model, spec.base_url, spec.temperature, spec.reasoning_effort, spec.parameters],
        request.max_tokens,
        request.temperature,
        request.reasoning_effort,
        request.json_schema,
        request.grammar,
        request.replicate,
        [[message.role, message.content] for message in request.messages],
    ]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=dict).encode()).hexdigest()[:32]


class JournaledModel:
    """``ChatModel`` that answers from the journal, else asks ``inner`` and stores the reply before handing it out.

    Equal calls in flight share one request. A request, once sent, is finished and stored even if all who wait for it
    are cancelled: it is paid. ``scoped`` gives a view whose replies are collected for a commit.
    """

    def __init__(
        self, inner: ChatModel, journal: Journal, before_sending: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """``before_sending`` is awaited before each request that the journal cannot answer."""
        self.spec = inner.spec
        self._inner = inner
        self._journal = journal
        self._before_sending = before_sending
        self._flights: dict[str, asyncio.Task[Reply]] = {}

    async def complete(self, request: Request) -> Reply:
        key = journal_key(self.spec, request)
        reply = self._journal.get(key)
        if reply is not None:
            return reply
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.create_task(self._fetch(key, request))
            flight.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(flight)

    async def _fetch(self, key: str, request: Request) -> Reply:
        if self._before_sending is not None:
            await self._before_sending()
        reply = await self._inner.complete(request)
        return await self._journal.put(key, self.spec.role, request.stage, request.messages, reply)

    def _landed(self, key: str, flight: asyncio.Task[Reply]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # marks it as seen: those who waited have been told

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
