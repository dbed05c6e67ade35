"""A scriptable OpenAI-style server for tests: it runs in a thread of its own, answers by script and keeps what it got.

    with FakeOpenAI([status(500), text("hello")]) as server:
        ...  # requests to server.url; then look at server.requests

A script is a list of steps, one a request (the last one is repeated), or a function from a ``Received`` to a step.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request as it arrived. ``number`` counts from 0; ``at`` is of ``time.monotonic``; header names are lower."""

    number: int
    method: str
    target: str
    headers: Mapping[str, str]
    raw: bytes
    at: float

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body."""
        parsed: dict[str, Any] = json.loads(self.raw)
        return parsed


@dataclass(frozen=True)
class Step:
    """What the server does: waits ``delay`` seconds, then sends ``status``, ``headers`` and ``payload``.

    ``fault``: ``reset`` drops the connection, ``cut`` promises more bytes than it sends, ``hang`` never answers.
    """

    status: int = 200
    payload: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    fault: str = ""


Script = Sequence[Step] | Callable[[Received], Step]


def completion(
    content: Any, *, finish: str | None = "stop", usage: Mapping[str, Any] | None = None, **message: Any
) -> dict[str, Any]:
    """The body of a chat completion. ``usage`` of None leaves it out."""
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
    }
    return body if usage is None else {**body, "usage": dict(usage)}


def text(content: Any, *, finish: str | None = "stop", delay: float = 0.0, **more: Any) -> Step:
    """A reply with ``content`` and usual usage figures."""
    usage = more.pop("usage", {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
    return reply(completion(content, finish=finish, usage=usage, **more), delay=delay)


def reply(body: Any, *, delay: float = 0.0) -> Step:
    """A 200 with any JSON body."""
    return Step(payload=json.dumps(body).encode(), delay=delay)


def status(
    status_: int,
    /,
    message: str = "injected",
    headers: Mapping[str, str] | None = None,
    delay: float = 0.0,
    **error: Any,
) -> Step:
    """An error in OpenAI's form; ``error`` adds ``code``, ``param`` and so on."""
    body = {"error": {"message": message, "type": "fault", **error}}
    return Step(status_, json.dumps(body).encode(), headers or {}, delay)


RESET = Step(fault="reset")
CUT_BODY = Step(fault="cut", payload=b'{"choices": [{"message": {"content": "half')
BAD_BODY = Step(payload=b'{"id": "x", "choices": [{"message": {"content": "half')
HANG = Step(fault="hang")


class FakeOpenAI:
    """A server on a free port of 127.0.0.1, as a context manager. ``peak`` is the most requests it held at once."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[Received] = []
        self.peak = self._open = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FakeOpenAI:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON bodies so far."""
        return [request.body for request in self.requests]

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port: int = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client or the test is gone: both are part of some tests
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer. False when the connection is not to be used again."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        received = Received(len(self.requests), method, target, headers, raw, time.monotonic())
        self.requests.append(received)
        script = self._script
        step = script(received) if callable(script) else script[min(received.number, len(script) - 1)]
        self._open += 1
        self.peak = max(self.peak, self._open)
        try:
            await asyncio.sleep(3600.0 if step.fault == "hang" else step.delay)
        finally:
            self._open -= 1
        return await self._answer(step, writer)

    async def _answer(self, step: Step, writer: asyncio.StreamWriter) -> bool:
        if step.fault == "reset":
            writer.transport.abort()
            return False
        length = len(step.payload) + (100 if step.fault == "cut" else 0)
        headers = {"Content-Type": "application/json", "Content-Length": str(length), **step.headers}
        lines = [f"HTTP/1.1 {step.status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + step.payload)
        await writer.drain()
        return step.fault != "cut"
