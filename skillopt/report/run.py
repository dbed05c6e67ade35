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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from skillopt.data.names import safe_name
from skillopt.report.files import Json, inside, new_lines, parse_row, read_json, read_rows, read_text, tail_lines
from skillopt.report.folder import EVENTS, MARKS, anchored, in_use, last_event, state, without_secrets
from skillopt.report.nouns import Conversation, EpochView, ItemScore, Measured, Page
from skillopt.report.scores import (
    TEST_PASSES,
    Split,
    Which,
    origin_of,
    selection_pass,
    told_selection,
    told_test,
)
from skillopt.report.spending import Charge, Spending, charges_of_rows, read_charges, read_spending
from skillopt.report.steps import StepView, read_step
from skillopt.report.values import fraction, mapping, mean, whole
from skillopt.run.folder import JOURNAL, FolderError, peek_meta

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
Outcome = Literal["all", "passed", "failed", "unmeasured"]

_DOCUMENTS = ("config.json", "summary.json", "runtime_state.json", "eval_summary.json", "history.json")
_VERSION = re.compile(r"skill_v(\d+)\.md")
_STEP = re.compile(r"step_(\d+)")
_EPOCH = re.compile(r"epoch_(\d+)")
_CONVERSATION_LIMIT = 8 << 20
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

    def _best_file(self) -> str | None:
        path = anchored(self.root, self.pointers.get("best_skill_path"), "best_skill.md")
        return read_text(self.root, path.relative_to(self.root).as_posix())

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

    def row(self, step: int) -> Mapping[str, Any]:
        """The history row of a step; {} when there is none."""
        return next((row for row in self.rows if row.get("step") == step), {})

    def step(self, number: int) -> StepView | None:
        """What the stages of a step left behind; None when there is no such step."""
        return read_step(self.root, number, self.row(number)) if number in self.steps else None

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
            mapping(read_json(self.root, f"{slow}/slow_result.json").value),
            mapping(read_json(self.root, f"{meta}/meta_skill_result.json").value),
            tuple(row for row in rows if isinstance(row, dict)),
            read_text(self.root, f"{slow}/candidate_skill.md"),
        )

    # scores

    def told(self, which: Which, split: Split) -> Measured:
        """As ``measured``, from the small files alone: for lists of many runs. ``n`` then counts items that could not
        be measured, too."""
        if split == "test":
            return told_test(which, self.summary)
        metric = str(self.config.get("gate_metric") or "hard")
        stale = not self.has_journal
        return told_selection(which, self.summary, self.pointers, self.rows, metric=metric, stale=stale)

    def measured(self, which: Which, split: Split) -> Measured:
        """The scores of the first, the best or the last skill on the selection items (``val``) or the test items: the
        means of its rows, or what the run wrote down where there are none."""
        name = self.pass_of(which, split)
        scores = self._means(name) if name is not None else Measured()
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

    def _means(self, name: str) -> Measured:
        scores = [score for score in self.item_scores(name).values() if score.hard is not None]
        hard = [score.hard for score in scores if score.hard is not None]
        soft = [score.soft for score in scores if score.soft is not None]
        return Measured(mean(hard), mean(soft), len(hard)) if hard else Measured()

    # items

    @property
    def passes(self) -> tuple[str, ...]:
        """The names of all passes of the run, by path; the pass of an evaluation is ''."""
        found = []
        for folder, below, files in os.walk(self.root):
            below[:] = sorted(name for name in below if name != "predictions")
            if "results.jsonl" in files:
                found.append(Path(folder).relative_to(self.root).as_posix())
        return tuple(sorted("" if name == "." else name for name in found))

    def results(self, name: str, offset: int = 0, limit: int | None = 100, only: Outcome = "all") -> Page:
        """Rows of the pass ``name`` in the order of the file, ``limit`` of them (None: all) behind ``offset``; with
        ``only``, of those that passed (``hard`` is 1), failed (less than 1), or were not measured."""
        end = None if limit is None else offset + limit
        if only == "all":
            total, rows = 0, []
            for number, line in read_rows(self.root, _results(name)):
                total = number + 1
                if number >= offset and (end is None or number < end):
                    rows.append(parse_row(line) or _TORN)
            return Page(tuple(rows), total, offset)
        parsed = (parse_row(line) or _TORN for _, line in read_rows(self.root, _results(name)))
        kept = [row for row in parsed if _outcome(row) == only]
        return Page(tuple(kept[offset:end]), len(kept), offset)

    def result(self, name: str, item_id: str) -> Mapping[str, Any] | None:
        """The row of one item in a pass."""
        rows = (parse_row(line) or {} for _, line in read_rows(self.root, _results(name)))
        return next((row for row in rows if str(row.get("id")) == item_id), None)

    def item_scores(self, name: str) -> dict[str, ItemScore]:
        """The scores of a pass by item id, in the order of the file."""
        found = {}
        for _, line in read_rows(self.root, _results(name)):
            row = parse_row(line)
            if row is not None and "id" in row:
                found[str(row["id"])] = ItemScore(fraction(row.get("hard")), fraction(row.get("soft")))
        return found

    def conversation(self, name: str, item_id: str) -> Conversation:
        """What passed between target and item in a pass, where it is stored (training rollouts, unless told
        otherwise)."""
        below = f"{name}/predictions" if name else "predictions"
        folders = dict.fromkeys((safe_name(item_id), item_id))
        found = (read_json(self.root, f"{below}/{folder}/conversation.json", _CONVERSATION_LIMIT) for folder in folders)
        document = next((json for json in found if json.value is not None or json.problem), Json(None))
        messages = document.value if isinstance(document.value, list) else []
        return Conversation(tuple(entry for entry in messages if isinstance(entry, dict)), document.problem)

    # what happened, and what it cost

    def events(
        self, last: int = 200, leave_out: frozenset[str] = frozenset({"item_done"})
    ) -> tuple[dict[str, Any], ...]:
        """The last events of ``events.jsonl``, oldest first, without the kinds in ``leave_out``."""
        size = _EVENT_BYTES * (last if not leave_out else 20 * last)
        parsed = map(parse_row, tail_lines(self.root, EVENTS, size))
        kept = [event for event in parsed if event is not None and str(event.get("event")) not in leave_out]
        return tuple(kept[-last:])

    def events_since(self, position: int, size: int = 1 << 20) -> tuple[tuple[dict[str, Any], ...], int]:
        """The events behind byte ``position`` (0 at first), of at most ``size`` bytes, and the position to ask for
        next: so a page follows a run at work."""
        lines, after = new_lines(self.root, EVENTS, position, size)
        return tuple(event for event in map(parse_row, lines) if event is not None), after

    def spending(self) -> Spending | None:
        """Requests, tokens and dollars by role over all processes; None when nobody counted."""
        return read_spending(self.root, self.summary, self.rows)

    def charges(self) -> tuple[Charge, ...]:
        """Calls, tokens and dollars of each part of the run (``baseline``, ``step_0001``, ``epoch_01``, ``test``) by
        stage. Without a journal, of the steps only, as their rows say."""
        return read_charges(self.root) or charges_of_rows(self.rows)

    def _has(self, name: str) -> bool:
        return inside(self.root, _results(name)) is not None


_TORN: Mapping[str, Any] = {"id": "", "hard": None, "soft": None, "status": "torn", "fail_reason": "the row is torn"}


def read_run(root: Path) -> RunView:
    """The run in ``root``. Raises ``FolderError`` when it is the folder of no run."""
    root = Path(os.path.abspath(root))
    if not any((root / name).is_file() for name in ("config.json", "eval_summary.json", *MARKS)):
        raise FolderError(f"{root} is not a run folder: it has no config.json and no journal")
    documents = {name: read_json(root, name) for name in _DOCUMENTS}
    config, summary, pointers, evaluation = (
        without_secrets(mapping(documents[name].value)) for name in _DOCUMENTS if name != "history.json"
    )
    history = documents["history.json"].value
    rows = tuple(row for row in history if isinstance(row, dict)) if isinstance(history, list) else ()
    event, has_journal = last_event(root), (root / JOURNAL).is_file()
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
        kind=_kind(root, evaluation, begun=bool(rows or pointers)),
        config=config,
        summary=summary,
        pointers=pointers,
        evaluation=evaluation,
        rows=rows,
        total_steps=_total_steps(config),
        has_journal=has_journal,
        problems=tuple(document.problem for document in documents.values() if document.problem),
    )


def stamp(root: Path) -> tuple[int, ...]:
    """Sizes and times of the files from which a run is read: while they are the same, so is its view (but for
    ``status``, which hangs on its lock)."""
    found = []
    for name in (*_DOCUMENTS, EVENTS, JOURNAL, f"{JOURNAL}-wal"):
        path = inside(root, name)
        try:
            told = path.stat() if path is not None else None
        except OSError:
            told = None
        found += [told.st_size, told.st_mtime_ns] if told else [-1, -1]
    return tuple(found)


def _status(told: str, reason: str | None, *, untouched: bool) -> tuple[Status, str | None]:
    if told == "running":
        return "running", None
    if told == "finished":
        return "finished", reason or "completed"
    return ("new", None) if untouched else ("stopped", reason)


def _kind(root: Path, evaluation: Mapping[str, Any], *, begun: bool) -> Literal["training", "evaluation"]:
    """An evaluation at work has no summary yet; its journal says what it is."""
    if evaluation or (not begun and '"kind": "evaluation"' in (peek_meta(root, "identity") or "")):
        return "evaluation"
    return "training"


def _total_steps(config: Mapping[str, Any]) -> int | None:
    return whole(config.get("num_epochs")) * whole(config.get("steps_per_epoch")) or None


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


def _outcome(row: Mapping[str, Any]) -> Outcome:
    hard = fraction(row.get("hard"))
    if hard is None:
        return "unmeasured"
    return "passed" if hard >= 1 else "failed"
