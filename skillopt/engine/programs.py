"""The models of a run that are programs on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from skillopt.agents.check import check_program
from skillopt.agents.client import CLIModel
from skillopt.agents.sandbox import find_sandbox
from skillopt.agents.table import CLIS
from skillopt.agents.workspace import remove_abandoned
from skillopt.config import Config
from skillopt.engine.errors import RoleError
from skillopt.models.errors import ModelError
from skillopt.models.limiter import Limiter
from skillopt.models.profile import ResolvedRole
from skillopt.models.types import ChatModel, Meter
from skillopt.types import Role


async def open_programs(
    config: Config,
    roles: Mapping[Role, ResolvedRole],
    caps: Mapping[Role, int],
    meter: Meter,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    extra_environment: Mapping[str, str] | None = None,
) -> dict[Role, ChatModel]:
    """A client for each role that a program serves, after a look at its version and its options.

    Raises ``RoleError`` for what is missing. ``extra_environment`` is handed to the programs as it is.
    """
    hidden = hidden_places(config)
    await asyncio.to_thread(remove_abandoned, hidden)
    sandbox = await find_sandbox(environ)
    clients: dict[Role, ChatModel] = {}
    for role, resolved in roles.items():
        cli = CLIS[resolved.spec.provider]
        report = await check_program(cli, resolved.program, environ, extra_environment, sandbox)
        if report.problems:
            raise RoleError(role, ModelError("provider", "; ".join(report.problems)))
        agent = resolved.profile.agent and role == "target"
        say(f"{role}: {cli.title} {report.version or '(version unknown)'} at {report.path}; {sandbox.isolation}")
        clients[role] = CLIModel(
            resolved,
            environ,
            Limiter(caps),
            meter,
            agent=agent,
            sandbox=sandbox,
            hidden=hidden,
            extra_environment=extra_environment,
        )
    return clients


def hidden_places(config: Config) -> tuple[Path, ...]:
    """Where answers lie: the run folder and the data."""
    env = config.env
    given = (env.out_root, env.split_dir, env.data_path, env.split_output_dir)
    return tuple(dict.fromkeys(Path(path).resolve() for path in given if path))
