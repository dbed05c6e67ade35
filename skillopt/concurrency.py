"""Running and waiting: the event loop of a process, and groups of tasks that end together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


def run(work: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run``, on uvloop where it is installed: it costs less processor time a request."""
    try:
        import uvloop
    except ImportError:  # it is not made for Windows
        return asyncio.run(work)
    return uvloop.run(work)


async def gather_all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs all coroutines at once; results in their order. The first exception cancels and awaits the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await cancel_all(tasks)


async def gather_both(first: Awaitable[T], second: Awaitable[U]) -> tuple[T, U]:
    """Two coroutines (or tasks) of different results at once, under the same rule."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        await cancel_all(tasks)


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels what still runs and waits for it; what the tasks raise is dropped (their owner has seen it or left)."""
    found = list(tasks)
    for task in found:
        task.cancel()
    if found:  # those that are done too: an exception that nobody fetched would be reported as lost
        await asyncio.gather(*found, return_exceptions=True)
