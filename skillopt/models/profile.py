"""What a provider is, and who serves a role."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from skillopt.models.types import ModelSpec, ReplyStyle
from skillopt.types import Role

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]
Protocol = Literal["chat", "responses", "messages", "cli"]
Auth = Literal["bearer", "api-key", "x-api-key"]
Credential = Literal["key", "azure_cli", "managed_identity"]

ANY_VENDOR = "*"
PATIENCE = 30.0
"""Seconds that a probe over HTTP may take: a server of one's own may have to load its model first."""
BOTH_ROLES: tuple[Role, ...] = ("optimizer", "target")


@dataclass(frozen=True, slots=True)
class Provider:
    """What differs between providers.

    ``prefix`` begins the names of its settings: ``{prefix}_API_KEY``, ``{prefix}_BASE_URL`` and so on, also with
    ``TARGET_`` or ``OPTIMIZER_`` before it; ``also`` are further prefixes. ``max_tokens_field``, ``json_schema``,
    ``grammar`` (GBNF) and ``reasoning_effort`` say how a first request is written; what a server refuses of it, the
    client learns. ``tools`` and ``images`` say what it can be asked to take. ``router``: its models carry the names of
    other vendors (``openai/gpt-x``). ``any_endpoint``: the name stands for whatever endpoint its URL leads to.
    ``openai_models``: its models are OpenAI's. ``responses``: so is its Responses API. ``temperature`` and
    ``max_tokens`` (a cap) hold where nothing is configured. ``patience`` is how long the probe may take (seconds).

    ``vendor`` has the prices of its models: another name than its own, ``ANY_VENDOR``, or ``local`` for models that
    cost nothing on this machine. ``tells_cost``: each reply says what it cost.

    ``start`` and ``pull`` are commands for a server of one's own, with ``{model}``: to start it, to get a model.

    A row of the protocol ``cli`` is a program: ``program`` is its name, ``agent`` says that it works in a folder.
    ``note`` is for people.
    """

    name: str
    prefix: str
    base_url: str
    protocol: Protocol = "chat"
    auth: Auth = "bearer"
    max_tokens_field: MaxTokensField = "max_tokens"
    json_schema: bool = True
    grammar: bool = False
    reasoning_effort: bool = True
    tools: bool = True
    images: bool = True
    reply_style: ReplyStyle = "full"
    needs_key: bool = True
    default_model: str = ""
    note: str = ""
    also: tuple[str, ...] = ()
    router: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    program: str = ""
    agent: bool = False
    roles: tuple[Role, ...] = BOTH_ROLES
    any_endpoint: bool = False
    openai_models: bool = False
    responses: bool = False
    patience: float = PATIENCE
    vendor: str = ""
    tells_cost: bool = False
    start: str = ""
    pull: str = ""

    @property
    def prefixes(self) -> tuple[str, ...]:
        return (self.prefix, *self.also) if self.prefix else ()


@dataclass(frozen=True, slots=True)
class ResolvedRole:
    """Who serves a role. ``spec`` is its identity (no secret in it), ``profile`` its row with all that is settled.

    ``key_source`` names the variable or the configuration key that the API key came from ('' without one). ``proxy`` is
    the HTTP proxy to go through, or None. ``notes`` are lines to show to the user: choices that were made for them.

    ``credential`` says how requests are authorised: with ``api_key``, or with Azure tokens for ``ad_scope`` (and
    ``client_id``, a managed identity). ``max_tokens`` caps the completion tokens of every request, ``timeout``
    (seconds) replaces that of every request; None leaves requests as they are. ``program`` is the executable of an
    agent or a chat program, ``home`` the folder it keeps its own files in ('' leaves it to the program).
    """

    spec: ModelSpec
    profile: Provider
    api_key: str | None = field(repr=False)
    key_source: str = ""
    proxy: str | None = None
    notes: tuple[str, ...] = ()
    credential: Credential = "key"
    ad_scope: str = ""
    client_id: str = ""
    max_tokens: int | None = None
    timeout: float | None = None
    program: str = ""
    home: str = ""

    @property
    def place(self) -> str:
        """Where the model is, in words that follow its name."""
        if self.profile.protocol == "cli":
            return f"by the program {self.program or self.profile.program}"
        return f"at {self.spec.base_url}" if self.spec.base_url else "on this machine"
