"""A target that is an agent: what it is given, what is kept of its work, and what it cannot reach."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from fakes.agents import KEYS, PROGRAMS, bench, install
from fakes.openai_server import HANG, FakeOpenAI, Received, Step, text
from fakes.rule_world import world

import skillopt.engine.programs
from skillopt.agents.sandbox import Sandbox, find_sandbox
from skillopt.concurrency import gather_all, run
from skillopt.config import Redactor, load_config
from skillopt.engine.models import open_clients
from skillopt.engine.prepare import needs_of, prepare_training
from skillopt.engine.session import Ending, train
from skillopt.envs.custom import make_env
from skillopt.harness import AgentHarness, ChatHarness, harness_for
from skillopt.harness.agent import attachment_files, prompt, skill_file
from skillopt.models.errors import ErrorKind, ModelError, ProviderError
from skillopt.models.providers import PROVIDERS
from skillopt.models.types import ModelSpec, Reply, Request
from skillopt.run.journaled import identity, journal_key
from skillopt.skill import Skill
from skillopt.types import Attachment, Failure, Item, Rollout, Score, Task

AGENTS = ("codex_exec", "claude_code_exec", "cursor_exec", "copilot_exec")
ENV = make_env(
    [{"id": f"i{number}", "q": f"2+{number}?", "answer": str(2 + number)} for number in range(40)],
    prompt=lambda item: item["q"],
    score=lambda item, answer: answer == item["answer"],
    system="You add.",
)
ITEM = ENV.load("test")[0]
SKILL = Skill("# Sums\n- add\n")
posix = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are POSIX scripts")
linux = pytest.mark.skipif(sys.platform != "linux", reason="orphans are found through /proc")


# What it is given


def test_the_skill_file_says_what_the_environment_says_and_then_the_skill() -> None:
    text = skill_file(Task("You add.\n", "2+2?"), "\n# Sums\n- add\n")
    head, _, body = text.partition("---\n\n")
    assert head.splitlines()[:2] == ["---", "name: skillopt-target"]
    assert head.splitlines()[2].startswith("description: ")
    assert body.endswith("\n\nYou add.\n\n## Dynamic Guidance\n# Sums\n- add\n")
    assert "2+2" not in text


@pytest.mark.parametrize("blank", ["", " \n\r\n"])
def test_a_blank_skill_leaves_no_trace(blank: str) -> None:
    text = skill_file(Task("You add.", "2+2?"), blank)
    assert text.endswith("\n\nYou add.\n")
    assert "Guidance" not in text


@pytest.mark.parametrize(
    ("tag", "end"),
    [("answer", "between <answer> and </answer>."), ("x", "between <x> and </x>."), (None, "nothing else in it.")],
)
def test_the_prompt_says_how_to_answer(tag: str | None, end: str) -> None:
    said = prompt(Task("S", "U", tag))
    assert said.endswith(end)
    assert "`task.md`" in said
    assert "ATTACHMENTS" not in said


NAMES = [
    ("chart.png", "attachments/01_chart.png"),
    ("../../etc/passwd", "attachments/01_passwd"),
    ("C:\\docs\\my sheet (1).xlsx", "attachments/01_my_sheet_1_.xlsx"),
    ("..", "attachments/01_file"),
    ("", "attachments/01_file"),
    (".env", "attachments/01_env"),
    ("Größe.csv", "attachments/01_Größe.csv"),
    ("`rm -rf`", "attachments/01__rm_-rf_"),
    ("x" * 300 + ".pdf", "attachments/01_" + "x" * 76 + ".pdf"),
]


@pytest.mark.parametrize(("name", "path"), NAMES)
def test_names_of_attachments_lead_nowhere(name: str, path: str) -> None:
    listed, file = attachment_files((Attachment(name, "application/pdf", b"%"),))
    assert (file.path, file.content) == (path, b"%")
    assert f"- `{path}` (application/pdf)" in listed.content.decode()


def test_attachments_of_one_name_are_two_files() -> None:
    given = (Attachment("a.png", "image/png", b"1"), Attachment("a.png", "image/png", b"2"))
    assert [(file.path, file.content) for file in attachment_files(given)[1:]] == [
        ("attachments/01_a.png", b"1"),
        ("attachments/02_a.png", b"2"),
    ]
    assert "`ATTACHMENTS.md`" in prompt(Task("S", "U", attachments=given))
    assert attachment_files(()) == ()


class FakeModel:
    spec = ModelSpec("target", "codex_exec", "m", "")

    def __init__(self, result: Reply | ModelError) -> None:
        self.result = result
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        if isinstance(self.result, ModelError):
            raise self.result
        return self.result


def test_the_request_of_an_item() -> None:
    harness = AgentHarness(FakeModel(Reply("")), timeout=7)
    request = harness.request(ENV, ITEM, SKILL, priority=3, replicate=2)
    assert {file.path: file.content for file in request.files} == {
        ".agents/skills/skillopt-target/SKILL.md": skill_file(ENV.prompt(ITEM), SKILL.text).encode(),
        "task.md": ITEM.data["q"].encode(),
    }
    assert (request.timeout, request.priority, request.replicate, request.max_tokens) == (7, 3, 2, None)
    (message,) = request.messages
    assert message.role == "user"
    assert SKILL.text not in message.content
    keys = {
        journal_key(identity(FakeModel.spec), harness.request(ENV, item, skill))
        for item in ENV.load("test")[:2]
        for skill in (SKILL, Skill("# Other\n"), Skill(""))
    }
    assert len(keys) == 6, "the skill and the task are part of what was asked"


# What is kept of its work


def rollout(result: Reply | ModelError) -> Rollout:
    return run(AgentHarness(FakeModel(result)).run(ENV, ITEM, SKILL))


GOOD = f"<answer>{ITEM.data['answer']}</answer>"
CALL = {"type": "tool_call", "cmd": "bc", "obs": "4", "exit_code": 0}
SAID = {"role": "assistant", "content": GOOD}


@pytest.mark.parametrize("events", [(CALL,), (CALL, SAID)], ids=["an answer in a file", "an answer said"])
def test_the_trajectory_is_the_task_the_events_the_answer_and_the_verdict(events: tuple[dict[str, Any], ...]) -> None:
    done = rollout(Reply(GOOD, events=events))
    assert done.score is not None
    assert (done.score.hard, done.score.detail["n_turns"]) == (1.0, 2)
    user, *between, verdict = done.trajectory
    assert user == {"role": "user", "content": ITEM.data["q"]}
    assert between == [CALL, SAID]
    assert verdict == {"role": "system", "content": done.score.feedback}
    assert done.user_prompt == ITEM.data["q"]
    assert "# Sums\n- add" in done.system_prompt


KINDS: list[tuple[ErrorKind, str]] = [
    ("timeout", "timeout"),
    ("provider", "infra_error"),
    ("rate_limited", "infra_error"),
    ("empty", "infra_error"),
]


@pytest.mark.parametrize(("kind", "status"), KINDS)
def test_what_was_not_measured_is_no_zero(kind: ErrorKind, status: str) -> None:
    outcome = rollout(ModelError(kind, "it said so")).outcome
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.status) == (kind, status)


def test_a_refusal_is_a_zero_and_a_lost_login_ends_the_run() -> None:
    outcome = rollout(ModelError("refused", "no", raw="I will not.")).outcome
    assert isinstance(outcome, Score)
    assert (outcome.hard, outcome.status) == (0.0, "agent_error")
    with pytest.raises(ModelError):
        rollout(ModelError("auth", "not logged in"))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_agents_and_they_alone_get_a_workspace(provider: str) -> None:
    model = FakeModel(Reply("x"))
    model.spec = ModelSpec("target", provider, "m", "")
    made = harness_for(model, max_tokens=9, timeout=5)
    assert isinstance(made, AgentHarness if provider in AGENTS else ChatHarness)


# What an environment needs


def with_files(*media_types: str) -> Any:
    class Files(type(ENV)):  # type: ignore[misc]
        def prompt(self, item: Item) -> Task:
            files = tuple(Attachment(f"a{number}", kind, b"x") for number, kind in enumerate(media_types))
            return Task("S", "U", attachments=files)

    made = make_env([dict(item.data) for item in ENV.load("test")], lambda item: "", lambda item, answer: True)
    made.__class__ = Files
    return made


@pytest.mark.parametrize(
    ("media_types", "needs"),
    [((), set()), (("image/png",), {"images"}), (("image/png", "text/csv"), {"images", "agent"})],
)
def test_files_of_tasks_are_needs(media_types: Sequence[str], needs: set[str]) -> None:
    env = with_files(*media_types)
    assert needs_of(env, {"test": env.load("test")}) == needs


def test_a_target_that_cannot_be_given_the_files_is_refused_before_any_call(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "sk-0123456789", "DEEPSEEK_API_KEY": "sk-0123456789", "CODEX_API_KEY": "k"}

    def prepare(backend: str, *media_types: str) -> object:
        flags = {"env.name": "x", "env.out_root": str(tmp_path / "run"), "model.optimizer_backend": "openai"}
        config = load_config(None, (), {**flags, "model.target_backend": backend})
        return prepare_training(config, environ, env=with_files(*media_types), skill=SKILL)

    with pytest.raises(ProviderError, match=r"needs agent, and openai has none.*codex_exec"):
        prepare("openai", "text/csv")
    with pytest.raises(ProviderError, match="needs images, and deepseek has none"):
        prepare("deepseek", "image/png")
    assert prepare("openai", "image/png")
    assert prepare("codex_exec", "image/png", "text/csv")


# Real processes


@pytest.fixture(scope="module")
def bin_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("programs") / "bin")


@functools.lru_cache
def bubblewrap() -> Sandbox:
    return asyncio.run(find_sandbox(os.environ))


needs_bubblewrap = pytest.mark.skipif(not bubblewrap().program, reason=bubblewrap().isolation)


def with_word(word: str) -> list[int]:
    """The living processes that have ``word`` in their arguments."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if word in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


@posix
@pytest.mark.parametrize("provider", AGENTS)
def test_a_task_and_a_skill_of_300_kb(bin_: Path, provider: str) -> None:
    long, rules = "Ж" * 150_000 + " the end", "# Sums\n" + "- ж\n" * 75_000
    env = make_env(
        {"test": [{"id": "a", "q": long, "answer": "42"}]},
        prompt=lambda item: item["q"],
        score=lambda item, answer: answer == item["answer"],
    )
    with FakeOpenAI([text("<answer>42</answer>")]) as server:
        made = bench(bin_, provider, extra={"STANDIN_LLM_URL": server.url})
        done = run(AgentHarness(made.model, timeout=20).run(env, env.load("test")[0], Skill(rules)))
        system, user = (message["content"] for message in server.bodies[0]["messages"])
    assert user == long
    assert system.endswith(rules)
    assert done.score is not None
    assert done.score.hard == 1.0


@posix
@linux
@pytest.mark.parametrize("boxed", [False, pytest.param(True, marks=needs_bubblewrap)], ids=["plain", "bubblewrap"])
def test_one_that_forks_and_hangs_is_gone_within_two_seconds_of_its_deadline(bin_: Path, boxed: bool) -> None:
    word = secrets.token_hex(8)
    box = bubblewrap() if boxed else None
    made = bench(bin_, "codex_exec", {"token": word, "hang": 600}, sandbox=box)
    harness = AgentHarness(made.model, timeout=1.0)

    async def go() -> Rollout:
        task = asyncio.create_task(harness.run(ENV, ITEM, SKILL))
        while not with_word(word):
            await asyncio.sleep(0.02)
        return await task

    started = time.monotonic()
    outcome = run(go()).outcome
    assert time.monotonic() - started < 3.0
    assert isinstance(outcome, Failure)
    assert outcome.status == "timeout"
    assert with_word(word) == []


class Footprint:
    """The most memory that the processes below this one held at once (bytes; what they share counts once), and how many
    of them were agents."""

    def __init__(self) -> None:
        self.bytes = self.agents = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Footprint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            held, agents = 0, 0
            for process in psutil.Process().children(recursive=True):
                try:
                    held += process.memory_full_info().pss
                    agents += process.name() == "codex"
                except psutil.Error:
                    continue
            self.bytes, self.agents = max(self.bytes, held), max(self.agents, agents)


@posix
@linux
def test_thirty_two_items_at_once_take_less_than_a_gibibyte(bin_: Path) -> None:
    script = {"commands": [{"command": "x", "output": "y" * 100_000}], "delay": 2.5, "answer": GOOD}
    made = bench(bin_, "codex_exec", script, sandbox=bubblewrap())
    harness = AgentHarness(made.model, timeout=30)
    before = psutil.Process().memory_info().rss
    with Footprint() as seen:
        done = run(gather_all(harness.run(ENV, ITEM, SKILL) for _ in range(32)))
    assert [each.score is not None for each in done] == [True] * 32
    assert seen.agents >= 32
    grown = psutil.Process().memory_info().rss - before
    assert seen.bytes + grown < 1 << 30
    print(f"32 agents: {(seen.bytes + grown) >> 20} MiB")


# Whole runs

GOLD, SSH, OPTIMIZERS_KEY = "gold-of-the-test", "private-key-of-the-user", "sk-key-of-the-optimizer-0123456789"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A user's folder with data, a key, and another process that has the optimizer's key in its environment."""
    for split in ("train", "val", "test"):
        rows = [{"id": f"{split}{n}", "question": f"code-{n}?", "context": "c", "answers": [GOLD]} for n in (1, 2)]
        (tmp_path / "data" / split).mkdir(parents=True)
        (tmp_path / "data" / split / "items.json").write_text(json.dumps(rows), encoding="utf-8")
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/id_ed25519").write_text(SSH, encoding="utf-8")
    other = subprocess.Popen(["sleep", "60"], env={"OPTIMIZER_OPENAI_API_KEY": OPTIMIZERS_KEY})
    yield tmp_path
    other.kill()
    other.wait()


def training(project: Path, url: str, script: dict[str, Any], target: str = "codex_exec", **more: Any) -> Ending:
    """A training of one step whose target is an agent."""
    environ = {
        "PATH": f"{install(project / 'bin')}{os.pathsep}{os.defpath}",
        "HOME": str(project / "home"),
        "OPTIMIZER_OPENAI_API_KEY": OPTIMIZERS_KEY,
        "OPTIMIZER_OPENAI_BASE_URL": url,
        **KEYS[PROGRAMS[target]],
    }
    flags = {
        "env.name": "searchqa",
        "env.split_mode": "split_dir",
        "env.split_dir": str(project / "data"),
        "env.out_root": str(project / "run"),
        "model.optimizer": "teacher",
        "model.optimizer_backend": "openai",
        "model.target": "student",
        "model.target_backend": target,
        "train.num_epochs": 1,
        "train.batch_size": 2,
        **more,
    }
    config = load_config(None, (), flags)
    extra = {"STANDIN_SCRIPT": json.dumps(script), "STANDIN_LLM_URL": url}
    connect = functools.partial(open_clients, extra_environment=extra)
    prepared = prepare_training(config, environ, skill=SKILL)
    return run(train(prepared, environ, Redactor.collect({}, config), [], connect))


def outputs(root: Path) -> str:
    """All that commands printed, as the run has kept it."""
    found = []
    for path in sorted(root.glob("**/conversation.json")):
        found += [event["obs"] for event in json.loads(path.read_text("utf-8")) if event.get("type") == "tool_call"]
    return "\n".join(found)


@posix
@linux
@pytest.mark.parametrize("boxed", [False, pytest.param(True, marks=needs_bubblewrap)], ids=["plain", "bubblewrap"])
def test_an_agent_finds_neither_run_nor_data_nor_keys(
    project: Path, monkeypatch: pytest.MonkeyPatch, boxed: bool
) -> None:
    """Plainly, the same commands find what they look for in files by absolute paths: so the test could fail."""
    if not boxed:
        monkeypatch.setattr(skillopt.engine.programs, "find_sandbox", _no_sandbox)
    look = [
        f"cat {project}/data/*/items.json {project}/home/.ssh/*; ls {project}/run {project}",
        "cat ~/.ssh/* ../*.json ../../*.json; ls -a ~ . .. ../..; find . .. -name '*.json'",
        "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -a sk-key-of-",
        "grep -rh gold-of-.he-test . .. ~; cat /root/.ssh/* /home/*/.ssh/* /etc/shadow",
    ]
    with FakeOpenAI(world()) as server:
        ending = training(project, server.url, {"commands": [{"command": command} for command in look]})
    assert ending.reason == "completed"
    seen = outputs(ending.root)
    assert "CODEX_API_KEY=***" in seen, "its own key it has, and it is not kept"
    found = {word for word in (GOLD, SSH, OPTIMIZERS_KEY, "journal.sqlite") if word in seen}
    assert found == (set() if boxed else {GOLD, SSH, OPTIMIZERS_KEY, "journal.sqlite"})


async def _no_sandbox(environ: object) -> Sandbox:
    return Sandbox()


@posix
@linux
def test_ctrl_c_in_a_run_leaves_no_agent_behind(project: Path) -> None:
    word = secrets.token_hex(8)

    hanging = threading.Event()
    usual = world()

    def answer(received: Received) -> Step:
        if "code-" not in received.raw.decode():
            return usual(received)
        hanging.set()
        return HANG

    def press() -> None:
        hanging.wait(20)
        os.kill(os.getpid(), signal.SIGINT)

    with FakeOpenAI(answer) as server:
        finger = threading.Thread(target=press)
        finger.start()
        ending = training(project, server.url, {"token": word}, **{"model.timeout_seconds": 0.5})
        finger.join()
    assert hanging.is_set()
    assert ending.reason == "interrupted"
    assert with_word(word) == []
