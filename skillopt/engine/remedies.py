"""The next thing to type for whatever keeps a training from starting. Pure: nothing is asked and nothing is read.

What an error is about stands in its fields; its words are for people, and are read only where they are not ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from skillopt.agents.description import Cli
from skillopt.config.errors import ConfigError, Problem
from skillopt.data.errors import DataError
from skillopt.envs.scoring import EnvError
from skillopt.local.errors import LocalError
from skillopt.models.errors import ModelError, ProviderError
from skillopt.models.profile import BOTH_ROLES, ResolvedRole
from skillopt.models.providers import PROVIDERS
from skillopt.models.urls import LOOPBACK
from skillopt.spelling import nearest
from skillopt.types import Role

Advice = tuple[str, ...]

SAMPLE_SPLIT = "data/samples/searchqa-mini"
KEY, URL, ENDPOINT = "YOUR_KEY", "http://HOST:PORT/v1", "https://NAME.openai.azure.com"
_EXAMPLES = {"--config": "configs/searchqa/default.yaml", "--env": "searchqa"}
_BESIDE = {"budget.max_usd": ("budget.max_tokens=2000000",)}
"""What takes the place of a cap that cannot be held."""
_OPTIONS = {
    "model.backend": "--backend",
    **{f"model.{role}": f"--{role}_model" for role in BOTH_ROLES},
    **{f"model.{role}_backend": f"--{role}_backend" for role in BOTH_ROLES},
}
"""Keys that everyone knows by their options."""


@dataclass(frozen=True, slots=True)
class Commands:
    """The command lines that are advised.

    ``words`` are the options that this one was given, ``base`` those that it took for granted; ``spell`` makes a line
    for this shell of a command of ours and its arguments.
    """

    words: tuple[str, ...]
    spell: Callable[..., str]
    base: tuple[str, ...] = ()
    windows: bool = False

    def of(self, name: str, *words: str) -> str:
        return self.spell(name, *words)

    def train(self) -> str:
        return self.spell("train", *self.base, *self.words)

    def doctor(self, *more: str) -> str:
        """The same check again, with ``more`` options in place of earlier ones of their names."""
        return self.without([word for word in more if word.startswith("--") or "=" in word], *more)

    def without(self, names: Sequence[str], *more: str) -> str:
        """The same check with ``more`` options, and without the options and overrides of ``names`` and their values."""
        dropped = {_key(name) for name in names}
        kept: list[str] = []
        value = drop = False
        for word in self.words:
            option = word.startswith("--")
            if value and not option:
                value = False
                if drop:
                    continue
            else:
                value, drop = option and "=" not in word, _key(word) in dropped and (option or "=" in word)
                if drop:
                    continue
            kept.append(word)
        return self.spell("doctor", *kept, *more)

    def export(self, name: str, value: str) -> str:
        return f"set {name}={value}" if self.windows else f"export {name}={value}"

    def edit(self, path: str) -> str:
        quoted = f'"{path}"' if " " in path else path
        return f"notepad {quoted}" if self.windows else f"${{EDITOR:-nano}} {quoted}"

    def mended(self, name: str, meant: str, *, misnamed: bool) -> str:
        """The same check with the override of ``name`` mended: another value is ``meant`` or, where it is ``misnamed``,
        another name; without it where nothing is."""
        given = next((word for word in self.words if word.partition("=")[0].strip() == name), "")
        value = given.partition("=")[2] if misnamed else meant
        return self.without([given or name], *([f"{meant if misnamed else name}={value}"] if meant and given else []))

    def give(self, source: str, value: str) -> str:
        """Gives the setting ``source``, a variable or a key of the configuration, a value."""
        if source in _OPTIONS:
            return self.doctor(_OPTIONS[source], value)
        return self.doctor(f"{source}={value}") if "." in source else self.export(source, value)

    def drop(self, source: str) -> str:
        """Takes the setting ``source`` away."""
        if "." in source:
            return self.doctor(f"{source}=null")
        return f"set {source}=" if self.windows else f"unset {source}"


def _key(word: str) -> str:
    """The key that an option or an override is for, without its section."""
    return word.partition("=")[0].lstrip("-").replace("-", "_").rpartition(".")[2]


def for_error(error: Exception, role: Role, env: str, commands: Commands) -> Advice:
    """For whatever keeps a model or an environment from being used; ``role`` is the one whose model it is."""
    if isinstance(error, ConfigError):
        return for_problem(error.problems[0], env, commands)
    if isinstance(error, ProviderError):
        return for_provider(error, role, commands)
    if isinstance(error, LocalError):
        return (error.command,) if error.command else (commands.doctor(),)
    if isinstance(error, DataError | EnvError):
        return for_data(error, env, commands)
    return (commands.doctor(),)


def for_problem(problem: Problem, env: str, commands: Commands) -> Advice:
    """For one problem of a ``ConfigError``."""
    source, meant = problem.source, problem.meant
    if problem.command:
        return (problem.command,)
    match source.kind:
        case "override":
            return (commands.mended(source.name, meant, misnamed=problem.misnamed),)
        case "option":
            value = meant or _EXAMPLES.get(source.name, "")
            return (commands.without([source.name], *([source.name, value] if value else [])),)
        case "file":
            return (commands.edit(source.name), commands.doctor())
        case "key" if source.name == "env.split_dir":
            return _other_data(env, commands)
        case "key":
            return (commands.doctor(f"{source.name}={meant}", *_BESIDE.get(source.name, ())),)
        case "unknown":
            return (commands.doctor(),)


def for_provider(error: ProviderError, role: Role, commands: Commands) -> Advice:
    """For a role that no provider can serve as it was asked."""
    setting, first = error.setting, next(iter(error.choices), "")
    match error.kind:
        case "unset":
            lacking = (commands.export(setting, ENDPOINT),) if setting else ()
            return (*lacking, commands.export("OPENAI_API_KEY", KEY), commands.doctor("--backend", "local"))
        case "setting":
            source = setting if setting != "base_url" else f"model.{role}_base_url"
            return (commands.give(source, first or _placeholder(source)),) if source else (commands.doctor(),)
        case "superfluous":
            return (commands.drop(setting),)
        case "ability":
            return (commands.give(setting, first) if first else commands.doctor("--env", _EXAMPLES["--env"]),)
        case "install":
            return (error.command,)


def _placeholder(setting: str) -> str:
    """What stands for a value that only the user knows."""
    forms = {"endpoint": ENDPOINT, "url": URL, "key": KEY, "token": KEY}
    return forms.get(setting.lower().rpartition("_")[2], "NAME")


def for_data(error: Exception, env: str, commands: Commands) -> Advice:
    """For a ``DataError`` or whatever else an environment, which may be anyone's, raises over its items."""
    if isinstance(error, OSError):
        return _other_data(env, commands)
    if not isinstance(error, DataError):
        return typed_in(str(error)) or (commands.doctor("--env", _EXAMPLES["--env"]),)
    if error.setting == "env.name":
        return (commands.doctor("--env", next(iter(error.choices), _EXAMPLES["--env"])),)
    if error.choices:
        also = ("env.split_mode=split_dir",) if error.setting == "env.split_dir" else ()
        return (commands.doctor(*also, f"{error.setting}={error.choices[0]}"),)
    return _other_data(env, commands, *((error.command,) if error.command else typed_in(str(error))))


def _other_data(env: str, commands: Commands, *make: str) -> Advice:
    """Other data: ``make`` are the commands that fetch it; the one environment with a sample is shown that first."""
    if env == "searchqa":
        return (commands.doctor("--split_mode", "split_dir", "--split_dir", SAMPLE_SPLIT), *make)
    return make or (commands.doctor("--split_dir", "FOLDER"),)


def typed_in(message: str) -> Advice:
    """The commands in a message of code that is not ours: alone in a line, or an installation in quotes."""
    lines = re.findall(r"^\s+((?:python|pip|skillopt) .*)$", message, re.MULTILINE)
    quoted = re.findall(r"pip install (?:-e )?'[^']+'|(?<=')skillopt [^']+(?=')", message)
    return tuple(dict.fromkeys([*lines, *quoted]))


def log_in(cli: Cli, commands: Commands) -> Advice:
    """How a program is logged in: its own command, then its key."""
    return (cli.log_in, *(commands.export(name, KEY) for name in cli.secrets[:1]))


def own_path(resolved: ResolvedRole, commands: Commands) -> str:
    """Says where the program of a role is."""
    return commands.export(f"{resolved.profile.prefix}_PATH", f"/path/to/{resolved.profile.program}")


def for_call(
    error: ModelError,
    resolved: ResolvedRole,
    commands: Commands,
    *,
    cli: Cli | None,
    url_source: str,
    served: Sequence[str],
) -> Advice:
    """For a probe that failed. ``url_source`` names the setting that the address comes from ('' : the provider's own),
    ``served`` are the models that the endpoint says it has."""
    spec = resolved.spec
    if error.kind == "auth":
        return log_in(cli, commands) if cli is not None else _for_key(resolved, commands)
    if served and spec.model not in served and error.status in (400, 403, 404, 422):
        pull = resolved.profile.pull.format(model=spec.model)
        closest = nearest(spec.model, served) or served[0]
        return (*([pull] if pull else []), commands.doctor(f"--{spec.role}_model", closest))
    if error.about in ("url", "version"):
        return _for_missing(error, resolved, commands, url_source)
    if cli is None and error.status is None and error.kind in ("provider", "timeout"):
        return _for_silence(resolved, commands, url_source)
    if error.kind == "rate_limited" and error.about != "credit":
        return (f"sleep 60; {commands.doctor()}",)
    return (commands.doctor(),)


def _for_key(resolved: ResolvedRole, commands: Commands) -> Advice:
    if resolved.credential == "azure_cli":
        return ("az login",)
    if resolved.credential == "managed_identity":
        return (commands.export("AZURE_OPENAI_AUTH_MODE", "azure_cli"),)
    return (commands.give(resolved.key_source or f"{resolved.profile.prefix}_API_KEY", KEY),)


def _for_missing(error: ModelError, resolved: ResolvedRole, commands: Commands, url_source: str) -> Advice:
    """For a 404 and for a web page: the model, or the path of the address."""
    spec = resolved.spec
    name_it = () if error.status != 404 else (commands.doctor(f"--{spec.role}_model", "NAME"),)
    if error.about == "version" and url_source:
        return (commands.give(url_source, f"{spec.base_url}/v1"), *name_it)
    if not name_it:
        return (commands.give(url_source, URL),) if url_source else (commands.doctor(),)
    if spec.provider == "azure_openai":
        return (commands.export(f"{spec.role.upper()}_DEPLOYMENT", "NAME"),)
    default = resolved.profile.default_model
    name = default if not url_source and default and default != spec.model else "NAME"
    return (commands.doctor(f"--{spec.role}_model", name),)


def _for_silence(resolved: ResolvedRole, commands: Commands, url_source: str) -> Advice:
    """For an address where nobody answers: how its server is started, how to look, how to correct it."""
    base = resolved.spec.base_url.partition("?")[0]
    start = start_of(resolved).format(model=resolved.spec.model)
    look = f"curl -sS -m 10 {base}/models"
    correct = (commands.give(url_source, URL),) if url_source else ()
    return tuple(line for line in (start, look, *correct) if line)


def start_of(resolved: ResolvedRole) -> str:
    """How the server at a role's address is started, '' where none of one's own usually stands there."""
    if resolved.profile.start:
        return resolved.profile.start
    place = urlsplit(resolved.spec.base_url)
    if place.hostname not in LOOPBACK:
        return ""
    at_home = (row for row in PROVIDERS.values() if row.start and urlsplit(row.base_url).port == place.port)
    return next((row.start for row in at_home), "")
