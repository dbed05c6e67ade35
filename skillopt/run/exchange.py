"""How the journal keeps what a call has beside its texts: pictures, tools and tool calls, files, events. Pure.

A prompt is kept as entries ``[role, hash of the text]`` with a third part where a message has more than a text. Behind
the messages come the ``attachments`` of the request: its tools, and the files that an agent was given, word for word.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skillopt.models.types import File, Message, Reply, Request, Tool, ToolCall, Usage
from skillopt.values import parse_json

ASKED = "request"
FILE = "file"
_NO_MESSAGES = (ASKED, FILE)
_ATTACHED = ("tools", "tool_choice", "collect")


@dataclass(frozen=True, slots=True)
class Attachment:
    """An entry of a prompt that is no message: what it is, its text, and what else belongs to it."""

    kind: str
    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)


def has_more(request: Request) -> bool:
    """Whether a request has attachments."""
    return bool(request.tools or request.files or request.collect)


def attachments(request: Request) -> list[Attachment]:
    """What a request gives a model beside its messages. A file that is no text is kept as its digest."""
    asked = {**_tools(request), **({"collect": list(request.collect)} if request.collect else {})}
    found = [Attachment(ASKED, json.dumps(asked, ensure_ascii=False))] if asked else []
    for file in request.files:
        text = _text(file.content)
        shown = f"sha256:{_digest(file.content)} ({len(file.content)} bytes)" if text is None else text
        found.append(Attachment(FILE, shown, {"path": file.path}))
    return found


def key_parts(request: Request) -> dict[str, Any]:
    """What of the attachments can change the reply, for the journal key."""
    files = [[file.path, _digest(file.content)] for file in request.files]
    return {**_tools(request), "files": files, "collect": list(request.collect)}


def message_detail(message: Message) -> dict[str, Any]:
    """What a message has beside its text. A picture is kept as its digest."""
    detail: dict[str, Any] = {}
    if message.images:
        detail["images"] = [image.digest for image in message.images]
    if message.tool_calls:
        detail["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        detail["tool_call_id"] = message.tool_call_id
    return detail


def shown_prompt(entries: Sequence[tuple[str, str, Mapping[str, Any]]]) -> dict[str, Any]:
    """A stored prompt for people, from its entries ``(kind, text, detail)``: ``messages``, and ``tools``, ``files`` and
    so on where there are any. Raises ``ValueError`` for attachments that are none."""
    messages = [
        {"role": kind, "content": text, **_without(detail, "role", "content")}
        for kind, text, detail in entries
        if kind not in _NO_MESSAGES
    ]
    asked = [_object(text) for kind, text, _ in entries if kind == ASKED]
    files = [{**detail, "content": text} for kind, text, detail in entries if kind == FILE]
    shown = {name: value for part in asked for name, value in part.items() if name in _ATTACHED}
    return {"messages": messages, **shown, **({"files": files} if files else {})}


def reply_extra(reply: Reply) -> dict[str, Any]:
    """What a reply has beside its text and the tokens that have a column, as JSON values."""
    extra: dict[str, Any] = {}
    if reply.usage.cache_write_tokens:
        extra["cache_write_tokens"] = reply.usage.cache_write_tokens
    if reply.tool_calls:
        extra["tool_calls"] = [_call(call) for call in reply.tool_calls]
    if reply.events:
        extra["events"] = [dict(event) for event in reply.events]
    if reply.files:
        extra["files"] = [_stored(file) for file in reply.files]
    return extra


def pack(extra: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(extra, ensure_ascii=False).encode("utf-8", "replace"), 1)


def unpack(blob: bytes) -> dict[str, Any]:
    return dict(json.loads(zlib.decompress(blob)))


def unpack_foreign(blob: Any, most: int) -> dict[str, Any]:
    """As ``unpack``, for what anyone may have packed. Raises ``ValueError`` when it is torn, or unpacked larger than
    ``most`` bytes."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(blob, most)
    except (zlib.error, TypeError):
        raise ValueError("what it has beside its text is torn") from None
    if unpacking.unconsumed_tail:
        raise ValueError("what it has beside its text is too large")
    return _object(content)


def _object(content: bytes | str) -> dict[str, Any]:
    value = parse_json(content)
    if not isinstance(value, dict):
        raise ValueError("what it has beside its text is no object")
    return value


def _without(detail: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in detail.items() if name not in names}


def restored(text: str, usage: Usage, key: str, cost_usd: float | None, blob: bytes | None) -> Reply:
    """A reply from the parts in which it is stored; ``blob`` is what it has beside a text (None: nothing)."""
    if blob is None:
        return Reply(text, usage, key, (), (), (), cost_usd)
    extra = unpack(blob)
    return Reply(
        text,
        replace(usage, cache_write_tokens=extra.get("cache_write_tokens", 0)),
        key,
        tuple(ToolCall(**call) for call in extra.get("tool_calls", ())),
        tuple(extra.get("events", ())),
        tuple(File(file["path"], _bytes(file)) for file in extra.get("files", ())),
        cost_usd,
    )


def _tools(request: Request) -> dict[str, Any]:
    if not request.tools:
        return {}
    return {"tools": [_tool(tool) for tool in request.tools], "tool_choice": request.tool_choice}


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


def _call(call: ToolCall) -> dict[str, str]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def _stored(file: File) -> dict[str, str]:
    text = _text(file.content)
    if text is None:
        return {"path": file.path, "base64": base64.b64encode(file.content).decode()}
    return {"path": file.path, "content": text}


def _bytes(stored: Mapping[str, str]) -> bytes:
    return base64.b64decode(stored["base64"]) if "base64" in stored else stored["content"].encode()


def _text(content: bytes) -> str | None:
    """The content of a text file; None when it is none."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
