"""How a skill came about: what one version changed in another, and which change each of its lines comes from. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from skillopt.report.matching import Opcode, grouped, opcodes
from skillopt.report.steps import StepEdit
from skillopt.report.words import Word, Words, changed_lines, changed_words, plain
from skillopt.skill import Edit, Skill, apply_edits

__all__ = [
    "BlameBlock",
    "BlameLine",
    "Cause",
    "Change",
    "Diff",
    "DiffLine",
    "Hunk",
    "StepChange",
    "Word",
    "blame",
    "blame_blocks",
    "diff",
    "lineage",
    "masked",
    "unified",
]

LineKind = Literal["same", "removed", "added"]
CauseKind = Literal["seed", "edit", "rewrite", "slow_update", "step", "unknown"]
_MOST_LINES = 1_000_000
"""The most lines of all versions together that are traced."""
_MOST_EDITS = 100
"""The most edits of a step that are made again."""
_MOST_BY_WORD, _LINE = 100_000, 20
_SIGNS: dict[LineKind, str] = {"same": " ", "removed": "-", "added": "+"}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff: its number on each side where it is there (from 1), and its text in stretches. The text of
    ``words`` joined is the line without its line end."""

    kind: LineKind
    old: int | None
    new: int | None
    words: Words

    @property
    def text(self) -> str:
        """The line without its marks."""
        return "".join(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class Hunk:
    """Changed lines with the lines around them. ``old_start`` and ``new_start`` count from 1, and are those of the line
    before where a side has none."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """What became of ``old_name`` in ``new_name``: ``added`` and ``removed`` lines. No hunks: nothing but line ends."""

    old_name: str
    new_name: str
    hunks: tuple[Hunk, ...]
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class Cause:
    """Where a line comes from: the ``seed``, an ``edit`` of a step, the ``rewrite`` of a step, the ``slow_update`` of
    an epoch, a ``step`` whose edits do not explain it, or ``unknown``."""

    kind: CauseKind
    step: int | None = None
    epoch: int | None = None
    edit: StepEdit | None = None

    @property
    def label(self) -> str:
        """The cause in a few words."""
        if self.kind == "edit" and self.edit is not None:
            return f"step {self.step}, edit {self.edit.index}"
        if self.kind == "rewrite":
            return f"rewrite of step {self.step}"
        if self.kind == "slow_update":
            return f"slow update of epoch {self.epoch}"
        return f"step {self.step}" if self.kind == "step" else self.kind


@dataclass(frozen=True, slots=True)
class Change:
    """A version of a skill, and what made it of the version before."""

    text: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class BlameLine:
    """A line of a skill (numbers from 1, text without its line end) and where it comes from."""

    number: int
    text: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class BlameBlock:
    """Neighbouring lines of a skill that come from the same change."""

    cause: Cause
    lines: tuple[BlameLine, ...]

    @property
    def text(self) -> str:
        """Its lines, without empty ones around them."""
        return "\n".join(line.text for line in self.lines).strip("\n")

    @property
    def support(self) -> str:
        """The trajectories that the edit rests on, in words; '' where nobody told."""
        return self.cause.edit.support if self.cause.edit is not None else ""

    @property
    def source_items(self) -> tuple[str, ...]:
        """The ids of the items that the edit comes from, or is ``among``."""
        return self.cause.edit.source_items if self.cause.edit is not None else ()

    @property
    def among(self) -> str:
        """What is to stand before the items; see ``StepEdit``."""
        return self.cause.edit.among if self.cause.edit is not None else ""


@dataclass(frozen=True, slots=True)
class StepChange:
    """What a step did: its ``candidate`` (None when there was none), whether it was ``accepted``, its edits, whether a
    model ``rewrote`` the skill, and the skill ``after`` the step, and after the end of its epoch where it was the last
    one (None when it is not there)."""

    number: int
    epoch: int | None
    candidate: str | None
    accepted: bool
    edits: tuple[StepEdit, ...]
    rewrote: bool
    after: str | None


def diff(old: str, new: str, old_name: str = "", new_name: str = "", context: int = 3) -> Diff:
    """What ``new`` changed in ``old``, by lines and words, with ``context`` lines around each change. Line ends do not
    count. Where more changed than anyone reads word by word, only lines are told."""
    before, after = old.splitlines(), new.splitlines()
    found = opcodes(before, after)
    by_word = _size(before, after, found) <= _MOST_BY_WORD
    hunks = tuple(_hunk(before, after, group, by_word=by_word) for group in grouped(found, context))
    kinds = [line.kind for hunk in hunks for line in hunk.lines]
    return Diff(old_name, new_name, hunks, kinds.count("added"), kinds.count("removed"))


def masked(found: Diff, mask: Callable[[str], str]) -> Diff:
    """``found`` as ``mask`` lets it be shown. A line that it changes is one stretch: what is hidden in the whole line
    could be read from its words."""

    def hidden(line: DiffLine) -> DiffLine:
        text = mask(line.text)
        return line if text == line.text else replace(line, words=plain(text, changed=line.kind != "same"))

    return replace(found, hunks=tuple(replace(hunk, lines=tuple(map(hidden, hunk.lines))) for hunk in found.hunks))


def unified(found: Diff) -> list[str]:
    """A diff in the unified form that ``patch`` reads."""
    if not found.hunks:
        return []
    lines = [f"--- {found.old_name}", f"+++ {found.new_name}"]
    for hunk in found.hunks:
        lines.append(hunk_header(hunk))
        lines += [_SIGNS[line.kind] + line.text for line in hunk.lines]
    return lines


def hunk_header(hunk: Hunk) -> str:
    """The line that says where a hunk stands."""
    sides = ((hunk.old_start, hunk.old_count), (hunk.new_start, hunk.new_count))
    old, new = (f"{start},{count}" if count != 1 else str(start) for start, count in sides)
    return f"@@ -{old} +{new} @@"


def lineage(seed: str, steps: Iterable[StepChange], best: str) -> tuple[Change, ...]:
    """The versions that lead from ``seed`` to ``best``, an edit at a time, each with its cause.

    Edits are made again as the trainer made them; where the result is not the candidate (another implementation, a
    file that is not there), each line is found in the edits by its words. What is beyond ``_MOST_LINES`` is not traced.
    """
    changes = [Change(seed, Cause("seed"))]
    room = _MOST_LINES - _lines(seed)
    for change in (change for step in steps for change in _of_step(changes[-1].text, step)):
        if change.text != changes[-1].text:
            changes.append(change)
        room -= _lines(change.text)
        if room < 0:
            break
    reached = next((index for index, change in enumerate(changes) if change.text == best), None)
    if reached is not None:
        return tuple(changes[: reached + 1])
    return (*changes, Change(best, Cause("unknown")))


def blame(changes: Sequence[Change]) -> tuple[BlameLine, ...]:
    """The lines of the last version, each with the change that it comes from."""
    lines: list[tuple[str, Cause]] = []
    for change in changes:
        lines = _carried(lines, change)
    return tuple(BlameLine(number, text, cause) for number, (text, cause) in enumerate(lines, start=1))


def blame_blocks(lines: Sequence[BlameLine]) -> tuple[BlameBlock, ...]:
    """Lines in blocks of one cause each. An empty line goes with the line that it stands before."""
    causes: list[Cause] = []
    for line in reversed(lines):
        causes.append(line.cause if line.text.strip() or not causes else causes[-1])
    grouped = groupby(zip(lines, reversed(causes), strict=True), key=lambda pair: pair[1])
    return tuple(BlameBlock(cause, tuple(line for line, _ in group)) for cause, group in grouped)


def _lines(text: str) -> int:
    """The lines of a text, of which long ones count as several."""
    return text.count("\n") + len(text) // _LINE


def _of_step(text: str, step: StepChange) -> Iterator[Change]:
    if step.accepted and step.candidate is not None:
        if step.rewrote:
            yield Change(step.candidate, Cause("rewrite", step.number, step.epoch))
        else:
            yield from _edited(text, step, step.candidate)
        text = step.candidate
    elif step.accepted and step.after is not None:
        yield from _edited(text, step, step.after)
        text = step.after
    if step.after is not None and step.after != text:
        yield Change(step.after, Cause("slow_update", None, step.epoch))


def _edited(text: str, step: StepChange, result: str) -> Iterator[Change]:
    """The versions between ``text`` and the result of the step's edits."""
    edits = [edit for edit in step.edits if edit.applied][:_MOST_EDITS]
    replayed = [Edit(edit.op, edit.target, edit.content) for edit in edits]
    version = text
    for count, edit in enumerate(edits, start=1):
        version = apply_edits(Skill(text), replayed[:count]).skill.text
        yield Change(version, Cause("edit", step.number, step.epoch, edit))
    if version == result:
        return
    # What is not explained yet goes in with one edit after the other, by its words.
    lines = version.splitlines(keepends=True)
    wanted = result.splitlines(keepends=True)
    for edit in edits:
        lines = _with_lines_of(lines, wanted, edit.content)
        yield Change("".join(lines), Cause("edit", step.number, step.epoch, edit))
    yield Change(result, Cause("step", step.number, step.epoch))


def _with_lines_of(lines: list[str], wanted: list[str], content: str) -> list[str]:
    """``lines`` with those lines of ``wanted`` that they lack and that have the words of ``content``."""
    whole = content.strip()
    words = {line.strip() for line in content.splitlines()}
    found: list[str] = []
    for tag, a, b, c, d in opcodes(lines, wanted):
        found += lines[a:b]
        if tag in ("insert", "replace"):
            new = (line for line in wanted[c:d] if line.strip())
            found += [line for line in new if line.strip() in words or (whole and whole in line)]
    return found


def _carried(lines: list[tuple[str, Cause]], change: Change) -> list[tuple[str, Cause]]:
    new = change.text.splitlines()
    carried: list[tuple[str, Cause]] = []
    for tag, a, b, c, d in opcodes([text for text, _ in lines], new):
        carried += lines[a:b] if tag == "equal" else [(text, change.cause) for text in new[c:d]]
    return carried


def _size(old: list[str], new: list[str], found: Sequence[Opcode]) -> int:
    """The characters of the lines that another one replaces, of which each counts as some."""
    replaced = (old[a:b] + new[c:d] for tag, a, b, c, d in found if tag == "replace")
    return sum(max(len(line), _LINE) for lines in replaced for line in lines)


def _hunk(old: list[str], new: list[str], group: Sequence[Opcode], *, by_word: bool) -> Hunk:
    lines: list[DiffLine] = []
    for tag, a, b, c, d in group:
        if tag == "equal":
            lines += [DiffLine("same", a + k + 1, c + k + 1, plain(old[a + k], changed=False)) for k in range(b - a)]
            continue
        before, after = changed_words(old[a:b], new[c:d]) if by_word else changed_lines(old[a:b], new[c:d])
        lines += [DiffLine("removed", a + k + 1, None, words) for k, words in enumerate(before)]
        lines += [DiffLine("added", None, c + k + 1, words) for k, words in enumerate(after)]
    (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
    return Hunk(a + 1 if b > a else a, b - a, c + 1 if d > c else c, d - c, tuple(lines))
