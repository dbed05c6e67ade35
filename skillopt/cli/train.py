"""``skillopt train``, and the part of it that every command that trains shares."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt.cli.edge import INTERRUPTED, Shell, guarded
from skillopt.cli.endings import closing, how_to_go_on, next_steps
from skillopt.cli.listen import listening
from skillopt.cli.options import (
    add_no_report,
    add_plain,
    make_parser,
    new_folder,
    read_configuration,
    with_out_root,
)
from skillopt.cli.runfolder import spent_in
from skillopt.concurrency import run
from skillopt.config import Config
from skillopt.config.flags import add_flags, parse_args

if TYPE_CHECKING:
    from skillopt.engine.prepare import Prepared
    from skillopt.engine.resume import Kind


def main(argv: Sequence[str] | None = None) -> int:
    """Trains a skill and returns the exit status."""
    return guarded(lambda shell: _train(shell, argv))


def _train(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser("skillopt train", "Trains a skill. The same command again resumes; see skillopt resume too.")
    add_flags(parser, "train")
    add_plain(parser)
    add_no_report(parser)
    args = parse_args(parser, argv)
    config, environ = read_configuration(shell, args, args.config)
    folder = new_folder("skillopt", config.env.name, config.model.optimizer, time.localtime())
    return run_training(shell, args, with_out_root(config, folder), environ)


def run_training(shell: Shell, args: argparse.Namespace, config: Config, environ: Mapping[str, str]) -> int:
    """Trains in the run folder of ``config``, with what it says on the way; the exit status."""
    if args.dry_run:
        return dry_run(shell, config, environ)
    from skillopt.engine.prepare import prepare_training
    from skillopt.engine.session import train

    prepared = prepare_training(config, environ)
    try:
        with listening(shell, plain=args.plain) as listener:
            ending = run(train(prepared, environ, shell.redactor, [listener]))
    except KeyboardInterrupt:  # the second Ctrl-C: the first one was still waiting for requests in flight
        shell.complain(f"go on with: {how_to_go_on(config.env.out_root)}")
        shell.complain("interrupted: what was finished is saved")
        return INTERRUPTED
    end = closing(ending.summary, str(ending.root), ending.reason, ending.detail, spent_in(ending.root))
    for line in end.out:
        shell.say(line)
    for line in end.err:
        shell.complain(line)
    if not args.no_report and ending.reason != "interrupted":
        from skillopt.cli.report import report_after_training

        report_after_training(shell, ending.root)
    if ending.reason == "completed":
        for line in next_steps(ending.summary, str(ending.root)):
            shell.say(line)
    return end.status


def dry_run(shell: Shell, config: Config, environ: Mapping[str, str]) -> int:
    """Checks everything that a run would check, and says what it would send."""
    from skillopt.engine.estimate import cost_line, estimate
    from skillopt.engine.prepare import prepare_training

    prepared = prepare_training(config, environ)
    style, agent = prepared.roles["optimizer"].spec.reply_style, prepared.roles["target"].profile.agent
    parts = estimate(config, prepared.env, prepared.items, prepared.skill.text, style, prepared.prices, agent=agent)
    sizes = " ".join(f"{split}={len(items)}" for split, items in prepared.items.items())
    shell.say(f"env: {prepared.env.name}   items: {sizes}")
    shell.say(f"epochs={len(prepared.plan)} steps={prepared.steps} batch_size={config.train.batch_size}")
    for role, resolved in prepared.roles.items():
        shell.say(f"{role} model: {resolved.spec.model or '(its own default)'} {resolved.place}")
    for line in dict.fromkeys(note for role in prepared.roles.values() for note in role.notes):
        shell.say(line)
    for part in parts:
        shell.say(part.line())
    shell.say(cost_line(parts))
    for line in folder_lines(prepared, "training"):
        shell.say(line)
    shell.say("dry run: nothing was sent")
    return 0


def folder_lines(prepared: Prepared, kind: Kind, skill: str = "") -> list[str]:
    """What a run would find in its folder; ``skill`` is what people call its skill."""
    from skillopt.engine.resume import difference, identity, made_with

    root, policy = Path(prepared.config.env.out_root), prepared.config.runtime.resume_policy
    made, wanted = made_with(root), identity(prepared, kind, skill)
    if made is None:
        return [f"run folder: {root} (would be made)"]
    lines = difference(made, wanted) if made["kind"] == kind else [made["kind"]]
    if not lines:
        return [f"run folder: {root} (is there: what it holds is not sent again)"]
    head = f"run folder: {root} was made otherwise (runtime.resume_policy={policy}):"
    return [head, *(f"  {line}" for line in lines)]
