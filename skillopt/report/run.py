"""A run folder as one value: what is small is read at once, what may be large on demand.

``read_run(root)`` gives a ``RunView``. It never writes, takes no lock, and tells what it can of a folder that is torn,
half there, at work, or made by the published implementation.

A *pass* is a set of items answered under one skill; its name is the folder of its ``results.jsonl`` below the run
folder: ``selection_eval_baseline``, ``steps/step_0003/rollout``, ``steps/step_0003/selection_eval``, ``test_eval`` …
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from skillopt.files import inside
from skillopt.report.answers import Answers, AnswersAtHand, Outcome
from skillopt.report.conversation import read_conversation
from skillopt.report.files import Json, mark, parse_row, read_json, read_text, tail_lines
from skillopt.report.folder import MARKS, anchored, is_evaluation, last_event, not_a_run, state, without_secrets
from skillopt.report.nouns import Conversation, EpochView, ItemScore, Measured, Page
from skillopt.report.scores import (
    TEST_PASSES,
    GateMetric,
    Split,
    Which,
    metric_of,
    origin_of,
    selection_pass,
    told_selection,
    told_test,
)
from skillopt.report.spending import Charge, Spending, charges_of_rows, read_charges, read_spending
from skillopt.report.steps import StepView, read_record, read_step
from skillopt.run.events import EVENTS
from skillopt.run.folder import JOURNAL, FolderError, in_use, journal_problem
from skillopt.values import count, fraction, label, mapping, mappings, mean, whole

__all__ = [
    "Charge",
    "Conversation",
    "EpochView",
    "ItemScore",
    "Measured",
    "Page",
    "RunView",
    "Spending",
    "Split",
    "StepView",
    "Which",
    "read_run",
    "selection_pass",
    "stamp",
]

Status = Literal["running", "finished", "stopped", "new"]

_DOCUMENTS = ("config.json", "summary.json", "runtime_state.json", "eval_summary.json", "history.json")
_LIMITS = {"config.json": 1 << 20, "history.json": 32 << 20}
"""The most bytes of a document, where that is not ``JSON_LIMIT``: a row of history is some thousand."""
MOST_ROWS = 10_000
"""The most rows of history that are shown."""
_VERSION = re.compile(r"skill_v(\d{1,9})\.md")
_STEP = re.compile(r"step_(\d{1,9})")
_EPOCH = re.compile(r"epoch_(\d{1,9})")
_MOST_PASSES = 20_000
_EVENT_BYTES = 512  # of one event, on average and generously


@dataclass(frozen=True)
class RunView:
    """A run at the moment it was read.

    ``root`` is absolute, ``name`` its last part. ``status``: ``running`` (a process holds its lock), ``finished``,
    ``stopped`` (it can go on), ``new`` (nothing has happened yet). ``stop_reason`` is ``completed``, ``budget``,
    ``interrupted``, ``killed``, …; None while it runs or is new. ``detail`` says more about a stop in words.
    ``kind`` is ``training`` or ``evaluation``.

    Mappings as they stand in the files, without secrets, {} when there is no such file: ``config`` (flat keys),
    ``summary``, ``pointers`` (``runtime_state.json``), ``evaluation`` (``eval_summary.json``). ``rows`` are those of
    ``history.json``, in order of steps; ``total_steps`` how many are planned (None when nobody says). ``problems`` are
    sentences about files that are torn or too large. ``has_journal`` is False for a run of the published
    implementation.

    All else is read when it is asked for.
    """

    root: Path
    name: str
    status: Status
    stop_reason: str | None
    detail: str
    kind: Literal["training", "evaluation"]
    config: Mapping[str, Any]
    summary: Mapping[str, Any]
    pointers: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...]
    total_steps: int | None
    has_journal: bool
    problems: tuple[str, ...]
    _at_hand: AnswersAtHand = field(default_factory=AnswersAtHand, repr=False, compare=False)

    # skills

    @property
    def versions(self) -> tuple[int, ...]:
        """The numbers N of ``skills/skill_vNNNN.md``: the skill after step N; 0 is the seed."""
        return _numbers(self.root, "skills", _VERSION)

    def skill(self, version: int) -> str | None:
        """The skill after step ``version``; None when it is not there."""
        return read_text(self.root, f"skills/skill_v{version:04d}.md")

    @property
    def seed(self) -> str | None:
        """The skill that training began with."""
        text = self.skill(0)
        begun = text is not None or self.rows or self.pointers
        return text if begun else self._best_file()  # before the baseline is done, the best skill is the first one

    @property
    def best(self) -> str | None:
        """The skill with the best selection score so far; the seed before there is one."""
        text = self._best_file()
        return self.seed if text is None else text

    @property
    def best_path(self) -> Path | None:
        """The file of the best skill; None when it is not there, or lies outside of the folder."""
        path = anchored(self.root, self.pointers.get("best_skill_path"), "best_skill.md")
        found = inside(self.root, path.relative_to(self.root).as_posix())
        return path if found is not None and found.is_file() else None

    def _best_file(self) -> str | None:
        path = self.best_path
        return None if path is None else read_text(self.root, path.relative_to(self.root).as_posix())

    @property
    def final(self) -> str | None:
        """The skill that training went on from, last."""
        versions = self.versions
        return self.skill(versions[-1]) if versions else None

    # steps and epochs

    @property
    def steps(self) -> tuple[int, ...]:
        """The numbers of the steps of which there is a row or a folder."""
        numbers = {*(whole(row.get("step")) for row in self.rows), *_numbers(self.root, "steps", _STEP)}
        return tuple(sorted(number for number in numbers if number > 0))

    @property
    def steps_done(self) -> int:
        """How many steps are behind."""
        last = whole(self.rows[-1].get("step")) if self.rows else 0
        return max(whole(self.pointers.get("last_completed_step")), last)

    def row(self, step: int) -> Mapping[str, Any]:
        """The history row of a step, or what it keeps in its own folder; {} when there is neither."""
        row = self._rows_by_step.get(step)
        return read_record(self.root, step) if row is None else row

    @cached_property
    def _rows_by_step(self) -> Mapping[int, Mapping[str, Any]]:
        return {whole(row.get("step")): row for row in reversed(self.rows)}

    def step(self, number: int) -> StepView | None:
        """What the stages of a step left behind; None when there is no such step."""
        known = number > 0 and (number in self._rows_by_step or inside(self.root, f"steps/step_{number:04d}"))
        return read_step(self.root, number, self.row(number)) if known else None

    @property
    def epochs(self) -> tuple[int, ...]:
        """The numbers of the epochs whose end left something."""
        found = {*_numbers(self.root, "slow_update", _EPOCH), *_numbers(self.root, "meta_skill", _EPOCH)}
        return tuple(sorted(found))

    def epoch(self, number: int) -> EpochView:
        """What the end of an epoch left behind."""
        slow, meta = f"slow_update/epoch_{number:02d}", f"meta_skill/epoch_{number:02d}"
        pairs = [read_json(self.root, f"{below}/comparison_pairs.json").value for below in (slow, meta)]
        rows = next((value for value in pairs if isinstance(value, list)), [])
        return EpochView(
            number,
            self.slow_update(number),
            mapping(read_json(self.root, f"{meta}/meta_skill_result.json").value),
            tuple(row for row in rows if isinstance(row, dict)),
            read_text(self.root, f"{slow}/candidate_skill.md"),
        )

    def slow_update(self, epoch: int) -> Mapping[str, Any]:
        """What came of the slow update at the end of an epoch; {} without one."""
        return mapping(read_json(self.root, f"slow_update/epoch_{epoch:02d}/slow_result.json").value)

    # scores

    @property
    def gate_metric(self) -> GateMetric:
        """The score that the run's gate compares."""
        return metric_of(self.config)

    def seed_at_gate(self) -> tuple[float | None, int | None]:
        """The seed's score on the selection items in the gate's metric, and on how many of them it rests; None where
        nobody measured or wrote it down."""
        seed = self.measured("seed", "val")
        score = self.gate_metric.score(seed.hard, seed.soft)
        if score is None:
            score = fraction(mapping(self.row(1).get("gate")).get("current_score"))
        return score, seed.n

    def told(self, which: Which, split: Split) -> Measured:
        """As ``measured``, from the small files alone: for lists of many runs. ``n`` then counts items that could not
        be measured, too."""
        if split == "test":
            return told_test(which, self.summary)
        metric, stale = self.gate_metric.name, not self.has_journal
        return told_selection(which, self.summary, self.pointers, self.rows, metric=metric, stale=stale)

    def measured(self, which: Which, split: Split) -> Measured:
        """The scores of the first, the best or the last skill on the selection items (``val``) or the test items: the
        means of its rows, or what the run wrote down where there are none."""
        name = self.pass_of(which, split)
        scores = self.means(name) if name is not None else Measured()
        return scores if scores.hard is not None else self.told(which, split)

    def pass_of(self, which: Which, split: Split) -> str | None:
        """The pass in which the first, best or last skill was measured; None when there is none in the folder."""
        return next((name for name in self._passes_of(which, split) if self._has(name)), None)

    def _passes_of(self, which: Which, split: Split) -> list[str]:
        if split == "test":
            return [TEST_PASSES[which]]
        best, final = (origin_of(each, self.summary, self.pointers, self.rows) for each in ("best", "final"))
        promoted = which == "final" or (which == "best" and best == final)
        own = origin_of(which, self.summary, self.pointers, self.rows)
        return [*(["final_selection_eval"] if promoted else []), selection_pass(own, self.rows)]

    def means(self, name: str) -> Measured:
        """The mean scores of a pass over its measured items."""
        found = self.answers(name)
        measured = [place for place in found.last_places().values() if found.hard[place] is not None]
        hard = [score for place in measured if (score := found.hard[place]) is not None]
        soft = [score for place in measured if (score := found.soft[place]) is not None]
        return Measured(mean(hard), mean(soft), len(hard)) if hard else Measured()

    # items

    @property
    def passes(self) -> tuple[str, ...]:
        """The names of the passes of the run, by path, ``_MOST_PASSES`` at most; the pass of an evaluation is ''."""
        found = []
        for folder, below, files in os.walk(self.root):
            below[:] = sorted(name for name in below if name != "predictions")
            if "results.jsonl" in files:
                found.append(Path(folder).relative_to(self.root).as_posix())
            if len(found) == _MOST_PASSES:
                break
        return tuple(sorted("" if name == "." else name for name in found))

    def answers(self, name: str) -> Answers:
        """The scores of the pass ``name``, and its rows on demand; kept until its file changes."""
        return self._at_hand.read(self.root, _results(name))

    def results(self, name: str, offset: int = 0, limit: int | None = 100, only: Outcome = "all") -> Page:
        """Rows of the pass ``name`` in the order of the file, ``limit`` of them (None: all) behind ``offset``; with
        ``only``, of those that passed (``hard`` is 1), failed (less than 1), or were not measured."""
        found = self.answers(name)
        places = found.places(only)
        wanted = places[offset : None if limit is None else offset + limit]
        rows = found.read(wanted)
        return Page(tuple(rows[place] for place in wanted), len(places), offset, tuple(wanted), found.whole)

    def result(self, name: str, item_id: str) -> Mapping[str, Any] | None:
        """The row of one item in a pass."""
        found = self.answers(name)
        place = found.ids.index(item_id) if item_id in found.ids else None
        return None if place is None else found.read([place])[place]

    def result_at(self, name: str, place: int) -> Mapping[str, Any] | None:
        """The row at a place in the file of a pass, from 0."""
        found = self.answers(name)
        return found.read([place])[place] if 0 <= place < len(found.ids) else None

    def item_scores(self, name: str) -> dict[str, ItemScore]:
        """The scores of a pass by item id, in the order of the file."""
        found = self.answers(name)
        return {id_: ItemScore(found.hard[place], found.soft[place]) for id_, place in found.last_places().items()}

    def conversation(self, name: str, item_id: str) -> Conversation:
        """What passed between target and item in a pass: as ``conversation.json`` has it (training rollouts, unless
        told otherwise), else as its call in the journal."""
        return read_conversation(self.root, name, item_id, self.result(name, item_id) or {})

    # what happened, and what it cost

    def events(
        self, last: int = 200, leave_out: frozenset[str] = frozenset({"item_done"})
    ) -> tuple[dict[str, Any], ...]:
        """The last events of ``events.jsonl``, oldest first, without the kinds in ``leave_out``."""
        size = _EVENT_BYTES * (last if not leave_out else 20 * last)
        parsed = map(parse_row, tail_lines(self.root, EVENTS, size))
        kept = [event for event in parsed if event is not None and str(event.get("event")) not in leave_out]
        return tuple(kept[-last:])

    def spending(self) -> Spending | None:
        """Requests, tokens and dollars by role over all processes; None when nobody counted."""
        return read_spending(self.root, self.summary, self.rows)

    def charges(self) -> tuple[Charge, ...]:
        """Calls, tokens and dollars of each part of the run (``baseline``, ``step_0001``, ``epoch_01``, ``test``) by
        stage. Without a journal, of the steps only, as their rows say."""
        return read_charges(self.root) or charges_of_rows(self.rows)

    def _has(self, name: str) -> bool:
        return inside(self.root, _results(name)) is not None


def read_run(root: Path) -> RunView:
    """The run in ``root``. Raises ``FolderError`` when it is the folder of no run."""
    root = Path(os.path.abspath(root))
    if not any((root / name).is_file() for name in ("config.json", "eval_summary.json", *MARKS)):
        raise FolderError(not_a_run(root, "it has no config.json and no journal"))
    documents = {name: read_json(root, name, _LIMITS.get(name)) for name in _DOCUMENTS}
    config, summary, pointers, evaluation = (
        without_secrets(mapping(documents[name].value)) for name in _DOCUMENTS if name != "history.json"
    )
    history = documents["history.json"].value
    rows = mappings(history)
    event, has_journal = last_event(root), inside(root, JOURNAL) is not None and (root / JOURNAL).is_file()
    told, reason, detail = state(
        in_use=in_use(root), event=event, summary=summary, evaluation=evaluation, has_journal=has_journal
    )
    status, reason = _status(told, reason, untouched=not (event or summary or rows or pointers))
    return RunView(
        root=root,
        name=root.name,
        status=status,
        stop_reason=reason,
        detail=detail if status == "stopped" else "",
        kind="evaluation" if evaluation or (not rows and is_evaluation(root)) else "training",
        config=config,
        summary=summary,
        pointers=pointers,
        evaluation=evaluation,
        rows=rows[-MOST_ROWS:],
        total_steps=_total_steps(config),
        has_journal=has_journal,
        problems=_problems(root, documents, len(rows)),
    )


def stamp(root: Path) -> tuple[int, ...]:
    """Sizes and times of the files from which a run is read: while they are the same, so is its view (but for
    ``status``, which hangs on its lock)."""
    found: list[int] = []
    for name in (*_DOCUMENTS, EVENTS, JOURNAL, f"{JOURNAL}-wal"):
        found += mark(root, name) or (-1, -1)
    return tuple(found)


def _problems(root: Path, documents: Mapping[str, Json], rows: int) -> tuple[str, ...]:
    told = [document.problem for document in documents.values() if document.problem]
    more = [f"history.json has {rows:,} rows, of which the last {MOST_ROWS:,} are shown"] if rows > MOST_ROWS else []
    return (*told, *more, *filter(None, [journal_problem(root)]))


def _status(told: str, reason: str | None, *, untouched: bool) -> tuple[Status, str | None]:
    if told == "running":
        return "running", None
    if told == "finished":
        return "finished", label(reason) or "completed"
    return ("new", None) if untouched else ("stopped", reason)


def _total_steps(config: Mapping[str, Any]) -> int | None:
    return count(whole(config.get("num_epochs")) * whole(config.get("steps_per_epoch"))) or None


def _numbers(root: Path, folder: str, pattern: re.Pattern[str]) -> tuple[int, ...]:
    path = inside(root, folder)
    try:
        names = os.listdir(path) if path is not None else []
    except OSError:
        return ()
    matches = (pattern.fullmatch(name) for name in names)
    return tuple(sorted({int(match[1]) for match in matches if match}))


def _results(name: str) -> str:
    return f"{name}/results.jsonl" if name else "results.jsonl"
