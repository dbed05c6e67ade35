"""From a command line to a configuration: the steps that the commands share."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from skillopt.cli.edge import Shell
from skillopt.config import Config, load_config, read_environment
from skillopt.config.flags import flag_values
from skillopt.version import __version__

_NOT_IN_A_NAME = re.compile(r'[\\/:*?"<>|\s]')


def make_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """A parser with the options that every command has."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--version", action="version", version=f"skillopt {__version__}")
    return parser


def add_plain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plain", action="store_true", help="print lines, also on a terminal")


def add_no_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-report", action="store_true", help="write no report.html at the end of the run")


def read_configuration(
    shell: Shell, args: argparse.Namespace, path: str | Path | None, *, base: Config | None = None
) -> tuple[Config, Mapping[str, str]]:
    """The configuration that a command line asks for, over ``base``, and the environment with its ``.env``."""
    environ = read_environment(Path.cwd(), os.environ)
    shell.know(environ)
    config = load_config(path, args.overrides, flag_values(args), environ=environ, base=base)
    shell.know(environ, config)
    return config, environ


def with_out_root(config: Config, default: str | Path) -> Config:
    """The configuration with an absolute ``env.out_root``; ``default`` stands in for a blank one."""
    return in_folder(config, os.path.abspath(os.path.expanduser(config.env.out_root or default)))


def in_folder(config: Config, out_root: str) -> Config:
    return config.model_copy(update={"env": config.env.model_copy(update={"out_root": out_root})})


def new_folder(kind: str, env: str, model: str, now: time.struct_time) -> str:
    """A run folder that is not there yet: ``outputs/<kind>_<env>_<model>_<date>_<time>``, ``/`` in names as ``-``."""
    name = "_".join((kind, env, model, time.strftime("%Y%m%d_%H%M%S", now)))
    path = os.path.join("outputs", _NOT_IN_A_NAME.sub("-", name))
    number, free = 1, path
    while os.path.exists(free):
        number += 1
        free = f"{path}_{number}"
    return free
