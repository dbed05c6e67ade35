"""Cursor: ``cursor-agent -p --output-format stream-json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skillopt.agents.description import Cli, Event, Job, LoginFile
from skillopt.agents.notes import Called, Edited, Ended, Note, Returned, Said, Total, Wrong
from skillopt.agents.values import compact, count, items, mapping, number, text
from skillopt.models.types import Usage

_EDITS = {"writeToolCall": "add", "editToolCall": "update", "deleteToolCall": "delete"}


def arguments(job: Job) -> list[str]:
    """The arguments of one run. ``--force`` lets an agent act without being asked, so its own sandbox stays on."""
    sandbox = str(job.parameters.get("sandbox") or "enabled")
    argv = ["-p", "--output-format", "stream-json", "--trust", "--workspace", str(job.work), "--sandbox", sandbox]
    argv += ["--force"] if job.agent and sandbox != "disabled" else ["--mode", "ask"] if not job.agent else []
    return [*argv, "--model", job.model] if job.model else argv


def read(event: Event) -> Iterator[Note]:
    """One event: ``system``, ``user``, ``assistant``, ``tool_call`` or ``result``."""
    kind = event.get("type")
    if kind == "assistant":
        yield Said("".join(text(part.get("text")) for part in items(mapping(event, "message").get("content"))))
    elif kind == "tool_call":
        yield from _call(event)
    elif kind == "result":
        usage = mapping(event, "usage")
        if usage:
            cached = count(usage.get("cacheReadTokens"))
            written = count(usage.get("cacheWriteTokens"))
            prompt = count(usage.get("inputTokens")) + written + cached
            yield Total(Usage(prompt, count(usage.get("outputTokens")), cached, cache_write_tokens=written))
        if event.get("is_error") is True:
            yield Wrong(text(event.get("result")), fatal=True, kind=text(event.get("subtype")))
        else:
            yield Ended(text(event.get("result")))


def _call(event: Event) -> Iterator[Note]:
    name = text(event.get("call_id"))
    for tool, body in mapping(event, "tool_call").items():
        if not isinstance(body, dict):
            continue
        given = mapping(body, "args")
        if event.get("subtype") == "started":
            yield from _started(name, tool, given, body)
        elif event.get("subtype") == "completed":
            yield from _completed(name, tool, mapping(body, "result"))


def _started(name: str, tool: str, given: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[Note]:
    if tool == "shellToolCall":
        yield Called(name, text(given.get("command")), shell=True)
    elif tool in _EDITS:
        yield Edited(text(given.get("path")), _EDITS[tool], name)
    elif tool == "function":
        yield Called(name, f"{text(body.get('name'))} {text(body.get('arguments'))}")
    else:
        yield Called(name, f"{tool.removesuffix('ToolCall')} {compact(given)}")


def _completed(name: str, tool: str, result: Mapping[str, Any]) -> Iterator[Note]:
    good = mapping(result, "success")
    failed = bool(result) and "success" not in result
    bad = next((value for value in result.values() if isinstance(value, dict)), {}) if failed else {}
    body = bad if failed else good
    if tool == "shellToolCall":
        output = "".join(text(body.get(stream)) for stream in ("stdout", "stderr"))
        yield Returned(name, output or text(body.get("message")), number(body.get("exitCode")), failed)
        return
    output = text(body.get("content")) or text(body.get("message") or body.get("error")) or compact(body)
    yield Returned(name, output, None, failed)


CURSOR = Cli(
    name="cursor",
    title="Cursor CLI",
    program="cursor-agent",
    install="see Cursor's documentation of its command line",
    login="run `cursor-agent login`, or set CURSOR_API_KEY",
    log_in="cursor-agent login",
    secrets=("CURSOR_API_KEY",),
    config=".config/cursor",
    login_files=(LoginFile("auth.json"),),
    fixed={"CURSOR_INVOKED_AS": "cursor-agent"},
    arguments=arguments,
    read=read,
    needs=("--print", "--output-format", "--trust", "--workspace", "--sandbox", "--force", "--model"),
)
