"""Client CPU of one model call: HttpChat against a small server in another process.

    python benchmarks/model_call.py [--calls 4000] [--workers 32] [--prompt-chars 10000] [--latency 0.02]

Prints the CPU milliseconds that this process spends on a call (all of it: building the request, sending, waiting for
its turn, reading, booking), and of it what a bare aiohttp POST of the same bytes takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp

from skillopt.models.http import HttpChat, open_session
from skillopt.models.limiter import Limiter
from skillopt.models.resolve import resolve_role
from skillopt.models.types import Attempt, Message, Request

REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "usage": {"prompt_tokens": 2500, "completion_tokens": 20, "total_tokens": 2520},
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "The second passage says so.\n<answer>Paris</answer>"},
        }
    ],
}


class Server(asyncio.Protocol):
    """The least HTTP that answers a POST after ``latency`` seconds."""

    latency = 0.0
    answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if found and len(body) >= int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            self._buffer = b""
            asyncio.get_running_loop().call_later(self.latency, self._transport.write, self.answer)


async def serve(latency: float) -> None:
    body = json.dumps(REPLY).encode()
    Server.latency = latency
    Server.answer = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Counter:
    """The least meter."""

    calls = 0

    def admit(self) -> None: ...

    def record(self, attempt: Attempt) -> None:
        self.calls += attempt.kind == "ok"


async def cpu_of(call: Callable[[int], Awaitable[object]], calls: int, workers: int) -> tuple[float, float]:
    """CPU milliseconds a call, and calls a second, of ``workers`` callers that share ``calls``."""
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*[call(-1) for _ in range(workers)])  # opens the connections
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*[work() for _ in range(workers)])
    return (time.process_time() - cpu) / calls * 1000, calls / (time.perf_counter() - wall)


async def measure(port: int, calls: int, workers: int, prompt_chars: int) -> None:
    system, context = "You answer questions." * 40, ("passage " * (prompt_chars // 8 + 1))[:prompt_chars]

    def request(number: int) -> Request:
        return Request((Message("system", system), Message("user", f"{context}{number}")), max_tokens=512)

    role = resolve_role("target", environ={}, base_url=f"http://127.0.0.1:{port}/v1", model="m")
    meter = Counter()
    async with open_session() as session:
        model = HttpChat.of(role, session, Limiter({"target": workers}), meter)
        ours, rate = await cpu_of(lambda number: model.complete(request(number)), calls, workers)
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": system + context}]}).encode()
        bare, _ = await cpu_of(lambda _: post(session, port, body), calls, workers)
    assert meter.calls == calls + workers
    print(f"HttpChat: {ours:.3f} ms CPU a call, {rate:.0f} calls/s; bare aiohttp POST: {bare:.3f} ms")


async def post(session: aiohttp.ClientSession, port: int, body: bytes) -> None:
    async with session.post(f"http://127.0.0.1:{port}/v1/chat/completions", data=body) as response:
        await response.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--prompt-chars", type=int, default=10_000)
    parser.add_argument("--latency", type=float, default=0.02, help="seconds the server takes to answer")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.latency))
        return
    command = [sys.executable, __file__, "--serve", "--latency", str(options.latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            asyncio.run(measure(port, options.calls, options.workers, options.prompt_chars))
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
