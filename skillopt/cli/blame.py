"""``skillopt blame``: where each line of the best skill comes from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.cli.tables import add_json, clean, items_named, json_text, shorten, table
from skillopt.report.evolution import BlameLine, Cause
from skillopt.report.lineage import blame_of
from skillopt.report.run import RunView, read_run

_ABOUT = (
    "Says of each line of the best skill which step and edit it comes from, and on how many trajectories and which "
    "items the edit rests. It only reads."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the lines of a run's best skill with their origins."""
    return guarded(lambda shell: _blame(shell, argv))


def _blame(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser("skillopt blame", _ABOUT)
    parser.add_argument("run", metavar="RUN", help="run folder")
    add_json(parser)
    args = parser.parse_args(argv)
    view = read_run(Path(args.run))
    lines = blame_of(view)
    for line in [json_text([line_row(line) for line in lines])] if args.json else blame_lines(view, lines):
        shell.say(line)
    return 0


def line_row(line: BlameLine) -> dict[str, Any]:
    """A line as ``--json`` has it: ``line``, ``text``, ``origin`` (``seed``, ``edit``, ``rewrite``, ``slow_update``,
    ``step``, ``unknown``), ``label``, ``step``, ``epoch``, ``edit`` (its number in the step), ``op``,
    ``support_count``, ``source_type``, ``source_items``, ``source_certain``."""
    edit = line.cause.edit
    return {
        "line": line.number,
        "text": line.text,
        "origin": line.cause.kind,
        "label": line.cause.label,
        "step": line.cause.step,
        "epoch": line.cause.epoch,
        "edit": edit.index if edit else None,
        "op": edit.op if edit else None,
        "support_count": edit.support_count if edit else None,
        "source_type": edit.source_type if edit else None,
        "source_items": list(edit.source_items) if edit else [],
        "source_certain": edit.source_certain if edit else None,
    }


def blame_lines(view: RunView, lines: Sequence[BlameLine]) -> list[str]:
    """The lines for a person, and below them what the edits rest on."""
    width, digits = max((len(line.cause.label) for line in lines), default=0), len(str(len(lines)))
    listing = [f"{line.cause.label:<{width}}  {line.number:>{digits}}  {clean(line.text)}".rstrip() for line in lines]
    edits = _edits(view, list(dict.fromkeys(line.cause for line in lines if line.text.strip())))
    return listing + (["", *edits] if edits else [])


def _edits(view: RunView, causes: Sequence[Cause]) -> list[str]:
    rows = []
    for cause in causes:
        if cause.edit is None:
            continue
        edit, row = cause.edit, view.row(cause.step or 0)
        items = items_named(edit.source_items) if edit.source_items else "not told"
        rows.append(
            (
                cause.label,
                edit.support.rpartition(" ")[0],
                shorten(edit.source_type, 10),
                shorten(str(row.get("action", "")), 20),
                (edit.among if edit.source_items else "") + items,
                f"{shorten(edit.op, 16)}: {shorten(edit.content, 60)}",
            )
        )
    return table(("edit", "support", "from", "gate", "items", "what"), rows, right=(1,)) if rows else []
