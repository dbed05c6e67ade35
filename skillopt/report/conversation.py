"""What passed between a target and an item: as a pass stored it, else as the journal holds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillopt.data.splits import safe_name
from skillopt.report.files import read_json
from skillopt.report.nouns import Conversation
from skillopt.run.calls import stored_call
from skillopt.run.folder import FolderError
from skillopt.values import mappings, text

_LIMIT = 8 << 20


def read_conversation(root: Path, name: str, item_id: str, row: Mapping[str, Any]) -> Conversation:
    """The conversation of an item in the pass ``name``, whose row says which call it was."""
    below = f"{name}/predictions" if name else "predictions"
    folders = dict.fromkeys((safe_name(item_id), item_id))
    found = (read_json(root, f"{below}/{folder}/conversation.json", _LIMIT) for folder in folders)
    document = next((each for each in found if each.value is not None or each.problem), None)
    if document is not None:
        return Conversation(mappings(document.value), document.problem)
    key = text(row.get("call_key"))
    try:
        call = stored_call(root, key, most=_LIMIT) if key else None
    except FolderError as error:
        return Conversation((), str(error))
    problem = text(call.get("problem")) if call else ""
    return Conversation((), problem) if call is None or problem else Conversation(conversation_of(call))


def conversation_of(call: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """A stored call as one conversation: the files that an agent was given, what was asked, what was done and said.
    Pure."""
    files = [{"role": f"file {text(file.get('path'))}", "content": file.get("content")} for file in _all(call, "files")]
    reply = {"role": "assistant", "content": text(call.get("reply"))}
    if call.get("reply_tool_calls"):
        reply["tool_calls"] = call["reply_tool_calls"]
    events = _all(call, "events")
    told = bool(events) and events[-1].get("role") == "assistant" and events[-1].get("content") == reply["content"]
    return (*files, *_all(call, "messages"), *events, *(() if told else (reply,)))


def role_and_words(message: Mapping[str, Any]) -> tuple[str, str]:
    """Who or what speaks in an entry of a conversation, and the words; what is no text, as JSON. Pure."""
    role = text(message.get("role") or message.get("type") or message.get("event") or "entry")
    content = message.get("content")
    if not isinstance(content, str):
        return role, _json(content if content is not None else _without(message, "role", "content"))
    rest = _without(message, "role", "content", "type", "event")
    return role, "\n".join(filter(None, (content, _json(rest) if rest else "")))


def _all(call: Mapping[str, Any], key: str) -> tuple[Mapping[str, Any], ...]:
    return mappings(call.get(key))


def _without(message: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key not in keys}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)
