"""Run folders for tests: what two runs must have in common, and copies of a folder as a kill would leave it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import skillopt.files
from skillopt.run.journal import Journal

_CLOCK = re.compile(r"^time|^wall|wall_time|_s$|_at$|^timing$")
# The folder's own path, and what a second process adds: its probes and what they cost.
_OF_THE_PROCESS = frozenset({"out_root", "requests", "cost_summary"})
_NOT_COMPARED = re.compile(r"^(\.lock|events\.jsonl|journal\.sqlite.*)$")


def without_clocks(value: Any) -> Any:
    """A JSON value without the fields that tell a time or where and by how many processes it was made."""
    if isinstance(value, dict):
        kept = {key: entry for key, entry in value.items() if not _CLOCK.search(key) and key not in _OF_THE_PROCESS}
        return {key: without_clocks(entry) for key, entry in kept.items()}
    return [without_clocks(entry) for entry in value] if isinstance(value, list) else value


def tree(root: Path) -> dict[str, Any]:
    """Every rendered file by its path: JSON without clocks (the order of its keys counts), other files as bytes."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and not _NOT_COMPARED.match(name):
            content = path.read_bytes()
            found[name] = json.dumps(without_clocks(json.loads(content))) if name.endswith(".json") else content
    return found


def stored(root: Path) -> dict[str, Any]:
    """What a journal holds: replies with their texts and owners, and the records of its commits without clocks."""
    with closing(sqlite3.connect(root / "journal.sqlite")) as db:
        replies = db.execute("SELECT key, stage, text, owner FROM replies ORDER BY key").fetchall()
        commits = db.execute("SELECT name, record FROM commits ORDER BY sequence").fetchall()
    records = [(name, without_clocks(json.loads(record))) for name, record in commits]
    return {"replies": replies, "commits": records}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def rows(root: Path) -> list[dict[str, Any]]:
    return list(read_json(root / "history.json"))


@dataclass(frozen=True)
class Killed:
    """A folder as a kill at ``moment`` would have left it, and the keys of the replies that it held by then."""

    moment: str
    root: Path
    held: frozenset[str]


@dataclass
class Kills:
    """Copies a run folder at every write into ``store``: before each transaction, and before each file is renamed into
    place (its temporary is then there). ``wanted`` picks the moments by number."""

    root: Path
    store: Path
    wanted: Callable[[int], bool] = lambda number: True
    made: list[Killed] = field(default_factory=list)
    moments: int = 0

    def snap(self, moment: str, journal: Journal | None) -> None:
        number, self.moments = self.moments, self.moments + 1
        if not self.wanted(number) or not self.root.exists():
            return
        copy = self.store / f"kill-{number:04d}"
        shutil.copytree(self.root, copy, copy_function=_copy)
        self.made.append(Killed(f"{number}: {moment}", copy, self._held(journal)))

    def _held(self, journal: Journal | None) -> frozenset[str]:
        if journal is not None:
            return frozenset(key for (key,) in journal._db.execute("SELECT key FROM replies"))
        with closing(sqlite3.connect(self.root / "journal.sqlite")) as db:
            return frozenset(key for (key,) in db.execute("SELECT key FROM replies"))


def _copy(source: str, target: str) -> None:
    """Files that are only ever replaced can share their content with the copy; the others must not."""
    name = Path(source).name
    if name.startswith("journal.sqlite") or name in ("events.jsonl", ".lock"):
        shutil.copyfile(source, target)
    else:
        os.link(source, target)


@contextmanager
def kills(root: Path, store: Path, wanted: Callable[[int], bool] = lambda number: True) -> Iterator[Kills]:
    """Takes the copies while the context lasts."""
    taken = Kills(root, store, wanted)
    transaction, set_meta, replace = Journal._transaction, Journal.set_meta, os.replace

    def watched_transaction(journal: Journal, statements: Any) -> None:
        taken.snap("transaction", journal)
        transaction(journal, statements)

    def watched_set_meta(journal: Journal, key: str, value: str) -> None:
        taken.snap(f"meta {key}", None if key == "version" else journal)
        set_meta(journal, key, value)

    def watched_replace(source: Path, target: Path) -> None:
        taken.snap(f"file {target.relative_to(root)}", None)
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "_transaction", watched_transaction)
        patch.setattr(Journal, "set_meta", watched_set_meta)
        patch.setattr(skillopt.files.os, "replace", watched_replace)
        yield taken
