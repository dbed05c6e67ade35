"""What goes to a model and what comes back, whichever provider speaks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from skillopt.types import Role

ReplyStyle = Literal["full", "compact"]


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a message. ``media_type`` is ``image/png``, ``image/jpeg``, ``image/webp`` or ``image/gif``."""

    media_type: str
    data: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """What stands for the picture in a journal key and in stored prompts."""
        return f"{self.media_type} sha256:{hashlib.sha256(self.data).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may ask to have called. ``parameters`` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asks for. ``arguments`` is JSON text as the model wrote it; it may not parse."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``role`` is ``system``, ``user``, ``assistant`` or ``tool``.

    ``images`` belong to a user's message and come before its text. An assistant's message may ask for ``tool_calls``;
    each is answered by a message of the role ``tool`` with its ``tool_call_id``.
    """

    role: str
    content: str
    images: tuple[Image, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """A file in an agent's workspace; ``path`` is relative to it, with forward slashes."""

    path: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Request:
    """One call. All but ``stage``, ``item``, ``priority`` and ``timeout`` can change the reply and belong to its
    journal key.

    ``max_tokens`` bounds the completion (tokens), ``timeout`` the wall clock of one HTTP request (seconds).
    ``json_schema`` asks for a JSON reply of that shape, ``grammar`` (GBNF) for a reply in that grammar, each where the
    provider can. ``tool_choice`` is ``auto``, ``required``, ``none`` or the name of one of ``tools``. ``files`` are
    what an agent finds in its workspace, ``collect`` the paths that it is to leave there. ``replicate`` tells repeated
    samples of one prompt apart. ``stage`` is the token-accounting label, ``item`` the id of the item that is asked
    about ('': of none); of two waiting calls the one with the lower ``priority`` goes first.
    """

    messages: tuple[Message, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    json_schema: Mapping[str, Any] | None = None
    grammar: str | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    files: tuple[File, ...] = ()
    collect: tuple[str, ...] = ()
    replicate: int = 0
    stage: str = "rollout"
    item: str = ""
    priority: int = 0
    timeout: float = 300.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. Cached tokens are part of the prompt's, reasoning tokens of the completion's.

    So are ``cache_write_tokens``: what the provider kept of the prompt for later calls, where it charges for that.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply: it has a text or asks for tool calls. ``key`` is its journal key ('' without a journal).

    An agent's reply also holds the ``events`` of its trajectory, in the form of ``conversation.json``, and the
    ``files`` that were to be collected. ``cost_usd`` is what the provider itself says that the call cost; from a
    journal it comes with what it costs by the price of the model, where the provider says nothing.
    """

    text: str
    usage: Usage = Usage()
    key: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()
    files: tuple[File, ...] = ()
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One finished request (over HTTP, or a run of a program), as the meter books it: a reply, or a failure of
    ``kind``. ``cost_usd`` is what the provider itself says that it cost."""

    role: Role
    stage: str
    kind: str
    usage: Usage
    seconds: float
    cost_usd: float | None = None


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
