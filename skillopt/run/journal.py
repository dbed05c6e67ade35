"""The journal of a run: one SQLite file that holds every reply, every request's cost, and every commit.

A reply is written before it is used, so no paid call is paid twice; errors are never stored as replies. A commit is one
transaction: the record, the files that are rendered from it, and the replies that it is charged with. No secret gets
in: what is stored is masked, and a reply is used as it was stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.models.pricing import DIGITS
from skillopt.models.types import Attempt, Message, Reply, Usage
from skillopt.run import costs
from skillopt.run.costs import RoleCost, Spent, Unpriced
from skillopt.run.exchange import Attachment, message_detail, pack, reply_extra, restored
from skillopt.run.schema import LATER, MIGRATIONS, SCHEMA, VERSION

_REPLY = (
    "SELECT text, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, cost_usd, extra "
    "FROM replies WHERE key=?"
)
_RECENT = 100  # texts whose hash is remembered
# The cost of a stage is NULL, not known, as soon as that of one reply is.
_SUMS = (
    "stage, COUNT(*), SUM(prompt_tokens), SUM(completion_tokens), "
    f"CASE WHEN COUNT(cost_usd) = COUNT(*) THEN ROUND(SUM(cost_usd), {DIGITS}) END"
)


@dataclass(frozen=True, slots=True)
class StageTokens:
    """Tokens of the replies of one stage, and what they cost (US dollars; None where a part of it is not known)."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None = None

    def row(self) -> dict[str, int]:
        return {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }


class JournalError(ValueError):
    """A journal that cannot be used; the message says why and what to do."""


class JournalWriteError(OSError):
    """The journal cannot be written, for want of disk space as a rule. What was written before is whole."""


class Journal:
    """One open journal. Not thread-safe: it belongs to one event loop. ``mask`` takes the secrets out of a text."""

    def __init__(self, path: Path, mask: Callable[[str], str] = lambda text: text) -> None:
        self._mask = mask
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._prepare(path)
        except BaseException:
            self._db.close()
            raise
        self._known = self._stored_keys()
        self._texts: set[str] = set()
        self._digests: dict[str, str] = {}
        self._pending: list[tuple[str, tuple[Any, ...]]] = []
        self._closed = False
        self._flushed: asyncio.Future[None] | None = None

    def _prepare(self, path: Path) -> None:
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(SCHEMA)
            version = self.meta("version")
            while version is not None and version in MIGRATIONS:
                self._transaction((sql, ()) for sql in MIGRATIONS[version])
                version = self.meta("version")
            self._stored_keys()
        except sqlite3.DatabaseError as error:
            raise JournalError(
                f"{path} is not a usable journal ({error}); restore it from a copy or use another out_root"
            ) from error
        if version not in (None, VERSION):
            raise JournalError(
                f"{path} was written by another version of skillopt (journal {version}, this one reads "
                f"{VERSION}); use another out_root"
            )
        self.set_meta("version", VERSION)

    def close(self) -> None:
        """Writes what is pending and folds the write-ahead log into the one file."""
        try:
            self._flush()
            with suppress(sqlite3.Error):  # a full disk: the log keeps what it holds
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._closed = True
            self._db.close()

    # replies

    def get(self, key: str) -> Reply | None:
        """The stored reply of a call, or None."""
        if key not in self._known:
            return None
        row = self._db.execute(_REPLY, (key,)).fetchone()
        text, prompt, completion, cached, reasoning, cost, blob = row
        return restored(text, Usage(prompt, completion, cached, reasoning), key, cost, blob)

    async def put(
        self,
        key: str,
        role: str,
        stage: str,
        messages: Iterable[Message],
        reply: Reply,
        *,
        attached: Iterable[Attachment] = (),
        cost_usd: float | None = None,
        item: str = "",
    ) -> Reply:
        """Stores a reply and returns it as it is stored, when it is committed. Replies of one turn of the loop share a
        transaction. ``cost_usd`` is what it cost where the provider itself does not say it, ``item`` the id of the item
        that was asked about. Raises ``JournalWriteError``: then it must not be used."""
        references: list[list[Any]] = []
        for message in messages:
            references.append([message.role, self._put_text(message.content)])
            if message.images or message.tool_calls or message.tool_call_id:
                references[-1].append(self._masked(message_detail(message)))
        references += [[each.kind, self._put_text(each.text), self._masked(each.detail)] for each in attached]
        usage, cost = reply.usage, cost_usd if reply.cost_usd is None else reply.cost_usd
        text, blob = self._clean(reply.text), None
        if reply.tool_calls or reply.events or reply.files or usage.cache_write_tokens:
            blob = pack(self._masked(reply_extra(reply)))
        reply = restored(text, usage, key, cost, blob)
        values = (
            key,
            role,
            stage,
            json.dumps(references),
            reply.text,
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cached_tokens,
            usage.reasoning_tokens,
            cost,
            blob,
            self._clean(item) if item else None,
            time.time(),
        )
        self._pending.append(("INSERT OR IGNORE INTO replies VALUES(?,?,?,?,?,?,?,?,?,NULL,?,?,?,?)", values))
        await self._schedule()
        self._known.add(key)
        return reply

    def _put_text(self, text: str) -> str:
        """The hash under which a text of a prompt is stored."""
        known = self._digests.get(text)
        if known is not None:  # most prompts share their first text
            return known
        content = self._clean(text)
        digest = hashlib.sha256(content.encode()).hexdigest()[:32]
        if digest not in self._texts:
            self._texts.add(digest)
            self._pending.append(("INSERT OR IGNORE INTO texts VALUES(?,?)", (digest, content)))
        if len(self._digests) >= _RECENT:
            self._digests.clear()
        self._digests[text] = digest
        return digest

    def _clean(self, text: str) -> str:
        """The text without secrets and without half surrogates, which no file can hold."""
        return self._mask(text).encode("utf-8", "replace").decode("utf-8")

    def _stored_keys(self) -> set[str]:
        return {key for (key,) in self._db.execute("SELECT key FROM replies")}

    def forget(self, keys: Iterable[str], stage: str) -> None:
        """Deletes those replies of a stage that no commit is charged with: they turned out to be of no use, and the
        next process is to ask again."""
        self._flush()
        gone = [(key, stage) for key in keys]
        self._transaction(("DELETE FROM replies WHERE key=? AND stage=? AND owner IS NULL", each) for each in gone)
        self._known = self._stored_keys()

    def book(self, attempt: Attempt, cost_usd: float | None = None) -> None:
        """Books a finished request and what it cost, where that is known; written with the next transaction."""
        usage = attempt.usage
        values = (
            attempt.role,
            attempt.stage,
            attempt.kind,
            usage.prompt_tokens,
            usage.completion_tokens,
            round(attempt.seconds, 4),
            time.time(),
            attempt.cost_usd if cost_usd is None else cost_usd,
        )
        self._pending.append(("INSERT INTO requests VALUES(NULL,?,?,?,?,?,?,?,?)", values))
        self._schedule()

    def _schedule(self) -> asyncio.Future[None]:
        if self._flushed is None:
            loop = asyncio.get_running_loop()
            self._flushed = loop.create_future()
            loop.call_soon(self._flush_soon)
        return self._flushed

    def _flush_soon(self) -> None:
        if self._closed:  # a second Ctrl-C: requests that were in flight are booked after the end
            return
        with suppress(JournalWriteError):  # whoever waits for a reply to be stored has been told
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        waiting, self._flushed = self._flushed, None
        try:
            if pending:
                self._transaction(pending)
        except BaseException as error:
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # nobody waits for a request's cost to be booked
            raise
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _transaction(self, statements: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for sql, values in statements:
                self._db.execute(sql, values)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise JournalWriteError(f"the journal of the run cannot be written: {error}") from error
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    # commits

    def commit(
        self, name: str, record: Mapping[str, Any], files: Mapping[str, bytes], keys: Iterable[str] = ()
    ) -> None:
        """One durable transaction: the record under ``name``, its files, and ``keys`` charged to it.

        A reply that an earlier commit was charged with stays with that one. A commit that is there already, with the
        same record and files, is left alone.
        """
        statements: list[tuple[str, tuple[Any, ...]]] = [
            (
                "UPDATE replies SET owner=? WHERE owner IS NULL AND key IN (SELECT value FROM json_each(?))",
                (name, json.dumps(list(keys))),
            )
        ]
        sequence = "(SELECT COALESCE(MAX(sequence), 0) + 1 FROM commits)"
        body = json.dumps(self._masked(record), ensure_ascii=False, allow_nan=False)
        if self._holds(name, body, files):
            return
        statements.append(
            (
                f"INSERT INTO commits VALUES(?,{sequence},?) ON CONFLICT(name) DO UPDATE SET record=excluded.record",
                (name, body),
            )
        )
        statements += [
            ("INSERT OR REPLACE INTO files VALUES(?,?)", (path, zlib.compress(content, 1)))
            for path, content in files.items()
        ]
        self._flush()
        self._db.execute("PRAGMA synchronous=FULL")
        self._transaction(statements)
        self._db.execute("PRAGMA synchronous=NORMAL")

    def _masked(self, value: Any) -> Any:
        """A JSON value with the secrets taken out of its texts."""
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, Mapping):
            return {key: self._masked(entry) for key, entry in value.items()}
        return [self._masked(entry) for entry in value] if isinstance(value, list | tuple) else value

    def _holds(self, name: str, body: str, files: Mapping[str, bytes]) -> bool:
        stored = self._db.execute("SELECT record FROM commits WHERE name=?", (name,)).fetchone()
        if stored is None or stored[0] != body:
            return False
        contents = [self._db.execute("SELECT content FROM files WHERE path=?", (path,)).fetchone() for path in files]
        found = [zlib.decompress(content[0]) if content else None for content in contents]
        return found == list(files.values())

    def withdraw(self, names: Iterable[str], paths: Iterable[str]) -> None:
        """Takes commits back, with the files in ``paths``. Their other files and what they are charged with stay."""
        statements = [("DELETE FROM commits WHERE name=?", (name,)) for name in names]
        self._transaction([*statements, *(("DELETE FROM files WHERE path=?", (path,)) for path in paths)])

    def charge(self, name: str, keys: Iterable[str]) -> dict[str, StageTokens]:
        """Tokens by stage of those ``keys`` that no commit but ``name`` is charged with: what a commit will cost."""
        self._flush()
        rows = self._db.execute(
            f"SELECT {_SUMS} FROM replies WHERE key IN (SELECT value FROM json_each(?)) "
            "AND (owner IS NULL OR owner=?) GROUP BY stage ORDER BY stage",
            (json.dumps(list(keys)), name),
        )
        return {stage: StageTokens(*sums) for stage, *sums in rows}

    def record(self, name: str) -> dict[str, Any] | None:
        """The record committed under ``name``, or None."""
        row = self._db.execute("SELECT record FROM commits WHERE name=?", (name,)).fetchone()
        return json.loads(row[0]) if row else None

    def fields(self, prefix: str, field: str) -> list[Any]:
        """One field of all records whose name starts with ``prefix`` and that have it, in order of commit."""
        rows = self._db.execute(
            "SELECT json_extract(record, ?) FROM commits WHERE name GLOB ? ORDER BY sequence",
            (f"$.{field}", prefix + "*"),
        )
        return [json.loads(text) for (text,) in rows if text is not None]

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Every file that a commit holds: path relative to the run folder, content."""
        for path, content in self._db.execute("SELECT path, content FROM files ORDER BY path"):
            yield path, zlib.decompress(content)

    def paths(self) -> list[str]:
        """The paths of ``files``."""
        return [path for (path,) in self._db.execute("SELECT path FROM files ORDER BY path")]

    # totals

    def spent(self) -> Spent:
        self._flush()
        sums = f"COUNT(*), TOTAL(prompt_tokens + completion_tokens), TOTAL(seconds), ROUND(TOTAL(cost_usd), {DIGITS})"
        requests, tokens, seconds, usd = self._db.execute(f"SELECT {sums} FROM requests").fetchone()
        return Spent(requests, int(tokens), seconds, usd)

    def role_costs(self) -> dict[str, RoleCost]:
        """What the requests of all processes cost, by role."""
        self._flush()
        return costs.role_costs(self._db)

    def unpriced(self) -> tuple[Unpriced, ...]:
        """The requests of all processes whose cost is not known, by role."""
        self._flush()
        return costs.unpriced(self._db)

    def requests_by_kind(self) -> dict[str, int]:
        """Finished HTTP requests of all processes by outcome (``ok`` or the kind of the failure)."""
        self._flush()
        return dict(self._db.execute("SELECT kind, COUNT(*) FROM requests GROUP BY kind ORDER BY kind"))

    def stage_totals(self) -> dict[str, StageTokens]:
        """Tokens by stage of all replies that a commit is charged with."""
        rows = self._db.execute(f"SELECT {_SUMS} FROM replies WHERE owner IS NOT NULL GROUP BY stage ORDER BY stage")
        return {stage: StageTokens(*sums) for stage, *sums in rows}

    # meta

    def meta(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
        return row[0] if row else None

    def set_meta(self, key: str, value: str) -> None:
        if self.meta(key) != value:
            self._transaction([("INSERT OR REPLACE INTO meta VALUES(?,?)", (key, value))])

    def adopt_replies(self, other: Path) -> int:
        """Copies the replies of another journal into this one, charged to nobody yet. Returns how many."""
        self._db.execute("ATTACH DATABASE ? AS other", (str(other),))
        try:
            self._db.execute("INSERT OR IGNORE INTO texts SELECT * FROM other.texts")
            columns = {row[1] for row in self._db.execute("PRAGMA other.table_info(replies)")}
            self._db.execute(
                "INSERT OR IGNORE INTO replies SELECT key, role, stage, messages, text, prompt_tokens, "
                "completion_tokens, cached_tokens, reasoning_tokens, NULL, "
                f"{', '.join(name if name in columns else 'NULL' for name in LATER)} FROM other.replies"
            )
        finally:
            self._db.execute("DETACH DATABASE other")
        before = len(self._known)
        self._known = self._stored_keys()
        return len(self._known) - before
