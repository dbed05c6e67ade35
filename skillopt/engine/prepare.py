"""Everything that can be checked before any money is spent. Reads files; sends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt.config import Config, ConfigError, resolve_skill_path
from skillopt.config.errors import Problem, Source
from skillopt.config.paths import anchored
from skillopt.data.names import resolve_split
from skillopt.engine.money import role_prices
from skillopt.engine.plan import EpochPlan, plan_epochs
from skillopt.envs.base import Env
from skillopt.envs.registry import get_env
from skillopt.envs.scoring import make_task
from skillopt.models.pricing import Price
from skillopt.models.profile import ResolvedRole
from skillopt.models.resolve import require, resolve_role
from skillopt.skill import Skill
from skillopt.types import SPLITS, Item, Role, Split

if TYPE_CHECKING:
    from skillopt.trackers import Found


@dataclass(frozen=True)
class Prepared:
    """A checked run: configuration, environment, items, seed skill, models by role, the plan of its steps, the prices
    of its models (None where nobody knows one), and its trackers."""

    config: Config
    env: Env
    items: Mapping[Split, Sequence[Item]]
    skill: Skill
    roles: Mapping[Role, ResolvedRole]
    plan: tuple[EpochPlan[Item], ...] = ()
    prices: Mapping[Role, Price | None] = field(default_factory=dict)
    trackers: tuple[Found, ...] = ()

    @property
    def steps(self) -> int:
        return sum(len(epoch.steps) for epoch in self.plan)


def prepare_training(
    config: Config, environ: Mapping[str, str], *, env: Env | None = None, skill: Skill | None = None
) -> Prepared:
    """Checks a training run. Raises ``ConfigError``, ``DataError``, ``ProviderError`` or ``UnknownModelError``, naming
    what to do."""
    config = anchored(config)
    env = env or load_env(config)
    items = {split: tuple(env.load(split)) for split in SPLITS}
    _check_sizes(config, items)
    needs = needs_of(env, items)
    skill = skill or read_skill(config.env.skill_init, "env.skill_init")
    roles: dict[Role, ResolvedRole] = {
        "optimizer": role_of(config, "optimizer", environ),
        "target": target_of(config, needs, environ),
    }
    _check_local_models(roles, environ)
    plan = plan_epochs(
        items["train"], config.train.batch_size, config.train.accumulation, config.train.num_epochs, config.train.seed
    )
    return Prepared(config, env, items, skill, roles, plan, _prices(config, roles, environ), _trackers(config, environ))


def prepare_evaluation(
    config: Config, environ: Mapping[str, str], skill: Skill, split: str, *, env: Env | None = None
) -> Prepared:
    """Checks an evaluation of ``skill`` on ``split`` (a split, or ``all``). Raises as ``prepare_training``."""
    config = anchored(config)
    env = env or load_env(config)
    wanted = SPLITS if split == "all" else (resolve_split(split),)
    cap = config.evaluation.test_env_num if split != "all" else 0
    items: dict[Split, Sequence[Item]] = {name: tuple(env.load(name))[: cap or None] for name in wanted}
    if not any(items.values()):
        raise ConfigError(f"the {split} split of {env.name} is empty: there is nothing to evaluate")
    roles: dict[Role, ResolvedRole] = {"target": target_of(config, needs_of(env, items), environ)}
    _check_local_models(roles, environ)
    return Prepared(config, env, items, skill, roles, prices=_prices(config, roles, environ))


def _check_local_models(roles: Mapping[Role, ResolvedRole], environ: Mapping[str, str]) -> None:
    """Raises ``UnknownModelError`` for one that this machine can neither open nor fetch."""
    names = {resolved.spec.model for resolved in roles.values() if resolved.spec.provider == "local"}
    if names:
        from skillopt.local.weights import locate  # most runs have none

        for name in sorted(names):
            locate(name, environ)


def _prices(
    config: Config, roles: Mapping[Role, ResolvedRole], environ: Mapping[str, str]
) -> Mapping[Role, Price | None]:
    return role_prices(config, {role: resolved.spec for role, resolved in roles.items()}, environ)


def _trackers(config: Config, environ: Mapping[str, str]) -> tuple[Found, ...]:
    """Here, and not where the run starts: that may be another thread than the one with the host's active run."""
    if not config.logging.trackers:
        return ()
    from skillopt.trackers import find_trackers

    return find_trackers(config.logging.trackers, environ)


def write_splits(env: Env, root: Path) -> None:
    """Lets an environment keep in the run folder ``root`` what it cut. Raises ``DataError``."""
    write = getattr(env, "write_splits", None)
    if write is not None:
        write(root)


def load_env(config: Config) -> Env:
    return get_env(config.env.name, config.env, Path(config.env.out_root))


def read_skill(path: str, key: str) -> Skill:
    """The skill in a file (UTF-8; a BOM is dropped, line ends are kept). An empty path is an empty skill."""
    if not path.strip():
        return Skill("")
    found = resolve_skill_path(path)
    if found is None or not found.is_file():
        said = f"{key}: there is no skill file {path!r}; give the path of a Markdown file"
        raise ConfigError(Problem(said, Source.key(key)))
    try:
        return Skill(found.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        said = f"{key}: {path} is not UTF-8 text ({error}); save it as UTF-8"
        raise ConfigError(Problem(said, Source.key(key))) from None


def role_of(config: Config, role: Role, environ: Mapping[str, str]) -> ResolvedRole:
    """The model of a role, found from the configuration and the keys in the environment."""
    model = config.model
    optimizer = role == "optimizer"
    found = resolve_role(
        role,
        backend=model.backend,
        role_backend=model.optimizer_backend if optimizer else model.target_backend,
        model=model.optimizer if optimizer else model.target,
        base_url=(model.optimizer_base_url if optimizer else model.target_base_url) or model.base_url or "",
        temperature=_first(model.optimizer_temperature if optimizer else model.target_temperature, model.temperature),
        reasoning_effort=model.reasoning_effort,
        configured=dict(model),
        api=model.api,
        environ=environ,
    )
    if model.reply_style == "auto":
        return found
    return replace(found, spec=replace(found.spec, reply_style=model.reply_style))


def needs_of(env: Env, items: Mapping[Split, Sequence[Item]]) -> frozenset[str]:
    """What an environment asks of a target beside text: what it says itself, ``images`` where pictures belong to its
    tasks, ``agent`` where other files do. Raises ``EnvError`` for an item that it has no prompt for: such a one would
    fail after the others were paid."""
    needs = set(getattr(env, "needs", ()))
    for item in (item for rows in items.values() for item in rows):
        for attachment in make_task(env, item).attachments:
            needs.add("images" if attachment.media_type.startswith("image/") else "agent")
    return frozenset(needs)


def target_of(config: Config, needs: frozenset[str], environ: Mapping[str, str]) -> ResolvedRole:
    """The target's model. Raises ``ProviderError`` when it cannot do what the environment ``needs``."""
    found = role_of(config, "target", environ)
    require(found, needs)
    return found


def thinking_modes(roles: Mapping[Role, ResolvedRole]) -> dict[str, str]:
    """Role -> how the thinking of a Qwen model is switched, for the roles that have one."""
    found: dict[str, str] = {}
    for role, resolved in roles.items():
        if resolved.spec.provider == "qwen_chat":
            thinks = resolved.spec.parameters.get("chat_template_kwargs", {}).get("enable_thinking")
            found[role] = {True: "enabled", False: "disabled"}.get(thinks, "server_default")
    return found


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _check_sizes(config: Config, items: Mapping[Split, Sequence[Item]]) -> None:
    if not items["train"]:
        said = "the train split is empty: training needs items; check env.split_dir or env.split_ratio"
        raise ConfigError(Problem(said, Source.key("env.split_dir")))
    size = config.train.train_size
    if size and size != len(items["train"]):
        said = f"train.train_size={size}, but the train split has {len(items['train'])} items; 0 takes them all"
        raise ConfigError(Problem(said, Source.key("train.train_size"), "0"))
    if config.evaluation.use_gate and not items["val"]:
        said = (
            "the validation split is empty, and the gate needs it (evaluation.use_gate=true): give it items, or set "
            "evaluation.use_gate=false to accept every candidate unmeasured"
        )
        raise ConfigError(Problem(said, Source.key("evaluation.use_gate"), "false"))
