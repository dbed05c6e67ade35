"""The calls that a run's journal holds: what was asked and what came back, word for word."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skillopt.run.folder import FolderError, reading

_CALLS = (
    "SELECT key, role, stage, owner, messages, text, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens "
    "FROM replies WHERE (?1 IS NULL OR stage = ?1) AND (?2 IS NULL OR owner = ?2) ORDER BY owner, stage, key"
)


def stored_calls(root: Path, stage: str | None = None, part: str | None = None) -> Iterator[dict[str, Any]]:
    """Each call as ``{key, role, stage, part, messages: [{role, content}], reply, …tokens}``, read without the lock.

    ``part`` is what the call is charged to: ``baseline``, ``step_0001``, ``epoch_01``, ``test``; None while it belongs
    to work that is not finished. Raises ``FolderError`` when there is no journal that can be read.
    """
    try:
        with reading(root) as db:
            if db is None:
                raise FolderError(f"{root} has no journal: it is no run folder of this version")
            for row in db.execute(_CALLS, (stage, part)):
                yield _call(db, row)
    except sqlite3.Error as error:
        raise FolderError(f"the journal in {root} cannot be read ({error})") from error


def _call(db: sqlite3.Connection, row: tuple[Any, ...]) -> dict[str, Any]:
    key, role, stage, part, messages, reply, prompt, completion, cached, reasoning = row
    asked = []
    for speaker, digest in json.loads(messages):
        (content,) = db.execute("SELECT content FROM texts WHERE hash=?", (digest,)).fetchone()
        asked.append({"role": speaker, "content": content})
    return {
        "key": key,
        "role": role,
        "stage": stage,
        "part": part,
        "messages": asked,
        "reply": reply,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cached_tokens": cached,
        "reasoning_tokens": reasoning,
    }
