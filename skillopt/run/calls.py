"""The calls that a run's journal holds: what was asked and what came back, word for word."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skillopt.run.exchange import shown_prompt, unpack
from skillopt.run.folder import FolderError, reading

_SHOWN = {"tool_calls": "reply_tool_calls", "files": "reply_files"}  # a request has such things too

_CALLS = (
    "SELECT key, role, stage, owner, messages, text, prompt_tokens, completion_tokens, cached_tokens, "
    "reasoning_tokens, {} FROM replies "
    "WHERE (?1 IS NULL OR stage = ?1) AND (?2 IS NULL OR owner = ?2) ORDER BY owner, stage, key"
)


def stored_calls(root: Path, stage: str | None = None, part: str | None = None) -> Iterator[dict[str, Any]]:
    """Each call as ``{key, role, stage, part, messages: [{role, content}], reply, …tokens, cost_usd}``, read without
    the lock. Where there are any, a message has its ``images`` (as digests) and ``tool_calls``, a call its ``tools``
    and the ``files`` that an agent was given, and the answer its ``reply_tool_calls``, ``events``, ``reply_files``.

    ``part`` is what the call is charged to: ``baseline``, ``step_0001``, ``epoch_01``, ``test``; None while it belongs
    to work that is not finished. Raises ``FolderError`` when there is no journal that can be read.
    """
    try:
        with reading(root) as db:
            if db is None:
                raise FolderError(f"{root} has no journal: it is no run folder of this version")
            columns = {row[1] for row in db.execute("PRAGMA table_info(replies)")}
            calls = _CALLS.format("cost_usd, extra" if "extra" in columns else "NULL, NULL")  # a journal of before
            for row in db.execute(calls, (stage, part)):
                yield _call(db, row)
    except sqlite3.Error as error:
        raise FolderError(f"the journal in {root} cannot be read ({error})") from error


def _call(db: sqlite3.Connection, row: tuple[Any, ...]) -> dict[str, Any]:
    key, role, stage, part, messages, reply, prompt, completion, cached, reasoning, cost, blob = row
    entries: list[tuple[str, str, dict[str, Any]]] = []
    for kind, digest, *detail in json.loads(messages):
        (content,) = db.execute("SELECT content FROM texts WHERE hash=?", (digest,)).fetchone()
        entries.append((kind, content, detail[0] if detail else {}))
    return {
        "key": key,
        "role": role,
        "stage": stage,
        "part": part,
        **shown_prompt(entries),
        "reply": reply,
        **({_SHOWN.get(name, name): value for name, value in unpack(blob).items()} if blob else {}),
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cached_tokens": cached,
        "reasoning_tokens": reasoning,
        "cost_usd": cost,
    }
