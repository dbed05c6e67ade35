"""Edits of a skill's body, and the report of what became of each.

Statuses (one that begins with ``applied`` means that the text changed, any other that it did not):

``applied_append``, ``applied_append_before_protected_region``, ``applied_insert_after``, ``applied_replace``,
``applied_delete``
    done.
``skipped_<op>_missing_target``
    insert_after, replace or delete without a target (null, empty or blank).
``skipped_<op>_unmatched``
    the target is nowhere in the skill.
``skipped_<op>_ambiguous``
    it stands in the body more than once.
``skipped_<op>_conflict``
    it stood in the body, but an earlier edit of the same patch has changed that place.
``skipped_protected_region``
    it stands in frontmatter, guidance or appendix only.
``skipped_<op>_protected``
    it reaches into one of these or across it, or the result would read differently there (such as text that becomes
    a region marker).
``skipped_<op>_no_change``
    nothing to insert, or nothing different.
``skipped_unknown_op``
    the operation is none of the four.
``error``
    replace with null for content, which may mean anything; '' deletes.

The published statuses ``applied_insert_after_fallback_*`` and ``skipped_<op>_target_not_found`` no longer occur:
nothing falls back to appending, and a target that is not found is unmatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt.skill.anchors import Span, first_occurrence, occurrences, outside
from skillopt.skill.blocks import insertion_after, reindented, removal
from skillopt.skill.document import Segment, Skill, blank_line_after, encodable, scrub, with_line_ending

OPS = ("append", "insert_after", "replace", "delete")
_PREVIEW = 200


@dataclass(frozen=True, slots=True)
class Edit:
    """One proposed change: ``op`` is one of ``OPS`` in any case, ``target`` the anchor, ``content`` the new text."""

    op: str
    target: str | None = None
    content: str | None = None


@dataclass(frozen=True, slots=True)
class EditReport:
    """What became of one edit. ``index`` counts from 1; ``detail`` says in words why it was not applied."""

    op: str
    target: str
    content_preview: str
    status: str
    index: int
    detail: str = ""

    @property
    def applied(self) -> bool:
        return self.status.startswith("applied")

    def row(self) -> dict[str, str | int]:
        """The row of ``edit_apply_report.json``."""
        return {
            "op": self.op,
            "target": self.target[:_PREVIEW],
            "content_preview": self.content_preview[:_PREVIEW],
            "status": self.status,
            "index": self.index,
        }


@dataclass(frozen=True, slots=True)
class AppliedEdits:
    """The skill after a patch, and a report for each of its edits in order."""

    skill: Skill
    reports: tuple[EditReport, ...]

    def summary(self) -> dict[str, int]:
        """``edit_apply_summary`` of a step: how many edits were applied, skipped, in error."""
        applied = sum(report.applied for report in self.reports)
        errors = sum(report.status == "error" for report in self.reports)
        total = len(self.reports)
        return {"total": total, "applied": applied, "skipped": total - applied - errors, "errors": errors}


@dataclass(frozen=True, slots=True)
class _Draft:
    """A skill in the middle of a patch: the skill it began with, its text now, and what earlier edits put there."""

    original: Skill
    skill: Skill
    inserted: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class _Splice:
    """``text`` in the place of ``span``, to be reported as ``status``."""

    span: Span
    text: str
    status: str


@dataclass(frozen=True, slots=True)
class _Skip:
    status: str
    detail: str


def apply_edits(skill: Skill, edits: Sequence[Edit]) -> AppliedEdits:
    """Apply a patch to a skill's body: its edits in ranked order, each to the result of the ones before it.

    An anchor is an exact match if that is unique in the body, else a unique match with whitespace collapsed. When it
    is found both in what earlier edits inserted and elsewhere, elsewhere is meant. Content loses surrounding
    whitespace and region markers, and takes the skill's line ends. Never raises; an edit that cannot be applied as
    meant leaves the text alone.
    """
    draft = _Draft(skill, skill)
    reports = []
    for index, edit in enumerate(edits, start=1):
        op = (edit.op or "").strip().lower()
        content = scrub(edit.content or "")
        outcome = _plan(draft, op, edit, content)
        if isinstance(outcome, _Splice):
            draft, outcome = _commit(draft, op, outcome)
        detail = outcome.detail if isinstance(outcome, _Skip) else ""
        target = encodable(edit.target or "")
        name = op if op in OPS else encodable(edit.op or "")
        reports.append(EditReport(name, target, content.strip(), outcome.status, index, detail))
    return AppliedEdits(draft.skill, tuple(reports))


def apply_rewrite(skill: Skill, new_text: str) -> Skill:
    """The skill with the body of a rewritten document: whatever the rewrite did to frontmatter, guidance and appendix
    is dropped. A rewrite whose body is blank, or the same, changes nothing."""
    stretches = (segment.text.strip("\r\n") for segment in Skill(new_text).segments if segment.kind == "body")
    candidate = skill.with_body("\n\n".join(text for text in stretches if text.strip()))
    blank = not candidate.body.strip()
    return skill if blank or candidate.same_body(skill) else candidate


def _plan(draft: _Draft, op: str, edit: Edit, content: str) -> _Splice | _Skip:
    if op not in OPS:
        return _Skip("skipped_unknown_op", f"unknown operation; use one of {', '.join(OPS)}")
    if op == "replace" and edit.content is None:
        return _Skip("error", "replace needs content; to remove text use delete")
    target = edit.target or ""
    if op != "append" and not target.strip():
        return _Skip(f"skipped_{op}_missing_target", "no target given")
    if op in ("append", "insert_after") and not content.strip():
        return _Skip(f"skipped_{op}_no_change", "no content given")
    if op == "append":
        return _append(draft.skill, content.strip())
    span = _locate(draft, op, target)
    if isinstance(span, _Skip):
        return span
    if op == "insert_after":
        return _insert_after(draft.skill, span, content)
    return _replace(draft.skill, span, "" if op == "delete" else content.strip(), f"applied_{op}")


def _commit(draft: _Draft, op: str, splice: _Splice) -> tuple[_Draft, _Splice | _Skip]:
    """Carry out a splice, unless it changes nothing or changes what is read as protected."""
    span, old = splice.span, draft.skill
    new = Skill(old.text[: span.start] + splice.text + old.text[span.end :])
    if new.text == old.text:
        return draft, _Skip(f"skipped_{op}_no_change", "the text is already like this")
    if new.protected != old.protected:
        return draft, _Skip(f"skipped_{op}_protected", "it would change a protected part of the skill")
    return replace(draft, skill=new, inserted=_with_splice(draft.inserted, splice)), splice


def _with_splice(inserted: tuple[Span, ...], splice: _Splice) -> tuple[Span, ...]:
    """The inserted stretches after a splice, which moves, grows or joins them."""
    span = splice.span
    shift = len(splice.text) - (span.end - span.start)
    start, end = span.start, span.end
    kept = []
    for other in inserted:
        if other.end <= span.start:
            kept.append(other)
        elif other.start >= span.end:
            kept.append(Span(other.start + shift, other.end + shift))
        else:
            start, end = min(start, other.start), max(end, other.end)
    return (*kept, Span(start, end + shift)) if end + shift > start else tuple(kept)


def _locate(draft: _Draft, op: str, target: str) -> Span | _Skip:
    """The one place in the body that ``target`` names."""
    skill = draft.skill
    inserted: list[Span] = []
    for found in occurrences(_body(skill), target, skill.line_ending):
        elsewhere = outside(found, draft.inserted)
        if len(elsewhere) == 1:
            return elsewhere[0]
        if elsewhere:
            return _ambiguous(op, len(elsewhere))
        inserted = inserted or found
    original = draft.original
    if first_occurrence(_body(original), target, original.line_ending):
        return _Skip(f"skipped_{op}_conflict", "an earlier edit of the same patch has changed its target")
    if len(inserted) > 1:
        return _ambiguous(op, len(inserted))
    return inserted[0] if inserted else _unmatched(skill, op, target)


def _ambiguous(op: str, count: int) -> _Skip:
    return _Skip(f"skipped_{op}_ambiguous", f"its target occurs {count} times in the body")


def _unmatched(skill: Skill, op: str, target: str) -> _Skip:
    """Why a target that is not in the body cannot be used."""
    span = first_occurrence([Segment("body", 0, skill.text)], target, skill.line_ending)
    if span is not None:
        if any(span.within(Span(s.start, s.end)) for s in skill.segments if s.kind != "body"):
            return _Skip("skipped_protected_region", "its target is in a protected part of the skill")
        return _Skip(f"skipped_{op}_protected", "its target reaches into a protected part of the skill")
    if first_occurrence([Segment("body", 0, skill.body)], target, skill.line_ending):
        return _Skip(f"skipped_{op}_protected", "its target reaches across a protected part of the skill")
    return _Skip(f"skipped_{op}_unmatched", "its target does not occur in the skill")


def _body(skill: Skill) -> list[Segment]:
    return [segment for segment in skill.segments if segment.kind == "body"]


def _segment_of(skill: Skill, span: Span) -> Segment:
    return next(segment for segment in _body(skill) if span.within(Span(segment.start, segment.end)))


def _append(skill: Skill, content: str) -> _Splice:
    """At the end, or before the first region, between blank lines."""
    eol = skill.line_ending
    region = next((segment for segment in skill.segments if segment.kind in ("guidance", "appendix")), None)
    end = region.start if region else len(skill.text)
    last = next((segment for segment in _body(skill) if segment.end == end), None)
    start = last.start + len(last.text.rstrip()) if last else end
    before = skill.text[:start]
    text = blank_line_after(before, eol) + with_line_ending(content, eol)
    if region:
        return _Splice(Span(start, end), text + eol * 2, "applied_append_before_protected_region")
    return _Splice(Span(start, end), text + eol, "applied_append")


def _insert_after(skill: Skill, span: Span, content: str) -> _Splice:
    segment = _segment_of(skill, span)
    followed = segment.end < len(skill.text)
    place = insertion_after(segment.text, span.end - segment.start, content, skill.line_ending, followed=followed)
    offset = segment.start + place.offset
    return _Splice(Span(offset, offset), place.text, "applied_insert_after")


def _replace(skill: Skill, span: Span, content: str, status: str) -> _Splice:
    """``content`` in the place of ``span``; nothing in its place means that emptied lines go too."""
    segment = _segment_of(skill, span)
    local = Span(span.start - segment.start, span.end - segment.start)
    if content:
        text = with_line_ending(content, skill.line_ending)
        return _Splice(span, reindented(segment.text, local.start, text), status)
    cut = removal(segment.text, local, followed=segment.end < len(skill.text))
    return _Splice(Span(segment.start + cut.start, segment.start + cut.end), "", status)
