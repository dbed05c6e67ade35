"""The calls that a run's journal holds: what was asked and what came back, word for word.

A journal may come from anyone: a call that cannot be read is told as such, and hides no other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skillopt.run.exchange import ASKED, shown_prompt, unpack_foreign
from skillopt.run.folder import FolderError, reading
from skillopt.run.schema import LATER
from skillopt.values import count, fraction, parse_json

_SHOWN = {"tool_calls": "reply_tool_calls", "files": "reply_files"}  # a request has such things too
_EXTRA_LIMITS = (4 << 20, 64 << 20)
"""The most bytes of what a reply has beside its text: where texts are cut, and where they are not."""
_MOST_MESSAGES = 1 << 16
_NO_LIMIT = (1 << 31) - 1
_TEXTS_OF_A_CALL = 60

_COLUMNS = (
    "SELECT key, role, stage, owner, messages, substr(text, 1, ?2), prompt_tokens, completion_tokens, cached_tokens, "
    "reasoning_tokens, {cost_usd}, {extra}, {item}, {stored_at} FROM replies WHERE key = ?1"
)
# A key is a digest.
_WHICH = (
    "FROM replies WHERE (?1 IS NULL OR stage = ?1) AND (?2 IS NULL OR owner = ?2) AND (?3 IS NULL OR {item} = ?3) "
    "AND length(key) <= 200"
)


def stored_calls(
    root: Path,
    stage: str | None = None,
    part: str | None = None,
    item: str | None = None,
    *,
    offset: int = 0,
    limit: int = -1,
    most: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Each call as ``{key, role, stage, part, item, at, messages: [{role, content}], reply, …tokens, cost_usd}``, in
    the order of time, read without the lock. Where there are any, a message has its ``images`` (as digests) and
    ``tool_calls``, a call its ``tools`` and the ``files`` that an agent was given, and the answer its
    ``reply_tool_calls``, ``events``, ``reply_files``. A call that cannot be read has a ``problem`` instead.

    ``part`` is what the call is charged to: ``baseline``, ``step_0001``, ``epoch_01``, ``test``; None while it belongs
    to work that is not finished. ``item`` is the id of the item that a target was asked about; None of other calls.
    ``at`` is when the reply came, in seconds since 1970; both are None in a journal that does not tell. ``limit`` many
    are told behind ``offset`` (-1: all), with the first ``most`` characters of each text (None: all). Raises
    ``FolderError`` when there is no journal that can be read.
    """
    with _journal(root) as (db, sql):
        query = sql(f"SELECT key {_WHICH} ORDER BY {{stored_at}}, owner, stage, key LIMIT ?4 OFFSET ?5")
        for key in [key for (key,) in db.execute(query, (stage, part, item, limit, offset))]:
            call = _read(db, sql, key, most)
            if call is not None:
                yield call


def stored_call(root: Path, key: str, most: int | None = None) -> dict[str, Any] | None:
    """The call of a journal key, as ``stored_calls`` tells it; None when the journal does not hold it."""
    with _journal(root) as (db, sql):
        return _read(db, sql, key, most)


def count_calls(root: Path, stage: str | None = None, part: str | None = None, item: str | None = None) -> int:
    """How many calls ``stored_calls`` gives; 0 where there is no journal that can be read."""
    try:
        with _journal(root) as (db, sql):
            row = db.execute(sql(f"SELECT count(*) {_WHICH}"), (stage, part, item)).fetchone()
            return int(row[0])
    except FolderError:
        return 0


@contextmanager
def _journal(root: Path) -> Iterator[tuple[sqlite3.Connection, Callable[[str], str]]]:
    """The journal, and what puts NULL where a query asks for a column that a journal of before lacks."""
    try:
        with reading(root) as db:
            if db is None:
                raise FolderError(f"{root} has no journal: it is no run folder of this version")
            columns = {row[1] for row in db.execute("PRAGMA table_info(replies)")}
            names = {name: name if name in columns else "NULL" for name in LATER}
            yield db, lambda query: query.format(**names)
    except sqlite3.Error as error:
        raise FolderError(f"the journal in {root} cannot be read ({error})") from error


def _read(db: sqlite3.Connection, sql: Callable[[str], str], key: Any, most: int | None) -> dict[str, Any] | None:
    """The call of a key. Raises ``sqlite3.Error`` when the journal as a whole cannot be read."""
    try:
        row = db.execute(sql(_COLUMNS), (key, _NO_LIMIT if most is None else most)).fetchone()
    except sqlite3.DataError as error:  # a value that is too large
        return {**_told((key, *[None] * 13)), "messages": [], "reply": "", "problem": str(error)}
    if row is None:
        return None
    told, messages, reply, blob = _told(row), row[4], row[5], row[11]
    try:
        prompt = shown_prompt([*_entries(db, messages, most)])
        extra = unpack_foreign(blob, _EXTRA_LIMITS[most is None]) if blob is not None else {}
    except ValueError as error:
        return {**told, "messages": [], "reply": _words(reply) or "", "problem": str(error)}
    call = {**told, **prompt, "reply": _words(reply) or ""}
    more = ((_SHOWN.get(name, name), value) for name, value in extra.items())
    return {**call, **{name: value for name, value in more if name not in call}}


def _told(row: tuple[Any, ...]) -> dict[str, Any]:
    """What stands in the columns of a call beside its texts."""
    key, role, stage, part, _, _, prompt, completion, cached, reasoning, cost, _, item, at = row
    names = {"key": key, "role": role, "stage": stage, "part": part, "item": item}
    return {
        **{name: _words(value) for name, value in names.items()},
        "at": fraction(at),
        "prompt_tokens": count(prompt) or 0,
        "completion_tokens": count(completion) or 0,
        "cached_tokens": count(cached) or 0,
        "reasoning_tokens": count(reasoning) or 0,
        "cost_usd": fraction(cost),
    }


def _words(value: Any) -> str | None:
    """The value of a column of texts: SQLite lets any kind stand in any column."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)


def _entries(db: sqlite3.Connection, stored: Any, most: int | None) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The entries of a stored prompt. Raises ``ValueError`` when it is none."""
    entries = parse_json(_words(stored) or "")
    if not isinstance(entries, list) or len(entries) > _MOST_MESSAGES:
        raise ValueError("its messages are no list")
    for place, entry in enumerate(entries):
        kind, digest, detail = [*entry, {}][:3] if isinstance(entry, list) and len(entry) > 1 else (None, None, None)
        if not (isinstance(kind, str) and isinstance(digest, str) and isinstance(detail, dict)):
            raise ValueError("one of its messages is torn")
        size = _NO_LIMIT if most is None or kind == ASKED else most if place < _TEXTS_OF_A_CALL else 0
        row = db.execute("SELECT substr(content, 1, ?2) FROM texts WHERE hash = ?1", (digest, size)).fetchone()
        if row is None:
            raise ValueError("the text of one of its messages is gone")
        yield kind, _words(row[0]) or "", detail
