"""The list of all runs below the roots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skillopt.web.catalog import Brief, Catalog, Entry
from skillopt.web.site import Pager, link, page_number, site_of

SIZE = 50
_KEYS: dict[str, tuple[str, Callable[[Brief], Any]]] = {
    "name": ("Run", lambda brief: brief.entry.shown.lower()),
    "status": ("Status", lambda brief: brief.status),
    "steps": ("Steps", lambda brief: brief.steps),
    "baseline": ("Baseline", lambda brief: brief.baseline),
    "best": ("Best", lambda brief: brief.best),
    "gain": ("Gain", lambda brief: brief.gain),
    "test": ("Test", lambda brief: brief.test),
    "tokens": ("Tokens", lambda brief: brief.tokens),
    "usd": ("Cost", lambda brief: brief.usd),
}


def index(request: Request) -> Response:
    """Runs: the newest first, or sorted by a column."""
    site, asked = site_of(request), request.query_params
    wanted = asked.get("q", "").strip()[:100]
    entries = site.catalog.entries()
    found = [entry for entry in entries if wanted.lower() in entry.shown.lower()]
    column = asked.get("sort", "changed")
    down = asked.get("dir", "down") != "up"
    pager = Pager(page_number(request), len(found), SIZE)
    pager = Pager(min(pager.page, pager.pages), len(found), SIZE)
    if column in _KEYS:
        shown = _sorted(site.catalog, found, column, down)[pager.offset : pager.offset + SIZE]
    else:
        # By time of change, which the folders tell: only the runs of this page are read.
        column, ordered = "changed", found if down else found[::-1]
        shown = _briefs(site.catalog, ordered[pager.offset : pager.offset + SIZE])
    return site.renderer.page(
        request,
        "runs.html",
        briefs=shown,
        total=len(entries),
        found=len(found),
        roots=[str(root) for root in site.settings.roots],
        q=wanted,
        columns=[(name, title, *_next(column, down, name)) for name, title in _titles()],
        pager=pager,
        here=lambda page: link("/", q=wanted, sort=column, dir="" if down else "up", page=page),
        order=lambda name, way: link("/", q=wanted, sort=name, dir=way),
    )


def _titles() -> list[tuple[str, str]]:
    return [*((name, title) for name, (title, _) in _KEYS.items()), ("changed", "Changed")]


def _next(column: str, down: bool, name: str) -> tuple[str, str]:
    """How a column is sorted now (for ``aria-sort``), and the direction that a click on its head asks for."""
    if name != column:
        return "", "up" if name in ("name", "status") else "down"
    return ("descending", "up") if down else ("ascending", "down")


def _briefs(catalog: Catalog, entries: list[Entry]) -> list[Brief]:
    return [brief for brief in map(catalog.brief, entries) if brief is not None]


def _sorted(catalog: Catalog, entries: list[Entry], column: str, down: bool) -> list[Brief]:
    """All runs by a column; those that have no value in it come last in both directions."""
    value = _KEYS[column][1]
    briefs = _briefs(catalog, entries)
    told = [brief for brief in briefs if value(brief) is not None]
    return sorted(told, key=value, reverse=down) + [brief for brief in briefs if value(brief) is None]
