"""From a run's events to what is worth tracking. Pure: files are named here and read by who logs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# Numbers of a row of history.json that make a curve; a tracker has them under their names there.
_OF_A_ROW = (
    "train_hard",
    "train_soft",
    "val_hard",
    "val_soft",
    "candidate_gate_score",
    "current_score",
    "best_score",
    "best_step",
    "edit_budget",
    "n_patches",
    "n_edits_merged",
    "n_edits_ranked",
    "skill_len",
    "tokens_total",
    "cost_usd",
    "wall_time_s",
)
_OF_A_SUMMARY = (
    "baseline_selection_hard",
    "best_selection_hard",
    "baseline_test_hard",
    "baseline_test_soft",
    "test_hard",
    "test_soft",
    "final_test_hard",
    "final_test_soft",
    "test_delta_hard",
)
_WRITTEN_BEFORE_THE_COMMIT = ("slow_update_done", "meta_skill_done")
SUMMARY = "summary.json"


@dataclass(frozen=True, slots=True)
class Record:
    """What to log at ``step``. ``files`` and ``diffs`` give files of the run folder by the name they are logged under:
    a file, or the two sides of a difference. A ``once`` record is logged to a tracker's run one time, whoever repeats
    it. ``summary``: the numbers of ``summary.json`` too."""

    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    diffs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    once: bool = False
    summary: bool = False


class Recorder:
    """Makes records of events, in their order."""

    def __init__(self) -> None:
        self._step = 0
        self._epoch_ended = False

    def records(self, kind: str, fields: Mapping[str, Any]) -> Iterator[Record]:
        """The records that follow from an event."""
        if self._epoch_ended and kind not in _WRITTEN_BEFORE_THE_COMMIT:
            self._epoch_ended = False
            yield Record(self._step, files=_skill(self._step))  # the guidance has changed it
        if kind == "baseline_done":
            yield Record(0, finite({"val_hard": fields["hard"], "val_soft": fields["soft"]}), _skill(0), once=True)
        elif kind in ("step_done", "step_replayed"):
            row = fields["row"]
            self._step = int(row["step"])
            metrics = row_metrics(row) | finite({f"run_{key}": fields.get(key) for key in ("tokens", "cost_usd")})
            yield Record(self._step, metrics, _skill(self._step), _candidate(row), once=True)
        elif kind == "slow_update_done":
            self._epoch_ended = True
        elif kind in ("run_finished", "run_stopped"):
            names = ("best_skill.md", "history.json", SUMMARY, "config.json")
            sides = ("skills/skill_v0000.md", "best_skill.md")
            finished = kind == "run_finished"
            yield Record(self._step, {}, {name: name for name in names}, {"diffs/best.diff": sides}, summary=finished)


def row_metrics(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row of ``history.json``, whether its candidate was accepted, and the calls that gave nothing."""
    metrics = {key: row.get(key) for key in _OF_A_ROW}
    metrics["accepted"] = int("accept" in str(row.get("action")))
    metrics["errors"] = sum((row.get("errors") or {}).values())
    stages = {f"seconds/{stage}": seconds for stage, seconds in (row.get("timing") or {}).items()}
    return finite({**metrics, **stages})


def summary_metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of ``summary.json`` that tell how a run went."""
    metrics = {key: summary.get(key) for key in _OF_A_SUMMARY}
    tokens = (summary.get("token_summary") or {}).get("_total") or {}
    costs = (summary.get("cost_summary") or {}).get("_total") or {}
    metrics |= {"total_tokens": tokens.get("total_tokens"), "total_cost_usd": costs.get("cost_usd")}
    return {f"summary/{key}": value for key, value in finite(metrics).items()}


def finite(values: Mapping[str, Any]) -> dict[str, float]:
    """The values that are numbers: nothing stands for what was not measured or is not known."""
    return {
        key: float(value)
        for key, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    }


def _skill(step: int) -> dict[str, str]:
    name = f"skills/skill_v{step:04d}.md"
    return {name: name}


def _candidate(row: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What the step proposed; nothing where it had no candidate."""
    if "candidate_hash" not in row:
        return {}
    step = int(row["step"])
    sides = f"skills/skill_v{step - 1:04d}.md", f"steps/step_{step:04d}/candidate_skill.md"
    return {f"diffs/step_{step:04d}_{row.get('action')}.diff": sides}
