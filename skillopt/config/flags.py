"""Command-line options made from the schema, for the commands that train and that evaluate."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, Literal

from skillopt.config.errors import ConfigError
from skillopt.config.keys import Command, KeyInfo
from skillopt.config.layers import RETIRED
from skillopt.config.schema import Config, iter_keys
from skillopt.spelling import did_you_mean
from skillopt.types import SPLIT_ALIASES, Split

SplitName = Split | Literal["all"]

_SPLITS: dict[str, SplitName] = {**SPLIT_ALIASES, "all": "all"}
_OVERRIDE = re.compile(r"[A-Za-z_][\w.]*=")


def canonical_split(name: str) -> SplitName:
    """The split that a name or an alias stands for. Raises ``ConfigError`` for any other name."""
    found = _SPLITS.get(name.strip().casefold())
    if found is None:
        hint = did_you_mean(name, _SPLITS)
        raise ConfigError(f'there is no split "{name}"; the splits are {", ".join(_SPLITS)}{hint}')
    return found


def add_flags(parser: argparse.ArgumentParser, command: Command) -> None:
    """Adds every option of a command to a parser. Parse with ``parse_args``; then ``flag_values`` reads the keys.

    Beside the keys, the namespace gets ``config`` (path or None), ``overrides`` (texts), ``dry_run``, and for
    ``eval`` ``skill`` (path) and ``split`` (a name that ``canonical_split`` knows).
    """
    parser.allow_abbrev = False  # an abbreviated option would change its meaning when a key is added
    if parser.usage is None:
        needed = "--config FILE" if command == "train" else "--skill FILE [--config FILE]"
        parser.usage = f"%(prog)s {needed} [options] [section.key=value ...]"
    _add_command_flags(parser, command)
    groups: dict[str, argparse._ArgumentGroup] = {}
    for info in iter_keys():
        if command in info.commands:
            if info.section not in groups:
                description = Config.model_fields[info.section].description
                groups[info.section] = parser.add_argument_group(f"{info.section}: {description}")
            _add_key(groups[info.section], info)
    if command == "train":
        name = RETIRED.partition(".")[2]
        _add_both_spellings(parser, name, dest=RETIRED, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def parse_args(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses a command line on which ``section.key=value`` may stand anywhere among the options.

    These come behind those of ``--cfg-options`` in ``overrides``, so they win. Exits with status 2 on anything else
    that no option knows. What was typed as the value of an unknown option is not shown: it may be a key.
    """
    namespace, extras = parser.parse_known_args(argv)
    unknown = [extra for extra in extras if not _OVERRIDE.match(extra)]
    if unknown:
        options = [option for action in parser._actions for option in action.option_strings]
        hint = did_you_mean(unknown[0].partition("=")[0], options)
        parser.error(f"unrecognized arguments: {' '.join(_without_values(unknown))}{hint}")
    namespace.overrides = [*namespace.overrides, *extras]
    return namespace


def _without_values(words: Sequence[str]) -> list[str]:
    before = ("", *words)
    return [
        word.partition("=")[0] if word.startswith("-") else word
        for word, previous in zip(words, before, strict=False)
        if word.startswith("-") or not previous.startswith("-") or "=" in previous
    ]


def flag_values(namespace: argparse.Namespace) -> dict[str, Any]:
    """The keys that were given as options, by dotted name, as the texts that were typed."""
    return {name: value for name, value in vars(namespace).items() if "." in name}


def _add_command_flags(parser: argparse.ArgumentParser, command: Command) -> None:
    if command == "train":
        parser.add_argument("--config", required=True, metavar="FILE", help="configuration (YAML)")
    else:
        parser.add_argument(
            "--config", metavar="FILE", help="configuration (YAML); without it, that of the run the skill comes from"
        )
        parser.add_argument("--skill", "--skill_path", "--skill-path", required=True, metavar="FILE", help="skill file")
        parser.add_argument(
            "--split", default="all", type=_split_argument, metavar="NAME", help=f"{', '.join(_SPLITS)} (default: all)"
        )
    parser.add_argument(
        "--cfg-options",
        "--cfg_options",
        dest="overrides",
        action="extend",
        nargs="+",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="set any key of the configuration; may be repeated, and the option's name may be left out",
    )
    parser.add_argument(
        "--dry-run", "--dry_run", dest="dry_run", action="store_true", help="say what would be sent, and send nothing"
    )


def _add_key(group: argparse._ArgumentGroup, info: KeyInfo) -> None:
    text = argparse.SUPPRESS
    if info.built:
        default = "" if info.default in (None, "") else f" (default: {_shown(info.default)})"
        text = f"{info.description}{default}".replace("%", "%%")
    _add_both_spellings(
        group, info.flag, dest=info.dotted, default=argparse.SUPPRESS, metavar=_metavar(info), help=text
    )


def _add_both_spellings(group: argparse._ActionsContainer, name: str, **options: Any) -> None:
    """Adds ``--a_b``, and ``--a-b`` without a line of its own in the help."""
    group.add_argument(f"--{name}", **options)
    other = name.replace("_", "-") if "_" in name else name.replace("-", "_")
    if other != name:
        group.add_argument(f"--{other}", **{**options, "help": argparse.SUPPRESS})


def _metavar(info: KeyInfo) -> str:
    if info.kind.base == "choice":
        return "{" + ",".join(choice or '""' for choice in info.kind.choices) + "}"
    return {"bool": "{true,false}", "int": "N", "float": "X"}.get(info.kind.base, "TEXT")


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _split_argument(name: str) -> str:
    try:
        canonical_split(name)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name
