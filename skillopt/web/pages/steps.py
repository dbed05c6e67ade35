"""The steps of a run: a table, and what the six stages of one step left behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skillopt.report.evolution import diff
from skillopt.report.final import curves_of
from skillopt.report.run import RunView
from skillopt.report.steps import StepView
from skillopt.report.values import fraction, text
from skillopt.web.pages.run import head
from skillopt.web.pages.skills import DiffPage, shown_diff
from skillopt.web.render import Allowance
from skillopt.web.site import Pager, Problem, link, page_number, site_of, view_of

_STEPS = 50
_REFLECTIONS = 20
_EDITS = 60


def table(request: Request) -> Response:
    """All steps, the newest first."""
    entry, view = view_of(request)
    rows = view.rows[::-1]
    pager = Pager(page_number(request), len(rows), _STEPS)
    base = f"/run/{entry.id}/steps"
    return site_of(request).renderer.page(
        request,
        "steps.html",
        **head(request, entry, view, "Steps"),
        rows=rows[pager.offset : pager.offset + _STEPS],
        pager=pager,
        here=lambda page: link(base, page=page),
    )


def one(request: Request) -> Response:
    """One step: rollouts, reflections, merged and ranked edits, the candidate and the gate."""
    entry, view = view_of(request)
    number = request.path_params["step"]
    step = view.step(number)
    if step is None:
        raise Problem(404, f"This run has no step {number} yet.")
    pager = Pager(page_number(request), len(step.reflections), _REFLECTIONS)
    allowed = Allowance()
    base = f"/run/{entry.id}/steps/{number}"
    steps = view.steps
    return site_of(request).renderer.page(
        request,
        "step.html",
        **head(request, entry, view, "Steps"),
        step=step,
        number=number,
        before=max((each for each in steps if each < number), default=None),
        after=min((each for each in steps if each > number), default=None),
        passes=_passes(view, step),
        edits=[_edit(edit, allowed) for edit in step.edits[:_EDITS]],
        more_edits=max(0, len(step.edits) - _EDITS),
        changes=_candidate(view, step, number, allowed),
        reflections=[_reflection(r, allowed) for r in step.reflections[pager.offset : pager.offset + _REFLECTIONS]],
        merged=text(step.merged.get("reasoning"))[:4000],
        gate=_gate(step),
        score=next((point for point in curves_of(view).gate if point.step == number), None),
        pager=pager,
        here=lambda page: link(base, page=page),
    )


def _passes(view: RunView, step: StepView) -> list[dict[str, Any]]:
    names = [*step.rollout_passes, *([step.selection_pass] if step.selection_pass else [])]
    found = []
    for name in names:
        scores = [score.hard for score in view.item_scores(name).values()]
        measured = [score for score in scores if score is not None]
        mean = sum(measured) / len(measured) if measured else None
        found.append({"name": name, "n": len(scores), "hard": mean, "gate": name == step.selection_pass})
    return found


def _edit(edit: Any, allowed: Allowance) -> dict[str, Any]:
    return {
        "edit": edit,
        "target": allowed.take(edit.target, 1500),
        "content": allowed.take(edit.content, 6000),
        "items": edit.source_items[:12],
        "more": max(0, len(edit.source_items) - 12),
    }


def _reflection(reflection: Any, allowed: Allowance) -> dict[str, Any]:
    edits = [
        (
            text(edit.get("op") or edit.get("type")),
            allowed.take(text(edit.get("content") or edit.get("instruction")), 1500),
        )
        for edit in reflection.edits[:20]
    ]
    return {
        "it": reflection,
        "reasoning": allowed.take(reflection.reasoning, 3000),
        "reply": allowed.take(reflection.reply, 4000),
        "edits": edits,
        "items": reflection.item_ids[:40],
    }


def _candidate(view: RunView, step: StepView, number: int, allowed: Allowance) -> DiffPage | None:
    before = view.skill(number - 1)
    if step.candidate is None or before is None:
        return None
    return shown_diff(before, step.candidate, f"version {number - 1}", f"candidate of step {number}", allowed, diff)


def _gate(step: StepView) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in step.gate.items():
        number = fraction(value)
        if number is not None:
            rows.append((str(key), f"{number:.4g}"))
        elif isinstance(value, str) and value:
            rows.append((str(key), value))
        elif isinstance(value, Mapping):
            inner = ((name, fraction(part)) for name, part in value.items())
            rows += [(f"{key} {name}", f"{part:.4g}") for name, part in inner if part is not None]
    return rows[:24]
