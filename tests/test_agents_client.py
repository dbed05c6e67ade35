"""Programs as models, against stand-ins that check every argument and speak the documented protocols."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from fakes.agents import KEYS, PROGRAMS, Bench, bench, install
from fakes.openai_server import FakeOpenAI, text

from skillopt.agents.check import check_program, missing_flags
from skillopt.agents.process import Limits
from skillopt.agents.sandbox import Sandbox, find_sandbox
from skillopt.agents.table import CLIS
from skillopt.concurrency import run
from skillopt.models.errors import ModelError
from skillopt.models.types import File, Image, Message, Reply, Request, Tool, Usage

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are POSIX scripts")

PROVIDERS = tuple(PROGRAMS)
AGENTS = ("codex_exec", "claude_code_exec", "cursor_exec", "copilot_exec")
CHATS = (("codex_exec", False), ("claude_chat", False), ("copilot_chat", False))
ASK = Request((Message("system", "Be brief."), Message("user", "What is „Ж“?")), timeout=20.0)
PICTURE = Image("image/png", b"\x89PNG\r\n")


@pytest.fixture(scope="module")
def bin_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("programs") / "bin")


def ask(made: Bench, request: Request = ASK) -> Reply:
    return run(made.model.complete(request))


def fails(made: Bench, request: Request = ASK) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ask(made, request)
    return caught.value


# Answers


@pytest.mark.parametrize("provider", AGENTS)
def test_an_agent_works_in_its_workspace(bin_: Path, provider: str) -> None:
    script = {
        "think": "I should look.",
        "commands": [{"command": "cat task.md"}, {"command": "false", "output": "no", "exit": 3}],
        "edits": {"out/solution.py": "x = 1\n"},
        "answer": "<answer>42</answer>",
        "usage": [100, 20, 40],
    }
    made = bench(bin_, provider, script)
    files = (File("task.md", "Grüße".encode()), File(".agents/skills/skillopt-target/SKILL.md", b"# S"))
    request = Request((Message("user", "Do it."),), files=files, collect=("out/solution.py", "other"), timeout=20.0)
    reply = ask(made, request)
    assert reply.text == "<answer>42</answer>"
    assert [(file.path, file.content) for file in reply.files] == [("out/solution.py", b"x = 1\n")]
    calls = [event for event in reply.events if event.get("type") == "tool_call"]
    assert [(event["obs"].strip(), event["exit_code"]) for event in calls] == [("Grüße", 0), ("no", 3)]
    assert "cat task.md" in calls[0]["cmd"]
    assert {"type": "file_edit", "path": "out/solution.py", "kind": "add"} in reply.events
    assert reply.events[-1] == {"role": "assistant", "content": "<answer>42</answer>"}
    if provider != "cursor_exec":
        assert {"role": "reasoning", "content": "I should look."} in reply.events
        assert reply.usage == Usage(100, 20, 40)
    assert made.meter.kinds == ["ok"]
    assert made.meter.attempts[0].usage == reply.usage
    assert json.dumps(reply.events)


def test_cost_is_what_the_program_says(bin_: Path) -> None:
    made = bench(bin_, "claude_code_exec", {"cost": 0.25})
    assert ask(made).cost_usd == 0.25
    assert made.meter.attempts[0].cost_usd == 0.25
    assert ask(bench(bin_, "codex_exec", {})).cost_usd is None


@pytest.mark.parametrize(("provider", "agent"), CHATS)
def test_a_chat_gets_system_and_user_text(bin_: Path, provider: str, agent: bool) -> None:
    reply = ask(bench(bin_, provider, {"answer": "[$SYSTEM] [$PROMPT]"}, agent=agent))
    if provider == "copilot_chat":
        assert '<message role="system">\nBe brief.\n</message>' in reply.text
        assert '<message role="user">\nWhat is „Ж“?\n</message>' in reply.text
    else:
        assert reply.text == "[Be brief.] [What is „Ж“?]"


def test_a_conversation_is_labelled(bin_: Path) -> None:
    messages = (Message("system", "S"), Message("user", "U1"), Message("assistant", "A1"), Message("user", "U2"))
    reply = ask(bench(bin_, "claude_chat", {"answer": "$PROMPT"}), Request(messages, timeout=20.0))
    roles = [("user", "U1"), ("assistant", "A1"), ("user", "U2")]
    assert reply.text.startswith("\n\n".join(f'<message role="{who}">\n{what}\n</message>' for who, what in roles))
    assert ">S<" not in reply.text.replace("\n", "")


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(("provider", "agent"), CHATS)
def test_structured_replies(bin_: Path, provider: str, agent: bool) -> None:
    request = Request(ASK.messages, json_schema=SCHEMA, timeout=20.0)
    reply = ask(bench(bin_, provider, {"answer": '{"a": "ß"}'}, agent=agent), request)
    assert json.loads(reply.text) == {"a": "ß"}


def test_codex_gets_a_schema_only_if_it_can_hold_to_it(bin_: Path) -> None:
    seen = {}
    for name, schema in (("strict", SCHEMA), ("loose", {**SCHEMA, "required": []})):
        request = Request(ASK.messages, json_schema=schema, timeout=20.0)
        reply = ask(bench(bin_, "codex_exec", {"probe": []}, agent=False), request)
        seen[name] = "--output-schema" in json.loads(reply.text)["argv"]
    assert seen == {"strict": True, "loose": False}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_long_prompts(bin_: Path, provider: str) -> None:
    long = Message("user", "Ж" * 150_000 + " the end")
    reply = ask(bench(bin_, provider, {"answer": "$PROMPT"}), Request((long,), timeout=20.0))
    assert reply.text == long.content


@pytest.mark.parametrize("provider", AGENTS)
def test_pictures(bin_: Path, provider: str) -> None:
    message = Message("user", "What is in it?", images=(PICTURE, PICTURE))
    made = bench(bin_, provider, {"probe": []})
    seen = json.loads(ask(made, Request((message,), timeout=20.0)).text)
    flags = {"codex_exec": "-i", "copilot_exec": "--attachment", "claude_code_exec": "--input-format"}
    if provider == "cursor_exec":
        assert "attachments" in seen["work"]
    else:
        assert flags[provider] in seen["argv"]
    if provider == "claude_code_exec":
        echo = ask(bench(bin_, provider, {"answer": "$PROMPT"}), Request((message,), timeout=20.0))
        assert echo.text == "[image][image]What is in it?"


# Failures


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_missing_program(tmp_path: Path, provider: str) -> None:
    made = bench(tmp_path / "none", provider)
    error = fails(made)
    assert error.kind == "provider"
    assert "is not installed" in str(error)
    assert CLIS[provider].install in str(error)
    assert made.meter.kinds == ["provider"]


@pytest.mark.parametrize("provider", AGENTS)
def test_no_login(bin_: Path, provider: str) -> None:
    made = bench(bin_, provider, {}, keys=False)
    if provider == "cursor_exec":
        made = bench(bin_, provider, {"fail": "Authentication required. Please run 'agent login' first"})
    error = fails(made)
    assert error.kind == "auth"
    assert CLIS[provider].login in str(error)
    assert made.meter.kinds == ["auth"]


@pytest.mark.parametrize("provider", AGENTS)
def test_a_refused_key_is_final_and_not_shown(bin_: Path, provider: str) -> None:
    (key,) = KEYS[PROGRAMS[provider]].values()
    made = bench(bin_, provider, {"fail": f"API Error: 401 invalid api key {key}"})
    error = fails(made)
    assert error.kind == "auth"
    assert key not in str(error)
    assert next(iter(KEYS[PROGRAMS[provider]])) in str(error)  # where it came from
    assert made.meter.kinds == ["auth"]


@pytest.mark.parametrize("provider", AGENTS)
def test_a_rate_limit_is_waited_out(bin_: Path, tmp_path: Path, provider: str) -> None:
    runs = [{"fail": "API Error: 429 rate limit reached, try again in 3 seconds"}, {"answer": "ok"}]
    made = bench(bin_, provider, {"runs": runs, "state": str(tmp_path / "state")})
    assert ask(made).text == "ok"
    assert made.meter.kinds == ["rate_limited", "ok"]
    assert made.slept == [3.0]
    assert made.limiter.state().refused == 1


@pytest.mark.parametrize("provider", AGENTS)
def test_an_empty_answer_is_asked_again_with_a_reminder(bin_: Path, provider: str) -> None:
    made = bench(bin_, provider, {"empty": "once", "answer": "late"})
    assert ask(made).text == "late"
    assert made.meter.kinds == ["empty", "ok"]
    made = bench(bin_, provider, {"empty": True})
    assert fails(made).kind == "empty"
    assert made.meter.kinds == ["empty", "empty"]


@pytest.mark.parametrize("settings", [{"empty_retries": 0}, {"environ": {"EXEC_EMPTY_RESPONSE_RETRIES": "0"}}])
def test_how_often_is_a_setting(bin_: Path, settings: dict[str, Any]) -> None:
    made = bench(bin_, "claude_chat", {"empty": True}, **settings)
    assert fails(made).kind == "empty"
    assert made.meter.kinds == ["empty"]


def test_a_crash(bin_: Path) -> None:
    made = bench(bin_, "codex_exec", {"crash": True, "exit": 9, "stderr": "thread 'main' panicked"})
    error = fails(made)
    assert (error.kind, made.meter.kinds) == ("provider", ["provider"])
    assert "exit status 9" in str(error)
    assert "panicked" in str(error)


def test_a_crash_after_the_answer(bin_: Path) -> None:
    assert ask(bench(bin_, "claude_chat", {"answer": "fine", "exit": 1, "torn": True})).text == "fine"


def test_noise_between_the_events(bin_: Path) -> None:
    assert ask(bench(bin_, "codex_exec", {"answer": "fine", "noise": ["Reading prompt", "[1]", "{"]})).text == "fine"


def test_too_much_output(bin_: Path) -> None:
    made = bench(bin_, "claude_chat", {"flood": 4}, limits=Limits(output_bytes=1 << 20))
    error = fails(made)
    assert error.kind == "provider"
    assert "1 MiB" in str(error)


CANNOT: list[tuple[str, Request, str]] = [
    ("codex_exec", Request(ASK.messages, tools=(Tool("f", "d", {}),)), "tools"),
    ("cursor_exec", Request((Message("user", "x", images=(PICTURE,)),)), "images"),
]


@pytest.mark.parametrize(("provider", "request_", "what"), CANNOT)
def test_what_a_program_cannot_do_is_named(bin_: Path, provider: str, request_: Request, what: str) -> None:
    error = fails(bench(bin_, provider, {}, agent=False), request_)
    assert error.kind == "provider"
    assert what in str(error)


def test_an_argument_that_it_does_not_take(bin_: Path) -> None:
    error = fails(bench(bin_, "claude_code_exec", {}, parameters={"effort": "wild"}))
    assert error.kind == "provider"
    assert "too old" in str(error)


@pytest.mark.parametrize(
    ("parameters", "effort", "agent", "expected"),
    [
        ({"reasoning_effort": "high"}, None, True, "high"),
        ({"reasoning_effort": "none"}, None, True, None),
        ({"reasoning_effort": ""}, "low", True, "low"),
        ({}, None, False, None),
    ],
)
def test_effort(bin_: Path, parameters: dict[str, Any], effort: str | None, agent: bool, expected: str | None) -> None:
    request = Request(ASK.messages, reasoning_effort=effort, timeout=20.0)
    seen = json.loads(ask(bench(bin_, "codex_exec", {"probe": []}, agent=agent, parameters=parameters), request).text)
    found = [word for word in seen["argv"] if word.startswith("model_reasoning_effort")]
    assert found == ([f'model_reasoning_effort="{expected}"'] if expected else [])


# Time


def with_word(word: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if word in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found through /proc")
@pytest.mark.parametrize("provider", ["codex_exec", "claude_code_exec"])
def test_a_hanging_program_is_gone_within_two_seconds(bin_: Path, provider: str) -> None:
    word = secrets.token_hex(8)
    made = bench(bin_, provider, {"token": word, "hang": 600})
    started = time.monotonic()
    error = fails(made, Request(ASK.messages, timeout=0.8))
    assert time.monotonic() - started < 2.8
    assert error.kind == "timeout"
    assert made.meter.kinds == ["timeout"]
    assert with_word(word) == []


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found through /proc")
def test_a_program_that_leaves_processes_behind(bin_: Path) -> None:
    word = secrets.token_hex(8)
    started = time.monotonic()
    assert ask(bench(bin_, "codex_exec", {"token": word, "answer": "ok"})).text == "ok"
    assert time.monotonic() - started < 4.0
    assert with_word(word) == []


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found through /proc")
def test_ctrl_c_ends_it_and_books_it(bin_: Path) -> None:
    word = secrets.token_hex(8)
    made = bench(bin_, "codex_exec", {"token": word, "hang": 600})

    async def go() -> None:
        task = asyncio.create_task(made.model.complete(ASK))
        while len(with_word(word)) < 3:
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(go())
    assert made.meter.kinds == ["cancelled"]
    assert with_word(word) == []
    assert made.limiter.state().in_flight == 0


def test_thirty_two_at_once(bin_: Path) -> None:
    made = bench(bin_, "codex_exec", {"commands": [{"command": "x", "output": "y" * 10_000}], "answer": "$PROMPT"})

    async def go() -> Sequence[Reply]:
        requests = [Request((Message("user", f"{n} " + "x" * 1000),), timeout=60.0) for n in range(32)]
        return await asyncio.gather(*(made.model.complete(request) for request in requests))

    before = set(psutil.Process().children(recursive=True))
    replies = run(go())
    assert [int(reply.text.split()[0]) for reply in replies] == list(range(32))
    assert made.meter.kinds == ["ok"] * 32
    assert set(psutil.Process().children(recursive=True)) <= before
    assert psutil.Process().memory_info().rss < 1 << 30


# What a program can see


@pytest.fixture
def private(tmp_path: Path) -> list[str]:
    """A run folder, a data set and a user's keys, as paths that no program may read."""
    places = [tmp_path / "run/results.jsonl", tmp_path / "data/test/items.json", tmp_path / "user/.ssh/id_ed25519"]
    for place in places:
        place.parent.mkdir(parents=True)
        place.write_text("private")
    (tmp_path / "user/.codex").mkdir()
    (tmp_path / "user/.codex/AGENTS.md").write_text("Be rude.")
    (tmp_path / "user/.codex/auth.json").write_text('{"tokens": "login-token"}')
    return [str(place) for place in places]


def seen_by(bin_: Path, tmp_path: Path, paths: list[str], **settings: Any) -> dict[str, Any]:
    environ = {
        "HOME": str(tmp_path / "user"),
        "OPTIMIZER_OPENAI_API_KEY": "optimizer-key-0123456789",
        "ANTHROPIC_API_KEY": "another-key-0123456789",
        "SKILLOPT_RUN": str(tmp_path / "run"),
        "SSH_AUTH_SOCK": "/ssh",
    }
    hidden = (tmp_path / "run", tmp_path / "data")
    made = bench(bin_, "codex_exec", {"probe": paths}, environ=environ, keys=False, hidden=hidden, **settings)
    seen: dict[str, Any] = json.loads(ask(made).text)
    return seen


def test_nothing_leads_to_the_run_the_data_or_the_users_keys(bin_: Path, tmp_path: Path, private: list[str]) -> None:
    seen = seen_by(bin_, tmp_path, [])
    assert seen["home"] == [".codex/auth.json"]  # the login alone
    assert seen["mode"] == "0o700"
    told = json.dumps([{**seen["env"], "STANDIN_SCRIPT": ""}, seen["argv"], seen["cwd"], seen["work"]])
    for word in ("optimizer-key", "another-key", str(tmp_path / "run"), str(tmp_path / "data"), "SSH", "user/.ssh"):
        assert word not in told
    assert seen["work"] == []


def bubblewrap() -> Sandbox:
    return run(find_sandbox(os.environ))


needs_bubblewrap = pytest.mark.skipif(not bubblewrap().program, reason=bubblewrap().isolation)


@needs_bubblewrap
def test_with_bubblewrap_they_cannot_be_read_at_all(bin_: Path, tmp_path: Path, private: list[str]) -> None:
    probes = [*private, str(Path.home()), str(Path.home() / ".ssh"), str(tmp_path / "run"), "/etc/shadow", "/proc/1"]
    plain = seen_by(bin_, tmp_path, private)
    assert set(plain["files"].values()) == {"private"}  # the probe is real
    boxed = seen_by(bin_, tmp_path, probes, sandbox=bubblewrap())
    found = boxed["files"]
    home, one = found.pop(str(Path.home())), found.pop("/proc/1")
    assert set(found.values()) == {None}
    assert not set(home or ()) & {".ssh", ".bashrc", ".codex", ".claude", ".aws"}
    assert one
    assert boxed["home"] == [".codex/auth.json"]


@needs_bubblewrap
def test_what_is_hidden_is_so_beside_the_program_and_behind_a_link(tmp_path: Path) -> None:
    """Where a program stands in the project of the user, or is reached through a link into it."""
    project = tmp_path / "project"
    install(project)
    (project / "data").mkdir()
    for name in ("data/items.json", "gold.json", "open.txt"):
        (project / name).write_text("private")
    (tmp_path / "link").symlink_to(project)
    hidden = (project / "data", project / "gold.json")
    for folder in (project, tmp_path / "link"):
        paths = [str(folder / name) for name in ("data/items.json", "data", "gold.json", "open.txt")]
        made = bench(folder, "codex_exec", {"probe": paths}, sandbox=bubblewrap(), hidden=hidden)
        assert list(json.loads(ask(made).text)["files"].values()) == [None, [], None, "private"]


@needs_bubblewrap
def test_a_program_in_a_hidden_folder_still_runs(tmp_path: Path) -> None:
    install(tmp_path / "run")
    (tmp_path / "run/items.json").write_text("private")
    program = tmp_path / "run/tool"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/run/items.json\nls {tmp_path}/run >&2\nexit 3\n")
    program.chmod(0o755)
    made = bench(tmp_path / "run", "codex_exec", program=str(program), sandbox=bubblewrap(), hidden=(tmp_path / "run",))
    said = str(fails(made))
    assert "exit status 3" in said
    assert "private" not in said
    assert "items.json: No such file" in said


@needs_bubblewrap
@pytest.mark.parametrize("provider", AGENTS)
def test_all_works_inside_too(bin_: Path, provider: str) -> None:
    script = {"commands": [{"command": "cat task.md; id -u"}], "edits": {"a.txt": "x"}, "answer": "ok"}
    made = bench(bin_, provider, script, sandbox=bubblewrap())
    request = Request((Message("user", "Do."),), files=(File("task.md", b"t"),), collect=("a.txt",), timeout=20.0)
    reply = ask(made, request)
    assert reply.text == "ok"
    assert reply.files[0].content == b"x"
    assert reply.events[0]["obs"].strip() != "t0"


@needs_bubblewrap
def test_nothing_survives_inside_either(bin_: Path) -> None:
    word = secrets.token_hex(8)
    made = bench(bin_, "codex_exec", {"token": word, "hang": 600}, sandbox=bubblewrap())
    started = time.monotonic()
    assert fails(made, Request(ASK.messages, timeout=1.5)).kind == "timeout"
    assert time.monotonic() - started < 3.5
    assert with_word(word) == []


def test_a_secret_that_it_prints_is_masked(bin_: Path) -> None:
    made = bench(bin_, "codex_exec", {"commands": [{"command": "env"}], "answer": "codex-key-0123456789"})
    reply = ask(made)
    assert "codex-key" not in reply.text + json.dumps(reply.events)
    assert "CODEX_API_KEY=***" in json.dumps(reply.events)


def test_paths_of_a_workspace_are_not_in_a_trajectory(bin_: Path) -> None:
    script = {"commands": [{"command": "pwd; echo $HOME; echo $PWD/task.md"}], "edits": {"a": "x"}, "answer": "ok"}
    first, second = (ask(bench(bin_, "codex_exec", script)).events for _ in range(2))
    assert first == second
    assert "skillopt-" not in json.dumps(first)


def test_no_workspace_is_left(bin_: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ask(bench(bin_, "codex_exec", {}))
    fails(bench(bin_, "codex_exec", {"hang": 60}), Request(ASK.messages, timeout=0.5))
    assert list(tmp_path.iterdir()) == []


def test_a_profile_of_the_user(bin_: Path, tmp_path: Path) -> None:
    (tmp_path / "work.config.toml").write_text("")
    (tmp_path / "AGENTS.md").write_text("")
    made = bench(bin_, "codex_exec", {"probe": []}, parameters={"profile": "work"}, home=str(tmp_path))
    assert json.loads(ask(made).text)["home"] == [".codex/work.config.toml"]
    assert fails(bench(bin_, "codex_exec", {}, parameters={"profile": "other"})).kind == "provider"


def test_a_login_that_a_run_renews_is_not_lost(bin_: Path, tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text('{"token": "old"}')
    renew = {"command": """echo '{"token": "new"}' > $CODEX_HOME/auth.json"""}
    ask(bench(bin_, "codex_exec", {"commands": [renew]}, keys=False, home=str(tmp_path)))
    assert (tmp_path / "auth.json").read_text() == '{"token": "new"}\n'


# Behind a real endpoint


def test_an_agent_may_think_with_a_real_endpoint(bin_: Path) -> None:
    with FakeOpenAI([text("<answer>42</answer>")]) as server:
        made = bench(bin_, "claude_code_exec", extra={"STANDIN_LLM_URL": server.url})
        skill = ".agents/skills/skillopt-target/SKILL.md"
        files = (File("task.md", b"What is it?"), File(skill, b"# Skill"))
        reply = ask(made, Request((Message("user", "Read task.md."),), files=files, timeout=20.0))
        assert reply.text == "<answer>42</answer>"
        messages = server.requests[0].body["messages"]
    assert messages == [{"role": "system", "content": "# Skill"}, {"role": "user", "content": "What is it?"}]


@pytest.mark.parametrize(("provider", "agent"), CHATS)
def test_a_chat_sends_it_the_very_messages(bin_: Path, provider: str, agent: bool) -> None:
    with FakeOpenAI([text('{"edits": []}')]) as server:
        made = bench(bin_, provider, extra={"STANDIN_LLM_URL": server.url}, agent=agent, role="optimizer")
        messages = (Message("system", "Reply with\n\n<x>\nJSON."), Message("user", "## Current Skill\n\n# S\n"))
        assert ask(made, Request(messages, timeout=20.0)).text == '{"edits": []}'
        sent = server.requests[0].body["messages"]
    assert sent == [{"role": message.role, "content": message.content} for message in messages]


# The check before any spend


@pytest.mark.parametrize("provider", sorted(set(PROVIDERS) - {"claude_chat", "copilot_chat"}))
def test_a_program_that_is_as_it_should_be(bin_: Path, provider: str) -> None:
    report = run(check_program(CLIS[provider], "", {"PATH": f"{bin_}:{os.defpath}"}))
    assert report.problems == ()
    assert report.path == str(bin_ / PROGRAMS[provider])
    assert report.version[0].isdigit()


def test_programs_that_are_not(bin_: Path, tmp_path: Path) -> None:
    environ = {"PATH": f"{bin_}:{os.defpath}"}
    cli = CLIS["codex_exec"]
    old = run(check_program(cli, "", environ, {"STANDIN_HIDE": "--json --ephemeral"}))
    assert "does not know --json, --ephemeral" in old.problems[0]
    assert cli.install in old.problems[0]
    missing = run(check_program(cli, "", {"PATH": str(tmp_path)}))
    assert "install it" in missing.problems[0]
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no >&2\nexit 4\n")
    broken.chmod(0o755)
    failed = run(check_program(cli, str(broken), environ))
    assert "exit status 4" in failed.problems[0]
    assert missing_flags(CLIS["claude_chat"], "--print-x --verbose", "claude", "1.0")[0].startswith("Claude Code")


@needs_bubblewrap
def test_a_shim_that_would_not_find_its_program_in_the_sandbox(bin_: Path, tmp_path: Path) -> None:
    shim = tmp_path / "codex"
    shim.write_text(f'#!/bin/sh\nexec {bin_}/codex "$@"\n')
    shim.chmod(0o755)
    for program, problems in ((shim, 1), (bin_ / "codex", 0)):
        environ = {"PATH": os.defpath}
        report = run(check_program(CLIS["codex_exec"], str(program), environ, sandbox=bubblewrap()))
        assert len(report.problems) == problems
    missing = run(check_program(CLIS["codex_exec"], str(shim), environ, sandbox=bubblewrap())).problems[0]
    assert "if it is a shim" in missing
    assert "not found" in missing
    assert run(check_program(CLIS["codex_exec"], str(shim), environ)).problems == ()
