"""The items of a run: what was answered under which skill, and one item with its conversation and reflection."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response

from skillopt.report.comparison import expected, question
from skillopt.report.run import Outcome, RunView
from skillopt.report.steps import Reflection
from skillopt.report.values import fraction, text
from skillopt.web.pages.run import head
from skillopt.web.render import Allowance
from skillopt.web.site import Pager, Problem, link, page_number, site_of, view_of

_ITEMS = 50
_MESSAGES = 40
_STEP = re.compile(r"steps/step_(\d+)/")
_SHOWN = frozenset({"id", "hard", "soft", "status", "fail_reason", "predicted_answer", "response", "question"})


def table(request: Request) -> Response:
    """The items of one pass."""
    entry, view = view_of(request)
    names, asked = view.passes, request.query_params
    name = asked.get("pass", names[-1] if names else "")
    if names and name not in names:
        raise Problem(404, "This run has no such pass.")
    only = asked.get("only", "all")
    outcome: Outcome = only if only in get_args(Outcome) else "all"  # type: ignore[assignment]
    pager = Pager(page_number(request), 0, _ITEMS)
    page = view.results(name, pager.offset, _ITEMS, outcome)
    base = f"/run/{entry.id}/items"
    return site_of(request).renderer.page(
        request,
        "items.html",
        **head(request, entry, view, "Items"),
        passes=[(each, pass_label(each)) for each in names],
        name=name,
        only=outcome,
        rows=[_row(row) for row in page.rows],
        item=lambda id_: link(f"/run/{entry.id}/item", **{"pass": name, "id": id_}),
        pager=Pager(pager.page, page.total, _ITEMS),
        here=lambda number: link(base, **{"pass": name, "only": outcome, "page": number}),
    )


def one(request: Request) -> Response:
    """One item of a pass."""
    entry, view = view_of(request)
    name, id_ = request.query_params.get("pass", ""), request.query_params.get("id", "")
    row = view.result(name, id_)
    if row is None:
        raise Problem(404, "This run has no such item.")
    allowed = Allowance()
    told = view.conversation(name, id_)
    pager = Pager(page_number(request), len(told.messages), _MESSAGES)
    base = f"/run/{entry.id}/item"
    return site_of(request).renderer.page(
        request,
        "item.html",
        **head(request, entry, view, "Items"),
        name=name,
        label=pass_label(name),
        id=id_,
        row=_row(row, allowed),
        more=[(str(key)[:80], _shown(value, allowed)) for key, value in row.items() if key not in _SHOWN][:40],
        messages=[_message(message, allowed) for message in told.messages[pager.offset : pager.offset + _MESSAGES]],
        problem=told.problem,
        reflections=_reflections(view, name, id_, allowed),
        pager=pager,
        back=link(f"/run/{entry.id}/items", **{"pass": name}),
        here=lambda number: link(base, **{"pass": name, "id": id_, "page": number}),
    )


def pass_label(name: str) -> str:
    """A pass for people. Pure."""
    fixed = {
        "": "evaluation",
        "selection_eval_baseline": "selection items, seed",
        "final_selection_eval": "selection items, final",
        "test_eval_baseline": "test items, seed",
        "test_eval": "test items, best",
        "test_eval_final": "test items, final",
    }
    if name in fixed:
        return fixed[name]
    step = _STEP.match(f"{name}/")
    if step:
        rest = name.partition("/")[2].partition("/")[2].replace("_", " ").replace("selection eval", "selection items")
        return f"step {int(step[1])}: {rest.replace('/', ', ')}"
    return name.replace("/", ", ").replace("_", " ")


def _row(row: Mapping[str, Any], allowed: Allowance | None = None) -> dict[str, Any]:
    def cut(value: str, most: int) -> str:
        return allowed.take(value, most) if allowed else value[:most]

    hard = fraction(row.get("hard"))
    return {
        "id": text(row.get("id"))[:300],
        "hard": hard,
        "soft": fraction(row.get("soft")),
        "state": "unmeasured" if hard is None else "passed" if hard >= 1 else "failed",
        "question": cut(question(row), 8000 if allowed else 400),
        "expected": cut(expected(row), 4000 if allowed else 200),
        "answer": cut(text(row.get("predicted_answer")) or text(row.get("response")), 8000 if allowed else 200),
        "response": cut(text(row.get("response")), 8000) if allowed else "",
        "reason": cut(text(row.get("fail_reason")), 2000 if allowed else 200),
    }


def _shown(value: Any, allowed: Allowance) -> str:
    return allowed.take(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), 2000)


def _message(message: Mapping[str, Any], allowed: Allowance) -> dict[str, Any]:
    role = text(message.get("role") or message.get("type") or message.get("event") or "entry")[:40]
    content = message.get("content")
    if not isinstance(content, str):
        rest = {key: value for key, value in message.items() if key != "role"}
        content = json.dumps(content if content is not None else rest, ensure_ascii=False, indent=1, default=str)
    return {"role": role, "content": allowed.take(content, 20_000)}


def _reflections(view: RunView, name: str, id_: str, allowed: Allowance) -> list[dict[str, Any]]:
    """What the analysts made of the item, in the step of the pass."""
    step = _STEP.match(f"{name}/")
    found = view.step(int(step[1])) if step else None
    if found is None or name == found.selection_pass:
        return []
    mine: Sequence[Reflection] = [each for each in found.reflections if id_ in each.item_ids]
    return [
        {
            "it": each,
            "step": found.number,
            "reasoning": allowed.take(each.reasoning, 6000),
            "edits": [
                (text(edit.get("op") or edit.get("type")), allowed.take(text(edit.get("content")), 2000))
                for edit in each.edits[:20]
            ],
        }
        for each in mine[:8]
    ]
