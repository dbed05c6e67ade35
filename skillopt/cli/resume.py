"""``skillopt resume``: goes on with the training run in a folder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import add_no_report, add_plain, in_folder, make_parser, read_configuration
from skillopt.cli.runfolder import config_of_run
from skillopt.cli.train import run_training
from skillopt.config.flags import add_flags, parse_args


def main(argv: Sequence[str] | None = None) -> int:
    """Goes on with a run and returns the exit status."""
    return guarded(lambda shell: _resume(shell, argv))


def _resume(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser("skillopt resume", "Goes on with a training run where it stopped: no call is paid twice.")
    parser.usage = "%(prog)s RUN [options] [section.key=value ...]"
    parser.add_argument("run", metavar="RUN", help="run folder; its config.json is the configuration")
    add_flags(parser, "train")
    _without_config(parser)
    add_plain(parser)
    add_no_report(parser)
    args = parse_args(parser, argv)
    root = Path(args.run)
    config, environ = read_configuration(shell, args, None, base=config_of_run(root))
    return run_training(shell, args, in_folder(config, str(root.absolute())), environ)


def _without_config(parser: argparse.ArgumentParser) -> None:
    """``--config`` is a train option that makes no sense here: it is neither asked for nor shown."""
    (option,) = (action for action in parser._actions if action.dest == "config")
    option.required = False
    option.help = argparse.SUPPRESS
