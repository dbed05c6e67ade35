"""The form for a new run, made from the configuration's schema, and its way back to a command line. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from skillopt.config import Config, KeyInfo, iter_keys
from skillopt.config.schema import SECTIONS

PATHS = ("env.split_dir", "env.data_path", "env.skill_init", "budget.prices")
"""Keys that name a file or folder to read."""
# A form must not say which program runs, where it looks for its own settings, or where it may write.
_NEVER = frozenset({"env.out_root", "env.split_output_dir", "train.steps_per_epoch", "runtime.resume_policy"})
_PROGRAMS = re.compile(r"_exec_(path|home|profile)$")
_BASIC: Mapping[str, Sequence[str]] = {
    "Models": ("model.backend", "model.optimizer", "model.target", "model.base_url"),
    "Data": ("env.name", "env.split_mode", "env.split_dir", "env.data_path", "env.skill_init", "env.limit"),
    "Training": ("train.num_epochs", "train.batch_size", "optimizer.learning_rate", "optimizer.lr_scheduler"),
    "Validation": ("evaluation.use_gate", "evaluation.gate_metric", "evaluation.eval_test", "train.seed"),
    "Limits": ("env.workers", "budget.max_calls", "budget.max_tokens", "budget.max_usd"),
}
_EVALUATION: Mapping[str, Sequence[str]] = {
    "Model": ("model.target_backend", "model.target", "model.target_base_url"),
    "Limits": ("env.workers", "evaluation.test_env_num", "env.limit", "budget.max_calls", "budget.max_usd"),
}
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LABELS: Mapping[str, str] = {
    "env.name": "Benchmark",
    "env.split_mode": "Splits come from",
    "env.split_dir": "Folder of the splits",
    "env.data_path": "Data file",
    "env.skill_init": "First skill",
    "env.limit": "Items of a split at most",
    "train.num_epochs": "Epochs",
    "optimizer.learning_rate": "Learning rate (edits a step)",
    "optimizer.lr_scheduler": "Schedule of the learning rate",
    "evaluation.use_gate": "Gate",
    "evaluation.eval_test": "Final test",
    "evaluation.test_env_num": "Items at most",
    "budget.max_calls": "Calls at most",
    "budget.max_tokens": "Tokens at most",
    "budget.max_usd": "US dollars at most",
}
_CAPITALS = frozenset({"api", "lr", "url", "usd", "id", "http", "cpu", "gpu", "sdk", "cli", "json"})
BLANK = '""'
"""How a select says that a value is to be blank; '' says that it is not given."""


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Field:
    """One key in a form. ``choices`` is empty for a text; ``hint`` is the value that holds when it is left alone."""

    name: str
    label: str
    help: str
    value: str
    hint: str
    choices: tuple[Choice, ...]
    numeric: bool


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    about: str
    fields: tuple[Field, ...]


def offered(info: KeyInfo) -> bool:
    """Whether a form may have a field for a key: keys of services, programs and output folders never."""
    return info.built and not info.secret and info.dotted not in _NEVER and not _PROGRAMS.search(info.name)


def basic_groups(values: Mapping[str, str], config: Config | None) -> list[Group]:
    """The keys that most runs are about."""
    return _named(_BASIC, values, config)


def evaluation_groups(values: Mapping[str, str], config: Config | None) -> list[Group]:
    """The keys that an evaluation is about. Without a configuration it is that of the skill's run, which is not known
    here: no value is shown for what is left alone."""
    groups = _named(_EVALUATION, values, config)
    if config is not None:
        return groups
    return [replace(group, fields=tuple(map(_unhinted, group.fields))) for group in groups]


def _unhinted(field: Field) -> Field:
    choices = tuple(replace(each, label="as the run was") if not each.value else each for each in field.choices)
    return replace(field, hint="" if choices else "as the run was", choices=choices)


def advanced_groups(values: Mapping[str, str], config: Config | None) -> list[Group]:
    """All other keys, by section."""
    basic = {name for names in _BASIC.values() for name in names}
    groups = []
    for section in SECTIONS:
        infos = [info for info in iter_keys() if info.section == section and offered(info) and info.dotted not in basic]
        if infos:
            about = Config.model_fields[section].description or ""
            groups.append(Group(section, about, tuple(_field(info, values, config) for info in infos)))
    return groups


def overrides(values: Mapping[str, str]) -> list[str]:
    """``section.key=value`` for every field that was filled in, in the order of the schema."""
    given = ((info.dotted, values.get(info.dotted, "").strip()) for info in iter_keys() if offered(info))
    return [f"{name}={value}" for name, value in given if value]


def filled(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The fields of a submitted form that are keys of the schema."""
    names = {info.dotted for info in iter_keys() if offered(info)}
    return {name: value for name, value in fields if name in names and value.strip()}


def run_name_problem(name: str) -> str:
    """Why a run folder cannot have this name; '' when it can."""
    if _RUN_NAME.fullmatch(name):
        return ""
    return "the name of the run: letters, digits, dots, dashes and underscores, 100 at most, no dot in front"


def _named(groups: Mapping[str, Sequence[str]], values: Mapping[str, str], config: Config | None) -> list[Group]:
    infos = {info.dotted: info for info in iter_keys()}
    return [
        Group(title, "", tuple(_field(infos[name], values, config) for name in names))
        for title, names in groups.items()
    ]


def _field(info: KeyInfo, values: Mapping[str, str], config: Config | None) -> Field:
    inherited = info.default if config is None else getattr(getattr(config, info.section), info.name)
    hint = _shown(inherited)
    text = info.description[:1].upper() + info.description[1:] + "."
    if info.bounds:
        text += f" {info.kind.in_words.capitalize()}, {info.bounds}."
    return Field(
        name=info.dotted,
        label=_LABELS.get(info.dotted) or _words(info.name),
        help=text,
        value=values.get(info.dotted, ""),
        hint=hint,
        choices=_choices(info, hint),
        numeric=info.kind.base in ("int", "float"),
    )


def _words(name: str) -> str:
    return " ".join(word.upper() if word in _CAPITALS else word for word in name.split("_"))


def _choices(info: KeyInfo, hint: str) -> tuple[Choice, ...]:
    keep = Choice("", f"{hint or 'blank'} (as configured)")
    if info.kind.base == "bool":
        return (keep, Choice("true", "on"), Choice("false", "off"))
    if info.kind.base == "choice":
        names = [name for name in info.kind.choices if name not in info.rules.later]
        return (keep, *(Choice(name or BLANK, name or "blank") for name in names))
    return ()


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)
