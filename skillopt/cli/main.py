"""The ``skillopt`` command: which command is meant. Each one is imported on use, so that help costs nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from skillopt.spelling import did_you_mean
from skillopt.version import __version__

COMMANDS = {
    "train": ("skillopt.cli.train", "train a skill"),
    "eval": ("skillopt.cli.eval_only", "score a skill on a split"),
    "resume": ("skillopt.cli.resume", "go on with a training run"),
    "status": ("skillopt.cli.status", "say how far a run is; safe while it is going on"),
    "log": ("skillopt.cli.log", "list the steps of a run, one line each"),
    "show": ("skillopt.cli.show", "show a step: rollouts, reflections, edits, gate"),
    "diff": ("skillopt.cli.diff", "show what training changed in a skill"),
    "blame": ("skillopt.cli.blame", "say which step and edit each line of the best skill comes from"),
    "compare": ("skillopt.cli.compare", "compare runs or skills on the same items"),
    "report": ("skillopt.cli.report", "write a run as a page and a picture to share"),
    "calls": ("skillopt.cli.calls", "print every call of a run, word for word"),
    "export": ("skillopt.cli.export", "install the best skill of a run in a coding agent"),
    "ui": ("skillopt.cli.ui", "open the dashboard: runs in the browser, live"),
    "demo": ("skillopt.cli.demo", "train a small skill on a model that runs on this machine"),
    "doctor": ("skillopt.cli.doctor", "check keys, models, data and disk, and say what to type next"),
    "models": ("skillopt.cli.models", "pull, list or remove models that run on this machine"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        module, _ = COMMANDS[words[0]]
        status: int = import_module(module).main(words[1:])
        return status
    parser = _parser()
    try:
        if words and not words[0].startswith("-"):
            parser.error(f"there is no command {words[0]!r}{did_you_mean(words[0], COMMANDS)}")
        parser.parse_args(words or ["--help"])
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 2
    return 0


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="skillopt",
        usage="%(prog)s COMMAND [options]",
        description="Trains the skill document of a frozen language model.",
        epilog=f"commands:\n{lines}\n\nskillopt COMMAND --help tells the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"skillopt {__version__}")
    parser.add_argument("command", metavar="COMMAND", help=argparse.SUPPRESS)
    return parser
