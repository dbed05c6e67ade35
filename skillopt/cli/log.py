"""``skillopt log``: the steps of a run, one line each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.cli.tables import (
    DIM,
    GREEN,
    RED,
    add_color,
    add_json,
    json_text,
    paint,
    shorten,
    table,
    terminal_width,
    wants_color,
)
from skillopt.models.pricing import money
from skillopt.report.run import RunView, read_run
from skillopt.report.step_lines import StepLine, lines_of
from skillopt.values import text

_EDIT_WIDTH = 60
_SHADES = {"accepted": GREEN, "rejected": RED, "skipped": DIM}


@dataclass(frozen=True)
class LoggedEdit:
    """An edit of a step: the operation, its words, and what became of it."""

    op: str
    content: str
    status: str


Logged = tuple[StepLine, Sequence[LoggedEdit]]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the steps of a run."""
    return guarded(lambda shell: _log(shell, argv))


def _log(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser(
        "skillopt log", "Prints one line a step, the newest first: action, score, edits. It only reads."
    )
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("-n", "--number", type=_natural, metavar="N", help="only the last N lines")
    parser.add_argument("--reverse", action="store_true", help="the oldest first")
    add_color(parser)
    add_json(parser)
    args = parser.parse_args(argv)
    view = read_run(Path(args.run))
    found = lines_of(view)
    kept = found if args.number is None else found[max(0, len(found) - args.number) :]
    logged = [(line, edits_of(view, line)) for line in (kept if args.reverse else kept[::-1])]
    if args.json:
        shell.say(json_text([line_json(*each) for each in logged]))
        return 0
    for text_line in log_lines(logged, color=wants_color(args.color), width=terminal_width()):
        shell.say(text_line)
    if not found:
        shell.say(f"{view.root} has no finished step yet")
    return 0


def _natural(word: str) -> int:
    number = int(word)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{word} is less than 0")
    return number


def edits_of(view: RunView, line: StepLine) -> tuple[LoggedEdit, ...]:
    """The ranked edits of a step, or the guidance that a slow update wrote."""
    if line.kind == "step":
        step = view.step(line.step)
        return tuple(LoggedEdit(edit.op, edit.content, edit.status) for edit in step.edits) if step else ()
    content = text(view.slow_update(line.epoch or 0).get("slow_update_content"))
    return (LoggedEdit("guidance", content, "applied"),) if content else ()


def line_json(line: StepLine, edits: Sequence[LoggedEdit]) -> dict[str, Any]:
    """A line as ``--json`` has it."""
    return {**asdict(line), "change": line.change, "edits": edits}


def log_lines(logged: Sequence[Logged], *, color: bool = False, width: int | None = None) -> list[str]:
    """The steps for a person, one line of at most ``width`` characters each."""
    if not logged:
        return []
    head = ("step", "epoch", "action", "score", "change", "items", "tokens", "cost", "edits")
    lines = [line[:width] for line in table(head, [_cells(*each) for each in logged], right=(0, 1, 6, 7))]
    shades = [_SHADES[line.fate] for line, _ in logged]
    return [lines[0], *(paint(line, shade, on=color) for line, shade in zip(lines[1:], shades, strict=True))]


def _cells(line: StepLine, edits: Sequence[LoggedEdit]) -> tuple[str, ...]:
    before = "" if line.before is None else f"{line.before:.4f} -> "
    return (
        str(line.step) if line.kind == "step" else "",
        "" if line.epoch is None else str(line.epoch),
        shorten(line.action, 24) if line.kind == "step" else f"slow update: {shorten(line.action, 20)}",
        "" if line.score is None else f"{before}{line.score:.4f}",
        "" if line.change is None else f"{line.change:+.4f}",
        "" if line.n is None else f"n={line.n} +{line.wins} -{line.losses}",
        "" if line.tokens is None else f"{line.tokens:,}",
        "" if line.tokens is None else money(line.cost_usd),
        _edits(edits),
    )


def _edits(edits: Sequence[LoggedEdit]) -> str:
    if not edits:
        return ""
    applied = sum(edit.status.startswith("applied") for edit in edits)
    made = [edit for edit in edits if edit.status.startswith("applied") or edit.status == "suggested"]
    counted = f"{applied}/{len(edits)}" if any(edit.status != "suggested" for edit in edits) else str(len(edits))
    words = "; ".join(f"{shorten(edit.op, 16)}: {shorten(edit.content, _EDIT_WIDTH)}" for edit in made[:2])
    more = f"; {len(made) - 2} more" if len(made) > 2 else ""
    return f"{counted} {words}{more}".rstrip()
