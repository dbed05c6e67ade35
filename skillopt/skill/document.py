"""A skill: the Markdown document that training edits, taken apart without losing a character."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

GUIDANCE_START = "<!-- SLOW_UPDATE_START -->"
GUIDANCE_END = "<!-- SLOW_UPDATE_END -->"
APPENDIX_START = "<!-- APPENDIX_START -->"
APPENDIX_END = "<!-- APPENDIX_END -->"
APPENDIX_HEADING = "## Execution Notes Appendix"
MARKERS = (GUIDANCE_START, GUIDANCE_END, APPENDIX_START, APPENDIX_END)

SegmentKind = Literal["frontmatter", "body", "guidance", "appendix", "marker"]

_REGIONS: dict[str, tuple[SegmentKind, str]] = {
    GUIDANCE_START: ("guidance", GUIDANCE_END),
    APPENDIX_START: ("appendix", APPENDIX_END),
}
_MARKER = re.compile("|".join(map(re.escape, MARKERS)))
_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAK = re.compile(r"\r\n|\r|\n")
_BLANK_LINES = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))*")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_OPENING = re.compile(r"\ufeff?---[ \t]*(?:\r\n|\r|\n)")
_DASHES = re.compile(r"---[ \t]*")
_YAML_KEY = re.compile(r"[^\s#:-][^:]*:(?:\s.*)?")
# A line of a YAML block that is not a key: blank, indented, a comment, a list item, the end of a flow collection.
_YAML_OTHER = re.compile(r"\s*|\s+\S.*|#.*|-(?:\s.*)?|[\]}].*")


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a skill's text from ``start`` (a character offset). ``marker`` is a marker without its partner."""

    kind: SegmentKind
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def blank(self) -> bool:
        return not self.text.strip()


@dataclass(frozen=True)
class Skill:
    """The text of a skill, exactly as it is, with its own line ends and without a byte order mark.

    The text is frontmatter (a YAML mapping between two ``---`` lines at the very start), then body, in which the
    guidance and appendix regions may stand anywhere: the body is what is left, so it may be several stretches. A
    region is a start marker directly followed, as markers go, by the end marker of its kind; any other marker is an
    orphan. Text between orphans is body, but orphans themselves are kept from edits, so that no edit can make a
    region out of body text or body text out of a region. Any text is a skill, the empty one too.
    """

    text: str = ""

    @classmethod
    def from_bytes(cls, data: bytes) -> Skill:
        """The skill in a UTF-8 file; a byte order mark is dropped. Raises ``UnicodeDecodeError``."""
        return cls(data.decode("utf-8-sig"))

    def to_bytes(self) -> bytes:
        """The UTF-8 bytes of the text. Write these rather than text: text mode would change the line ends."""
        return self.text.encode("utf-8")

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The text in order and without gaps: joined, the segments' texts are the text."""
        return parse(self.text)

    @cached_property
    def hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the UTF-8 text."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:16]

    @property
    def frontmatter(self) -> str:
        """The frontmatter with both ``---`` lines, or ''."""
        return "".join(segment.text for segment in self.segments if segment.kind == "frontmatter")

    @property
    def body(self) -> str:
        """What edits can see and change: the text without frontmatter, regions and orphaned markers."""
        return "".join(segment.text for segment in self.segments if segment.kind == "body")

    @property
    def guidance(self) -> str | None:
        """The text between the slow-update markers without surrounding whitespace; None when there is no block."""
        return self._inner("guidance")

    @property
    def appendix(self) -> str | None:
        """The text between the appendix markers without surrounding whitespace; None when there is no block."""
        return self._inner("appendix")

    @property
    def protected(self) -> tuple[tuple[SegmentKind, str], ...]:
        """Kind and text of all that edits must leave as it is, in order."""
        # A frontmatter that ends the text may be given its line break without being changed.
        return tuple(
            (segment.kind, segment.text.rstrip("\r\n") if segment.kind == "frontmatter" else segment.text)
            for segment in self.segments
            if segment.kind != "body"
        )

    @cached_property
    def line_ending(self) -> str:
        r"""The commonest of ``\n``, ``\r\n`` and ``\r`` in the text; ``\n`` when there is none."""
        crlf = self.text.count("\r\n")
        counts = {"\n": self.text.count("\n") - crlf, "\r\n": crlf, "\r": self.text.count("\r") - crlf}
        return max(counts, key=lambda ending: counts[ending])

    def same_body(self, other: Skill) -> bool:
        """Whether the bodies differ in nothing but line ends, trailing blanks and the number of blank lines."""
        return self._plain_body() == other._plain_body()

    def same_content(self, other: Skill) -> bool:
        """Whether the two say the same: as ``same_body``, and an empty region is as good as none."""
        return (
            self.same_body(other)
            and self.frontmatter.split() == other.frontmatter.split()
            and (self.guidance or "") == (other.guidance or "")
            and (self.appendix or "") == (other.appendix or "")
        )

    def with_body(self, new_body: str) -> Skill:
        """This skill with another body; frontmatter, guidance and appendix stay as they are.

        Markers and a leading frontmatter in ``new_body`` are dropped, its line ends become the skill's. It stands
        where the body stood (its first stretch, when there were several; before the regions, when there was none),
        between the same blank lines; a body that ends the text ends with one line break.
        """
        body = _clean_body(new_body, self.line_ending)
        kept = [segment for segment in self.segments if segment.kind != "marker"]
        slot = _body_slot(kept)
        before = "".join(self._between_regions(kept, segment) for segment in kept[:slot])
        rest = kept[slot:]
        old = ""
        if rest and rest[0].kind == "body":
            old, rest = rest[0].text, rest[1:]
        if all(segment.kind == "body" for segment in rest):
            rest = []
        after = "".join(self._between_regions(kept, segment) for segment in rest)
        return Skill(before + self._spaced(before, body, old, after) + after)

    def with_empty_guidance(self) -> Skill:
        """This skill with an empty guidance block at the end, or this skill when it has a guidance block."""
        return self if self.guidance is not None else self.with_guidance("")

    def with_guidance(self, text: str) -> Skill:
        """This skill with ``text`` as its guidance, without markers and with the skill's line ends.

        The block is replaced where it stands (further guidance blocks go) or added at the end; nothing else changes.
        """
        eol = self.line_ending
        inner = with_line_ending(scrub(text).strip(), eol)
        block = GUIDANCE_START + eol + (inner + eol if inner else "") + GUIDANCE_END
        if self.guidance is None:
            return Skill(self.text + blank_line_after(self.text, eol) + block + eol)
        out = ""
        for segment in self.segments:
            if segment.kind != "guidance":
                out += segment.text
            elif block:
                out, block = out + block, ""
            else:
                # Between two lines a removed block leaves nothing, within one it must not join the two halves.
                after = self.text[segment.end : segment.end + 1]
                out += "" if out.endswith(("\n", "\r")) or after in ("", "\n", "\r") else eol
        return Skill(out)

    def _inner(self, kind: SegmentKind) -> str | None:
        inner = [_MARKER.sub("", segment.text).strip() for segment in self.segments if segment.kind == kind]
        return "\n\n".join(inner) if inner else None

    def _plain_body(self) -> str:
        stretches = []
        for segment in self.segments:
            if segment.kind == "body" and not segment.blank:
                lines = (line.rstrip() for line in _BREAK.split(segment.text))
                stretches.append(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n"))
        return "\n\n".join(stretches)

    def _between_regions(self, kept: list[Segment], segment: Segment) -> str:
        """What stays of a segment when the body goes elsewhere: all but a body's words."""
        if segment.kind != "body" or segment.blank:
            return segment.text
        return self.line_ending * (1 if segment is kept[-1] else 2)

    def _spaced(self, before: str, body: str, old: str, after: str) -> str:
        """``body`` in the place of ``old``, kept apart from what stands before and after it."""
        eol = self.line_ending
        blank = _BLANK_LINES.match(old)
        lead = blank.group() if blank else ""
        trail = old[len(old.rstrip()) :] if old.strip() else ""
        if not body:
            return blank_line_after(before, eol) if before and after else ""
        if before and not before.endswith(("\n", "\r")) and not lead:
            lead = eol * 2
        if not after:
            return lead + body + eol
        return lead + body + (trail if _BREAK.search(trail) else eol * 2)


def parse(text: str) -> tuple[Segment, ...]:
    """Cut a skill's text into segments. Total: any text can be parsed, and the segments joined are the text."""
    cursor = frontmatter_length(text)
    segments = [Segment("frontmatter", 0, text[:cursor])] if cursor else []
    marks = list(_MARKER.finditer(text, cursor))
    index = 0
    while index < len(marks):
        kind, end_marker = _REGIONS.get(marks[index].group(), ("marker", ""))
        closed = index + 1 < len(marks) and marks[index + 1].group() == end_marker
        start, end = marks[index].start(), marks[index + 1 if closed else index].end()
        if start > cursor:
            segments.append(Segment("body", cursor, text[cursor:start]))
        segments.append(Segment(kind if closed else "marker", start, text[start:end]))
        cursor = end
        index += 2 if closed else 1
    if cursor < len(text):
        segments.append(Segment("body", cursor, text[cursor:]))
    return tuple(segments)


def frontmatter_length(text: str) -> int:
    """How many characters at the start of ``text`` are frontmatter; 0 when there is none.

    Frontmatter is a YAML mapping, judged by the shape of its lines: a Markdown text that opens with a thematic break
    and has another one further down is no frontmatter. It holds no region marker.
    """
    opening = _OPENING.match(text)
    if opening is None:
        return 0
    keys = 0
    for line in _LINE.finditer(text, opening.end()):
        words = line.group().rstrip("\r\n")
        if _DASHES.fullmatch(words):
            return line.end() if keys else 0
        if _YAML_KEY.fullmatch(words):
            keys += 1
        elif not _YAML_OTHER.fullmatch(words):
            return 0
        if _MARKER.search(words):
            return 0
    return 0


def scrub(text: str) -> str:
    """``text`` without region markers, also those that only appear when another is removed, and encodable as UTF-8."""
    text = encodable(text)
    while _MARKER.search(text):
        text = _MARKER.sub("", text)
    return text


def encodable(text: str) -> str:
    """``text`` with lone surrogates, which a JSON reply can hold and UTF-8 cannot, replaced by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def with_line_ending(text: str, ending: str) -> str:
    """``text`` with every line break replaced by ``ending``."""
    return ending.join(_BREAK.split(text))


def blank_line_after(text: str, ending: str) -> str:
    """The line breaks to add to ``text`` so that what follows stands after a blank line; '' for an empty text."""
    if not text:
        return ""
    lines = _BREAK.split(text)
    if lines[-1].strip():
        return ending * 2
    return "" if len(lines) == 1 or not lines[-2].strip() else ending


def _clean_body(text: str, ending: str) -> str:
    text = scrub(text).removeprefix("\ufeff").rstrip()
    while True:
        blank = _BLANK_LINES.match(text)
        text = text[blank.end() if blank else 0 :]
        length = frontmatter_length(text)
        if not length:
            return with_line_ending(text, ending)
        text = text[length:]


def _body_slot(kept: list[Segment]) -> int:
    """The index at which a new body goes: of the first body with words, else of what stands before the regions."""
    for index, segment in enumerate(kept):
        if segment.kind == "body" and not segment.blank:
            return index
    return 1 if kept and kept[0].kind == "frontmatter" else 0
