"""Replies that come as server-sent events, put together to what the server would have sent in one piece. Pure.

The client asks for no stream. Some gateways stream all the same, and ``stream`` can be among a model's parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Event = dict[str, Any]
_ENDS = ("response.completed", "response.incomplete", "response.failed")


def whole(raw: bytes) -> Any:
    """The body that the events in ``raw`` amount to, or None when they are no events or stop before their end."""
    if not raw.lstrip().startswith((b"event:", b"data:", b":")):
        return None
    events = list(_events(raw.decode("utf-8", "replace")))
    for event in events:
        if event.get("error"):
            return event
        if event.get("type") in _ENDS:
            return event.get("response")
    if any(event.get("type") == "message_start" for event in events):
        return _message(events)
    return _completion(events)


def _events(text: str) -> Iterator[Event]:
    for block in text.replace("\r\n", "\n").split("\n\n"):
        data = "\n".join(line[5:].strip() for line in block.split("\n") if line.startswith("data:"))
        try:
            event = json.loads(data)
        except ValueError:
            continue  # a comment, or the word [DONE]
        if isinstance(event, dict):
            yield event


def _message(events: Iterable[Event]) -> Event | None:
    """A reply of the Messages API."""
    message: Event = {}
    blocks: dict[int, Event] = {}
    inputs: dict[int, str] = {}
    ended = False
    for event in events:
        kind, place, delta = event.get("type"), _place(event), _inner(event, "delta")
        if kind == "message_start":
            message = _inner(event, "message")
        elif kind == "content_block_start":
            blocks[place] = _inner(event, "content_block")
        elif kind == "content_block_delta" and place in blocks:
            blocks[place]["text"] = str(blocks[place].get("text") or "") + str(delta.get("text") or "")
            inputs[place] = inputs.get(place, "") + str(delta.get("partial_json") or "")
        elif kind == "message_delta":
            message |= delta
            message["usage"] = {**_inner(message, "usage"), **_inner(event, "usage")}
        ended = ended or kind == "message_stop"
    for place, text in inputs.items():
        if text:
            blocks[place]["input"] = _parsed(text)
    return {**message, "content": [blocks[place] for place in sorted(blocks)]} if ended else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _completion(events: Iterable[Event]) -> Event | None:
    """A reply of the chat protocol."""
    content, refusal, finish, usage = "", "", None, None
    calls: dict[int, Event] = {}
    for event in events:
        usage = event.get("usage") or usage
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        delta = _inner(choice, "delta")
        content += str(delta.get("content") or "")
        refusal += str(delta.get("refusal") or "")
        finish = choice.get("finish_reason") or finish
        parts = delta.get("tool_calls")
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            call = calls.setdefault(_place(part), {"function": {"name": "", "arguments": ""}})
            call["id"] = part.get("id") or call.get("id")
            for name in ("name", "arguments"):
                call["function"][name] += str(_inner(part, "function").get(name) or "")
    if finish is None:
        return None
    message = {"content": content, "refusal": refusal, "tool_calls": [calls[place] for place in sorted(calls)]}
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def _place(event: Event) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _inner(event: Event, name: str) -> Event:
    found = event.get(name)
    return found if isinstance(found, dict) else {}
