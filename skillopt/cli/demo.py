"""``skillopt demo``: the quick start, on a model that runs on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import add_no_report, add_plain, make_parser, read_configuration, with_out_root
from skillopt.cli.train import run_training
from skillopt.config import Config, ConfigError
from skillopt.config.flags import add_flags, parse_args
from skillopt.extras import install_hint

CONFIG = "configs/quickstart.yaml"
OUT_ROOT = "outputs/quickstart"
_ENGINE = "xllamacpp"
_INTRODUCTION = """\
SkillOpt demo: a small model on this machine works on a training split with a short skill document. The same
model reads what went wrong and proposes edits; an edit stays only if the skill then scores higher on the
validation split. In the end the first and the best skill meet a held-out test split.
No key is needed and nothing leaves this machine; only the first time is the model downloaded."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the quick start and returns the exit status."""
    return guarded(lambda shell: _demo(shell, argv))


def _demo(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser("skillopt demo", "Trains a small skill on a model that runs on this machine.")
    parser.usage = "%(prog)s [options] [section.key=value ...]"
    add_flags(parser, "train")
    parser.set_defaults(config=CONFIG)
    for action in parser._actions:
        action.required = False
    add_plain(parser)
    add_no_report(parser)
    args = parse_args(parser, argv)
    # Other values than last time go into a folder beside it, which reuses the answers that are still valid.
    args.overrides = ["runtime.resume_policy=fork", *args.overrides]
    config, environ = read_configuration(shell, args, args.config)
    if not args.dry_run and runs_here(config, environ):
        if find_spec(_ENGINE) is None:
            raise ConfigError(
                f"the demo runs a model on this machine: install what that needs with {install_hint('local')}, or name "
                "a provider with --backend"
            )
        for line in _INTRODUCTION.splitlines():
            shell.say(line)
    return run_training(shell, args, with_out_root(config, OUT_ROOT), environ)


def runs_here(config: Config, environ: Mapping[str, str]) -> bool:
    """Whether a role's model runs on this machine."""
    from skillopt.engine.prepare import role_of

    return any(role_of(config, role, environ).spec.provider == "local" for role in ("optimizer", "target"))
