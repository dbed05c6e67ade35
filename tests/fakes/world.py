"""A small world to train in: items that need rules, a target that follows them, an optimizer that finds them.

Every question says which rules its item needs (``wants [alpha bravo]``), so both models can be played from the prompts
alone, in this process (``World.clients``) or behind a server (``World.answer``). All answers are pure functions of the
prompts. A rule is in a skill when its word is; the word ``noise`` in a skill spoils every other answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes.virtual_time import run_virtual

from skillopt.config import Config, Redactor, load_config
from skillopt.engine.prepare import Prepared, prepare_training
from skillopt.engine.session import Ending
from skillopt.engine.session import train as train_session
from skillopt.envs.base import Env
from skillopt.envs.custom import make_env
from skillopt.harness.agent import SKILL_FILE, TASK_FILE
from skillopt.models.errors import ModelError
from skillopt.models.limiter import Limiter
from skillopt.models.profile import ResolvedRole
from skillopt.models.types import Attempt, ChatModel, Meter, ModelSpec, Reply, Request, Usage
from skillopt.run.events import Listener
from skillopt.run.journaled import identity, journal_key
from skillopt.skill import Skill
from skillopt.types import Role

RULES = ("alpha", "bravo", "carol")
SEED_SKILL = "# Skill\n\n- rule: answer briefly\n"
ENVIRON = {"OPENAI_API_KEY": "sk-fake-0123456789abcdef", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
DEFAULTS: Mapping[str, Any] = {
    "model.target": "small-target",
    "model.optimizer": "big-optimizer",
    "train.num_epochs": 2,
    "train.batch_size": 3,
    "gradient.minibatch_size": 2,
    "optimizer.learning_rate": 2,
    "optimizer.min_learning_rate": 1,
    "optimizer.slow_update_samples": 3,
    "env.workers": 4,
    "gradient.analyst_workers": 4,
}

Played = str | Mapping[str, Any] | Exception | None
Script = Callable[[str, str], Played]
"""Plays a stage: system and user prompt to a reply, an object (sent as JSON) or an error. None: as usual."""


@dataclass(frozen=True)
class Call:
    """One request as the world got it. ``key`` is its journal key; ``error`` the kind of its failure, '' for none."""

    number: int
    role: Role
    stage: str
    key: str
    system: str
    user: str
    request: Request
    error: str = ""

    @property
    def code(self) -> str:
        """The item of a rollout."""
        return codes(self.user)[0] if self.stage == "rollout" else ""

    @property
    def split(self) -> str:
        return {"TR": "train", "VA": "val", "TE": "test", "": ""}[self.code[:2]]


@dataclass
class World:
    """The sizes of the splits, how its models are played, and all requests so far. ``peaks``: the most requests that a
    role had at once."""

    train: int = 6
    val: int = 4
    test: int = 3
    scripts: dict[str, Script] = field(default_factory=dict)
    latency: Callable[[Call], float] = lambda call: 0.0
    version: str = "1"
    calls: list[Call] = field(default_factory=list)
    peaks: Counter[str] = field(default_factory=Counter)

    # what was asked

    def stages(self) -> Counter[str]:
        return Counter(call.stage for call in self.calls)

    def of(self, stage: str, split: str = "") -> list[Call]:
        return [call for call in self.calls if call.stage == stage and split in ("", call.split)]

    def work(self) -> list[Call]:
        """All calls but probes."""
        return [call for call in self.calls if call.stage != "probe"]

    # the items

    def items(self) -> dict[str, list[dict[str, Any]]]:
        sizes = {"train": ("TR", self.train), "val": ("VA", self.val), "test": ("TE", self.test)}
        return {split: [_item(prefix, number) for number in range(size)] for split, (prefix, size) in sizes.items()}

    def env(self) -> Env:
        return make_env(self.items(), lambda item: item["question"], score, name="world", version=self.version)

    # the models

    def answer(self, stage: str, system: str, user: str, role: str = "") -> str:
        """What the model of the stage replies. Raises what a script says; one for ``probe target`` is of that role."""
        script = self.scripts.get(f"{stage} {role}") or self.scripts.get(stage)
        played = script(system, user) if script else None
        if isinstance(played, Exception):
            raise played
        if played is None:
            return play(stage, system, user)
        return played if isinstance(played, str) else json.dumps(played)

    @asynccontextmanager
    async def clients(
        self,
        config: Config,
        roles: Mapping[Role, ResolvedRole],
        meter: Meter,
        environ: Mapping[str, str],
        say: Callable[[str], None],
    ) -> AsyncIterator[Mapping[Role, ChatModel]]:
        """In place of ``open_clients``: the same limiter and meter, without HTTP."""
        limiter = Limiter({"target": config.env.workers, "optimizer": config.gradient.analyst_workers})
        yield {role: _Client(self, resolved.spec, limiter, meter) for role, resolved in roles.items()}


class _Client:
    def __init__(self, world: World, spec: ModelSpec, limiter: Limiter, meter: Meter) -> None:
        self.spec = spec
        self._world = world
        self._limiter = limiter
        self._meter = meter
        self._in_flight = 0

    async def complete(self, request: Request) -> Reply:
        world, role = self._world, self.spec.role
        async with self._limiter.slot(role, request.priority):
            self._meter.admit()
            kind, usage = "cancelled", Usage()
            call = self._call(request)
            world.calls.append(call)
            self._in_flight += 1
            world.peaks[role] = max(world.peaks[role], self._in_flight)
            try:
                await asyncio.sleep(world.latency(call))
                text = world.answer(call.stage, call.system, call.user, role)
                kind, usage = "ok", Usage(len(call.system + call.user) // 4 + 1, len(text) // 4 + 1)
                return Reply(text, usage)
            except ModelError as error:
                kind = error.kind
                world.calls[world.calls.index(call)] = self._call(request, call.number, kind)
                raise
            finally:
                self._in_flight -= 1
                self._meter.record(Attempt(role, request.stage, kind, usage, 0.0))

    def _call(self, request: Request, number: int = -1, error: str = "") -> Call:
        system = "".join(message.content for message in request.messages if message.role == "system")
        user = "\n".join(message.content for message in request.messages if message.role != "system")
        if request.files:  # an agent reads its workspace
            system, user = (_content(request, path) for path in (SKILL_FILE, TASK_FILE))
        number = len(self._world.calls) if number < 0 else number
        key = journal_key(identity(self.spec), request)
        return Call(number, self.spec.role, request.stage, key, system, user, request, error)


def _content(request: Request, path: str) -> str:
    return next(file.content.decode() for file in request.files if file.path == path)


class _Unsynced(sqlite3.Connection):
    """A journal that does not wait for the disk either."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return super().execute("PRAGMA synchronous=OFF" if sql.startswith("PRAGMA synchronous") else sql, *values)


def configuration(root: Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration of a run of this world in ``root``: the defaults above, then ``overrides`` by dotted key."""
    flags = {**DEFAULTS, "env.name": "world", "env.out_root": str(root), **(overrides or {})}
    return load_config(None, (), flags)


def prepared(
    world: World,
    root: Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    skill: str = SEED_SKILL,
    environ: Mapping[str, str] = ENVIRON,
    env: Env | None = None,
) -> Prepared:
    config = configuration(root, overrides)
    return prepare_training(config, environ, env=env or world.env(), skill=Skill(skill))


def run(
    world: World,
    root: Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    skill: str = SEED_SKILL,
    environ: Mapping[str, str] = ENVIRON,
    env: Env | None = None,
    listeners: Sequence[Listener] = (),
    real_time: bool = False,
) -> Ending:
    """One training process: to its end, or to where it stops. In virtual time unless told otherwise, and without
    waiting for the disk: no power is lost in tests."""
    ready = prepared(world, root, overrides, skill=skill, environ=environ, env=env)
    redactor = Redactor.collect(environ, ready.config)
    work = train_session(ready, environ, redactor, listeners, world.clients)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=_Unsynced))
        return asyncio.run(work) if real_time else run_virtual(work)


# the world's facts


def _item(prefix: str, number: int) -> dict[str, Any]:
    """Of six items one needs no rule, three need one and two need two."""
    counts = (1, 2, 0, 1, 2, 1)
    first = number + ord(prefix[1])
    wanted = [RULES[(first + step) % len(RULES)] for step in range(counts[number % 6])]
    code = f"{prefix}-{number:03d}"
    question = f"Item {code} wants [{' '.join(wanted)}]: what is it called?"
    return {"id": code, "question": question, "answer": f"name of {code}"}


def score(item: dict[str, Any], answer: str) -> tuple[float, float]:
    right = item["answer"]
    missing = answer.removeprefix(right).count("without")
    return float(answer == right), 1.0 if answer == right else 0.5 / (1 + missing) if right in answer else 0.0


def codes(text: str) -> list[str]:
    """The items that a prompt is about, in order."""
    return list(dict.fromkeys(re.findall(r"\b(?:TR|VA|TE)-\d{3}\b", text)))


def wants(text: str) -> dict[str, list[str]]:
    """The rules that each item of a prompt needs."""
    return {code: words.split() for code, words in re.findall(r"Item (\S+) wants \[([^\]]*)\]", text)}


def rule_line(word: str) -> str:
    return f"- rule: {word} always"


def section(text: str, heading: str) -> str:
    """The body of a section of a prompt; '' when there is none."""
    found = re.search(rf"(?ms)^## {re.escape(heading)}\n(.*?)(?=^## (?!Execution)|\Z)", text)
    return found[1].strip() if found else ""


def skill_of(text: str) -> str:
    """The skill in an optimizer's prompt, whose own headings are lower ones."""
    return text.partition("## Current Skill\n")[2].split("\n## ")[0]


# the target


def _probe(system: str, user: str) -> Played:
    return "OK"


def _rollout(system: str, user: str) -> Played:
    ((code, wanted),) = wants(user).items()
    answer = f"name of {code}"
    answer += "".join(f" without {word}" for word in wanted if word not in system)
    if "noise" in system and int(code[-3:]) % 2 == 0:
        answer += " and noise"
    return f"I looked at {code}.\n<answer>{answer}</answer>"


# the optimizer


def missing_rules(text: str, skill: str) -> list[str]:
    """The rules that the items of a prompt need and the skill lacks, the most wanted first."""
    counted = Counter(word for words in wants(text).values() for word in words if word not in skill)
    return sorted(counted, key=lambda word: (-counted[word], word))


def _items_key(system: str) -> str:
    return next(key for key in ("edits", "revise_suggestions", "skill_candidates") if f'"{key}"' in system)


def _change(key: str, skill: str, line: str) -> dict[str, Any]:
    if key == "edits":
        return {"op": "append", "target": "", "content": line}
    if key == "revise_suggestions":
        return {"type": "add_rule", "title": line, "motivation": "failures", "instruction": f"Add: {line}"}
    return {"title": line, "change_summary": [line], "new_skill": f"{skill.rstrip()}\n{line}\n"}


def _analyst(system: str, user: str) -> Played:
    skill, trajectories = skill_of(user), user.partition(" Trajectories\n")[2]
    number = len(codes(trajectories))
    budget = int((re.search(r"budget=(\d+)", user) or ["", "2"])[1])
    if '"rules"' in system:
        rules = [
            {"trajectory": 0, "when": "", "write": f"{word} always"} for word in missing_rules(trajectories, skill)
        ]
        return {"rules": rules[:budget]}
    key = _items_key(system)
    if '"success_patterns"' in system:
        lines = [] if "tidy" in skill else ["- rule: be tidy"]
        changes = [_change(key, skill, line) for line in lines]
        return {"batch_size": number, "success_patterns": lines, "patch": {"reasoning": "worked", key: changes}}
    words = missing_rules(trajectories, skill)[:budget]
    causes = [{"failure_type": "missing", "count": number, "description": f"no {word}"} for word in words]
    lines = [rule_line(word) for word in words]
    if key == "skill_candidates":  # one whole skill, not one a rule
        lines = ["\n".join(lines)] if lines else []
    changes = [_change(key, skill, line) for line in lines]
    return {"batch_size": number, "failure_summary": causes, "patch": {"reasoning": "failed", key: changes}}


def _json_values(text: str) -> list[Any]:
    found, at, decoder = [], 0, json.JSONDecoder()
    while (opening := re.compile(r"[\[{]").search(text, at)) is not None:
        try:
            value, at = decoder.raw_decode(text, opening.start())
        except ValueError:
            at = opening.start() + 1
        else:
            found.append(value)
    return found


def _merge(system: str, user: str) -> Played:
    key = _items_key(system)
    boxes = [box for value in _json_values(user) if isinstance(value, list) for box in value if isinstance(box, dict)]
    merged: dict[str, dict[str, Any]] = {}
    for item in (item for box in boxes for item in box.get(key, ())):
        name = str(item.get("content") or item.get("title"))
        known = merged.setdefault(name, {**item, "support_count": 0})
        known["support_count"] += item["support_count"]
    return {"reasoning": "joined", key: list(merged.values())}


def _ranking(system: str, user: str) -> Played:
    budget = int(re.findall(r"budget=(\d+)", user)[-1])
    pool = re.findall(r"(?m)^\[(\d+)\].*?support=(\d+)", user)
    best = sorted(pool, key=lambda entry: (-int(entry[1]), int(entry[0])))
    return {"reasoning": "support", "selected_indices": [int(index) for index, _ in best[:budget]]}


def _learning_rate(system: str, user: str) -> Played:
    return {"learning_rate": 1, "reasoning": "careful", "confidence": "high", "risk_notes": []}


def _rewrite(system: str, user: str) -> Played:
    lines = re.findall(r'"instruction": "Add: (.*?)"', user)
    text = skill_of(user).rstrip() + "".join(f"\n{line}" for line in lines) + "\n"
    return {"reasoning": "carried out", "change_summary": lines, "new_skill": text}


def _slow_update(system: str, user: str) -> Played:
    words = missing_rules(user, skill_of(user))
    guidance = f"Mind {words[0]} first." if words else "Keep to the rules."
    return {"reasoning": "compared", "slow_update_content": guidance}


def _meta_skill(system: str, user: str) -> Played:
    return {"reasoning": "compared", "meta_skill_content": f"Advice from {len(codes(user))} items: one rule a line."}


_PLAYERS: Mapping[str, Script] = {
    "probe": _probe,
    "rollout": _rollout,
    "analyst": _analyst,
    "merge": _merge,
    "ranking": _ranking,
    "lr_autonomous": _learning_rate,
    "rewrite": _rewrite,
    "slow_update": _slow_update,
    "meta_skill": _meta_skill,
}


def play(stage: str, system: str, user: str) -> str:
    """What a model of this world usually replies."""
    played = _PLAYERS[stage](system, user)
    return played if isinstance(played, str) else json.dumps(played)


def stage_of(system: str) -> str:
    """The stage of a request by what its system prompt asks for, as a reader of a log would tell it."""
    for stage, keys in (
        ("slow_update", ("slow_update_content",)),
        ("meta_skill", ("meta_skill_content",)),
        ("ranking", ("selected_indices",)),
        ("lr_autonomous", ("learning_rate",)),
        ("analyst", ("failure_summary",)),
        ("analyst", ("success_patterns",)),
        ("analyst", ("rules",)),
        ("merge", ("edits",)),
        ("merge", ("revise_suggestions",)),
        ("merge", ("skill_candidates",)),
        ("rewrite", ("change_summary", "new_skill")),
    ):
        if all(f'"{key}"' in system for key in keys):
            return stage
    return "rollout" if system else "probe"
