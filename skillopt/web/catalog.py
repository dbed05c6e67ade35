"""The runs below the roots: found by folder, shown by an id, read once until their files change.

An address holds the id of a run, never a path: what is not below a root cannot be asked for.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skillopt.report.folder import find_runs
from skillopt.report.run import RunView, read_run, stamp
from skillopt.run.folder import FolderError, in_use
from skillopt.values import fraction, label, mapping
from skillopt.web.state import LiveState, read_live

_FILES = ("events.jsonl", "history.json", "summary.json", "runtime_state.json", "config.json", "eval_summary.json")
_SCAN_EVERY_S = 1.0
_VIEWS = 6
_NOT_IN_AN_ID = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """A run folder: its ``id`` for addresses, where it lies below its root, when it changed (unix seconds)."""

    id: str
    root: Path
    shown: str
    changed: float


@dataclass(frozen=True, slots=True)
class Brief:
    """A run in a list. Scores are hard means in [0, 1], ``baseline`` and ``best`` on the selection items; None where
    nobody measured or knows."""

    entry: Entry
    status: str
    stop_reason: str | None
    kind: str
    env: str
    target: str
    optimizer: str
    steps: int
    total_steps: int | None
    baseline: float | None
    best: float | None
    test: float | None
    lift: float | None
    tokens: int | None
    usd: float | None

    @property
    def gain(self) -> float | None:
        """By how much the best skill is better than the seed."""
        return None if self.best is None or self.baseline is None else self.best - self.baseline


def id_of(root: Path) -> str:
    """The id of a run folder: readable, and of this folder alone. Pure."""
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:10]
    words = _NOT_IN_AN_ID.sub("-", root.name.lower()).strip("-")[:40]
    return f"{words}-{digest}" if words else digest


class Catalog:
    """The runs below ``roots``. Safe for several threads."""

    def __init__(self, roots: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._roots, self._clock = tuple(roots), clock
        self._lock = threading.Lock()
        self._scanned, self._entries = -1e9, dict[str, Entry]()
        self._briefs: dict[str, tuple[tuple[int, ...], Brief]] = {}
        self._views: OrderedDict[str, tuple[tuple[int, ...], RunView]] = OrderedDict()
        self._live: dict[str, LiveState] = {}

    def entries(self) -> list[Entry]:
        """All runs, the one that changed last first."""
        with self._lock:
            if self._clock() - self._scanned > _SCAN_EVERY_S:
                self._entries = {entry.id: entry for entry in map(self._entry, find_runs(self._roots))}
                self._scanned = self._clock()
                self._briefs = {key: kept for key, kept in self._briefs.items() if key in self._entries}
                self._live = {key: kept for key, kept in self._live.items() if key in self._entries}
            return sorted(self._entries.values(), key=lambda entry: (-entry.changed, entry.shown))

    def find(self, run_id: str) -> Entry | None:
        """The run with this id; None when it is gone, or never was."""
        return next((entry for entry in self.entries() if entry.id == run_id), None)

    def forget_scan(self) -> None:
        """Lets the next question look at the folders again."""
        with self._lock:
            self._scanned = -1e9

    def brief(self, entry: Entry) -> Brief | None:
        """A run for a list; None when its folder is gone or unreadable."""
        key = (*_marks(entry.root), int(in_use(entry.root)))
        with self._lock:
            kept = self._briefs.get(entry.id)
        if kept is not None and kept[0] == key:
            return replace(kept[1], entry=entry)
        try:
            brief = brief_of(entry, read_run(entry.root))
        except (FolderError, OSError):
            return None
        with self._lock:
            self._briefs[entry.id] = (key, brief)
        return brief

    def view(self, entry: Entry) -> RunView:
        """A run as it stands now. Raises ``FolderError`` when the folder is none any more."""
        key = (*stamp(entry.root), int(in_use(entry.root)))
        with self._lock:
            kept = self._views.get(entry.id)
            if kept is not None and kept[0] == key:
                self._views.move_to_end(entry.id)
                return kept[1]
        view = read_run(entry.root)
        with self._lock:
            self._views[entry.id] = (key, view)
            self._views.move_to_end(entry.id)
            while len(self._views) > _VIEWS:
                self._views.popitem(last=False)
        return view

    def live(self, entry: Entry) -> LiveState:
        """What a run is doing now, followed from where the last question left it."""
        with self._lock:
            before = self._live.get(entry.id)
        state = read_live(entry.root, before)
        with self._lock:
            self._live[entry.id] = state
        return state

    def signature(self) -> str:
        """Changes when something in the list of runs changes."""
        digest = hashlib.sha256()
        for entry in self.entries():
            digest.update(repr((entry.id, _marks(entry.root), in_use(entry.root))).encode())
        return digest.hexdigest()[:16]

    def _entry(self, root: Path) -> Entry:
        base = next((each for each in self._roots if root == each or each in root.parents), root.parent)
        shown = root.name if root == base else root.relative_to(base).as_posix()
        times = [mark for mark in _marks(root)[1::2] if mark > 0]
        return Entry(id_of(root), root, shown, max(times, default=0) / 1e9)


def brief_of(entry: Entry, view: RunView) -> Brief:
    """What a list shows of a run."""
    config = view.config
    evaluated = view.kind == "evaluation"
    spent = view.spending()
    return Brief(
        entry=entry,
        status=view.status,
        stop_reason=view.stop_reason,
        kind=view.kind,
        env=label(config.get("env")),
        target=label(config.get("target_model")),
        optimizer="" if evaluated else label(config.get("optimizer_model")),
        steps=view.steps_done,
        total_steps=view.total_steps,
        baseline=None if evaluated else view.told("seed", "val").hard,
        best=None if evaluated else view.told("best", "val").hard,
        test=fraction(view.evaluation.get("hard")) if evaluated else view.told("best", "test").hard,
        lift=fraction(mapping(view.summary.get("test_lift")).get("lift")),
        tokens=spent.tokens if spent else None,
        usd=spent.usd if spent else None,
    )


def _marks(root: Path) -> tuple[int, ...]:
    """Sizes and times of a run's files, by as few questions to the system as can be."""
    found: list[int] = []
    for name in _FILES:
        try:
            told = os.stat(f"{root}/{name}", follow_symlinks=False)
        except OSError:
            found += (-1, -1)
        else:
            found += (told.st_size, told.st_mtime_ns)
    return tuple(found)
