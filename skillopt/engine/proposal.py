"""What a step makes on its way: the batches, the proposal, the judgement. Values only."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from skillopt.engine.context import Scope
from skillopt.engine.evaluate import Evaluation
from skillopt.engine.plan import BatchPlan, StepPlan
from skillopt.engine.state import RunState
from skillopt.gate.rules import Verdict
from skillopt.optimizer.aggregate import Merged
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.select import LrDecision, Selection
from skillopt.optimizer.update import Update
from skillopt.skill import Skill
from skillopt.types import Action, Item


@dataclass
class Stopwatch:
    """Seconds by stage, and the whole step's."""

    started: float = field(default_factory=time.monotonic)
    stages: dict[str, float] = field(default_factory=dict)

    def lap(self, stage: str, since: float) -> float:
        now = time.monotonic()
        self.stages[f"{stage}_s"] = round(now - since, 1)
        return now


@dataclass(frozen=True)
class BatchResult:
    """A micro-batch: its rollouts and what the analysts made of them."""

    plan: BatchPlan[Item]
    evaluation: Evaluation
    reflections: tuple[Reflection, ...]


@dataclass(frozen=True)
class Proposal:
    """What stages 1 to 5 made. ``merged`` and later are None when no analyst proposed anything."""

    scope: Scope
    skill: Skill
    plan: StepPlan[Item]
    watch: Stopwatch
    batches: tuple[BatchResult, ...]
    merged: Merged | None = None
    lr_decision: LrDecision | None = None
    budget: int | None = None
    selection: Selection | None = None
    update: Update | None = None

    @property
    def evaluation(self) -> Evaluation:
        """The rollouts of all micro-batches, in plan order."""
        return Evaluation(tuple(rollout for batch in self.batches for rollout in batch.evaluation.rollouts))

    @property
    def reflections(self) -> tuple[Reflection, ...]:
        return tuple(reflection for batch in self.batches for reflection in batch.reflections)

    @property
    def candidate(self) -> Skill | None:
        return self.update.candidate if self.update else None


@dataclass(frozen=True)
class Judgement:
    """Stage 6: the states before and after, the candidate's evaluation and the verdict (None when there was nothing to
    judge), and the step's action."""

    before: RunState
    state: RunState
    evaluation: Evaluation | None
    verdict: Verdict | None
    action: Action
