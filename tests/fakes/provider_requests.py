"""What providers accept: every field of a request by name and type, all else refused, as one neutral view of it."""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

MAGIC = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}


@dataclass
class Asked:
    """What a request asks for, whichever protocol it came in. ``turns`` are (role, text), without the system prompt."""

    model: str
    system: str = ""
    turns: list[tuple[str, str]] = field(default_factory=list)
    images: list[bytes] = field(default_factory=list)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    choice: str = "auto"
    schema: dict[str, Any] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    effort: str | None = None
    thinking: dict[str, Any] | None = None
    cached: int = 0
    stream: bool = False

    @property
    def text(self) -> str:
        """Everything that was said."""
        return "\n".join([self.system, *(said for _, said in self.turns)])


def picture(media_type: str, text: str) -> bytes:
    """The bytes of an image in base64. Raises ``ValueError`` when they are none, or not of that type."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"invalid base64: {error}") from None
    if media_type not in MAGIC or not data.startswith(MAGIC[media_type]):
        raise ValueError(f"the image is not {media_type}")
    return data


def from_url(url: str) -> bytes:
    head, _, text = url.partition(";base64,")
    if not head.startswith("data:") or not text:
        raise ValueError("an image URL must be a data URL")
    return picture(head.removeprefix("data:"), text)


def _data_url(url: str) -> str:
    from_url(url)
    return url


def _json_object(text: str) -> str:
    if not isinstance(json.loads(text), dict):
        raise ValueError("arguments must be a JSON object")
    return text


def _object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") != "object":
        raise ValueError("a schema of an object is due")
    return schema


Text = Annotated[str, Field(min_length=1)]
DataUrl = Annotated[str, AfterValidator(_data_url)]
JsonObject = Annotated[str, AfterValidator(_json_object)]
Schema = Annotated[dict[str, Any], AfterValidator(_object_schema)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Count = Annotated[int, Field(ge=1)]
Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def check_calls(events: Iterator[tuple[str, str]]) -> None:
    """Every call is answered exactly once, and before anybody speaks again. Raises ``ValueError``."""
    open_: set[str] = set()
    for kind, id_ in events:
        if kind == "call":
            open_.add(id_)
        elif kind == "result":
            if id_ not in open_:
                raise ValueError(f"no call {id_!r} waits for a result")
            open_.remove(id_)
        elif open_:
            raise ValueError(f"calls without a result: {sorted(open_)}")
    if open_:
        raise ValueError(f"calls without a result: {sorted(open_)}")


# OpenAI's chat protocol


class _ImageUrl(Strict):
    url: DataUrl


class _TextPart(Strict):
    type: Literal["text"]
    text: Text


class _ImagePart(Strict):
    type: Literal["image_url"]
    image_url: _ImageUrl


class _Function(Strict):
    name: Name
    arguments: JsonObject


class _Call(Strict):
    id: Text
    type: Literal["function"]
    function: _Function


class _System(Strict):
    role: Literal["system"]
    content: Text


class _User(Strict):
    role: Literal["user"]
    content: Text | Annotated[list[_TextPart | _ImagePart], Field(min_length=1)]

    @model_validator(mode="after")
    def images_first(self) -> _User:
        kinds = [part.type for part in self.content] if isinstance(self.content, list) else []
        if kinds != sorted(kinds):
            raise ValueError("images come before text")
        return self


class _Assistant(Strict):
    role: Literal["assistant"]
    content: str | None = None
    tool_calls: Annotated[list[_Call], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def says_something(self) -> _Assistant:
        if not self.content and not self.tool_calls:
            raise ValueError("an assistant's message needs content or tool_calls")
        return self


class _Tool(Strict):
    role: Literal["tool"]
    tool_call_id: Text
    content: str


class _FunctionSchema(Strict):
    name: Name
    description: str
    parameters: Schema


class _ToolSchema(Strict):
    type: Literal["function"]
    function: _FunctionSchema


class _FunctionName(Strict):
    name: Name


class _Choice(Strict):
    type: Literal["function"]
    function: _FunctionName


class _NamedSchema(Strict):
    name: Name
    schema_: Schema = Field(alias="schema")
    strict: bool


class _JsonSchema(Strict):
    type: Literal["json_schema"]
    json_schema: _NamedSchema


class _JsonObject(Strict):
    type: Literal["json_object"]


_ChatMessage = Annotated[_System | _User | _Assistant | _Tool, Field(discriminator="role")]


class ChatRequest(Strict):
    model: Text
    messages: Annotated[list[_ChatMessage], Field(min_length=1)]
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    reasoning_effort: Effort | None = None
    response_format: _JsonSchema | _JsonObject | None = None
    tools: Annotated[list[_ToolSchema], Field(min_length=1)] | None = None
    tool_choice: Literal["none", "required"] | _Choice | None = None

    @model_validator(mode="after")
    def whole(self) -> ChatRequest:
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError("max_tokens and max_completion_tokens exclude each other")
        if self.tool_choice is not None and not self.tools:
            raise ValueError("tool_choice needs tools")
        check_calls(self._events())
        return self

    def _events(self) -> Iterator[tuple[str, str]]:
        for message in self.messages:
            if isinstance(message, _Tool):
                yield "result", message.tool_call_id
                continue
            yield "turn", ""
            if isinstance(message, _Assistant):
                yield from (("call", call.id) for call in message.tool_calls or ())

    def asked(self) -> Asked:
        found = Asked(self.model, max_tokens=self.max_tokens or self.max_completion_tokens)
        found.temperature, found.effort = self.temperature, self.reasoning_effort
        for message in self.messages:
            if isinstance(message, _System):
                found.system += message.content
            elif isinstance(message, _Tool):
                found.results.append((message.tool_call_id, message.content))
            elif isinstance(message, _Assistant):
                found.turns.append(("assistant", message.content or ""))
                for call in message.tool_calls or ():
                    found.calls.append((call.id, call.function.name, json.loads(call.function.arguments)))
            else:
                parts = message.content if isinstance(message.content, list) else []
                texts = [part.text for part in parts if isinstance(part, _TextPart)]
                found.turns.append(("user", "".join(texts) if parts else str(message.content)))
                found.images += [from_url(part.image_url.url) for part in parts if isinstance(part, _ImagePart)]
        found.tools = [tool.function.name for tool in self.tools or ()]
        if self.tool_choice is not None:
            named = isinstance(self.tool_choice, _Choice)
            found.choice = self.tool_choice.function.name if named else str(self.tool_choice)
        if isinstance(self.response_format, _JsonSchema):
            found.schema = self.response_format.json_schema.schema_
        return found


class AzureRequest(ChatRequest):
    max_tokens: None = None


class _TemplateArguments(Strict):
    enable_thinking: bool


class QwenRequest(ChatRequest):
    reasoning_effort: None = None
    chat_template_kwargs: _TemplateArguments | None = None

    def asked(self) -> Asked:
        found = super().asked()
        found.thinking = self.chat_template_kwargs.model_dump() if self.chat_template_kwargs else None
        return found


class _MiniMaxThinking(Strict):
    type: Literal["adaptive", "disabled"]


class MiniMaxRequest(ChatRequest):
    reasoning_effort: None = None
    response_format: None = None
    thinking: _MiniMaxThinking

    def asked(self) -> Asked:
        found = super().asked()
        found.thinking = self.thinking.model_dump()
        return found


# OpenAI's Responses API


class _InputText(Strict):
    type: Literal["input_text"]
    text: Text


class _InputImage(Strict):
    type: Literal["input_image"]
    image_url: DataUrl


class _InputMessage(Strict):
    role: Literal["user", "assistant", "system"]
    content: Text | Annotated[list[_InputText | _InputImage], Field(min_length=1)]


class _FunctionCall(Strict):
    type: Literal["function_call"]
    call_id: Text
    name: Name
    arguments: JsonObject


class _FunctionOutput(Strict):
    type: Literal["function_call_output"]
    call_id: Text
    output: str


class _FlatTool(Strict):
    type: Literal["function"]
    name: Name
    description: str
    parameters: Schema
    strict: Literal[False]


class _FlatChoice(Strict):
    type: Literal["function"]
    name: Name


class _FlatSchema(_NamedSchema):
    type: Literal["json_schema"]


class _TextFormat(Strict):
    format: _FlatSchema | _JsonObject


class _Reasoning(Strict):
    effort: Effort


class ResponsesRequest(Strict):
    model: Text
    instructions: Text | None = None
    input: Annotated[list[_InputMessage | _FunctionCall | _FunctionOutput], Field(min_length=1)]
    store: Literal[False]
    max_output_tokens: Annotated[int, Field(ge=16)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    reasoning: _Reasoning | None = None
    text: _TextFormat | None = None
    tools: Annotated[list[_FlatTool], Field(min_length=1)] | None = None
    tool_choice: Literal["none", "required"] | _FlatChoice | None = None

    @model_validator(mode="after")
    def whole(self) -> ResponsesRequest:
        check_calls(
            (("call" if isinstance(item, _FunctionCall) else "result"), item.call_id)
            if not isinstance(item, _InputMessage)
            else ("turn", "")
            for item in self.input
        )
        return self

    def asked(self) -> Asked:
        found = Asked(self.model, self.instructions or "", max_tokens=self.max_output_tokens)
        found.temperature, found.effort = self.temperature, self.reasoning.effort if self.reasoning else None
        for item in self.input:
            if isinstance(item, _FunctionCall):
                found.calls.append((item.call_id, item.name, json.loads(item.arguments)))
            elif isinstance(item, _FunctionOutput):
                found.results.append((item.call_id, item.output))
            else:
                parts = item.content if isinstance(item.content, list) else []
                texts = [part.text for part in parts if isinstance(part, _InputText)]
                found.turns.append((item.role, "".join(texts) if parts else str(item.content)))
                found.images += [from_url(part.image_url) for part in parts if isinstance(part, _InputImage)]
        found.tools = [tool.name for tool in self.tools or ()]
        if self.tool_choice is not None:
            named = isinstance(self.tool_choice, _FlatChoice)
            found.choice = self.tool_choice.name if named else str(self.tool_choice)
        if self.text is not None and isinstance(self.text.format, _FlatSchema):
            found.schema = self.text.format.schema_
        return found


# Anthropic's Messages API


class _Cache(Strict):
    type: Literal["ephemeral"]


class _Block(Strict):
    cache_control: _Cache | None = None


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("text content blocks must contain non-whitespace text")
    return text


class _TextBlock(_Block):
    type: Literal["text"]
    text: Annotated[str, AfterValidator(_not_blank)]


class _Source(Strict):
    type: Literal["base64"]
    media_type: str
    data: str

    @model_validator(mode="after")
    def is_a_picture(self) -> _Source:
        picture(self.media_type, self.data)
        return self


class _ImageBlock(_Block):
    type: Literal["image"]
    source: _Source


class _ToolUse(_Block):
    type: Literal["tool_use"]
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
    name: Name
    input: dict[str, Any]


class _ToolResult(_Block):
    type: Literal["tool_result"]
    tool_use_id: Text
    content: str


_UserBlock = Annotated[_TextBlock | _ImageBlock | _ToolResult, Field(discriminator="type")]
_AssistantBlock = Annotated[_TextBlock | _ToolUse, Field(discriminator="type")]


class _UserTurn(Strict):
    role: Literal["user"]
    content: Annotated[list[_UserBlock], Field(min_length=1)]


class _AssistantTurn(Strict):
    role: Literal["assistant"]
    content: Annotated[list[_AssistantBlock], Field(min_length=1)]


class _InputSchemaTool(Strict):
    name: Name
    description: str
    input_schema: Schema


class _AnthropicChoice(Strict):
    type: Literal["any", "tool", "none"]
    name: str | None = None


class _OutputFormat(Strict):
    type: Literal["json_schema"]
    schema_: Schema = Field(alias="schema")


class _OutputConfig(Strict):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: _OutputFormat | None = None


class _Thinking(Strict):
    type: Literal["enabled", "adaptive"]
    budget_tokens: Annotated[int, Field(ge=1024)] | None = None


class MessagesRequest(Strict):
    model: Text
    max_tokens: Count
    system: Annotated[list[_TextBlock], Field(min_length=1)] | None = None
    messages: Annotated[list[_UserTurn | _AssistantTurn], Field(min_length=1)]
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    output_config: _OutputConfig | None = None
    tools: Annotated[list[_InputSchemaTool], Field(min_length=1)] | None = None
    tool_choice: _AnthropicChoice | None = None
    thinking: _Thinking | None = None
    stream: bool = False

    @model_validator(mode="after")
    def whole(self) -> MessagesRequest:
        roles = [turn.role for turn in self.messages]
        if roles[0] != "user" or any(a == b for a, b in itertools.pairwise(roles)):
            raise ValueError("roles must alternate, beginning with the user")
        if self.thinking is not None:
            self._check_thinking(self.thinking)
        if sum(block.cache_control is not None for block in self.blocks()) > 4:
            raise ValueError("A maximum of 4 blocks with cache_control may be provided")
        check_calls(self._events())
        return self

    def _check_thinking(self, thinking: _Thinking) -> None:
        if thinking.budget_tokens is not None and self.max_tokens <= thinking.budget_tokens:
            raise ValueError("`max_tokens` must be greater than `thinking.budget_tokens`")
        if self.temperature not in (None, 1.0):
            raise ValueError("`temperature` may only be set to 1 when thinking is enabled")
        if self.tool_choice is not None and self.tool_choice.type != "none":
            raise ValueError("Thinking may not be enabled when tool_choice forces tool use")
        last = [turn for turn in self.messages if turn.role == "assistant"][-1:]
        if thinking.type == "enabled" and any(isinstance(block, _ToolUse) for turn in last for block in turn.content):
            raise ValueError("Expected `thinking`, but found `tool_use`")

    def blocks(self) -> Iterator[_Block]:
        yield from self.system or ()
        for turn in self.messages:
            yield from turn.content

    def _events(self) -> Iterator[tuple[str, str]]:
        for turn in self.messages:
            for block in turn.content:
                if isinstance(block, _ToolUse):
                    yield "call", block.id
                elif isinstance(block, _ToolResult):
                    yield "result", block.tool_use_id
                elif turn.role == "user":
                    yield "turn", ""

    def asked(self) -> Asked:
        found = Asked(self.model, max_tokens=self.max_tokens, temperature=self.temperature, stream=self.stream)
        found.system = "\n\n".join(block.text for block in self.system or ())
        for turn in self.messages:
            found.turns.append((turn.role, "".join(b.text for b in turn.content if isinstance(b, _TextBlock))))
            for block in turn.content:
                if isinstance(block, _ToolUse):
                    found.calls.append((block.id, block.name, block.input))
                elif isinstance(block, _ToolResult):
                    found.results.append((block.tool_use_id, block.content))
                elif isinstance(block, _ImageBlock):
                    found.images.append(picture(block.source.media_type, block.source.data))
        found.tools = [tool.name for tool in self.tools or ()]
        if self.tool_choice is not None:
            found.choice = {"any": "required"}.get(self.tool_choice.type, self.tool_choice.name or "none")
        if self.output_config is not None:
            found.effort = self.output_config.effort
            found.schema = self.output_config.format.schema_ if self.output_config.format else None
        found.thinking = self.thinking.model_dump(exclude_none=True) if self.thinking else None
        found.cached = sum(block.cache_control is not None for block in self.blocks())
        return found
