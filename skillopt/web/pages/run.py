"""A run: overview with its charts, calls and cost, events, the log of its process, its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skillopt.report import charts
from skillopt.report.files import parse_row, tail_lines
from skillopt.report.final import curves_of, read_final
from skillopt.report.folder import EVENTS
from skillopt.report.run import RunView
from skillopt.report.values import fraction, mapping, text, whole
from skillopt.run.calls import stored_calls
from skillopt.run.folder import FolderError
from skillopt.web.catalog import Entry
from skillopt.web.render import Allowance
from skillopt.web.site import Pager, link, page_number, site_of, tabs, view_of

_CALLS = 20
_EVENTS = 200
_MOST_EVENTS = 4000
_EVENT_BYTES = 8 << 20


def head(request: Request, entry: Entry, view: RunView, tab: str) -> dict[str, Any]:
    """What the top of every page of a run shows."""
    site = site_of(request)
    state = site.catalog.live(entry)
    return {
        "entry": entry,
        "view": view,
        "tab": tab,
        "tabs": tabs(entry, view.kind),
        "base": f"/run/{entry.id}",
        "progress": state.progress,
        "running": state.running,
        "live_version": state.version,
        "job": site.jobs.at_work(entry.root) if state.running else None,
        "can_resume": view.kind == "training" and view.has_journal and view.status in ("stopped", "new"),
    }


def overview(request: Request) -> Response:
    """Scores, charts and the final comparison."""
    entry, view = view_of(request)
    values: dict[str, Any] = {"drawn": [], "finals": [], "rows": view.rows[-8:][::-1], "facts": _facts(view)}
    if view.kind == "training":
        found, total = curves_of(view), view.total_steps
        drawn = (
            charts.score_chart(found, total=total),
            charts.tokens_chart(found, total=total),
            charts.budget_chart(found, total=total),
            charts.time_chart(found, total=total),
            charts.cost_chart(found, total=total),
        )
        values["drawn"] = [figure for figure in drawn if figure]
        finals = [final for final in (read_final(view, "test"), read_final(view, "val")) if final is not None]
        values["finals"] = [(final, charts.lift_chart(final.arms, key=f"lift-{final.split}")) for final in finals]
    values["spent"] = view.spending()
    site = site_of(request)
    return site.renderer.page(request, "overview.html", **head(request, entry, view, "Overview"), **values)


def calls(request: Request) -> Response:
    """What each stage cost, and every call word for word."""
    entry, view = view_of(request)
    stage, part = request.query_params.get("stage") or None, request.query_params.get("part") or None
    charged = view.charges()
    total = sum(c.calls for c in charged if stage in (None, c.stage) and part in (None, c.part))
    pager = Pager(page_number(request), total, _CALLS)
    allowed, problem, shown = Allowance(), "", []
    try:
        found = stored_calls(entry.root, stage, part)
        for call in islice(found, pager.offset, pager.offset + _CALLS):
            shown.append(_call(call, allowed))
    except (FolderError, ValueError, TypeError) as error:
        problem = str(error)
    base = f"/run/{entry.id}/calls"
    return site_of(request).renderer.page(
        request,
        "calls.html",
        **head(request, entry, view, "Calls"),
        spent=view.spending(),
        charges=_by_stage(view),
        stages=sorted({charge.stage for charge in charged}),
        parts=list(dict.fromkeys(charge.part for charge in charged)),
        stage=stage or "",
        part=part or "",
        calls=shown,
        problem=problem,
        pager=pager,
        here=lambda page: link(base, stage=stage, part=part, page=page),
    )


def events(request: Request) -> Response:
    """What happened, the newest first."""
    entry, view = view_of(request)
    every = request.query_params.get("items") == "1"
    parsed = map(parse_row, tail_lines(entry.root, EVENTS, _EVENT_BYTES))
    kept = [event for event in parsed if event is not None and (every or event.get("event") != "item_done")]
    found = kept[: -_MOST_EVENTS - 1 : -1]
    pager = Pager(page_number(request), len(found), _EVENTS)
    rows = [_event(event) for event in found[pager.offset : pager.offset + _EVENTS]]
    base = f"/run/{entry.id}/events"
    return site_of(request).renderer.page(
        request,
        "events.html",
        **head(request, entry, view, "Events"),
        events=rows,
        every=every,
        pager=pager,
        here=lambda page: link(base, items="1" if every else "", page=page),
    )


def log(request: Request) -> Response:
    """What the processes of the run printed that were started here."""
    entry, view = view_of(request)
    site, allowed = site_of(request), Allowance()
    found = [
        (job, site.jobs.alive(job), allowed.take("\n".join(site.jobs.log(job)), 60_000))
        for job in site.jobs.of_folder(entry.root)[:5]
    ]
    return site.renderer.page(request, "log.html", **head(request, entry, view, "Log"), logs=found)


def config(request: Request) -> Response:
    """The configuration of the run, as it stands in its folder."""
    entry, view = view_of(request)
    rows = sorted((str(key), _value(value)) for key, value in view.config.items())[:600]
    return site_of(request).renderer.page(request, "config.html", **head(request, entry, view, "Config"), rows=rows)


def _facts(view: RunView) -> dict[str, Any]:
    """The numbers on top of the overview."""
    if view.kind == "evaluation":
        told = view.evaluation
        names = ("split", "hard", "soft", "n", "n_items", "errors")
        return {name: told[name] for name in names if isinstance(told.get(name), (int, float, str))}
    baseline, best = view.measured("seed", "val"), view.measured("best", "val")
    return {
        "baseline": baseline,
        "best": best,
        "test": view.measured("best", "test"),
        "test_baseline": view.measured("seed", "test"),
        "lift": mapping(view.summary.get("test_lift")),
        "accepted": sum("accept" in text(row.get("action")) for row in view.rows),
        "best_step": whole(view.pointers.get("best_step") or view.summary.get("best_step")),
    }


def _by_stage(view: RunView) -> list[dict[str, Any]]:
    """Calls, tokens and dollars by role and stage, over all parts."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for charge in view.charges():
        row = sums.setdefault(
            (charge.role, charge.stage),
            {"role": charge.role, "stage": charge.stage, "calls": 0, "prompt": 0, "completion": 0, "usd": 0.0},
        )
        row["calls"] += charge.calls
        row["prompt"] += charge.prompt_tokens
        row["completion"] += charge.completion_tokens
        row["usd"] = None if row["usd"] is None or charge.usd is None else row["usd"] + charge.usd
    return [sums[key] for key in sorted(sums)]


def _call(call: Mapping[str, Any], allowed: Allowance) -> dict[str, Any]:
    messages = [
        (text(message.get("role")), allowed.take(text(message.get("content")), 6000))
        for message in call.get("messages", ())[:40]
    ]
    return {**call, "messages": messages, "reply": allowed.take(text(call.get("reply")), 6000)}


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in event.items() if key not in ("at", "event", "row")}
    row = event.get("row")
    if isinstance(row, dict):
        rest |= {key: row[key] for key in ("step", "action", "current_score", "best_score") if key in row}
    told = "  ".join(f"{key}={_value(value)}" for key, value in list(rest.items())[:12])
    return {"at": fraction(event.get("at")), "kind": text(event.get("event"))[:60], "told": told[:600]}


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    import json

    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shown if len(shown) <= 400 else shown[:399] + "…"
