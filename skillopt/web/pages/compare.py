"""Runs side by side on the same items."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skillopt.report import charts
from skillopt.report.comparison import Flips, flips
from skillopt.report.contest import Candidate, contest, entrants_of
from skillopt.report.curves import Curves
from skillopt.report.final import curves_of
from skillopt.run.folder import FolderError
from skillopt.web.catalog import Entry
from skillopt.web.render import Allowance
from skillopt.web.site import Pager, link, page_number, site_of

_FLIPS = 30
_KINDS = ("fixed", "broken", "failing")


def page(request: Request) -> Response:
    """The runs that were picked: scores with intervals, cost, charts, and the items that changed."""
    site, asked = site_of(request), request.query_params
    entries = site.catalog.entries()
    known = {entry.id: entry for entry in entries}
    ids = list(dict.fromkeys(asked.getlist("run")))
    chosen = [known[id_] for id_ in ids if id_ in known][: charts.MOST_RUNS]
    split = asked.get("split", "")
    values = _compared(chosen, split if split in ("test", "val", "train") else None, request) if chosen else {}
    briefs = [(entry, site.catalog.brief(entry)) for entry in entries[:200]]
    return site.renderer.page(
        request,
        "compare.html",
        chosen=chosen,
        briefs=[brief for _, brief in briefs if brief is not None],
        chosen_ids={entry.id for entry in chosen},
        missing=len(ids) - len(chosen),
        split=split,
        **{**_NOTHING, **values},
    )


_NOTHING: dict[str, Any] = {
    "problem": "",
    "contest": None,
    "shared": "",
    "drawn": [],
    "flips": None,
    "kind": "fixed",
    "kinds": _KINDS,
    "shown": [],
    "pager": Pager(1, 0, _FLIPS),
    "here": lambda page: "",
    "choose": lambda kind: "",
    "pair": ("", ""),
}


def _compared(chosen: list[Entry], split: str | None, request: Request) -> dict[str, Any]:
    site = site_of(request)
    runs: list[tuple[str, Curves]] = []
    for entry in chosen:
        try:
            view = site.catalog.view(entry)
        except (FolderError, OSError):
            continue
        if view.rows:
            runs.append((entry.shown, curves_of(view)))
    figure = charts.runs_chart(runs) if len(runs) > 1 else ""
    try:
        known = {entry.root: entry for entry in chosen}
        candidates = entrants_of([*known], split, lambda root: site.catalog.view(known[root]))
    except (FolderError, OSError) as error:
        return {"problem": str(error), "drawn": [figure] if figure else []}
    result = contest(candidates)
    arms = [entrant.result for entrant in result.entrants if entrant.split == candidates[0].split]
    lifts = charts.lift_chart(arms) if len(arms) > 1 else ""
    return {
        "contest": result,
        "shared": link("/comparison.html", run=[entry.id for entry in chosen], split=split),
        "drawn": [drawn for drawn in (figure, lifts) if drawn],
        **_changed(candidates, chosen, split, request),
    }


def _changed(candidates: list[Candidate], chosen: list[Entry], split: str | None, request: Request) -> dict[str, Any]:
    """The items that changed between the first two that were measured on the same items."""
    first = candidates[0]
    other = next((candidate for candidate in candidates[1:] if candidate.split == first.split), None)
    if other is None:
        return {}
    found: Flips = flips(first.answers, other.answers)
    kind = request.query_params.get("kind", "fixed")
    kind = kind if kind in _KINDS else "fixed"
    rows = getattr(found, kind)
    pager, allowed = Pager(page_number(request), len(rows), _FLIPS), site_of(request).renderer.allowance()
    ids = [entry.id for entry in chosen]
    return {
        "flips": found,
        "kind": kind,
        "shown": [_flip(flip, allowed) for flip in rows[pager.offset : pager.offset + _FLIPS]],
        "pager": pager,
        "pair": (first.name, other.name),
        "choose": lambda name: link("/compare", run=ids, split=split, kind=name),
        "here": lambda number: link("/compare", run=ids, split=split, kind=kind, page=number),
    }


def _flip(flip: Any, allowed: Allowance) -> dict[str, str]:
    return {
        "id": flip.id[:300],
        "question": allowed.take(flip.question, 600),
        "expected": allowed.take(flip.expected, 300),
        "before": allowed.take(flip.before.answer, 900),
        "after": allowed.take(flip.after.answer, 900),
    }
