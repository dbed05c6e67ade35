"""The steps of a run: a table, and what the six stages of one step left behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skillopt.report.bounds import BoundedDiff
from skillopt.report.final import curves_of
from skillopt.report.run import RunView
from skillopt.report.step_lines import steps_of
from skillopt.report.steps import StepView
from skillopt.values import fraction, label, text
from skillopt.web.pages.run import head
from skillopt.web.pages.skills import page_diff
from skillopt.web.render import Allowance
from skillopt.web.site import Pager, Problem, link, page_number, site_of, view_of

_STEPS = 50
_REFLECTIONS = 20
_EDITS = 60


def table(request: Request) -> Response:
    """All steps, the newest first."""
    entry, view = view_of(request)
    lines = steps_of(view)[::-1]
    pager = Pager(page_number(request), len(lines), _STEPS)
    base = f"/run/{entry.id}/steps"
    return site_of(request).renderer.page(
        request,
        "steps.html",
        **head(request, entry, view, "Steps"),
        lines=lines[pager.offset : pager.offset + _STEPS],
        pager=pager,
        here=lambda page: link(base, page=page),
    )


def one(request: Request) -> Response:
    """One step: rollouts, reflections, merged and ranked edits, the candidate and the gate."""
    entry, view = view_of(request)
    word = request.path_params["step"]
    number = int(word) if word.isascii() and word.isdigit() and len(word) < 9 else 0
    step = view.step(number)
    if step is None:
        raise Problem(404, f"This run has no step {word[:20]} yet.")
    pager = Pager(page_number(request), len(step.reflections), _REFLECTIONS)
    allowed = site_of(request).renderer.allowance()
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
        more_edits=max(0, len(step.edits) - _EDITS) + step.left_out,
        changes=_candidate(request, view, step, number),
        reflections=[_reflection(r, allowed) for r in step.reflections[pager.offset : pager.offset + _REFLECTIONS]],
        merged=text(step.merged.get("reasoning"))[:4000],
        gate=_gate(step),
        metric=view.gate_metric.name,
        score=next((point for point in curves_of(view).gate if point.step == number), None),
        pager=pager,
        here=lambda page: link(base, page=page),
    )


def _passes(view: RunView, step: StepView) -> list[dict[str, Any]]:
    names = [*step.rollout_passes, *([step.selection_pass] if step.selection_pass else [])]
    return [{"name": name, "means": view.means(name), "gate": name == step.selection_pass} for name in names]


def _edit(edit: Any, allowed: Allowance) -> dict[str, Any]:
    return {
        "edit": edit,
        "target": allowed.take(edit.target, 1500),
        "content": allowed.take(edit.content, 6000),
        "items": allowed.ids(edit.source_items, 12),
        "more": max(0, len(edit.source_items) - 12),
    }


def _reflection(reflection: Any, allowed: Allowance) -> dict[str, Any]:
    edits = [
        (
            label(edit.get("op") or edit.get("type")),
            allowed.take(text(edit.get("content") or edit.get("instruction")), 1500),
        )
        for edit in reflection.edits[:20]
    ]
    return {
        "it": reflection,
        "reasoning": allowed.take(reflection.reasoning, 3000),
        "reply": allowed.take(reflection.reply, 4000),
        "edits": edits,
        "items": allowed.ids(reflection.item_ids, 40),
    }


def _candidate(request: Request, view: RunView, step: StepView, number: int) -> BoundedDiff | None:
    before = view.skill(number - 1)
    if step.candidate is None or before is None:
        return None
    return page_diff(request, before, step.candidate, f"version {number - 1}", f"candidate of step {number}")


def _gate(step: StepView) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in step.gate.items():
        number = fraction(value)
        if number is not None:
            rows.append((label(key, 80), f"{number:.4g}"))
        elif isinstance(value, str) and value:
            rows.append((label(key, 80), label(value)))
        elif isinstance(value, Mapping):
            inner = ((name, fraction(part)) for name, part in value.items())
            rows += [(label(f"{key} {name}", 80), f"{part:.4g}") for name, part in inner if part is not None]
    return rows[:24]
