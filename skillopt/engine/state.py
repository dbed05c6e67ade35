"""The state that training carries from step to step: what one commit holds and the next step starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from skillopt.skill import Skill

ItemScores = dict[str, tuple[float, float] | None]


class RunState(BaseModel):
    """A point between two steps. Texts and scores, no paths: the folder may be moved.

    ``current_scores`` is None while the text of ``current`` has not been measured on the selection split (before the
    baseline, and after guidance was injected without a gate). ``epoch_start`` is the skill at the start of the running
    epoch, ``memory`` the optimizer's meta skill, ``buffer`` the step buffer of the running epoch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: int = 0
    current: str
    current_origin: str = "initial_skill"
    current_scores: ItemScores | None = None
    best: str
    best_step: int = 0
    best_origin: str = "initial_skill"
    best_scores: ItemScores | None = None
    epoch_start: str
    memory: str = ""
    buffer: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def initial(cls, skill: Skill) -> RunState:
        return cls(current=skill.text, best=skill.text, epoch_start=skill.text)

    def but(self, **changes: Any) -> RunState:
        return self.model_copy(update=changes)
