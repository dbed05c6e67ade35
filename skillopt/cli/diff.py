"""``skillopt diff``: what training changed in a skill."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.cli.tables import (
    BOLD,
    CYAN,
    GREEN,
    RED,
    add_color,
    add_json,
    clean,
    json_text,
    paint,
    terminal_width,
    wants_color,
)
from skillopt.report.evolution import Diff, DiffLine, diff, hunk_header, masked, unified
from skillopt.report.lineage import NamedSkill, proposal_named, skill_named
from skillopt.report.run import RunView, read_run

_ABOUT = (
    "Shows what training changed in a skill, as a unified diff; on a terminal, changed words are marked. It only reads."
)
_NAMES = (
    "A and B name versions: seed, best, final; a number (the skill after that step); step_N (what step N proposed); "
    "epoch_N (what the slow update of epoch N proposed). Without B: A and the best skill; step_N and epoch_N alone "
    "show what they proposed. Without A too: the seed and the best skill."
)
_MARKED = "7"  # reverse


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the difference between two versions of a run's skill."""
    return guarded(lambda shell: _diff(shell, argv))


def _diff(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser("skillopt diff", _ABOUT)
    parser.epilog = _NAMES
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("a", metavar="A", nargs="?", help="the earlier version (default: seed)")
    parser.add_argument("b", metavar="B", nargs="?", help="the later version (default: best)")
    parser.add_argument("-U", "--context", type=int, default=3, metavar="N", help="lines around a change (default: 3)")
    add_color(parser)
    add_json(parser)
    args = parser.parse_args(argv)
    old, new = sides(read_run(Path(args.run)), args.a, args.b)
    found = masked(diff(old.text, new.text, old.name, new.name, max(0, args.context)), shell.redactor.mask)
    if args.json:
        shell.say(json_text(found))
        return 0
    for line in _lines(found, wants_color(args.color)) or [_no_difference(old, new)]:
        shell.say(line)
    return 0


def _lines(found: Diff, color: bool) -> list[str]:
    if color:
        return colored(found)
    # A file gets the text as it is, so that the diff can be applied.
    return [clean(line) for line in unified(found)] if terminal_width() else unified(found)


def sides(view: RunView, a: str | None, b: str | None) -> tuple[NamedSkill, NamedSkill]:
    """The two skills that the words of the command line mean."""
    if a is not None and b is None:
        proposal = proposal_named(view, a)
        if proposal is not None:
            return proposal
    return skill_named(view, a or "seed"), skill_named(view, b or "best")


def _no_difference(old: NamedSkill, new: NamedSkill) -> str:
    same = "equal" if old.text == new.text else "equal but for line ends"
    return f"{old.name} and {new.name} are {same}"


def colored(found: Diff) -> list[str]:
    """A diff for a terminal: removed lines red, added ones green, changed words reversed."""
    if not found.hunks:
        return []
    lines = [paint(f"--- {found.old_name}", BOLD, on=True), paint(f"+++ {found.new_name}", BOLD, on=True)]
    for hunk in found.hunks:
        lines.append(paint(hunk_header(hunk), CYAN, on=True))
        lines += map(_line, hunk.lines)
    return lines


def _line(line: DiffLine) -> str:
    if line.kind == "same":
        return f" {clean(line.text)}"
    sign, color = ("-", RED) if line.kind == "removed" else ("+", GREEN)
    partly = any(not word.changed for word in line.words)
    parts = (
        paint(clean(word.text), color, *([_MARKED] if word.changed and partly else []), on=True) for word in line.words
    )
    return paint(sign, color, on=True) + "".join(parts)
