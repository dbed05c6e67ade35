"""The skill of a run: any version, what changed between two of them, and where each line comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skillopt.report.evolution import BlameLine, Diff, blame_blocks, diff
from skillopt.report.lineage import blame_of, skill_named
from skillopt.report.run import RunView
from skillopt.run.folder import FolderError
from skillopt.web.pages.run import head
from skillopt.web.render import Allowance
from skillopt.web.site import Pager, Problem, link, page_number, site_of, view_of

_LARGEST = 400_000
_LINES = 1500
_BLAME = 400


@dataclass(frozen=True, slots=True)
class DiffPage:
    """A diff cut to what a page can hold. ``hunks`` are lists of ``(kind, old, new, words)``; ``note`` says what was
    left out ('' when nothing was)."""

    old_name: str
    new_name: str
    added: int
    removed: int
    hunks: tuple[tuple[tuple[str, int | None, int | None, tuple[tuple[str, bool], ...]], ...], ...]
    note: str


def skill(request: Request) -> Response:
    """The text of a skill, or with ``from`` and ``to`` what changed from one to the other."""
    entry, view = view_of(request)
    asked = request.query_params
    old, new = asked.get("from", "")[:40], asked.get("to", "best")[:40]
    allowed = Allowance()
    shown, changes = "", None
    try:
        chosen = skill_named(view, new)
        if old:
            base = skill_named(view, old)
            changes = shown_diff(base.text, chosen.text, base.name, chosen.name, allowed, diff)
        else:
            shown = allowed.take(chosen.text, 150_000)
        problem = ""
    except FolderError as error:
        problem = str(error)
    return site_of(request).renderer.page(
        request,
        "skill.html",
        **head(request, entry, view, "Skill"),
        names=_names(view),
        old=old,
        new=new,
        text=shown,
        changes=changes,
        problem=problem,
    )


def blame(request: Request) -> Response:
    """The best skill with the step and the edit of each line."""
    entry, view = view_of(request)
    if len(view.best or "") > _LARGEST:
        raise Problem(413, "This skill is too large to be traced in a page: use skillopt blame.")
    problem, lines = "", tuple[BlameLine, ...]()
    try:
        lines = blame_of(view)
    except FolderError as error:
        problem = str(error)
    pager = Pager(page_number(request), len(lines), _BLAME)
    allowed = Allowance()
    base = f"/run/{entry.id}/blame"
    return site_of(request).renderer.page(
        request,
        "blame.html",
        **head(request, entry, view, "Blame"),
        blocks=blame_blocks(lines[pager.offset : pager.offset + _BLAME]),
        take=lambda text: allowed.take(text, 2000),
        problem=problem,
        pager=pager,
        here=lambda page: link(base, page=page),
    )


def shown_diff(
    old: str, new: str, old_name: str, new_name: str, allowed: Allowance, make: Callable[..., Diff]
) -> DiffPage:
    """The diff of two texts, as far as a page can hold it."""
    if max(len(old), len(new)) > _LARGEST:
        return DiffPage(old_name, new_name, 0, 0, (), "The skills are too large for a page: use skillopt diff.")
    found = make(old, new, old_name, new_name)
    hunks: list[Any] = []
    left, note = _LINES, ""
    for hunk in found.hunks:
        lines = hunk.lines[:left]
        left -= len(lines)
        rows = []
        for line in lines:
            words = tuple((allowed.take(word.text, 2000), word.changed) for word in line.words[:400])
            rows.append((line.kind, line.old, line.new, words))
        if rows:
            hunks.append(tuple(rows))
        if left <= 0:
            note = "The rest is left out: use skillopt diff for all of it."
            break
    return DiffPage(old_name, new_name, found.added, found.removed, tuple(hunks), note)


def _names(view: RunView) -> list[tuple[str, str]]:
    """What can be chosen: word and label."""
    versions = view.versions
    named = [("seed", "seed"), ("best", "best"), ("final", "final")]
    shown = versions if len(versions) <= 400 else (*versions[:200], *versions[-200:])
    return [*named, *((str(number), f"version {number}") for number in shown if number)]
