"""What each program writes, as one trajectory; what it is called with; what a failure means."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.agents.claude import CLAUDE
from skillopt.agents.codex import CODEX
from skillopt.agents.copilot import COPILOT
from skillopt.agents.cursor import CURSOR
from skillopt.agents.description import Cli, Job
from skillopt.agents.failures import Program, fault_of
from skillopt.agents.process import Finished
from skillopt.agents.trajectory import LONGEST_TEXT, Told, read_output
from skillopt.models.types import Usage

ALL = (CODEX, CLAUDE, CURSOR, COPILOT)


def lines(*events: Any) -> bytes:
    return "".join(event if isinstance(event, str) else json.dumps(event) + "\n" for event in events).encode()


def told(cli: Cli, *events: Any) -> Told:
    return read_output(lines(*events), cli.read, lambda text: text)


def call(cmd: str, obs: str, exit_code: int | None) -> dict[str, Any]:
    return {"type": "tool_call", "cmd": cmd, "obs": obs, "exit_code": exit_code}


def edit(path: str, kind: str) -> dict[str, Any]:
    return {"type": "file_edit", "path": path, "kind": kind}


def said(text: str, role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": text}


def item(kind: str, what: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{what}", "item": {"id": "item_1", "type": kind, **fields}}


def block(**fields: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": "msg_1", "role": "assistant", "content": [fields]}}


def result_block(id_: str, content: Any, error: bool | None = None) -> dict[str, Any]:
    part = {"type": "tool_result", "tool_use_id": id_, "content": content}
    part |= {} if error is None else {"is_error": error}
    return {"type": "user", "message": {"role": "user", "content": [part]}}


def tool(subtype: str, kind: str, /, **body: Any) -> dict[str, Any]:
    return {"type": "tool_call", "subtype": subtype, "call_id": "c1", "tool_call": {kind: body}}


def data(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": "e1", "data": fields}


COMMAND = {"command": "/bin/bash -lc ls", "aggregated_output": "a\nb\n", "exit_code": 2, "status": "failed"}
STREAMS: list[tuple[str, Cli, list[Any], list[dict[str, Any]]]] = [
    ("message", CODEX, [item("agent_message", text="hi")], [said("hi")]),
    ("message of older versions", CODEX, [item("assistant_message", text="hi")], [said("hi")]),
    ("reasoning", CODEX, [item("reasoning", text="**Plan**")], [said("**Plan**", "reasoning")]),
    ("command", CODEX, [item("command_execution", **COMMAND)], [call("/bin/bash -lc ls", "a\nb\n", 2)]),
    (
        "command, started first",
        CODEX,
        [
            item("command_execution", "started", command="ls", status="in_progress"),
            item("command_execution", **COMMAND),
        ],
        [call("ls", "a\nb\n", 2)],
    ),
    (
        "command that never ended",
        CODEX,
        [item("command_execution", "started", command="sleep 9", exit_code=None)],
        [call("sleep 9", "", None)],
    ),
    (
        "file changes",
        CODEX,
        [item("file_change", changes=[{"path": "a.py", "kind": "add"}, {"path": "b", "kind": "delete"}])],
        [edit("a.py", "add"), edit("b", "delete")],
    ),
    ("file change that failed", CODEX, [item("file_change", changes=[{"path": "a"}], status="failed")], []),
    (
        "mcp",
        CODEX,
        [item("mcp_tool_call", server="s", tool="t", arguments={"x": 1}, result={"content": [{"text": "r"}]})],
        [call('s.t {"x": 1}', "r", None)],
    ),
    (
        "mcp that failed",
        CODEX,
        [item("mcp_tool_call", server="s", tool="t", arguments={}, error={"message": "no"}, status="failed")],
        [call("s.t {}", "no", 1)],
    ),
    ("search", CODEX, [item("web_search", query="cats")], [call("web_search cats", "", None)]),
    ("error item", CODEX, [item("error", message="odd")], [said("odd", "error")]),
    ("plan", CODEX, [item("todo_list", items=[{"text": "x", "completed": False}])], []),
    ("text", CLAUDE, [block(type="text", text="hi")], [said("hi")]),
    ("thinking", CLAUDE, [block(type="thinking", thinking="hm", signature="x")], [said("hm", "reasoning")]),
    (
        "command",
        CLAUDE,
        [block(type="tool_use", id="t", name="Bash", input={"command": "ls"}), result_block("t", "a", False)],
        [call("ls", "a", 0)],
    ),
    (
        "command that failed",
        CLAUDE,
        [
            block(type="tool_use", id="t", name="Bash", input={"command": "ls"}),
            result_block("t", "Exit code 3\nbad", True),
        ],
        [call("ls", "bad", 3)],
    ),
    (
        "command that was not allowed",
        CLAUDE,
        [block(type="tool_use", id="t", name="Bash", input={"command": "ls"}), result_block("t", "denied", True)],
        [call("ls", "denied", 1)],
    ),
    (
        "reading",
        CLAUDE,
        [
            block(type="tool_use", id="t", name="Read", input={"file_path": "a"}),
            result_block("t", [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]),
        ],
        [call('Read {"file_path": "a"}', "1\n2", None)],
    ),
    (
        "writing",
        CLAUDE,
        [
            block(type="tool_use", id="t", name="Write", input={"file_path": "a.py", "content": "x"}),
            result_block("t", "File created"),
        ],
        [edit("a.py", "add")],
    ),
    (
        "an edit that failed",
        CLAUDE,
        [block(type="tool_use", id="t", name="Edit", input={"file_path": "a"}), result_block("t", "not found", True)],
        [call("update a", "not found", 1)],
    ),
    ("structured output", CLAUDE, [block(type="tool_use", id="t", name="StructuredOutput", input={"a": 1})], []),
    ("message", CURSOR, [{"type": "assistant", "message": {"content": [{"text": "a"}, {"text": "b"}]}}], [said("ab")]),
    (
        "command",
        CURSOR,
        [
            tool("started", "shellToolCall", args={"command": "ls"}),
            tool("completed", "shellToolCall", result={"success": {"exitCode": 0, "stdout": "a", "stderr": "b"}}),
        ],
        [call("ls", "ab", 0)],
    ),
    (
        "command that failed",
        CURSOR,
        [
            tool("started", "shellToolCall", args={"command": "ls"}),
            tool("completed", "shellToolCall", result={"failure": {"exitCode": 4, "stdout": "", "stderr": "b"}}),
        ],
        [call("ls", "b", 4)],
    ),
    (
        "reading",
        CURSOR,
        [
            tool("started", "readToolCall", args={"path": "a"}),
            tool("completed", "readToolCall", result={"success": {"content": "text"}}),
        ],
        [call('read {"path": "a"}', "text", None)],
    ),
    (
        "writing",
        CURSOR,
        [
            tool("started", "writeToolCall", args={"path": "a", "fileText": "x"}),
            tool("completed", "writeToolCall", result={"success": {"path": "a"}}),
        ],
        [edit("a", "add")],
    ),
    ("function", CURSOR, [tool("started", "function", name="f", arguments="{}")], [call("f {}", "", None)]),
    ("message", COPILOT, [data("assistant.message", content="hi")], [said("hi")]),
    ("reasoning", COPILOT, [data("assistant.reasoning", content="hm")], [said("hm", "reasoning")]),
    (
        "command",
        COPILOT,
        [
            data("tool.execution_start", toolCallId="c", toolName="bash", arguments={"command": "ls"}),
            data(
                "tool.execution_complete",
                toolCallId="c",
                success=True,
                result={"content": "a\n<shellId: 0 completed with exit code 3>"},
            ),
        ],
        [call("ls", "a", 3)],
    ),
    (
        "denied",
        COPILOT,
        [
            data("tool.execution_start", toolCallId="c", toolName="create", arguments={"path": "a"}),
            data("tool.execution_complete", toolCallId="c", success=False, error={"message": "denied"}),
        ],
        [call("add a", "denied", 1)],
    ),
    ("error", COPILOT, [data("session.error", errorType="auth", message="bad")], [said("bad", "error")]),
]


@pytest.mark.parametrize(
    ("cli", "events", "expected"),
    [row[1:] for row in STREAMS],
    ids=[f"{row[1].name}: {row[0]}" for row in STREAMS],
)
def test_events(cli: Cli, events: list[Any], expected: list[dict[str, Any]]) -> None:
    assert list(told(cli, *events).events) == expected


USAGES = [
    (
        CODEX,
        {"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}},
        Usage(9, 2, 4),
        None,
    ),
    (
        CLAUDE,
        {
            "type": "result",
            "result": "x",
            "total_cost_usd": 0.5,
            "usage": {
                "input_tokens": 1,
                "cache_creation_input_tokens": 20,
                "cache_read_input_tokens": 300,
                "output_tokens": 7,
            },
        },
        Usage(321, 7, 300, 0, 20),
        0.5,
    ),
    (
        CURSOR,
        {"type": "result", "result": "x", "usage": {"inputTokens": 5, "outputTokens": 6, "cacheReadTokens": 7}},
        Usage(12, 6, 7),
        None,
    ),
    (CURSOR, {"type": "result", "result": "x"}, None, None),
    (CLAUDE, {"type": "result", "result": "x", "total_cost_usd": math.inf}, None, None),
    (CODEX, {"type": "turn.completed", "usage": {"input_tokens": 10**30, "output_tokens": 2}}, Usage(0, 2), None),
    (COPILOT, data("assistant.usage", inputTokens=5, outputTokens=6, cacheReadTokens=2), Usage(5, 6, 2), None),
]


@pytest.mark.parametrize(("cli", "event", "usage", "cost"), USAGES)
def test_usage(cli: Cli, event: dict[str, Any], usage: Usage | None, cost: float | None) -> None:
    found = told(cli, event)
    assert (found.usage, found.cost_usd) == (usage, cost)


def test_without_a_result_the_requests_are_added_up_once_each() -> None:
    def spent(name: str, tokens: int) -> dict[str, Any]:
        return {"type": "assistant", "message": {"id": name, "usage": {"input_tokens": tokens, "output_tokens": 1}}}

    assert told(CLAUDE, spent("a", 10), spent("a", 10), spent("b", 5)).usage == Usage(15, 2)


def test_usage_file_of_copilot() -> None:
    used = {"inputTokens": 100, "outputTokens": 20, "cacheReadTokens": 40, "cacheWriteTokens": 3}
    assert COPILOT.read_usage is not None
    assert COPILOT.read_usage({"modelMetrics": {"a": {"usage": used}, "b": {"usage": used}}}) == Usage(
        200, 40, 80, 0, 6
    )
    assert COPILOT.read_usage({}) is None


ANSWERS = [
    (CODEX, [item("agent_message", text="Let me look."), item("command_execution", **COMMAND)], ""),
    (CODEX, [item("command_execution", **COMMAND), item("agent_message", text="42")], "42"),
    (CLAUDE, [block(type="text", text="draft"), {"type": "result", "result": "final"}], "final"),
    (CLAUDE, [{"type": "result", "result": "text", "structured_output": {"a": "ß"}}], '{"a": "ß"}'),
    (COPILOT, [data("assistant.message", content="1"), data("assistant.message", content="2")], "1\n2"),
]


@pytest.mark.parametrize(("cli", "events", "answer"), ANSWERS)
def test_answers(cli: Cli, events: list[Any], answer: str) -> None:
    assert told(cli, *events).answer == answer


def test_noise_and_torn_lines_do_no_harm() -> None:
    found = told(CODEX, "Reading prompt from stdin...\n", item("agent_message", text="hi"), "[1, 2]\n", '{"type": "ite')
    assert found.answer == "hi"
    assert found.noise == ("Reading prompt from stdin...", "[1, 2]", '{"type": "ite')
    whole = lines(item("agent_message", text="grüße"))
    assert read_output(whole + whole[:-8], CODEX.read, str).answer == "grüße"


def test_long_texts_lose_their_middle() -> None:
    (event,) = told(CODEX, item("command_execution", command="cat", aggregated_output="a" * 9999 + "b" * 9999)).events
    assert len(event["obs"]) < LONGEST_TEXT + 100
    assert event["obs"].startswith("aaa")
    assert event["obs"].endswith("bbb")
    assert "characters left out" in event["obs"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "text", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = [
    "type",
    "item",
    "message",
    "content",
    "id",
    "usage",
    "data",
    "tool_call",
    "subtype",
    "result",
    "error",
    "input",
]
NAMES += ["name", "command", "changes", "shellToolCall", "args", "toolName", "arguments", "call_id", "is_error"]
KINDS = ["item.completed", "item.started", "turn.completed", "turn.failed", "error", "assistant", "user", "result"]
KINDS += ["tool_call", "assistant.message", "tool.execution_start", "tool.execution_complete", "session.error", "text"]
KINDS += ["command_execution", "file_change", "mcp_tool_call", "tool_use", "tool_result", "started", "completed"]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(NAMES),
            st.sampled_from(KINDS) | JSON | st.dictionaries(st.sampled_from(NAMES), st.sampled_from(KINDS) | JSON),
            max_size=8,
        ),
        max_size=4,
    )
)
def test_no_event_of_any_shape_is_too_much(events: list[dict[str, Any]]) -> None:
    for cli in ALL:
        json.dumps(told(cli, *events).events)


JOB = Job(agent=True, work=Path("/w"), model="m", answer=Path("/d/answer.txt"), usage=Path("/d/usage.json"))
ARGUMENTS = [
    (
        CODEX,
        {},
        "exec --json --ephemeral --skip-git-repo-check --color never -C /w --sandbox workspace-write "
        '-c approval_policy="never" -c sandbox_workspace_write.network_access=false -c web_search="disabled" '
        "-m m --output-last-message /d/answer.txt -",
    ),
    (
        CODEX,
        {"sandbox": "danger-full-access", "network_access": True, "web_search": True, "profile": "p"},
        "exec --json --ephemeral --skip-git-repo-check --color never -C /w --sandbox danger-full-access "
        '-c approval_policy="never" -c sandbox_workspace_write.network_access=true -c web_search="live" '
        "-p p -m m --output-last-message /d/answer.txt -",
    ),
    (
        CLAUDE,
        {},
        "-p --output-format stream-json --verbose --permission-mode dontAsk "
        "--tools Bash,Edit,Glob,Grep,Read,Write --allowedTools Bash,Edit,Glob,Grep,Read,Write "
        "--add-dir /w --setting-sources  --strict-mcp-config --model m",
    ),
    (
        CLAUDE,
        {"tools": "Read, Bash", "permission_mode": "acceptEdits", "max_thinking_tokens": 9, "setting_sources": "user"},
        "-p --output-format stream-json --verbose --permission-mode acceptEdits "
        "--tools Read,Bash --allowedTools Read,Bash --add-dir /w --setting-sources user --strict-mcp-config "
        "--model m --max-thinking-tokens 9",
    ),
    (
        CURSOR,
        {},
        "-p --output-format stream-json --trust --workspace /w --sandbox enabled --force --model m",
    ),
    (
        CURSOR,
        {"sandbox": "disabled"},
        "-p --output-format stream-json --trust --workspace /w --sandbox disabled --model m",
    ),
    (
        COPILOT,
        {"allow_all_tools": "1"},
        "--output-format json --stream off --no-color --log-level none --usage-output-file /d/usage.json -C /w "
        "--disable-builtin-mcps --no-custom-instructions --allow-all-tools --model m",
    ),
]


@pytest.mark.parametrize(("cli", "parameters", "expected"), ARGUMENTS)
def test_arguments(cli: Cli, parameters: dict[str, Any], expected: str) -> None:
    job = Job(True, JOB.work, JOB.model, parameters=parameters, answer=JOB.answer, usage=JOB.usage)
    assert " ".join(cli.arguments(job)) == expected


def test_what_only_answers_can_change_nothing() -> None:
    wild = {"sandbox": "danger-full-access", "network_access": True, "web_search": True, "allow_all_tools": True}
    job = Job(False, JOB.work, JOB.model, parameters=wild, answer=JOB.answer, usage=JOB.usage)
    codex = " ".join(CODEX.arguments(job))
    assert "--sandbox read-only" in codex
    assert "network_access=false" in codex
    assert 'web_search="disabled"' in codex
    assert "features.shell_tool=false" in codex
    claude = CLAUDE.arguments(job)
    assert claude[claude.index("--tools") + 1] == ""
    assert "--allowedTools" not in claude
    assert "--force" not in CURSOR.arguments(job)
    assert "--mode ask" in " ".join(CURSOR.arguments(job))
    assert "--available-tools=none" in COPILOT.arguments(job)
    assert "--allow-all-tools" not in COPILOT.arguments(job)


FAILURES = [
    ("Not logged in · Please run /login", "auth", "stop"),
    ("unexpected status 401 Unauthorized: Missing bearer", "auth", "stop"),
    ("Invalid API key · Fix external API key", "auth", "stop"),
    ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limited", "wait"),
    ("API Error: 529 Overloaded", "rate_limited", "wait"),
    ("You've hit your usage limit. Try again in 4 days", "rate_limited", "stop"),
    ("Credit balance is too low", "rate_limited", "stop"),
    ("Prompt is too long", "context_overflow", "stop"),
    ("your input exceeds the context window of this model", "context_overflow", "stop"),
    ("The model `gpt-x` does not exist or you do not have access to it.", "provider", "stop"),
    ("There's an issue with the selected model (x). It may not exist", "provider", "stop"),
    ("stream disconnected before completion", "provider", "stop"),
    ("unable to respond: it appears to violate our Usage Policy", "refused", "stop"),
]


@pytest.mark.parametrize(("message", "kind", "then"), FAILURES)
def test_what_a_failure_means(message: str, kind: str, then: str) -> None:
    program = Program(CODEX, "codex", 5.0, "CODEX_API_KEY")
    seen = told(CODEX, {"type": "turn.failed", "error": {"message": message}})
    fault = fault_of(Finished(1, b"", b"", False, False, 1.0), seen, program, Usage(), ())
    assert fault is not None
    assert (fault.kind, fault.then) == (kind, then)
    assert message[-20:] in fault.message
    printed = Finished(1, b"", f"Error: {message}\n".encode(), False, False, 1.0)
    again = fault_of(printed, Told(), program, Usage(), ())
    assert again is not None
    assert again.kind == kind


def test_a_wait_that_is_named() -> None:
    seen = told(CODEX, {"type": "turn.failed", "error": {"message": "Rate limit reached. Please try again in 1.5s."}})
    fault = fault_of(Finished(1, b"", b"", False, False, 1.0), seen, Program(CODEX, "codex", 5.0, ""), Usage(), ())
    assert fault is not None
    assert fault.retry_after == 1.5


def test_a_crash_after_the_answer_does_not_take_it_away() -> None:
    program = Program(CLAUDE, "claude", 5.0, "")
    seen = told(CLAUDE, {"type": "result", "result": "final"})
    assert fault_of(Finished(1, b"", b"", False, False, 1.0), seen, program, Usage(), ()) is None
    unfinished = told(CLAUDE, block(type="text", text="half"))
    assert fault_of(Finished(1, b"", b"oops", False, False, 1.0), unfinished, program, Usage(), ()) is not None


def test_secrets_are_masked() -> None:
    run = Finished(1, b"", b"bad header: Bearer abcdefghij and key-0123456789", False, False, 1.0)
    fault = fault_of(run, Told(), Program(CODEX, "codex", 5.0, ""), Usage(), ("key-0123456789",))
    assert fault is not None
    assert "key-0123456789" not in fault.message
    assert "abcdefghij" not in fault.message
