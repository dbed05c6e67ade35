"""A run: overview with its charts, calls and cost, events, the log of its process, its configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skillopt.report import charts
from skillopt.report.content import arm
from skillopt.report.files import parse_row, tail_lines
from skillopt.report.final import FinalComparison, curves_of, read_final
from skillopt.report.run import RunView
from skillopt.report.spending import by_stage
from skillopt.report.step_lines import StepLine, steps_of
from skillopt.run.calls import count_calls, stored_calls
from skillopt.run.events import EVENTS
from skillopt.run.folder import FolderError
from skillopt.values import fraction, label, text, whole
from skillopt.web.catalog import Entry
from skillopt.web.render import Allowance
from skillopt.web.site import Pager, link, page_number, site_of, tabs, view_of

_CALLS, _CALL_TEXT = 20, 20_000
_MOST_STAGES, _MOST_NAMES = 100, 2_000
_EVENTS = 200
_MOST_KEYS = 600
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
        "env": text(view.config.get("env")),
        "target": text(view.config.get("target_model")),
        "optimizer": text(view.config.get("optimizer_model")),
        "progress": state.progress,
        "running": state.running,
        "live_version": state.version,
        "job": site.jobs.at_work(entry.root) if state.running else None,
        "can_resume": view.kind == "training" and view.has_journal and view.status in ("stopped", "new"),
    }


def overview(request: Request) -> Response:
    """Scores, charts and the final comparison."""
    entry, view = view_of(request)
    values: dict[str, Any] = {"drawn": [], "finals": []}
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
        lines = steps_of(view)
        values |= {"lines": lines[:-9:-1], "facts": _facts(view, lines, finals)}
    else:
        values["facts"] = _evaluated(view)
    values["spent"] = view.spending()
    site = site_of(request)
    return site.renderer.page(request, "overview.html", **head(request, entry, view, "Overview"), **values)


def calls(request: Request) -> Response:
    """What each stage cost, and every call word for word."""
    entry, view = view_of(request)
    stage, part, item = (request.query_params.get(name) or None for name in ("stage", "part", "item"))
    charged = view.charges()
    pager = Pager(page_number(request), count_calls(entry.root, stage, part, item), _CALLS)
    allowed, problem, shown = site_of(request).renderer.allowance(), "", []
    try:
        found = stored_calls(entry.root, stage, part, item, offset=pager.offset, limit=_CALLS, most=_CALL_TEXT)
        shown = [_call(call, allowed) for call in found]
    except FolderError as error:
        problem = str(error)
    base = f"/run/{entry.id}/calls"
    return site_of(request).renderer.page(
        request,
        "calls.html",
        **head(request, entry, view, "Calls"),
        spent=view.spending(),
        charges=by_stage(charged)[:_MOST_STAGES],
        stages=_names(sorted({charge.stage for charge in charged})),
        parts=_names(charge.part for charge in charged),
        stage=stage or "",
        part=part or "",
        about=item or "",
        calls=shown,
        problem=problem,
        pager=pager,
        here=lambda page: link(base, stage=stage, part=part, item=item, page=page),
    )


def _names(found: Iterable[str]) -> list[str]:
    """What a call can be asked for by; a name that no run gives is left out."""
    return [name for name in dict.fromkeys(found) if len(name) <= 40][:_MOST_NAMES]


def events(request: Request) -> Response:
    """What happened, the newest first."""
    entry, view = view_of(request)
    every = request.query_params.get("items") == "1"
    parsed = map(parse_row, tail_lines(entry.root, EVENTS, _EVENT_BYTES))
    kept = [event for event in parsed if event is not None and (every or event.get("event") != "item_done")]
    found = kept[: -_MOST_EVENTS - 1 : -1]
    pager = Pager(page_number(request), len(found), _EVENTS)
    rows = [_event(event, site_of(request).renderer.mask) for event in found[pager.offset : pager.offset + _EVENTS]]
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
    site = site_of(request)
    allowed = site.renderer.allowance()
    found = [
        (job, site.jobs.alive(job), allowed.take("\n".join(site.jobs.log(job)), 60_000))
        for job in site.jobs.of_folder(entry.root)[:5]
    ]
    return site.renderer.page(request, "log.html", **head(request, entry, view, "Log"), logs=found)


def config(request: Request) -> Response:
    """The configuration of the run, as it stands in its folder."""
    entry, view = view_of(request)
    allowed = site_of(request).renderer.allowance()
    found = sorted((str(key), _value(value, allowed.mask)) for key, value in view.config.items())[:_MOST_KEYS]
    rows = [(allowed.take(key, 120), allowed.take(value, 400)) for key, value in found]
    return site_of(request).renderer.page(request, "config.html", **head(request, entry, view, "Config"), rows=rows)


def _evaluated(view: RunView) -> dict[str, Any]:
    """The numbers on top of an evaluation."""
    told: Mapping[str, Any] = view.evaluation
    names = ("split", "hard", "soft", "n", "n_items", "errors")
    found = {name: told.get(name) for name in names}
    told = {name: label(value) if isinstance(value, str) else value for name, value in found.items()}
    return {name: value for name, value in told.items() if isinstance(value, str) or fraction(value) is not None}


def _facts(view: RunView, lines: Sequence[StepLine], finals: Sequence[FinalComparison]) -> dict[str, Any]:
    """The numbers on top of a training run."""
    best = next((arm(final, "best") for final in finals if final.split == "test"), None)
    return {
        "baseline": view.measured("seed", "val"),
        "best": view.measured("best", "val"),
        "test": view.measured("best", "test"),
        "test_baseline": view.measured("seed", "test"),
        "lift": best.lift if best is not None else None,
        "accepted": sum(line.fate == "accepted" for line in lines),
        "best_step": whole(view.pointers.get("best_step") or view.summary.get("best_step")),
    }


def _call(call: Mapping[str, Any], allowed: Allowance) -> dict[str, Any]:
    messages = [
        (label(message.get("role"), 80), allowed.take(text(message.get("content")), 6000))
        for message in call.get("messages", ())[:40]
    ]
    reply = allowed.take(text(call.get("reply")), 6000)
    return {"problem": "", **call, "item": text(call.get("item")), "messages": messages, "reply": reply}


def _event(event: Mapping[str, Any], mask: Callable[[str], str]) -> dict[str, Any]:
    rest = {key: value for key, value in event.items() if key not in ("at", "event", "row")}
    row = event.get("row")
    if isinstance(row, dict):
        rest |= {key: row[key] for key in ("step", "action", "current_score", "best_score") if key in row}
    told = mask("  ".join(f"{key}={_value(value, mask)}" for key, value in list(rest.items())[:12]))
    return {"at": fraction(event.get("at")), "kind": text(event.get("event"))[:60], "told": told[:600]}


def _value(value: Any, mask: Callable[[str], str]) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    shown = mask(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    return shown if len(shown) <= 400 else shown[:399] + "…"
