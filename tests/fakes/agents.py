"""The stand-ins for agent programs, put into a folder of their own as programs that can be run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillopt.agents.client import CLIModel
from skillopt.models.limiter import Limiter
from skillopt.models.profile import ResolvedRole
from skillopt.models.providers import PROVIDERS
from skillopt.models.types import Attempt, ModelSpec
from skillopt.types import Role

STANDINS = Path(__file__).resolve().parent.parent / "standins"
PROGRAMS = {
    "codex_exec": "codex",
    "claude_chat": "claude",
    "claude_code_exec": "claude",
    "cursor_exec": "cursor-agent",
    "copilot_chat": "copilot",
    "copilot_exec": "copilot",
}
KEYS = {
    "codex": {"CODEX_API_KEY": "codex-key-0123456789"},
    "claude": {"ANTHROPIC_API_KEY": "anthropic-key-0123456789"},
    "cursor-agent": {"CURSOR_API_KEY": "cursor-key-0123456789"},
    "copilot": {"GH_TOKEN": "github-token-0123456789"},
}


def install(folder: Path) -> Path:
    """Copies the stand-ins to ``folder``, each with this interpreter in its first line. Returns ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in STANDINS.iterdir():
        if source.is_dir():
            continue
        target = folder / source.name
        head = "" if source.suffix else f"#!{sys.executable}\n"
        target.write_text(head + source.read_text(encoding="utf-8"), encoding="utf-8")
        target.chmod(0o755)
    return folder


class Ledger:
    """A meter that keeps what it books."""

    def __init__(self) -> None:
        self.admitted = 0
        self.attempts: list[Attempt] = []

    def admit(self) -> None:
        self.admitted += 1

    def record(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)

    @property
    def kinds(self) -> list[str]:
        return [attempt.kind for attempt in self.attempts]


@dataclass
class Bench:
    """One model over a stand-in, and all it leaves behind."""

    model: CLIModel
    meter: Ledger
    limiter: Limiter
    environ: dict[str, str]
    slept: list[float] = field(default_factory=list)


def bench(
    bin_: Path,
    provider: str,
    script: Mapping[str, Any] | None = None,
    *,
    agent: bool | None = None,
    role: Role = "target",
    environ: Mapping[str, str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    program: str = "",
    home: str = "",
    extra: Mapping[str, str] | None = None,
    keys: bool = True,
    model: str = "m",
    **settings: Any,
) -> Bench:
    """A model that runs the stand-in of ``provider`` with ``script``."""
    found = {"PATH": f"{bin_}{os.pathsep}{os.defpath}", "HOME": str(bin_.parent / "user"), "LANG": "C.UTF-8"}
    found |= KEYS[PROGRAMS[provider]] if keys else {}
    found |= environ or {}
    spec = ModelSpec(role, provider, model, "", parameters=parameters or {})
    meter, limiter, slept = Ledger(), Limiter({role: 64}), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    variables = {"STANDIN_SCRIPT": json.dumps(script)} if script is not None else {}
    made = CLIModel(
        ResolvedRole(spec, PROVIDERS[provider], None, program=program, home=home),
        found,
        limiter,
        meter,
        agent=provider.endswith("_exec") if agent is None else agent,
        extra_environment={**variables, **(extra or {})},
        sleep=sleep,
        **settings,
    )
    return Bench(made, meter, limiter, found, slept)
