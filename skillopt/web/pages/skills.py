"""The skill of a run: any version, what changed between two of them, and where each line comes from."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from skillopt.report.bounds import BoundedDiff, bounded_diffs
from skillopt.report.evolution import BlameLine, blame_blocks, diff, masked
from skillopt.report.lineage import blame_of, skill_named
from skillopt.report.run import RunView
from skillopt.run.folder import FolderError
from skillopt.web.pages.run import head
from skillopt.web.site import Pager, Problem, link, page_number, site_of, view_of

_LARGEST = 400_000
_DIFF_BYTES = 500_000
_BLAME = 400


def skill(request: Request) -> Response:
    """The text of a skill, or with ``from`` and ``to`` what changed from one to the other."""
    entry, view = view_of(request)
    asked = request.query_params
    old, new = asked.get("from", "")[:40], asked.get("to", "best")[:40]
    allowed = site_of(request).renderer.allowance()
    shown, changes = "", None
    try:
        chosen = skill_named(view, new)
        if old:
            base = skill_named(view, old)
            changes = page_diff(request, base.text, chosen.text, base.name, chosen.name)
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
    allowed = site_of(request).renderer.allowance()
    base = f"/run/{entry.id}/blame"
    return site_of(request).renderer.page(
        request,
        "blame.html",
        **head(request, entry, view, "Blame"),
        blocks=blame_blocks(lines[pager.offset : pager.offset + _BLAME]),
        take=allowed.take,
        problem=problem,
        pager=pager,
        here=lambda page: link(base, page=page),
    )


def page_diff(request: Request, old: str, new: str, old_name: str, new_name: str) -> BoundedDiff:
    """The difference of two skills, as far as a page can hold it."""
    found = masked(diff(old, new, old_name, new_name), site_of(request).renderer.mask)
    return bounded_diffs([found], _DIFF_BYTES)[0]


def _names(view: RunView) -> list[tuple[str, str]]:
    """What can be chosen: word and label."""
    versions = view.versions
    named = [("seed", "seed"), ("best", "best"), ("final", "final")]
    shown = versions if len(versions) <= 400 else (*versions[:200], *versions[-200:])
    return [*named, *((str(number), f"version {number}") for number in shown if number)]
