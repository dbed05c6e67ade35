"""The chat target: one request an item, the skill in the system message."""

from __future__ import annotations

from skillopt.envs.scoring import EnvError
from skillopt.harness.base import Asked, Event, Harness
from skillopt.models.types import ChatModel, Image, Message, Reply, Request
from skillopt.skill import Skill
from skillopt.types import Task


def compose(task: Task, skill_text: str) -> tuple[Message, ...]:
    """The messages of a task under a skill; a blank skill leaves no trace. Pure. Raises ``EnvError``."""
    system = f"{task.system}\n\n## Skill\n{skill_text}" if skill_text.strip() else task.system
    images = []
    for attachment in task.attachments:
        if not attachment.media_type.startswith("image/"):
            raise EnvError(
                f"a chat target cannot be given {attachment.name!r} ({attachment.media_type}), only pictures"
            )
        images.append(Image(attachment.media_type, attachment.data))
    return Message("system", system), Message("user", task.user, tuple(images))


class ChatHarness(Harness):
    """Asks a chat model. ``max_tokens`` bounds the reply (tokens), ``timeout`` one request (seconds)."""

    def __init__(
        self,
        model: ChatModel,
        *,
        max_tokens: int | None = None,
        timeout: float = 300.0,
        temperature: float | None = None,
    ) -> None:
        super().__init__(model, timeout=timeout)
        self._max_tokens = max_tokens
        self._temperature = temperature

    def ask(self, task: Task, skill: Skill) -> Asked:
        messages = compose(task, skill.text)
        request = Request(
            messages,
            max_tokens=self._max_tokens,
            temperature=self._temperature,
            grammar=task.grammar,
            timeout=self._timeout,
        )
        return Asked(request, messages[0].content, messages[1].content)

    def events(self, reply: Reply) -> tuple[Event, ...]:
        return ({"role": "assistant", "content": reply.text},)
