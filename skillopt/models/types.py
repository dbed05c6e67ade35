"""What goes to a model and what comes back, whichever provider speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from skillopt.types import Role

ReplyStyle = Literal["full", "compact"]


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call. All but ``stage``, ``priority`` and ``timeout`` can change the reply and belong to its journal key.

    ``max_tokens`` bounds the completion (tokens), ``timeout`` the wall clock of one HTTP request (seconds).
    ``json_schema`` asks for a JSON reply of that shape, ``grammar`` (GBNF) for a reply in that grammar, each where the
    provider can. ``replicate`` tells repeated samples of one prompt apart. ``stage`` is the token-accounting label;
    of two waiting calls the one with the lower ``priority`` goes first.
    """

    messages: tuple[Message, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    json_schema: Mapping[str, Any] | None = None
    grammar: str | None = None
    replicate: int = 0
    stage: str = "rollout"
    priority: int = 0
    timeout: float = 300.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. Cached tokens are part of the prompt's, reasoning tokens of the completion's."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete, non-empty reply. ``key`` is its journal key ('' when it did not pass through a journal)."""

    text: str
    usage: Usage = Usage()
    key: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One finished HTTP request, as the meter books it: a reply, or a failure of ``kind``."""

    role: Role
    stage: str
    kind: str
    usage: Usage
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model in a role. All but ``role`` and ``reply_style`` goes into every journal key. It holds no secret.

    ``parameters`` are provider-specific request fields (such as ``chat_template_kwargs``), sent as they are.
    """

    role: Role
    provider: str
    model: str
    base_url: str
    temperature: float | None = None
    reasoning_effort: str | None = None
    reply_style: ReplyStyle = "full"
    parameters: Mapping[str, Any] = field(default_factory=dict)


class ChatModel(Protocol):
    """A model that answers one request. Raises ``ModelError`` or ``StopRequested``; never returns an empty reply."""

    spec: ModelSpec

    async def complete(self, request: Request) -> Reply: ...


class Meter(Protocol):
    """Admits and books every HTTP request of a run."""

    def admit(self) -> None:
        """Called before a request is sent. Raises ``StopRequested`` when no further request may start."""

    def record(self, attempt: Attempt) -> None:
        """Called once for every admitted request, when it has ended, also when it failed."""
