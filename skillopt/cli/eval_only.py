"""``skillopt eval``: one skill on one split."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt.cli.console import number
from skillopt.cli.edge import INTERRUPTED, Shell, guarded, status_of_stop
from skillopt.cli.listen import listening
from skillopt.cli.options import (
    add_plain,
    in_folder,
    make_parser,
    new_folder,
    read_configuration,
    with_out_root,
)
from skillopt.cli.runfolder import config_of_run
from skillopt.cli.train import folder_lines
from skillopt.concurrency import run
from skillopt.config import BudgetConfig, Config, ConfigError, RuntimeConfig
from skillopt.config.flags import add_flags, canonical_split, parse_args
from skillopt.models.pricing import money
from skillopt.report.folder import run_of_skill

if TYPE_CHECKING:
    from skillopt.engine.prepare import Prepared


def main(argv: Sequence[str] | None = None) -> int:
    """Evaluates a skill and returns the exit status."""
    return guarded(lambda shell: _evaluate(shell, argv))


def _evaluate(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser(
        "skillopt eval",
        "Scores a skill on a split. Answers that out_root holds are not asked again; if it holds the evaluation of "
        "something else, --resume-policy says what to do.",
    )
    add_flags(parser, "eval")
    add_plain(parser)
    args = parse_args(parser, argv)
    base = None if args.config else _config_of_skill(args.skill)
    config, environ = read_configuration(shell, args, args.config, base=base)
    folder = new_folder("eval", config.env.name, config.model.target, time.localtime())
    return run_evaluation(shell, args, with_out_root(config, folder), environ)


def _config_of_skill(skill: str) -> Config:
    """The configuration of the run that a skill lies in, without what belongs to that run alone."""
    if not Path(skill).is_file():
        raise ConfigError(f"--skill {skill}: there is no such file")
    root = run_of_skill(Path(skill))
    if root is None:
        raise ConfigError(f"--skill {skill} does not lie in a run folder: say with --config FILE how to evaluate it")
    config = config_of_run(root)
    own = {"budget": BudgetConfig(prices=_prices_there(config)), "runtime": _strict(config.runtime)}
    return in_folder(config, "").model_copy(update=own)


def _strict(runtime: RuntimeConfig) -> RuntimeConfig:
    """How a training treated its folder says nothing about that of an evaluation."""
    return runtime.model_copy(update={"resume_policy": RuntimeConfig().resume_policy})


def _prices_there(config: Config) -> str:
    """The price file of a run, if it is still where it was: an evaluation does not fail for want of it."""
    prices = config.budget.prices
    return prices if prices and Path(prices).expanduser().is_file() else ""


def run_evaluation(shell: Shell, args: argparse.Namespace, config: Config, environ: Mapping[str, str]) -> int:
    """Evaluates in the run folder of ``config``; prints the line that scripts read."""
    from skillopt.engine.evaluation import evaluate_skill
    from skillopt.engine.prepare import prepare_evaluation, read_skill
    from skillopt.models.errors import StopRequested

    split, skill = canonical_split(args.split), read_skill(args.skill, "--skill")
    prepared = prepare_evaluation(config, environ, skill, split)
    if args.dry_run:
        return dry_run(shell, prepared, split, args.skill)
    saved = f"the answers so far are in {config.env.out_root}: the same command with that --out_root goes on"
    try:
        with listening(shell, plain=args.plain) as listener:
            work = evaluate_skill(prepared, split, args.skill, environ, shell.redactor, [listener])
            result = run(work)
    except StopRequested as stop:
        shell.complain(saved)
        shell.complain(f"stopped ({stop.reason}): {stop.detail}")
        return status_of_stop(stop.reason)
    except KeyboardInterrupt:
        shell.complain(saved)
        shell.complain("interrupted")
        return INTERRUPTED
    if result.errors:
        shell.say(f"not measured: {result.errors} items; results.jsonl says why, the same command asks them again")
    shell.say(f"cost: {money(result.cost_usd)}")
    shell.say(f"Results: hard={number(result.hard)}  soft={number(result.soft)}  (n={result.n})")
    shell.say(f"Saved to: {result.root}")
    return 0


def dry_run(shell: Shell, prepared: Prepared, split: str, name: str) -> int:
    """Says what an evaluation would send."""
    from skillopt.engine.estimate import cost_line, estimate_evaluation

    agent, price = prepared.roles["target"].profile.agent, prepared.prices.get("target")
    part = estimate_evaluation(prepared.env, prepared.items, prepared.skill.text, price, agent=agent)
    shell.say(f"{split} split of {prepared.env.name}: {sum(len(rows) for rows in prepared.items.values())} items")
    shell.say(f"target model: {prepared.roles['target'].spec.model}")
    shell.say(part.line())
    shell.say(cost_line([part]))
    for line in folder_lines(prepared, "evaluation", name):
        shell.say(line)
    shell.say("dry run: nothing was sent")
    return 0
