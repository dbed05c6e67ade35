"""The listener that hands a run's records to its trackers, each in a thread of its own.

A tracker may wait for a server that does not answer, or raise whatever it likes: the training goes on all the same. The
first failure is said as a note, and the tracker is off from then on.
"""

from __future__ import annotations

import difflib
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skillopt.run.folder import peek_file
from skillopt.trackers.base import Entry, Found, Outcome, Start, Tracker
from skillopt.trackers.marks import Mark, Marks
from skillopt.trackers.records import SUMMARY, Record, Recorder, summary_metrics

GRACE_SECONDS = 30.0
"""How long all trackers together may take to send what is left when a run has ended."""
HASTE_SECONDS = 2.0
"""The same when it was broken off."""


class Tracking:
    """Event listener of a training. ``say`` prints a note; it is called in the thread of the events only."""

    def __init__(self, found: Sequence[Found], start: Start, say: Callable[[str], None]) -> None:
        marks = Marks(start.root)
        self._recorder = Recorder()
        self._workers = [_Worker(each, start, marks) for each in found]
        self._say = say
        self._outcome: Outcome = "failed"

    def __call__(self, kind: str, fields: Mapping[str, Any]) -> None:
        for record in self._recorder.records(kind, fields):
            for worker in self._workers:
                worker.put(record)
        if kind in ("run_finished", "run_stopped"):
            self._outcome = outcome_of(str(fields.get("reason")))
        if kind != "note":
            self._report()

    def close(self, grace: float = GRACE_SECONDS) -> None:
        """Ends the trackers; waits for them, for ``grace`` seconds at most."""
        for worker in self._workers:
            worker.put(self._outcome)
        deadline = time.monotonic() + grace
        for worker in self._workers:
            worker.join(deadline - time.monotonic())
        self._report()
        for worker in self._workers:
            if worker.at_work:
                self._say(f"tracker {worker.name}: it did not end within {grace:g} s; what it holds may be lost")

    def _report(self) -> None:
        for worker in self._workers:
            failure = worker.new_failure()
            if failure:
                self._say(f"tracker {worker.name} is off from here on, the training goes on: {failure}")


def outcome_of(reason: str) -> Outcome:
    """How a process ended, from the ``stop_reason`` of its run."""
    if reason == "completed":
        return "finished"
    return "stopped" if reason in ("budget", "interrupted") else "failed"


class _Worker:
    """One tracker in its thread: it is opened there, logs what is put, and is closed when an outcome is put."""

    def __init__(self, found: Found, start: Start, marks: Marks) -> None:
        self.name = found.name
        self._found = found
        self._start = start
        self._marks = marks
        self._queue: queue.SimpleQueue[Record | Outcome] = queue.SimpleQueue()
        self._failures: queue.SimpleQueue[str] = queue.SimpleQueue()
        # A daemon: a tracker that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name=f"tracker {self.name}", daemon=True)
        self._thread.start()

    @property
    def at_work(self) -> bool:
        return self._thread.is_alive()

    def put(self, what: Record | Outcome) -> None:
        self._queue.put(what)

    def join(self, timeout: float) -> None:
        self._thread.join(max(0.0, timeout))

    def new_failure(self) -> str:
        """What failed since the last call; '' for nothing."""
        return "" if self._failures.empty() else self._failures.get()

    def _work(self) -> None:
        tracker: Tracker | None = None
        try:
            mark = self._marks.of(self.name)
            tracker = self._found.open(replace(self._start, run=mark.run))
            if tracker.run != mark.run:
                self._marks.set(self.name, Mark(run=tracker.run))
            while isinstance(what := self._queue.get(), Record):
                self._log(tracker, what)
            tracker.close(what)
        except Exception as error:  # the edge of the thread: whatever a tracker raises must not reach the training
            self._failures.put(" ".join(f"{type(error).__name__}: {error}".split())[:500])
            if tracker is not None:
                _abandon(tracker)

    def _log(self, tracker: Tracker, record: Record) -> None:
        mark = self._marks.of(self.name)
        if record.once and record.step <= mark.step:
            return
        tracker.log(entry_of(record, self._start.root, self._start.prefix))
        # After it: a kill in between logs the step again at its number, which shows nothing new; before it, never.
        if record.once:
            self._marks.set(self.name, Mark(run=tracker.run, step=record.step))


def _abandon(tracker: Tracker) -> None:
    """Ends the run of a tracker that failed, if that still works: nobody wants it shown as running for ever."""
    try:
        tracker.close("failed")
    except Exception:  # it has failed before, and that was said
        return


def entry_of(record: Record, root: Path, prefix: str) -> Entry:
    """The entry of a record, with the files that it names; those that are not there are left out."""
    metrics = dict(record.metrics)
    if record.summary:
        metrics |= summary_metrics(json.loads(_read(root, SUMMARY) or "{}"))
    texts = {name: _read(root, path) for name, path in record.files.items()}
    texts |= {name: _difference(root, *sides) for name, sides in record.diffs.items()}
    return Entry(
        record.step,
        {prefix + name: value for name, value in metrics.items()},
        {prefix + name: text for name, text in texts.items() if text},
    )


def _read(root: Path, path: str) -> str:
    """A file of the run folder; '' when there is none. A commit comes first: it may not be rendered yet."""
    content = peek_file(root, path)
    try:
        return ((root / path).read_bytes() if content is None else content).decode("utf-8", "replace")
    except OSError:
        return ""


def _difference(root: Path, before: str, after: str) -> str:
    old, new = (_read(root, path).splitlines() for path in (before, after))
    return "\n".join(difflib.unified_diff(old, new, before, after, lineterm=""))
