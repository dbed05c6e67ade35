"""Pages to keep and to send to others: the report of a run, and a comparison, as one file each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from skillopt.report.charts import MOST_RUNS
from skillopt.report.comparison_page import comparison_page
from skillopt.report.content import read_report
from skillopt.report.contest import contest, curves_of_runs, entrants_of
from skillopt.report.page import report_page
from skillopt.run.folder import FolderError
from skillopt.web.site import Problem, site_of, view_of


def report(request: Request) -> Response:
    """The report of a run, as ``skillopt report`` makes it."""
    entry, view = view_of(request)
    try:
        page = report_page(read_report(view, site_of(request).renderer.mask))
    except FolderError as error:
        raise Problem(404, str(error)) from error
    return _file(request, page, f"{entry.root.name}.html")


def comparison(request: Request) -> Response:
    """The comparison of the runs that the address names, as ``skillopt compare --html`` makes it."""
    site, asked = site_of(request), request.query_params
    found = (site.catalog.find(id_) for id_ in dict.fromkeys(asked.getlist("run")[:MOST_RUNS]))
    paths = [entry.root for entry in found if entry is not None]
    try:
        page = _compared(paths, asked.get("split") or None, site.renderer.mask)
    except (FolderError, OSError) as error:
        raise Problem(404, str(error)) from error
    return _file(request, page, "comparison.html")


def _compared(paths: Sequence[Path], split: str | None, mask: Callable[[str], str]) -> str:
    if not paths:
        raise FolderError("choose runs to compare")
    candidates = entrants_of(paths, split)
    return comparison_page(candidates, contest(candidates), curves_of_runs(paths), mask)


def _file(request: Request, page: str, name: str) -> Response:
    """A page as a file to keep: opened here it would be of the dashboard's origin."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in name)
    content = site_of(request).renderer.mask(page).encode("utf-8", "replace")
    return Response(content, media_type="text/html", headers={"content-disposition": f'attachment; filename="{plain}"'})
