"""``skillopt doctor``: whether a training could start, and if not, the next thing to type."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt.cli.edge import FAILED, Shell, guarded
from skillopt.cli.endings import command
from skillopt.cli.options import make_parser, new_folder, read_configuration, with_out_root
from skillopt.cli.status import status_of
from skillopt.cli.tables import add_json
from skillopt.concurrency import run
from skillopt.config import Config, ConfigError
from skillopt.config.flags import add_flags, parse_args
from skillopt.config.secrets import is_secret_name
from skillopt.report.folder import is_run
from skillopt.report.run import read_run
from skillopt.version import __version__

if TYPE_CHECKING:
    from skillopt.engine.checks import Check, FolderState
    from skillopt.engine.remedies import Commands

CONFIG = "configs/searchqa/default.yaml"
SAMPLE = ("--config", CONFIG, "env.split_dir=data/samples/searchqa-mini")
_ABOUT = (
    "Says what a training with this configuration and environment would use, asks each model one short question, and "
    "ends with the next thing to type. Nothing is written. The exit status is 0 when a training could start, else 1. "
    "Without --config it looks at the shipped SearchQA configuration with the sample data."
)
_MARKS = {"ok": "ok  ", "warn": "note", "fail": "FAIL"}
_NAME_WIDTH = 19
_LINE_WIDTH = 100


def main(argv: Sequence[str] | None = None) -> int:
    """Examines, prints what was found, and returns the exit status."""
    return guarded(lambda shell: _doctor(shell, list(sys.argv[1:] if argv is None else argv)))


def _doctor(shell: Shell, words: list[str]) -> int:
    args, base = _parse(words)
    own = {"--json", "--no-probe", "--no_probe", "--dry-run", "--dry_run"}
    given = tuple(_without_secrets(word for word in words if word not in own))
    from skillopt.engine.checks import Check
    from skillopt.engine.remedies import Commands, for_problem

    commands = Commands(given, command, base, os.name == "nt")
    report = Report(shell, args.json, commands)
    report.add([_version_check()])
    try:
        config, environ = read_configuration(shell, args, args.config)
    except ConfigError as error:
        checks = [Check("configuration", "fail", p.text, for_problem(p, "", commands)) for p in error.problems]
        report.add(checks)
        return report.end()
    sample = " with the sample data, since --config names no other" if base else ""
    report.add([Check("configuration", "ok", f"{args.config}{sample}", facts={"path": args.config})])
    _examine(shell, report, config, environ, probing=args.probe)
    return report.end()


def _parse(words: list[str]) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """The options, and what stands in front of them where they name no configuration."""
    parser = make_parser("skillopt doctor", _ABOUT)
    parser.usage = "%(prog)s [--config FILE] [--json] [--no-probe] [options] [section.key=value ...]"
    add_flags(parser, "train")
    for action in parser._actions:
        action.required = False
        if action.dest == "dry_run":
            action.help = argparse.SUPPRESS
    add_json(parser)
    parser.add_argument("--no-probe", "--no_probe", dest="probe", action="store_false", help="ask no model")
    args = parse_args(parser, words)
    return (args, ()) if args.config is not None else (parse_args(parser, [*SAMPLE, *words]), SAMPLE)


def _without_secrets(words: Iterable[str]) -> Iterable[str]:
    """Words that can be shown: a key that was typed is a placeholder."""
    secret = False
    for word in words:
        name, equals, _ = word.partition("=")
        bare = name.lstrip("-").replace("-", "_")
        if secret:
            yield "YOUR_KEY"
        else:
            yield f"{name}=YOUR_KEY" if equals and is_secret_name(bare.rpartition(".")[2]) else word
        secret = not secret and not equals and name.startswith("--") and is_secret_name(bare)


def _version_check() -> Check:
    from skillopt.engine.checks import Check

    python = f"Python {platform.python_version()} on {platform.system() or 'an unknown system'}"
    facts = {"version": __version__, "python": platform.python_version(), "system": platform.system()}
    return Check("skillopt", "ok", f"{__version__}, {python}", facts=facts)


def _examine(shell: Shell, report: Report, config: Config, environ: Mapping[str, str], *, probing: bool) -> None:
    from skillopt.engine.doctor import Visit, ask, look

    folder = new_folder("skillopt", config.env.name, config.model.optimizer, time.localtime())
    visit = Visit(
        with_out_root(config, folder),
        environ,
        report.commands,
        folder_state,
        shell.redactor.mask,
        frozenset(set(environ) - set(os.environ)),
    )
    found = look(visit)
    report.add(found.checks)
    report.add(run(ask(visit, found, probing=probing)))


def folder_state(root: Path) -> FolderState:
    """What stands in a run folder. Reads only."""
    from skillopt.engine.checks import FolderState
    from skillopt.run.folder import FolderError, refuse_foreign

    try:
        refuse_foreign(root)
    except FolderError as error:
        return FolderState("foreign", str(error))
    if not is_run(root):
        return FolderState("new")
    status = status_of(read_run(root))
    total = "?" if status.steps_total is None else status.steps_total
    text = f"stopped after step {status.steps_done} of {total}"
    kinds = {"running": FolderState("running"), "finished": FolderState("finished")}
    return kinds.get(status.state, FolderState("stopped", text))


class Report:
    """What is printed: the checks as they come, or all of them as JSON in the end."""

    def __init__(self, shell: Shell, as_json: bool, commands: Commands) -> None:
        self.commands = commands
        self._shell = shell
        self._json = as_json
        self._checks: list[Check] = []

    def add(self, checks: Iterable[Check]) -> None:
        """Takes checks in, and prints them for a person."""
        for check in checks:
            self._checks.append(check)
            if not self._json:
                for line in lines_of(check):
                    self._shell.say(line)

    def end(self) -> int:
        """Prints the verdict and returns the exit status."""
        failed = [check for check in self._checks if check.status == "fail"]
        advice = next((check.advice[0] for check in failed if check.advice), "")
        following = advice or (self.commands.doctor() if failed else self.commands.train())
        if self._json:
            self._shell.say(json.dumps(as_json(self._checks, following), ensure_ascii=False, indent=2))
        else:
            problems = f"{len(failed)} problem{'s' if len(failed) > 1 else ''}"
            self._shell.say("")
            self._shell.say(f"{problems}: a training could not start" if failed else "a training can start")
            self._shell.say(f"next: {following}")
        return FAILED if failed else 0


def as_json(checks: Sequence[Check], following: str) -> dict[str, object]:
    """The report for programs: ``ok``, ``next`` (the line to type) and ``checks``."""
    rows = [
        {
            "name": check.name,
            "status": check.status,
            "found": check.found,
            "advice": list(check.advice),
            "facts": dict(check.facts),
        }
        for check in checks
    ]
    return {"ok": all(check.status != "fail" for check in checks), "next": following, "checks": rows}


def _wrapped(line: str) -> list[str]:
    """A line in pieces that fit beside the names; words stay whole, so that paths and commands can be copied."""
    return textwrap.wrap(line, _LINE_WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")


def lines_of(check: Check) -> list[str]:
    """A check for a person: mark, name and finding in columns, and below what to type."""
    margin = " " * (len(_MARKS["ok"]) + 2)
    first, *rest = [part for line in check.found.splitlines() for part in _wrapped(line)] or [""]
    lines = [f"{_MARKS[check.status]}  {check.name:<{_NAME_WIDTH}} {first}"]
    lines += [f"{margin}{'':<{_NAME_WIDTH}} {line}" for line in rest]
    for number, line in enumerate(check.advice):
        lines.append(f"{margin}{'or:' if number else 'type:':>{_NAME_WIDTH}} {line}")
    return lines
