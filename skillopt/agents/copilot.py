"""GitHub Copilot: ``copilot -p`` with a line of JSON for each event."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from skillopt.agents.description import Cli, Event, Job, LoginFile
from skillopt.agents.notes import Called, Edited, Note, Returned, Said, Spent, Thought, Wrong
from skillopt.agents.trajectory import add_usage
from skillopt.agents.values import compact, count, mapping, switched_on, text
from skillopt.models.types import Usage

_EXIT = re.compile(r"\n?<(?:shellId: \S+ completed with exit code|exited with exit code) (-?\d+)>\s*\Z")
_SHELLS = frozenset({"bash", "powershell", "shell"})
_EDITS = {"create": "add", "edit": "update", "str_replace": "update", "write": "add"}


def arguments(job: Job) -> list[str]:
    """The arguments of one run. One that only answers has no tool at all; an agent may use all of them only where the
    user said so, else those that need no permission: it can read what is in its workspace."""
    argv = ["--output-format", "json", "--stream", "off", "--no-color", "--log-level", "none"]
    argv += [
        "--usage-output-file",
        str(job.usage),
        "-C",
        str(job.work),
        "--disable-builtin-mcps",
        "--no-custom-instructions",
    ]
    if not job.agent:
        argv += ["--available-tools=none"]  # the name of no tool: an empty list would mean all of them
    elif switched_on(job.parameters.get("allow_all_tools")):
        argv += ["--allow-all-tools"]
    if job.model:
        argv += ["--model", job.model]
    for image in job.images:
        argv += ["--attachment", str(image)]
    return [*argv, "-p", job.prompt] if job.prompt is not None else argv


def read(event: Event) -> Iterator[Note]:
    """One event: ``assistant.*``, ``tool.*`` or ``session.*``; its content is in ``data``."""
    kind, data = event.get("type"), mapping(event, "data")
    if kind == "assistant.message":
        if text(data.get("reasoningText")).strip():
            yield Thought(text(data.get("reasoningText")))
        yield Said(text(data.get("content")))
    elif kind == "assistant.reasoning":
        yield Thought(text(data.get("content")))
    elif kind == "assistant.usage":
        cached = count(data.get("cacheReadTokens"))
        yield Spent(
            text(event.get("id")) or compact(data),
            Usage(count(data.get("inputTokens")), count(data.get("outputTokens")), cached),
        )
    elif kind == "tool.execution_start":
        yield from _started(data)
    elif kind == "tool.execution_complete":
        result = mapping(data, "result")
        failed = data.get("success") is False
        said = text(mapping(data, "error").get("message")) if failed else ""
        output = said or text(result.get("content"))
        exit_ = _EXIT.search(output)
        code = int(exit_[1]) if exit_ is not None else None
        yield Returned(text(data.get("toolCallId")), _EXIT.sub("", output), code, failed)
    elif kind == "session.error":
        status = text(data.get("statusCode"))
        yield Wrong(text(data.get("message")), fatal=True, kind=f"{text(data.get('errorType'))} {status}".strip())


def read_usage(written: Event) -> Usage | None:
    """What the program says that the run used, over all models."""
    parts = []
    for metrics in mapping(written, "modelMetrics").values():
        used = mapping(metrics, "usage")
        cached, kept = count(used.get("cacheReadTokens")), count(used.get("cacheWriteTokens"))
        tokens = count(used.get("inputTokens")), count(used.get("outputTokens"))
        parts.append(Usage(*tokens, cached, count(used.get("reasoningTokens")), kept))
    return add_usage(parts) if parts else None


def _started(data: Mapping[str, Any]) -> Iterator[Note]:
    name, tool, given = text(data.get("toolCallId")), text(data.get("toolName")), mapping(data, "arguments")
    if tool in _SHELLS:
        yield Called(name, text(given.get("command")), shell=True)
    elif tool in _EDITS and given.get("path"):
        yield Edited(text(given.get("path")), _EDITS[tool], name)
    else:
        yield Called(name, f"{tool} {compact(given)}")


COPILOT = Cli(
    name="copilot",
    title="GitHub Copilot CLI",
    program="copilot",
    install="npm install -g @github/copilot",
    login="run `copilot login`, or set COPILOT_GITHUB_TOKEN, GH_TOKEN or GITHUB_TOKEN",
    log_in="copilot login",
    secrets=(
        *("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        *("COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN"),
    ),
    settings=(
        *("GH_HOST", "COPILOT_GH_HOST", "COPILOT_OFFLINE", "COPILOT_MODEL", "COPILOT_PROVIDER_BASE_URL"),
        *("COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_WIRE_API", "COPILOT_PROVIDER_AZURE_API_VERSION"),
        *("COPILOT_PROVIDER_MODEL_ID", "COPILOT_PROVIDER_WIRE_MODEL"),
        *("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"),
    ),
    fixed={"COPILOT_AUTO_UPDATE": "false"},
    config=".copilot",
    config_variable="COPILOT_HOME",
    login_files=(LoginFile("config.json", ("logged_in_users", "last_logged_in_user", "copilot_tokens")),),
    arguments=arguments,
    read=read,
    needs=(
        *("--prompt", "--output-format", "--stream", "--no-color", "--log-level", "--disable-builtin-mcps"),
        *("--no-custom-instructions", "--available-tools", "--allow-all-tools", "--model", "--usage-output-file"),
    ),
    images=True,
    read_usage=read_usage,
    prompt_in_argv=True,
)
