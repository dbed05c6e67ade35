"""The way of every target from an item to a scored rollout; how it is asked is what harnesses differ in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from skillopt.envs.base import Env
from skillopt.envs.scoring import make_task, score_reply
from skillopt.models.errors import ModelError
from skillopt.models.types import ChatModel, Reply, Request
from skillopt.skill import Skill
from skillopt.types import Failure, Item, Outcome, Rollout, Score, Task

Event = Mapping[str, Any]

# What the target or the skill brought about, and would again: it counts as a zero. Anything else was not measured.
_OWN_DOING = ("refused", "context_overflow")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for an item, and its two parts as the optimizer reads them: the role with the skill, and the item."""

    request: Request
    system: str
    user: str


class Harness(ABC):
    """Asks ``model`` for each item. ``timeout`` bounds one request (seconds)."""

    def __init__(self, model: ChatModel, *, timeout: float = 300.0) -> None:
        self._model = model
        self._timeout = timeout

    @abstractmethod
    def ask(self, task: Task, skill: Skill) -> Asked:
        """How the target is asked for a task under a skill. Pure."""

    @abstractmethod
    def events(self, reply: Reply) -> tuple[Event, ...]:
        """What the target did, in the form of ``conversation.json``."""

    def request(self, env: Env, item: Item, skill: Skill, *, priority: int = 0, replicate: int = 0) -> Request:
        """The request that ``run`` sends for an item. Raises ``EnvError``."""
        asked = self.ask(make_task(env, item), skill).request
        return replace(asked, item=item.id, priority=priority, replicate=replicate)

    async def run(
        self, env: Env, item: Item, skill: Skill, *, priority: int = 0, stage: str = "rollout", replicate: int = 0
    ) -> Rollout:
        """One item under one skill, scored or failed.

        Raises ``ModelError`` of kind ``auth`` and ``StopRequested``, which end a run, and ``EnvError``.
        """
        task = make_task(env, item)
        asked = self.ask(task, skill)
        request = replace(
            asked.request, priority=priority, stage=stage, item=item.id, replicate=replicate, timeout=self._timeout
        )
        try:
            reply = await self._model.complete(request)
        except ModelError as error:
            if error.kind == "auth":
                raise
            outcome = _outcome(error)
            said = ({"role": "assistant", "content": error.raw},)
            trajectory = _trajectory(asked, said, outcome.feedback) if isinstance(outcome, Score) else ()
            return Rollout(item, skill.hash, outcome, "", trajectory, asked.system, asked.user)
        answer, score = score_reply(env, item, task, reply.text)
        events = self.events(reply)
        turns = sum(event.get("role") == "assistant" or event.get("type") == "tool_call" for event in events)
        if turns > 1:
            score = replace(score, detail={**score.detail, "n_turns": turns})
        trajectory = _trajectory(asked, events, score.feedback)
        return Rollout(item, skill.hash, score, answer.text, trajectory, asked.system, asked.user, reply.key)


def _outcome(error: ModelError) -> Outcome:
    if error.kind in _OWN_DOING:
        reason = f"no answer: {error}"
        detail = {"response": error.raw, "fail_reason": reason, "agent_ok": False}
        return Score(0.0, 0.0, "agent_error", reason, f"The target gave no answer. {error}", detail)
    if error.kind == "timeout":
        return Failure(error.kind, str(error), "timeout")
    return Failure(error.kind, str(error), "infra_error")


def _trajectory(asked: Asked, events: tuple[Event, ...], feedback: str) -> tuple[Event, ...]:
    return ({"role": "user", "content": asked.user}, *events, {"role": "system", "content": feedback})
