"""Codex: ``codex exec --json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skillopt.agents.description import Cli, Event, Job, LoginFile
from skillopt.agents.notes import Called, Edited, Note, Returned, Said, Thought, Total, Wrong
from skillopt.agents.values import compact, count, items, mapping, number, switched_on, text
from skillopt.models.types import Usage


def arguments(job: Job) -> list[str]:
    """The arguments of one run. One that only answers may change nothing and reach nothing but its model."""
    given = job.parameters if job.agent else {}
    sandbox = str(given.get("sandbox") or "workspace-write") if job.agent else "read-only"
    network = job.agent and switched_on(given.get("network_access"))
    search = "live" if job.agent and switched_on(given.get("web_search")) else "disabled"
    argv = ["exec", "--json", "--ephemeral", "--skip-git-repo-check", "--color", "never", "-C", str(job.work)]
    argv += ["--sandbox", sandbox]
    argv += ["-c", f'approval_policy="{given.get("approval_policy") or "never"}"']
    argv += ["-c", f"sandbox_workspace_write.network_access={str(network).lower()}"]
    argv += ["-c", f'web_search="{search}"']
    if not job.agent:
        argv += ["-c", "features.shell_tool=false"]
    if job.system is not None:
        argv += ["-c", f'model_instructions_file="{job.system}"']
    if job.parameters.get("profile"):
        argv += ["-p", str(job.parameters["profile"])]
    if job.effort:
        argv += ["-c", f'model_reasoning_effort="{job.effort}"']
    if job.base_url:  # newer versions do not read OPENAI_BASE_URL
        argv += ["-c", f'openai_base_url="{job.base_url}"']
    if job.model:
        argv += ["-m", job.model]
    for image in job.images:
        argv += ["-i", str(image)]
    if job.schema is not None:
        argv += ["--output-schema", str(job.schema)]
    return [*argv, "--output-last-message", str(job.answer), "-"]


def read(event: Event) -> Iterator[Note]:
    """One event: ``thread.*``, ``turn.*``, ``item.*`` or ``error``."""
    kind = event.get("type")
    if kind in ("item.started", "item.completed"):
        yield from _item(mapping(event, "item"), done=kind == "item.completed")
    elif kind == "turn.completed":
        usage = mapping(event, "usage")
        yield Total(
            Usage(
                count(usage.get("input_tokens")),
                count(usage.get("output_tokens")),
                count(usage.get("cached_input_tokens")),
                count(usage.get("reasoning_output_tokens")),
                count(usage.get("cache_write_input_tokens")),
            )
        )
    elif kind == "turn.failed":
        yield Wrong(text(mapping(event, "error").get("message")), fatal=True)
    elif kind == "error":  # also said of a lost connection that is tried again
        yield Wrong(text(event.get("message")))


def _item(item: Mapping[str, Any], done: bool) -> Iterator[Note]:
    kind, name = item.get("type") or item.get("item_type"), text(item.get("id"))
    if kind == "command_execution":
        yield Called(name, text(item.get("command")), shell=True)
        if done:
            failed = item.get("status") in ("failed", "declined")
            yield Returned(name, text(item.get("aggregated_output")), number(item.get("exit_code")), failed)
    elif kind == "mcp_tool_call":
        yield Called(name, f"{text(item.get('server'))}.{text(item.get('tool'))} {compact(item.get('arguments'))}")
        if done:
            error = text(mapping(item, "error").get("message"))
            result = mapping(item, "result")
            yield Returned(name, error or text(result.get("content")), failed=item.get("status") == "failed")
    elif kind == "web_search":
        if done:
            yield Called(name, f"web_search {text(item.get('query'))}")
    elif done and kind in ("agent_message", "assistant_message"):
        yield Said(text(item.get("text")))
    elif done and kind == "reasoning":
        yield Thought(text(item.get("text")))
    elif done and kind == "file_change" and item.get("status") != "failed":
        for change in items(item.get("changes")):
            yield Edited(text(change.get("path")), text(change.get("kind")) or "update")
    elif done and kind == "error":
        yield Wrong(text(item.get("message")))


CODEX = Cli(
    name="codex",
    title="Codex CLI",
    program="codex",
    install="npm install -g @openai/codex",
    login="run `codex login`, or set CODEX_API_KEY or OPENAI_API_KEY",
    log_in="codex login",
    secrets=("CODEX_API_KEY",),
    weak_secrets=("OPENAI_API_KEY",),
    also_as={"OPENAI_API_KEY": "CODEX_API_KEY"},
    settings=("OPENAI_BASE_URL", "CODEX_CA_CERTIFICATE"),
    config=".codex",
    config_variable="CODEX_HOME",
    login_files=(LoginFile("auth.json"),),
    # A profile is settings that the user named: without its files the program would refuse the name.
    profile_files=lambda profile: ("config.toml", f"{profile}.config.toml"),
    arguments=arguments,
    read=read,
    help=("exec", "--help"),
    needs=(
        *("--json", "--ephemeral", "--sandbox", "--skip-git-repo-check", "--output-last-message", "--output-schema"),
        *("--config", "--cd", "--image", "--profile", "--color"),
    ),
    system_in_chat=True,
    json_schema=True,
    strict_schema=True,
    images=True,
)
