"""``skillopt compare``: runs, or skills of runs, side by side on the same items."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from skillopt.cli.console import number
from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.cli.tables import add_json, clean, interval, json_text, lift_cells, shorten, table
from skillopt.models.pricing import money
from skillopt.report.contest import SPLITS, Contest, Entrant, contest, curves_of_runs, entrants_of
from skillopt.report.publish import INSTALL, can_publish, publish_comparison

_ABOUT = (
    "Compares the best skills of runs, skill files that lie in runs, and evaluations, item by item, each with the "
    "first. A run alone: its best and its last skill with its seed. It only reads."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a comparison of runs."""
    return guarded(lambda shell: _compare(shell, argv))


def _compare(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser("skillopt compare", _ABOUT)
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="run folder, folder of an evaluation, or skill file in one"
    )
    parser.add_argument("--split", choices=SPLITS, help="compare on these items (default: the first of these)")
    parser.add_argument("--metric", choices=("hard", "soft"), default="hard", help="which score (default: hard)")
    parser.add_argument(
        "--html", metavar="FILE", help="write it as one page too, with charts and the items that changed (extra report)"
    )
    add_json(parser)
    args = parser.parse_args(argv)
    page = _page(parser, args.html)
    paths = [Path(word).expanduser() for word in args.runs]
    candidates = entrants_of(paths, args.split)
    found = contest(candidates, args.metric)
    for line in [json_text(found)] if args.json else contest_lines(found):
        shell.say(line)
    if page is not None:
        publish_comparison(candidates, found, curves_of_runs(paths), page, shell.redactor.mask)
        if not args.json:
            shell.say(f"comparison: {page}")
    return 0


def _page(parser: argparse.ArgumentParser, word: str | None) -> Path | None:
    """The file of ``--html``; an option that lost its file would take a run for it."""
    if word is None:
        return None
    path = Path(word).expanduser().absolute()
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
        parser.error(f"--html {word}: name a file that ends with .html")
    if not can_publish():
        parser.error(f"--html needs the extra report: {INSTALL}")
    return path


def contest_lines(found: Contest) -> list[str]:
    """A comparison for a person."""
    head = (
        "skill",
        "items",
        "n",
        "hard",
        "soft",
        "difference [95%]",
        "p",
        "pairs",
        "fixed",
        "broken",
        "run tokens",
        "run cost",
    )
    rows = [_row(entrant) for entrant in found.entrants]
    lines = table(head, rows, right=(2, 3, 4, 6, 7, 8, 9, 10, 11))
    if any(entrant.result.lift for entrant in found.entrants):
        lines += ["", f"difference: {found.metric} score minus that of the first skill on the same items, paired"]
    return lines + [f"note: {clean(note)}" for note in found.notes]


def _row(entrant: Entrant) -> tuple[str, ...]:
    result, lift = entrant.result, entrant.result.lift
    return (
        shorten(entrant.name, 60),
        shorten(entrant.split, 12),
        str(result.n) if result.n else "",
        number(result.hard),
        number(result.soft),
        interval(lift),
        *lift_cells(lift),
        "" if entrant.tokens is None else f"{entrant.tokens:,}",
        "" if entrant.tokens is None else money(entrant.usd),
    )
