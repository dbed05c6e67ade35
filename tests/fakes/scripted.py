"""A chat model that answers from a script, and rollouts to show it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from skillopt.models.types import ModelSpec, Reply, Request
from skillopt.types import Failure, Item, Outcome, Rollout, Score

Answer = str | dict[str, Any] | BaseException
Script = Callable[[Request], Answer] | Sequence[Answer]


class ScriptedModel:
    """Answers each request with what the script says: a text, an object (sent as JSON) or an exception (raised).

    A sequence answers in the order of the requests and must not run out. ``delays`` (seconds, in the order of the
    requests) lets calls end in another order than they began. All requests are kept.
    """

    def __init__(self, script: Script, delays: Sequence[float] = ()) -> None:
        self.spec = ModelSpec("optimizer", "scripted", "scripted-optimizer", "http://localhost")
        self.requests: list[Request] = []
        self._script = script
        self._delays = delays

    async def complete(self, request: Request) -> Reply:
        number = len(self.requests)
        self.requests.append(request)
        answer = self._script(request) if callable(self._script) else self._script[number]
        if number < len(self._delays):
            await asyncio.sleep(self._delays[number])
        if isinstance(answer, BaseException):
            raise answer
        return Reply(answer if isinstance(answer, str) else json.dumps(answer), key=f"key-{number}")

    @property
    def stages(self) -> list[str]:
        return [request.stage for request in self.requests]

    def system(self, number: int = 0) -> str:
        return self.requests[number].messages[0].content

    def user(self, number: int = 0) -> str:
        return self.requests[number].messages[1].content


def no_calls(request: Request) -> Answer:
    """A script for code that must not ask."""
    raise AssertionError(f"unexpected {request.stage} call")


def rollout(
    number: int,
    hard: float | None = 0.0,
    *,
    question: str = "",
    user_prompt: str = "",
    answer: str = "some answer",
    reason: str = "wrong answer",
    feedback: str = "",
    reply: str = "",
    system_prompt: str = "You answer questions.",
    **data: Any,
) -> Rollout:
    """A rollout of item ``item-<number>``; ``hard`` None is one that could not be measured."""
    question = question or f"question {number}?"
    outcome: Outcome = (
        Failure("timeout", "too slow")
        if hard is None
        else Score(hard, hard, reason="" if hard else reason, feedback=feedback or f"expected gold {number}")
    )
    user_prompt = user_prompt or f"## Question\n{question}"
    events = [{"role": "user", "content": user_prompt}, {"role": "assistant", "content": reply or f"I say {answer}"}]
    return Rollout(
        Item(f"item-{number}", {"question": question, **data}),
        "skillhash",
        outcome,
        answer,
        events,
        system_prompt,
        user_prompt,
    )


def edit(content: str, op: str = "append", target: str = "") -> dict[str, Any]:
    return {"op": op, "target": target, "content": content}


def failure_reply(*contents: str, batch_size: Any = 2) -> dict[str, Any]:
    """A failure analyst's reply that appends ``contents``."""
    return {
        "batch_size": batch_size,
        "failure_summary": [{"failure_type": "form", "count": 2, "description": "wrong form"}],
        "patch": {"reasoning": "because", "edits": [edit(content) for content in contents]},
    }
