"""Claude Code: ``claude -p --output-format stream-json``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from skillopt.agents.description import Cli, Event, Job, LoginFile
from skillopt.agents.notes import Called, Edited, Ended, Note, Returned, Said, Spent, Thought, Total, Wrong
from skillopt.agents.values import compact, count, items, mapping, price, text
from skillopt.models.types import Usage

TOOLS = "Bash,Edit,Glob,Grep,Read,Write"
_EXIT = re.compile(r"\s*(?:Error: )?Exit code (\d+)\n?")
_EDITS = {"Write": "add", "Edit": "update", "MultiEdit": "update", "NotebookEdit": "update"}


def arguments(job: Job) -> list[str]:
    """The arguments of one run. An agent has its named tools and no others, allowed beforehand: nobody is asked."""
    given = job.parameters
    tools = _list(given.get("tools")) or TOOLS
    argv = ["-p", "--output-format", "stream-json", "--verbose"]
    argv += ["--permission-mode", str(given.get("permission_mode") or "dontAsk")]
    argv += ["--tools", tools, "--allowedTools", tools] if job.agent else ["--tools", ""]
    argv += ["--add-dir", str(job.work), "--setting-sources", _list(given.get("setting_sources"))]
    argv += ["--strict-mcp-config"]
    if job.images:
        argv += ["--input-format", "stream-json"]
    if job.model:
        argv += ["--model", job.model]
    if job.effort:
        argv += ["--effort", job.effort]
    if given.get("max_thinking_tokens"):
        argv += ["--max-thinking-tokens", str(given["max_thinking_tokens"])]
    if job.system is not None:
        argv += ["--append-system-prompt-file" if job.agent else "--system-prompt-file", str(job.system)]
    if given.get("profile"):
        argv += ["--append-system-prompt", f"Profile: {given['profile']}"]
    if job.schema is not None:
        argv += ["--json-schema", job.schema_text]
    return argv


def _list(value: Any) -> str:
    return value.replace(" ", "") if isinstance(value, str) else ",".join(map(str, value or ()))


def read(event: Event) -> Iterator[Note]:
    """One event: ``system``, ``assistant``, ``user`` or ``result``."""
    kind, message = event.get("type"), mapping(event, "message")
    if kind == "assistant":
        for block in items(message.get("content")):
            yield from _block(block)
        if message.get("usage") and message.get("id"):
            yield Spent(text(message["id"]), _usage(mapping(message, "usage")))
    elif kind == "user":
        for block in items(message.get("content")):
            if block.get("type") == "tool_result":
                yield _returned(block)
    elif kind == "result":
        yield from _result(event)


def _block(block: Mapping[str, Any]) -> Iterator[Note]:
    kind = block.get("type")
    if kind == "text":
        yield Said(text(block.get("text")))
    elif kind == "thinking":
        yield Thought(text(block.get("thinking")))
    elif kind == "tool_use":
        name, id_, given = text(block.get("name")), text(block.get("id")), mapping(block, "input")
        if name == "Bash":
            yield Called(id_, text(given.get("command")), shell=True)
        elif name in _EDITS:
            yield Edited(text(given.get("file_path") or given.get("notebook_path")), _EDITS[name], id_)
        elif name != "StructuredOutput":  # its input is the answer, which the result holds
            yield Called(id_, f"{name} {compact(given)}")


def _returned(block: Mapping[str, Any]) -> Note:
    output, failed = text(block.get("content")), block.get("is_error") is True
    exit_ = _EXIT.match(output) if failed else None
    if exit_ is not None:
        return Returned(text(block.get("tool_use_id")), output[exit_.end() :], int(exit_[1]), failed)
    return Returned(text(block.get("tool_use_id")), output, None, failed)


def _result(event: Event) -> Iterator[Note]:
    usage = mapping(event, "usage")
    yield Total(_usage(usage) if usage else None, price(event.get("total_cost_usd")))
    said, subtype = text(event.get("result")), text(event.get("subtype"))
    if event.get("is_error") is True or subtype.startswith("error"):
        errors = event.get("errors")
        status = text(event.get("api_error_status"))
        yield Wrong(said or text(errors) or subtype, fatal=True, kind=f"{subtype} {status}".strip())
    elif event.get("structured_output") is not None:
        yield Ended(compact(event["structured_output"]))
    else:
        if event.get("stop_reason") == "max_tokens":
            yield Wrong("the answer was cut at the limit of output tokens", fatal=True, kind="max_tokens")
        yield Ended(said)


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Anthropic counts what it read from the cache, and what it wrote there, apart from the input."""
    read_ = count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    prompt = count(usage.get("input_tokens")) + written + read_
    return Usage(prompt, count(usage.get("output_tokens")), read_, cache_write_tokens=written)


CLAUDE = Cli(
    name="claude",
    title="Claude Code",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    login="set ANTHROPIC_API_KEY, or CLAUDE_CODE_OAUTH_TOKEN from `claude setup-token`, or run `claude auth login`",
    log_in="claude auth login",
    secrets=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    settings=("ANTHROPIC_BASE_URL",),
    switches={
        "CLAUDE_CODE_USE_BEDROCK": (
            *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
            *("AWS_REGION", "AWS_DEFAULT_REGION", "ANTHROPIC_BEDROCK_BASE_URL"),
        ),
        "CLAUDE_CODE_USE_VERTEX": (
            *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID"),
            *("CLOUD_ML_REGION", "ANTHROPIC_VERTEX_BASE_URL"),
        ),
    },
    fixed={
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
    config=".claude",
    config_variable="CLAUDE_CONFIG_DIR",
    login_files=(LoginFile(".credentials.json"),),
    arguments=arguments,
    read=read,
    needs=(
        *("--print", "--output-format", "--verbose", "--permission-mode", "--tools", "--allowedTools", "--add-dir"),
        *("--setting-sources", "--strict-mcp-config", "--model", "--effort", "--system-prompt", "--json-schema"),
    ),
    system_in_chat=True,
    system_in_agent=True,
    json_schema=True,
    images=True,
    images_in_stdin=True,
)
