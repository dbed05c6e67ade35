"""The tables of a journal, and what turns those of an earlier version into these."""

from __future__ import annotations

from collections.abc import Mapping

VERSION = "3"

# A cost that is NULL is not known. `extra` is what a reply has beside its text; see run/exchange.py. `item` is the id
# of the item that a target was first asked about with this prompt, `stored_at` the time of the reply (seconds since
# 1970).
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS texts(hash TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replies(
  key TEXT PRIMARY KEY, role TEXT NOT NULL, stage TEXT NOT NULL, messages TEXT NOT NULL, text TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL, owner TEXT, cost_usd REAL, extra BLOB, item TEXT, stored_at REAL)
  WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS replies_owner ON replies(owner);
CREATE TABLE IF NOT EXISTS requests(
  id INTEGER PRIMARY KEY, role TEXT NOT NULL, stage TEXT NOT NULL, kind TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, seconds REAL NOT NULL, ended_at REAL NOT NULL,
  cost_usd REAL);
CREATE TABLE IF NOT EXISTS commits(name TEXT PRIMARY KEY, sequence INTEGER NOT NULL, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files(path TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
"""

LATER = ("cost_usd", "extra", "item", "stored_at")
"""The columns of ``replies`` that journals of earlier versions lack."""

MIGRATIONS: Mapping[str, tuple[str, ...]] = {
    "1": (
        "ALTER TABLE replies ADD COLUMN cost_usd REAL",
        "ALTER TABLE replies ADD COLUMN extra BLOB",
        "ALTER TABLE requests ADD COLUMN cost_usd REAL",
        "UPDATE meta SET value='2' WHERE key='version'",
    ),
    "2": (
        "ALTER TABLE replies ADD COLUMN item TEXT",
        "ALTER TABLE replies ADD COLUMN stored_at REAL",
        "UPDATE meta SET value='3' WHERE key='version'",
    ),
}
