"""``skillopt report``: a training run as a page and a picture to share, and its numbers in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt.cli.console import number
from skillopt.cli.edge import REFUSED, Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.cli.tables import add_json, clean, interval, json_text, lift_cells, shorten, table
from skillopt.report.comparison import ArmResult
from skillopt.report.content import Report, read_report
from skillopt.report.publish import INSTALL, Published, can_publish, publish
from skillopt.report.run import read_run

_ABOUT = (
    "Writes report.html, which needs no network, and training_dashboard.png: curves, the final comparison with its "
    "intervals, the items that changed, how the skill evolved. The run may be going on. Needs the extra report."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the report of a run and prints its numbers."""
    return guarded(lambda shell: _report(shell, argv))


def _report(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser("skillopt report", _ABOUT)
    parser.add_argument("run", metavar="RUN", help="folder of a training run")
    parser.add_argument("--out", metavar="DIR", help="write the files here (default: the run folder)")
    parser.add_argument("--no-png", action="store_true", help="the page only")
    add_json(parser)
    args = parser.parse_args(argv)
    mask = shell.redactor.mask
    report = read_report(read_run(Path(args.run)), mask)
    folder = Path(args.out).expanduser().absolute() if args.out else Path(report.root)
    published = publish(report, folder, picture=not args.no_png, mask=mask) if can_publish() else Published((), ())
    for line in [json_text(report_json(report, published))] if args.json else report_lines(report, published):
        shell.say(line)
    if not published.files:
        shell.complain(f"error: the page needs the extra report: {INSTALL}")
        return REFUSED
    return 0


def report_after_training(shell: Shell, root: Path) -> None:
    """Writes the report of a run that has just ended, where the extra is installed. The run is over and safe: whatever
    goes wrong here is said in a line."""
    if not can_publish():
        return
    try:
        published = publish(read_report(read_run(root), shell.redactor.mask), root, mask=shell.redactor.mask)
    except (Exception, KeyboardInterrupt) as error:  # a display must not spoil a run that is paid for
        why = str(error) or type(error).__name__
        shell.say(f"note: no report was written ({why}); skillopt report {root} tries again")
        return
    for path in published.files:
        shell.say(f"report: {path}")
    for note in published.notes:
        shell.say(f"note: {note}")


def report_lines(report: Report, published: Published) -> list[str]:
    """The numbers of a report for a person, and where its files are."""
    done = f"{report.steps_done}/{report.total_steps}" if report.total_steps else str(report.steps_done)
    reason = f" ({shorten(report.stop_reason or '', 80)})" if report.stop_reason not in (None, "completed") else ""
    counts = f": {report.fates}" if report.steps else ""
    lines = [f"{shorten(report.name, 200)}: {report.status}{reason}, steps {done}{counts}"]
    lines += list(report.verdicts)
    rows = [_row(final.split, arm) for final in report.finals for arm in final.arms]
    if rows:
        head = ("items", "skill", "n", "hard", "soft", "difference [95%]", "p", "pairs", "fixed", "broken")
        lines += ["", *table(head, rows, right=(2, 3, 4, 6, 7, 8, 9)), ""]
    for split in report.flips:
        totals = ", ".join(f"{group.total} {_KINDS[group.kind]}" for group in split.groups)
        lines.append(f"{split.split} items, seed to best: {totals}, {split.passing} passing")
    if report.spending is not None:
        lines.append(f"tokens: {report.spending.tokens:,}   cost: {report.spending.cost_words}")
    lines += [f"note: {clean(note)}" for note in (*report.problems, *published.notes)]
    return lines + [f"report: {clean(str(path))}" for path in published.files]


def _row(split: str, arm: ArmResult) -> tuple[str, ...]:
    scores = (number(arm.hard), number(arm.soft))
    return split, arm.name, str(arm.n or ""), *scores, interval(arm.lift), *lift_cells(arm.lift)


def report_json(report: Report, published: Published) -> Mapping[str, Any]:
    """The numbers of a report; the items that changed by their ids, as far as the page has them."""
    flips = {
        split.split: {
            **{group.kind: {"total": group.total, "ids": [flip.id for flip in group.shown]} for group in split.groups},
            "passing": split.passing,
            "unmeasured": split.unmeasured,
        }
        for split in report.flips
    }
    return {
        "run": report.root,
        "status": report.status,
        "stop_reason": report.stop_reason,
        "steps": report.steps,
        "steps_done": report.steps_done,
        "total_steps": report.total_steps,
        "final": {final.split: final.arms for final in report.finals},
        "verdicts": report.verdicts,
        "flips": flips,
        "curves": report.curves,
        "spending": report.spending,
        "seconds": report.seconds,
        "files": [str(path) for path in published.files],
        "notes": [*report.problems, *published.notes],
    }


_KINDS: Mapping[str, str] = {"fixed": "fixed", "broken": "broken", "failing": "still failing"}
