"""The items of a run: what was answered under which skill, and one item with its conversation and reflection."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response

from skillopt.report.answers import Outcome, expected, question
from skillopt.report.conversation import role_and_words
from skillopt.report.run import RunView
from skillopt.report.steps import Reflection
from skillopt.values import fraction, label, text
from skillopt.web.pages.run import head
from skillopt.web.render import Allowance, fits_address
from skillopt.web.site import Pager, Problem, link, page_number, site_of, view_of

_ITEMS = 50
_MESSAGES = 40
_CHOICE = 40_000
"""Characters of all names of passes on a page."""
_STEP = re.compile(r"steps/step_(\d{1,9})/")
_REFLECTIONS = 200
"""How many reflections of a step are looked through for an item."""
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
        passes=[(each, pass_label(each)) for each in _choice(names, name)],
        name=name,
        only=outcome,
        rows=[
            {**_row(row), "link": _address(entry.id, name, text(row.get("id")), place)}
            for row, place in zip(page.rows, page.places, strict=True)
        ],
        whole=page.whole,
        pager=Pager(pager.page, page.total, _ITEMS),
        here=lambda number: link(base, **{"pass": name, "only": outcome, "page": number}),
    )


def one(request: Request) -> Response:
    """One item of a pass."""
    entry, view = view_of(request)
    asked = request.query_params
    name, word = asked.get("pass", ""), asked.get("row", "")
    place = int(word) if word.isascii() and word.isdigit() and len(word) < 9 else None
    row = view.result(name, asked.get("id", "")) if place is None else view.result_at(name, place)
    if row is None:
        raise Problem(404, "This run has no such item.")
    id_ = text(row.get("id"))
    address = _address(entry.id, name, id_, place)
    allowed = site_of(request).renderer.allowance()
    told = view.conversation(name, id_)
    pager = Pager(page_number(request), len(told.messages), _MESSAGES)
    return site_of(request).renderer.page(
        request,
        "item.html",
        **head(request, entry, view, "Items"),
        name=name,
        label=pass_label(name),
        id=text(row.get("id"))[:300],
        row=_row(row, allowed),
        more=[(str(key)[:80], _shown(value, allowed)) for key, value in row.items() if key not in _SHOWN][:40],
        messages=[_message(message, allowed) for message in told.messages[pager.offset : pager.offset + _MESSAGES]],
        problem=told.problem,
        calls=link(f"/run/{entry.id}/calls", item=id_) if view.has_journal and fits_address(id_) else None,
        reflections=_reflections(view, name, id_, allowed),
        pager=pager,
        back=link(f"/run/{entry.id}/items", **{"pass": name}),
        here=lambda number: f"{address}&page={number}",
    )


def _choice(names: Sequence[str], chosen: str) -> list[str]:
    """The passes that a page offers: the last ones, as many as it can hold, and the one that is shown."""
    sizes = accumulate(len(name) + 20 for name in reversed(names))
    kept = sum(size <= _CHOICE for size in sizes)
    return [*([chosen] if chosen in names[: len(names) - kept] else []), *names[len(names) - kept :]]


def _address(run: str, name: str, id_: str, place: int | None) -> str:
    """Where an item is shown: by its id, or by its place in the pass where an address cannot hold that."""
    by_id = place is None or fits_address(id_)
    return link(f"/run/{run}/item", **{"pass": name, **({"id": id_} if by_id else {"row": str(place)})})


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
    role, words = role_and_words(message)
    return {"role": role[:80], "content": allowed.take(words, 20_000)}


def _reflections(view: RunView, name: str, id_: str, allowed: Allowance) -> list[dict[str, Any]]:
    """What the analysts made of the item, in the step of the pass."""
    step = _STEP.match(f"{name}/")
    found = view.step(int(step[1])) if step else None
    if found is None or name == found.selection_pass:
        return []
    mine: Sequence[Reflection] = [each for each in found.reflections[:_REFLECTIONS] if id_ in each.item_ids]
    return [
        {
            "it": each,
            "step": found.number,
            "reasoning": allowed.take(each.reasoning, 6000),
            "edits": [
                (label(edit.get("op") or edit.get("type")), allowed.take(text(edit.get("content")), 2000))
                for edit in each.edits[:20]
            ],
        }
        for each in mine[:8]
    ]
