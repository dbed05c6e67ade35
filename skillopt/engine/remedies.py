"""The next thing to type for whatever keeps a training from starting. Pure: nothing is asked and nothing is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from skillopt.agents.description import Cli
from skillopt.config.provider_names import ALIASES
from skillopt.models.errors import ModelError
from skillopt.models.profile import ResolvedRole
from skillopt.models.providers import PROVIDERS
from skillopt.models.urls import LOOPBACK
from skillopt.spelling import nearest
from skillopt.types import Role

Advice = tuple[str, ...]

SAMPLE_SPLIT = "data/samples/searchqa-mini"
KEY, URL, ENDPOINT = "YOUR_KEY", "http://HOST:PORT/v1", "https://NAME.openai.azure.com"
_STARTS = {
    "ollama": "ollama serve",
    "vllm": "vllm serve {model}",
    "sglang": "python -m sglang.launch_server --model-path {model}",
    "lmstudio": "lms server start",
    "llama_server": "llama-server -m FILE.gguf",
}


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

    def give(self, source: str, value: str) -> str:
        """Gives the setting ``source``, a variable or a key of the configuration, a value."""
        return self.doctor(f"{source}={value}") if "." in source else self.export(source, value)

    def drop(self, source: str) -> str:
        """Takes the setting ``source`` away."""
        if "." in source:
            return self.doctor(f"{source}=null")
        return f"set {source}=" if self.windows else f"unset {source}"


def _key(word: str) -> str:
    """The key that an option or an override is for, without its section."""
    return word.partition("=")[0].lstrip("-").replace("-", "_").rpartition(".")[2]


def for_configuration(problem: str, commands: Commands) -> Advice:
    """For a line of a ``ConfigError``, which ends with its source in brackets."""
    meant = re.search(r"did you mean (\S+)\?", problem)
    source = re.search(r"\(([^()]*)\)$", problem)
    where = source[1] if source else ""
    if "there is no such configuration file" in problem:
        return (commands.doctor("--config", "configs/searchqa/default.yaml"),)
    if problem.startswith("env.name is not set"):
        return (commands.doctor("--env", "searchqa"),)
    if where.startswith("override"):
        name = where.partition(" ")[2] or problem.split()[0]
        given = next((word for word in commands.words if word.startswith(f"{name}=")), "")
        unknown = " is not a known " in problem
        value = given.partition("=")[2] if unknown else meant[1] if meant else ""
        mended = [f"{meant[1] if unknown else name}={value}"] if meant and given else []
        return (commands.without([given], *mended),)
    if where.startswith("--"):
        return (commands.without([where], *([where, meant[1]] if meant else [])),)
    file = where.partition(": ")[0] or next(iter(re.findall(r"^(\S+?\.(?:ya?ml|env)|\S*\.env)(?=:)", problem)), "")
    return (commands.edit(file), commands.doctor()) if file else (commands.doctor(),)


def for_provider(message: str, role: Role, commands: Commands, own_backend: bool) -> Advice:
    """For a ``ProviderError``. ``own_backend``: the configuration names a backend for this role alone."""
    backend = f"--{role}_backend" if own_backend else "--backend"
    if "no model provider is set" in message:
        azure = (commands.export("AZURE_OPENAI_ENDPOINT", ENDPOINT),) if "ENDPOINT is not" in message else ()
        return (*azure, commands.export("OPENAI_API_KEY", KEY), commands.doctor("--backend", "local"))
    if found := re.search(r"unknown backend '(.*?)'", message):
        return (commands.doctor(backend, nearest(found[1], (*PROVIDERS, *ALIASES)) or "openai"),)
    if found := re.search(r"(?:choose one of|providers that do:) (\w+)", message):
        return (commands.doctor(f"--{role}_backend", found[1]),)
    if found := re.match(r"(\S+)='.*' must be one of (\w+)", message):
        return (commands.give(found[1], found[2]),)
    if found := re.match(r"(\S+)='.*' (?:must be|is not)", message):
        return (commands.give(found[1], "1"),)
    if found := re.search(r"names the provider (\w+), but", message):
        return (commands.doctor(f"--{role}_backend", found[1]),)
    if found := re.search(r"\bleave out ([\w.]+)", message):
        return (commands.drop(found[1]),)
    if found := re.match(r"(\S+) holds characters", message):
        return (commands.give(found[1], KEY),)
    if found := re.search(r"base URL .*?\(([\w.]+)\)", message):
        source = found[1] if found[1] != "base_url" else f"model.{role}_base_url"
        return (commands.give(source, ENDPOINT if source.lower().endswith("endpoint") else URL),)
    if found := re.search(r"set model\.(optimizer|target)\b(?!_)", message):
        return (commands.doctor(f"--{found[1]}_model", "NAME"),)
    if found := re.search(r"\bset model\.(\w+)", message):
        return (commands.doctor(f"model.{found[1]}=NAME"),)
    if found := re.search(r"\b[Ss]et ([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)", message):
        return (commands.export(found[1], _placeholder(found[1])),)
    return typed_in(message) or (commands.doctor(),)


def _placeholder(name: str) -> str:
    return ENDPOINT if name.endswith("ENDPOINT") else KEY if name.endswith(("KEY", "TOKEN")) else "VALUE"


def for_data(message: str, env: str, commands: Commands) -> Advice:
    """For a ``DataError`` or whatever else an environment says of its items."""
    typed = typed_in(message)
    if found := re.search(r"unknown environment .*did you mean '?([\w-]+)", message):
        return (commands.doctor("--env", found[1]),)
    if "environment " in message:
        return typed or (commands.doctor("--env", "searchqa"),)
    if env == "searchqa":
        return (commands.doctor("--split_mode", "split_dir", "--split_dir", SAMPLE_SPLIT), *typed)
    return typed or (commands.doctor("--split_dir", "FOLDER"),)


_PLANS = (
    (r"train\.train_size=", "train.train_size=0"),
    (r"evaluation\.use_gate=true", "evaluation.use_gate=false"),
    (r"budget\.max_usd", "budget.max_usd=null"),
    (r"budget\.prices", "budget.prices="),
    (r"env\.skill_init", "env.skill_init="),
)


def for_plan(message: str, env: str, commands: Commands) -> Advice:
    """For what is wrong with values that are each in order, only not together."""
    for pattern, override in _PLANS:
        if re.search(pattern, message):
            capped = ["budget.max_tokens=2000000"] if override.startswith("budget.max_usd") else []
            return (commands.doctor(override, *capped),)
    return for_data(message, env, commands)


def typed_in(message: str) -> Advice:
    """The commands that a message itself names: alone in a line, in quotes, or an installation."""
    lines = re.findall(r"^\s+((?:python|pip|skillopt) .*)$", message, re.MULTILINE)
    return tuple(dict.fromkeys([*lines, *re.findall(r"pip install '[^']+'|(?<=')skillopt [^']+(?=')", message)]))


def log_in(cli: Cli, commands: Commands) -> Advice:
    """How a program is logged in: its own command, then its key."""
    typed = re.findall(r"\brun `([^`]+)`", cli.login)
    return (*typed, *(commands.export(name, KEY) for name in cli.secrets[:1]))


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
        pull = (f"ollama pull {spec.model}",) if spec.provider == "ollama" else ()
        closest = nearest(spec.model, served) or served[0]
        return (*pull, commands.doctor(f"--{spec.role}_model", closest))
    if error.status == 404 or "the base URL is wrong" in str(error):
        return _for_missing(error, resolved, commands, url_source)
    if cli is None and error.status is None and error.kind in ("provider", "timeout"):
        return _for_silence(resolved, commands, url_source)
    if error.kind == "rate_limited" and "credit" not in str(error):
        return (f"sleep 60; {commands.doctor()}",)
    return typed_in(str(error)) or (commands.doctor(),)


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
    if "/v1?" in str(error) and url_source:
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
    start = _STARTS.get(server_at(resolved), "").format(model=resolved.spec.model)
    look = f"curl -sS -m 10 {base}/models"
    correct = (commands.give(url_source, URL),) if url_source else ()
    return tuple(line for line in (start, look, *correct) if line)


def server_at(resolved: ResolvedRole) -> str:
    """The provider whose server usually stands at a role's address on this machine, '' when none does."""
    if resolved.spec.provider in _STARTS:
        return resolved.spec.provider
    place = urlsplit(resolved.spec.base_url)
    if place.hostname not in LOOPBACK:
        return ""
    return next((name for name in _STARTS if urlsplit(PROVIDERS[name].base_url).port == place.port), "")
