"""The chat target: one request an item, the skill in the system message."""

from __future__ import annotations

from skillopt.envs.base import Env
from skillopt.envs.scoring import make_task, score_reply
from skillopt.models.errors import ModelError
from skillopt.models.types import ChatModel, Message, Reply, Request
from skillopt.skill import Skill
from skillopt.types import Failure, Item, Outcome, Rollout, Score, Task

# What the target or the skill brought about, and would again: it counts as a zero. Anything else was not measured.
_OWN_DOING = ("refused", "context_overflow")


def compose(task: Task, skill_text: str) -> tuple[Message, ...]:
    """The messages of a task under a skill; a blank skill leaves no trace. Pure."""
    system = f"{task.system}\n\n## Skill\n{skill_text}" if skill_text.strip() else task.system
    return Message("system", system), Message("user", task.user)


class ChatHarness:
    """Asks a chat model. ``max_tokens`` bounds the reply (tokens), ``timeout`` one HTTP request (seconds)."""

    def __init__(
        self,
        model: ChatModel,
        *,
        max_tokens: int | None = None,
        timeout: float = 300.0,
        temperature: float | None = None,
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._timeout = timeout
        self._temperature = temperature

    async def run(
        self, env: Env, item: Item, skill: Skill, *, priority: int = 0, stage: str = "rollout", replicate: int = 0
    ) -> Rollout:
        """One item under one skill, scored or failed.

        Raises ``ModelError`` of kind ``auth`` and ``StopRequested``, which end a run, and ``EnvError``.
        """
        task = make_task(env, item)
        messages = compose(task, skill.text)
        request = Request(
            messages,
            max_tokens=self._max_tokens,
            temperature=self._temperature,
            grammar=task.grammar,
            replicate=replicate,
            stage=stage,
            priority=priority,
            timeout=self._timeout,
        )
        try:
            reply = await self._model.complete(request)
        except ModelError as error:
            if error.kind == "auth":
                raise
            return _without_reply(item, skill, messages, error)
        return _scored(env, item, skill, task, messages, reply)


def _scored(env: Env, item: Item, skill: Skill, task: Task, messages: tuple[Message, ...], reply: Reply) -> Rollout:
    system, user = (message.content for message in messages)
    answer, score = score_reply(env, item, task, reply.text)
    trajectory = _trajectory(user, reply.text, score.feedback)
    return Rollout(item, skill.hash, score, answer.text, trajectory, system, user)


def _without_reply(item: Item, skill: Skill, messages: tuple[Message, ...], error: ModelError) -> Rollout:
    system, user = (message.content for message in messages)
    outcome = _outcome(error)
    trajectory = _trajectory(user, error.raw, outcome.feedback) if isinstance(outcome, Score) else ()
    return Rollout(item, skill.hash, outcome, "", trajectory, system, user)


def _outcome(error: ModelError) -> Outcome:
    if error.kind in _OWN_DOING:
        reason = f"no answer: {error}"
        detail = {"response": error.raw, "fail_reason": reason, "agent_ok": False}
        return Score(0.0, 0.0, "agent_error", reason, f"The target gave no answer. {error}", detail)
    if error.kind == "timeout":
        return Failure(error.kind, str(error), "timeout")
    return Failure(error.kind, str(error), "infra_error")


def _trajectory(user: str, reply: str, feedback: str) -> tuple[dict[str, str], ...]:
    events = (("user", user), ("assistant", reply), ("system", feedback))
    return tuple({"role": role, "content": content} for role, content in events)
