"""The same training through every provider: in both roles over HTTP, by programs, by agents, and mixed.

The models are played by ``fakes.rule_world`` behind servers that check every byte of a request, and behind stand-ins
for the programs that check every argument. What is learnt must not depend on the way that a prompt takes.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fakes.agents import KEYS, PROGRAMS, install
from fakes.folders import read_json, without_clocks
from fakes.openai_server import FakeOpenAI
from fakes.provider_requests import Asked
from fakes.provider_server import KEY, MODEL, ProviderServer, Says
from fakes.rule_world import RULE, answer, world, write_split

from skillopt.concurrency import run
from skillopt.config import Redactor, load_config
from skillopt.engine.models import open_clients
from skillopt.engine.prepare import prepare_training
from skillopt.engine.session import Ending, train
from skillopt.types import Role

NAMES: Mapping[Role, str] = {"optimizer": "teacher", "target": "student"}
SEED_SKILL = "# Answering\n\nAnswer in one word.\n"
COMMANDS = [
    {"command": "wc -c task.md", "output": "4711 task.md\n"},
    {"command": "grep -n clue notes.md", "output": "grep: notes.md: No such file or directory\n", "exit": 2},
]
SMALL = {
    "env.name": "searchqa",
    "env.split_mode": "split_dir",
    "train.num_epochs": 2,
    "train.batch_size": 2,
    "optimizer.slow_update_samples": 2,
    "env.workers": 4,
    "gradient.analyst_workers": 2,
}
PRICES = """
prices:
  openai: {teacher: {input: 1, output: 2}}
  claude_code_exec: {student: {input: 1, output: 2}}
"""
programs = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are POSIX scripts")


@dataclass(frozen=True)
class Way:
    """How a provider is asked for: the backend, the protocol of its server, the prefix of its variables."""

    backend: str
    speaker: str
    prefix: str
    where: str = "BASE_URL"
    more: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)


WAYS = {
    "openai": Way("openai", "openai", "OPENAI"),
    "responses": Way("openai", "responses", "OPENAI", overrides={"model.api": "responses"}),
    "azure": Way("azure_openai", "azure", "AZURE_OPENAI", "ENDPOINT"),
    "compatible": Way(
        "azure_openai", "openai", "AZURE_OPENAI", "ENDPOINT", {"AZURE_OPENAI_AUTH_MODE": "openai_compatible"}
    ),
    "anthropic": Way("anthropic", "anthropic", "ANTHROPIC"),
    "qwen": Way("qwen_chat", "qwen", "QWEN_CHAT", more={"QWEN_CHAT_THINKING_MODE": "disabled"}),
    "minimax": Way("minimax_chat", "minimax", "MINIMAX"),
}


@dataclass
class Run:
    """A training, and what its models were asked: (system, user) by role."""

    ending: Ending
    asked: dict[str, list[tuple[str, str]]]

    @property
    def learnt(self) -> dict[str, Any]:
        """All that must be the same whoever serves the roles."""
        root = self.ending.root
        rows = [{name: value for name, value in row.items() if not _accounts(name)} for row in _history(root)]
        scores = ("best_step", "best_selection_hard", "baseline_test_hard", "test_hard", "test_delta_hard")
        summary = {name: self.ending.summary.get(name) for name in scores}
        return {"best": (root / "best_skill.md").read_text("utf-8"), "rows": rows, **summary}


def _history(root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = without_clocks(read_json(root / "history.json"))
    return found


def _accounts(name: str) -> bool:
    return name in ("tokens", "tokens_total", "cost_usd")


@dataclass
class Stage:
    """The servers and programs of a training, ready to be trained with as often as wanted."""

    environ: dict[str, str]
    flags: dict[str, Any]
    extra: dict[str, str] = field(default_factory=dict)
    asked: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: {"optimizer": [], "target": []})
    servers: list[ProviderServer] = field(default_factory=list)

    def train(self, **overrides: Any) -> Ending:
        """One process of the training."""
        config = load_config(None, (), {**self.flags, **overrides})
        prepared = prepare_training(config, self.environ)
        connect = functools.partial(open_clients, extra_environment=self.extra)
        ending = run(train(prepared, self.environ, Redactor.collect(self.environ, config), [], connect))
        assert [complaint for server in self.servers for complaint in server.complaints] == []
        for role, resolved in prepared.roles.items():
            assert resolved.spec.provider == self.flags[f"model.{role}_backend"]
        return ending


@contextmanager
def staged(tmp_path: Path, optimizer: str, target: str, script: Mapping[str, Any] | None = None) -> Iterator[Stage]:
    """A training of two epochs with ``optimizer`` and ``target``, each a way of the table above or a program, which
    plays ``script``."""
    (tmp_path / "home").mkdir()
    (tmp_path / "skill.md").write_text(SEED_SKILL, encoding="utf-8")
    split = write_split(tmp_path / "data", train=4, val=3, test=3)
    stage = Stage(
        {"PATH": os.defpath, "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"},
        {
            **SMALL,
            "env.split_dir": str(split),
            "env.out_root": str(tmp_path / "run"),
            "env.skill_init": str(tmp_path / "skill.md"),
        },
    )
    with ExitStack() as stack:
        for role, name in (("optimizer", optimizer), ("target", target)):
            stage.flags[f"model.{role}"] = MODEL if name == "azure" else NAMES[role]  # a deployment is part of its URL
            if name in PROGRAMS:
                stage.flags[f"model.{role}_backend"] = name
                stage.environ["PATH"] = f"{install(tmp_path / 'bin')}{os.pathsep}{os.defpath}"
                stage.environ |= KEYS[PROGRAMS[name]]
                if not stage.extra:
                    server = stack.enter_context(FakeOpenAI(_remembering(stage.asked)))
                    stage.extra |= {"STANDIN_LLM_URL": server.url, "STANDIN_SCRIPT": json.dumps(script or {})}
                continue
            way = WAYS[name]
            stage.servers.append(stack.enter_context(ProviderServer(way.speaker, _play(role, stage.asked))))
            stage.flags |= {f"model.{role}_backend": way.backend, **way.overrides}
            own = {f"{way.prefix}_API_KEY": KEY, f"{way.prefix}_{way.where}": stage.servers[-1].url, **way.more}
            stage.environ |= {f"{role.upper()}_{variable}": value for variable, value in own.items()}
        yield stage


def learn(tmp_path: Path, optimizer: str, target: str, script: Mapping[str, Any] | None = None) -> Run:
    """That training from start to end."""
    with staged(tmp_path, optimizer, target, script) as stage:
        ending = stage.train()
    assert (ending.reason, ending.detail) == ("completed", "")
    return Run(ending, stage.asked)


def _play(role: str, asked: dict[str, list[tuple[str, str]]]) -> Callable[[Asked], Says]:
    """The script of a server for one role."""

    def reply(got: Asked) -> Says:
        ((who, user),) = got.turns
        assert who == "user"
        assert got.model in (MODEL, NAMES[role])  # type: ignore[index]
        asked[role].append((got.system, user))
        return Says(answer(role, got.system, user))

    return reply


def _remembering(asked: dict[str, list[tuple[str, str]]]) -> Callable[[Any], Any]:
    """The script of the server that the stand-ins ask."""
    script = world()

    def reply(received: Any) -> Any:
        messages = received.body["messages"]
        system = "".join(message["content"] for message in messages if message["role"] == "system")
        role = next(role for role, name in NAMES.items() if name == received.body["model"])
        asked[role].append((system, messages[-1]["content"]))
        return script(received)

    return reply


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is learnt over OpenAI's chat protocol."""
    return learn(tmp_path_factory.mktemp("reference"), "openai", "openai").learnt


def test_what_there_is_to_learn(reference: dict[str, Any]) -> None:
    assert reference["best"].startswith(SEED_SKILL.rstrip())
    assert RULE in reference["best"]
    assert (reference["baseline_test_hard"], reference["test_hard"]) == (1 / 3, 1.0)
    assert reference["rows"][0]["action"].startswith("accept")
    assert len(reference["rows"]) == 4


@pytest.mark.parametrize("name", [name for name in WAYS if name != "openai"])
def test_a_provider_in_both_roles(tmp_path: Path, reference: dict[str, Any], name: str) -> None:
    assert learn(tmp_path, name, name).learnt == reference


@pytest.mark.parametrize(("optimizer", "target"), [("anthropic", "qwen"), ("minimax", "azure")])
def test_mixed_roles(tmp_path: Path, reference: dict[str, Any], optimizer: str, target: str) -> None:
    assert learn(tmp_path, optimizer, target).learnt == reference


@programs
@pytest.mark.parametrize(
    ("optimizer", "target"),
    [("claude_chat", "claude_chat"), ("codex_exec", "openai"), ("copilot_chat", "qwen"), ("anthropic", "copilot_chat")],
)
def test_a_program_as_a_chat_model(tmp_path: Path, reference: dict[str, Any], optimizer: str, target: str) -> None:
    assert learn(tmp_path, optimizer, target).learnt == reference


@programs
@pytest.mark.parametrize("target", ["codex_exec", "claude_code_exec", "cursor_exec", "copilot_exec"])
def test_an_agent_as_target(tmp_path: Path, reference: dict[str, Any], target: str) -> None:
    """It learns the same, and the optimizer reads what the agent did."""
    done = learn(tmp_path, "openai", target, {"commands": COMMANDS})
    assert done.learnt == reference
    told = [user for system, user in done.asked["optimizer"] if '"failure_summary"' in system]
    assert told
    for user in told:
        assert "wc -c task.md" in user
        assert "[observation] 4711 task.md" in user
        assert "[observation (exit status 2)] grep: notes.md: No such file or directory" in user
        assert "[assistant] <answer>no idea</answer>" in user
    conversation = read_json(next(done.ending.root.glob("steps/step_0001/rollout/predictions/*/conversation.json")))
    calls = [event for event in conversation if event.get("type") == "tool_call"]
    assert [event["exit_code"] for event in calls] == [0, 2]


@programs
@pytest.mark.parametrize(
    ("cap", "value", "in_flight"),
    [("budget.max_calls", 12, 0), ("budget.max_tokens", 400, 2 * 150 + 4 * 15), ("budget.max_usd", 0.06, 4 * 0.01)],
)
def test_a_cap_holds_for_an_agent_and_a_larger_one_goes_on(
    tmp_path: Path, reference: dict[str, Any], cap: str, value: float, in_flight: float
) -> None:
    """The program says itself what it cost; the bound is what the calls in flight can spend."""
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES, encoding="utf-8")
    with staged(tmp_path, "openai", "claude_code_exec", {"cost": 0.01}) as stage:
        stage.flags["budget.prices"] = str(prices)
        first = stage.train(**{cap: value})
        assert (first.reason, first.detail.split(" is ")[0]) == ("budget", f"{cap}={value}")
        spent = re.search(r"reached \(\$?([\d.]+) spent", first.detail)
        assert spent is not None
        assert value <= float(spent[1]) <= value + in_flight
        before = sum(map(len, stage.asked.values()))
        last = stage.train(**{cap: 1_000_000})
    assert last.reason == "completed"
    learnt = Run(last, stage.asked)
    assert learnt.learnt == reference
    work = [call for calls in stage.asked.values() for call in calls if call[0]]  # a probe has no system text
    assert len(work) == len(set(work)), "nothing is paid twice"
    assert before < sum(map(len, stage.asked.values()))
