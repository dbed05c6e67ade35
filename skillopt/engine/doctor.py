"""Looks at everything that a training needs and says of each part whether it is there. Nothing is written.

A part that is broken is a finding, never the end of the examination.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skillopt.agents.check import check_program
from skillopt.agents.environment import credentials
from skillopt.agents.login import config_directory, has_login
from skillopt.agents.sandbox import find_sandbox
from skillopt.agents.table import CLIS
from skillopt.config import Config, ConfigError
from skillopt.config.errors import Problem, Source
from skillopt.data.errors import DataError
from skillopt.engine.checks import (
    Check,
    FolderState,
    abilities_check,
    disk_check,
    folder_check,
    key_check,
    model_check,
    price_check,
    probe_check,
    program_checks,
    weights_check,
)
from skillopt.engine.errors import RoleError
from skillopt.engine.models import open_clients
from skillopt.engine.money import role_prices
from skillopt.engine.prepare import Prepared, load_env, prepare_training, read_skill, role_of
from skillopt.engine.remedies import Commands, for_call, for_data, for_error, for_problem, for_provider
from skillopt.engine.resume import TRAINING, identity, made_with
from skillopt.envs.base import Env
from skillopt.envs.scoring import EnvError
from skillopt.local.errors import LocalError
from skillopt.models.errors import ModelError, ProviderError
from skillopt.models.listing import list_models
from skillopt.models.pricing import Price
from skillopt.models.probe import probe
from skillopt.models.profile import BOTH_ROLES, ResolvedRole
from skillopt.models.resolve import require
from skillopt.models.settings import Settings
from skillopt.models.types import Attempt, ChatModel
from skillopt.run.folder import FolderError
from skillopt.types import SPLITS, Role

_ENGINE = "xllamacpp"
_SHOWN_MODELS = 8
_GRACE = 30.0
"""Seconds that a probe may take beyond its request: to wait for its turn, to be asked again."""


@dataclass(frozen=True)
class Visit:
    """What is examined. ``from_file`` are the variables that only ``.env`` sets, ``folder_state`` reads a run folder,
    ``mask`` takes secrets out of a text."""

    config: Config
    environ: Mapping[str, str] = field(repr=False)
    commands: Commands
    folder_state: Callable[[Path], FolderState]
    mask: Callable[[str], str]
    from_file: frozenset[str] = frozenset()
    local_engine: bool = field(default_factory=lambda: find_spec(_ENGINE) is not None)


@dataclass(frozen=True)
class Found:
    """What was found without a request, and the roles that can be asked, with their prices."""

    checks: tuple[Check, ...]
    roles: Mapping[Role, ResolvedRole]
    prices: Mapping[Role, Price | None]


class Tally:
    """A meter in memory: it admits everything and keeps what it books."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []

    def admit(self) -> None:
        """Nothing limits a few probes."""

    def record(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)

    def of(self, role: Role) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.role == role]


# Without a request


def look(visit: Visit) -> Found:
    """Everything that can be seen without a request to a model."""
    env, data = _data_check(visit)
    roles: dict[Role, ResolvedRole] = {}
    prices: dict[Role, Price | None] = {}
    checks: list[Check] = []
    for role in BOTH_ROLES:
        resolved, found = _role_checks(visit, role, env)
        checks += found
        if resolved is not None:
            roles[role] = resolved
            price = _price_check(visit, resolved, prices)
            checks.append(price)
    checks = [*_told_once(checks), data, _skill_check(visit)]
    prepared = None
    if env is not None and not any(check.status == "fail" for check in checks):
        prepared, plan = _plan_check(visit, env)
        checks.append(plan)
    checks += [_folder_check(visit, prepared), _disk_check(visit)]
    return Found(tuple(checks), roles, prices)


def _told_once(checks: Sequence[Check]) -> list[Check]:
    """The checks of both roles, where what keeps both from a model is told once."""
    told = {check.advice: check for check in checks if check.name == "optimizer model" and check.status == "fail"}
    return [
        replace(check, found="as for the optimizer") if check.name == "target model" and check.advice in told else check
        for check in checks
    ]


def _role_checks(visit: Visit, role: Role, env: Env | None) -> tuple[ResolvedRole | None, list[Check]]:
    commands = visit.commands
    try:
        resolved = role_of(visit.config, role, visit.environ)
    except ProviderError as error:
        text = str(error).removeprefix(f"{role}: ")
        return None, [Check(f"{role} model", "fail", text, for_provider(error, role, commands))]
    refusal = ""
    advice: tuple[str, ...] = ()
    try:
        require(resolved, frozenset(getattr(env, "needs", ())) if role == "target" else frozenset())
    except ProviderError as error:
        refusal = str(error).removeprefix(f"{role}: ")
        advice = for_provider(error, role, commands)
    checks = [model_check(resolved)]
    if resolved.profile.protocol != "cli":
        checks.append(key_check(resolved, visit.from_file, commands))
    if resolved.spec.provider == "local":
        checks.append(_weights_check(visit, resolved))
    return resolved, [*checks, abilities_check(resolved, refusal, advice)]


def _remedy(visit: Visit, error: Exception, role: Role = "target") -> tuple[str, ...]:
    return for_error(error, role, visit.config.env.name, visit.commands)


def _weights_check(visit: Visit, resolved: ResolvedRole) -> Check:
    from skillopt.local.weights import locate, size_text

    try:
        place = locate(resolved.spec.model, visit.environ)
    except LocalError as error:
        name = f"{resolved.spec.role} weights"
        return Check(name, "fail", str(error), (visit.commands.of("models", "list"),))
    known = None if isinstance(place, Path) else place  # a file of the user's own is there
    path, size, present = (known.path, size_text(known.row.size), known.present()) if known else (place, "", True)
    return weights_check(resolved, str(path), size, present, visit.local_engine, visit.commands)


def _price_check(visit: Visit, resolved: ResolvedRole, prices: dict[Role, Price | None]) -> Check:
    role = resolved.spec.role
    try:
        prices |= role_prices(visit.config, {role: resolved.spec}, visit.environ)
    except ConfigError as error:
        return Check(f"{role} price", "fail", str(error), _remedy(visit, error, role))
    return price_check(resolved, prices[role])


def _data_check(visit: Visit) -> tuple[Env | None, Check]:
    """The environment and its items."""
    name = visit.config.env.name
    try:
        env = load_env(visit.config)
        sizes = {split: len(env.load(split)) for split in SPLITS}
    except Exception as error:  # an environment may be anyone's code, and the other parts are worth a look all the same
        known = isinstance(error, DataError | ImportError | OSError)
        text = str(error) if known else f"environment {name!r} failed: {type(error).__name__}: {error}"
        return None, Check("data", "fail", text, for_data(error, name, visit.commands), {"env": name})
    text = ", ".join(f"{split} {size}" for split, size in sizes.items())
    return env, Check("data", "ok", f"{name}: {text} items", facts={"env": name, "items": sizes})


def _skill_check(visit: Visit) -> Check:
    path = visit.config.env.skill_init
    try:
        skill = read_skill(path, "env.skill_init")
    except (ConfigError, OSError) as error:
        mended = Problem(str(error), Source.key("env.skill_init"))
        return Check("first skill", "fail", str(error), for_problem(mended, "", visit.commands))
    text = f"{path} ({len(skill.text)} characters)" if path.strip() else "empty (env.skill_init names none)"
    return Check("first skill", "ok", text, facts={"path": path, "characters": len(skill.text)})


def _plan_check(visit: Visit, env: Env) -> tuple[Prepared | None, Check]:
    """All that a run itself checks before it sends anything."""
    try:
        prepared = prepare_training(visit.config, visit.environ, env=env)
    except (ConfigError, DataError, ProviderError, EnvError) as error:
        return None, Check("plan", "fail", str(error), _remedy(visit, error))
    facts = {"epochs": len(prepared.plan), "steps": prepared.steps}
    text = f"epochs={len(prepared.plan)} steps={prepared.steps}; --dry-run of train says what that may cost"
    return prepared, Check("plan", "ok", text, facts=facts)


def _folder_check(visit: Visit, prepared: Prepared | None) -> Check:
    root = Path(visit.config.env.out_root)
    wanted: dict[str, Any] | None = None
    if prepared is not None:
        wanted = json.loads(visit.mask(json.dumps(identity(prepared, TRAINING))))
    policy = visit.config.runtime.resume_policy
    try:
        made = made_with(root)
    except FolderError as error:
        return Check("run folder", "fail", str(error))
    return folder_check(str(root), visit.folder_state(root), made, wanted, policy, visit.commands)


def _disk_check(visit: Visit) -> Check:
    root = Path(visit.config.env.out_root)
    place = next((folder for folder in (root, *root.parents) if folder.is_dir()), Path(root.anchor or "."))
    writable = os.access(place, os.W_OK | os.X_OK)
    return disk_check(str(root), str(place), shutil.disk_usage(place).free, writable, visit.commands)


# With requests


async def ask(visit: Visit, found: Found, *, probing: bool = True) -> tuple[Check, ...]:
    """What only the programs and, with ``probing``, the models themselves can tell: one short call a role."""
    programs = [_program_checks(visit, role) for role in found.roles.values() if role.profile.protocol == "cli"]
    checks = [check for each in await asyncio.gather(*programs) for check in each]
    if not probing:
        return tuple(checks)
    lost = {check.name for check in (*found.checks, *checks) if check.status == "fail"}
    ready: list[dict[Role, ResolvedRole]] = [{}]
    for role, resolved in found.roles.items():
        if f"{role} program" in lost or not _can_be_probed(resolved, found.checks):
            text = "not asked: see above"
            checks.append(Check(f"{role} probe", "warn", text))
        elif resolved.spec.provider == "local":
            ready[0][role] = resolved  # both roles share a server
        else:
            ready.append({role: resolved})
    probes = await asyncio.gather(*(_probe_checks(visit, roles, found.prices) for roles in ready if roles))
    return (*checks, *(check for each in probes for check in each))


def _can_be_probed(resolved: ResolvedRole, checks: Sequence[Check]) -> bool:
    """Whether asking would fetch nothing first."""
    name = f"{resolved.spec.role} weights"
    return not any(check.name == name and check.status != "ok" for check in checks)


async def _program_checks(visit: Visit, resolved: ResolvedRole) -> list[Check]:
    cli = CLIS[resolved.spec.provider]
    sandbox = await find_sandbox(visit.environ)
    report = await check_program(cli, resolved.program, visit.environ, sandbox=sandbox)
    stored = has_login(cli, config_directory(cli, resolved.home, visit.environ))
    login = credentials(cli, resolved.spec.role, visit.environ, stored)
    return program_checks(resolved, cli, report, sandbox, login.source, visit.commands)


async def _probe_checks(
    visit: Visit, roles: Mapping[Role, ResolvedRole], prices: Mapping[Role, Price | None]
) -> list[Check]:
    """The probes of roles that are opened together."""
    tally = Tally()
    try:
        async with open_clients(visit.config, roles, tally, visit.environ, lambda line: None) as clients:
            jobs = (_probe(visit, roles[role], client, tally, prices.get(role)) for role, client in clients.items())
            return list(await asyncio.gather(*jobs))
    except (RoleError, LocalError, ProviderError, ModelError, OSError) as error:  # none of them could be opened
        return [Check(f"{role} probe", "fail", str(error), _remedy(visit, error, role)) for role in roles]


async def _probe(visit: Visit, resolved: ResolvedRole, client: ChatModel, tally: Tally, price: Price | None) -> Check:
    row, role = resolved.profile, resolved.spec.role
    patience = row.patience + _GRACE
    try:
        await asyncio.wait_for(probe(client, row.patience), patience)
    except ModelError as error:
        return await _failed_probe(visit, resolved, error)
    except asyncio.TimeoutError:
        return await _failed_probe(visit, resolved, ModelError("timeout", f"no answer within {patience:g} s"))
    return probe_check(resolved, tally.of(role), price, "; ".join(getattr(client, "adaptations", ())))


async def _failed_probe(visit: Visit, resolved: ResolvedRole, error: ModelError) -> Check:
    served: tuple[str, ...] = ()
    if error.status in (400, 403, 404, 422):
        served = await list_models(resolved)
    row = resolved.profile
    settings = Settings(resolved.spec.role, visit.environ, dict(visit.config.model))
    advice = for_call(
        error,
        resolved,
        visit.commands,
        cli=CLIS.get(resolved.spec.provider),
        url_source=_url_source(visit.config, settings, row.prefixes),
        served=served,
    )
    text = visit.mask(str(error))
    if served:
        more = ", …" if len(served) > _SHOWN_MODELS else ""
        text += f" (it has {', '.join(served[:_SHOWN_MODELS])}{more})"
    facts = {"kind": error.kind, "http_status": error.status}
    return Check(f"{resolved.spec.role} probe", "fail", text, advice, facts)


def _url_source(config: Config, settings: Settings, prefixes: Sequence[str]) -> str:
    """The setting that a role's address comes from, '' for the provider's own."""
    model, role = config.model, settings.role
    if model.optimizer_base_url if role == "optimizer" else model.target_base_url:
        return f"model.{role}_base_url"
    return "model.base_url" if model.base_url else settings.find(prefixes, "BASE_URL", "ENDPOINT").source
