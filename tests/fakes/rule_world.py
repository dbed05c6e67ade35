"""A tiny world for whole runs: the target answers well once the skill holds a rule that the optimizer proposes.

Item ``q<n>`` is answered right without the rule when n is a multiple of three, with the rule always.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fakes.openai_server import Received, Step, text

RULE = "- ANSWER-IN-CAPITALS: write the code in capital letters."
_CODE = re.compile(r"code-(\d+)")


def write_split(root: Path, train: int = 8, val: int = 6, test: int = 6) -> Path:
    """A SearchQA split folder whose items are numbered through."""
    number = 0
    for split, size in (("train", train), ("val", val), ("test", test)):
        rows = []
        for _ in range(size):
            number += 1
            question = f"What does code-{number} stand for?"
            rows.append({"id": f"q{number}", "question": question, "context": "no clue", "answers": [f"A{number}"]})
        (root / split).mkdir(parents=True, exist_ok=True)
        (root / split / "items.json").write_text(json.dumps(rows), encoding="utf-8")
    return root


def world(delay: float = 0.0, broken: Callable[[Received], Step | None] = lambda _: None) -> Callable[[Received], Step]:
    """The script of a server; ``broken`` may answer a request in its place."""

    def step_of(received: Received) -> Step:
        step = broken(received)
        return step if step is not None else text(_reply(received.body), delay=delay)

    return step_of


def _reply(body: dict[str, Any]) -> str:
    messages = body["messages"]
    user = messages[-1]["content"]
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    return answer(role_of(body), system, user)


def answer(role: str, system: str, user: str) -> str:
    """What the model of a role says."""
    if "single word OK" in user:
        return "OK"
    if role == "optimizer":
        return json.dumps(_optimizer(system))
    number = int(_CODE.findall(user)[-1])
    good = "ANSWER-IN-CAPITALS" in system or number % 3 == 0
    return f"<answer>{f'A{number}' if good else 'no idea'}</answer>"


def role_of(body: dict[str, Any]) -> str:
    """The role that a request was sent for, by the name of the model."""
    return "optimizer" if body["model"] == "teacher" else "target"


def _optimizer(system: str) -> dict[str, Any]:
    edits = [{"op": "append", "target": "", "content": RULE}]
    patch = {"reasoning": "they are all lower case", "edits": edits}
    if '"failure_summary"' in system:
        summary = [{"failure_type": "case", "count": 2, "description": "wrong case"}]
        return {"batch_size": 2, "failure_summary": summary, "patch": patch}
    if '"success_patterns"' in system:
        return {"batch_size": 2, "success_patterns": [], "patch": {"reasoning": "", "edits": []}}
    if '"selected_indices"' in system:
        return {"reasoning": "", "selected_indices": [0]}
    if '"slow_update_content"' in system:
        return {"reasoning": "", "slow_update_content": "Keep the capitals."}
    if '"meta_skill_content"' in system:
        return {"reasoning": "", "meta_skill_content": "Propose few edits."}
    return patch
