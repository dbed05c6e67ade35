"""The row of an item in ``results.jsonl``. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from typing import Any

from skillopt.types import Failure, Rollout, Score


def result_row(rollout: Rollout) -> dict[str, Any]:
    """A scored rollout with numbers in ``hard`` and ``soft``, or a failed one with null there and an ``error``.

    ``call_key`` is the journal key of the reply that was scored, where there is one; no detail may say otherwise.
    All values are plain JSON: no NaN, no half surrogates, text for what JSON has no word for.
    """
    outcome = rollout.outcome
    body = _failed(outcome) if isinstance(outcome, Failure) else _scored(outcome, rollout.answer)
    row = {"id": _plain(rollout.item.id), **{str(key): _plain(value) for key, value in body.items()}}
    return {**row, "call_key": rollout.call} if rollout.call else row


def _scored(score: Score, answer: str) -> dict[str, Any]:
    common = {
        "predicted_answer": answer,
        "fail_reason": score.reason,
        "agent_ok": score.status != "agent_error",
        "n_turns": 1,
    }
    fixed = {"hard": _number(score.hard), "soft": score.soft, "status": score.status}
    # The first mapping sets the order of the keys, the last one has the word on those that no detail may change.
    return {**fixed, **common, **{key: value for key, value in score.detail.items() if key != "id"}, **fixed}


def _failed(failure: Failure) -> dict[str, Any]:
    return {
        "hard": None,
        "soft": None,
        "status": failure.status,
        "error": {"kind": failure.kind, "message": failure.message},
        "fail_reason": f"{failure.status}: {failure.message}",
        "agent_ok": False,
    }


def _number(value: float) -> float:
    """Pass and fail as the whole numbers that readers of the file know."""
    return int(value) if value in (0, 1) else value


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int) or (isinstance(value, str) and value.isascii()):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray):
        # A set has no order of its own; one run must write what another one does.
        entries = [_plain(entry) for entry in value]
        return sorted(entries, key=repr) if isinstance(value, Set) else entries
    return _plain(str(value))
