"""What every optimizer stage is told: the skill, the memories, and how to ask."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.models.errors import ModelError
from skillopt.models.types import ReplyStyle
from skillopt.optimizer.items import UpdateMode
from skillopt.skill import Skill


@dataclass(frozen=True, slots=True)
class OptimizerContext:
    """The same for all optimizer calls of a step.

    ``memory`` is the meta skill (advice from earlier epochs), ``previous_steps`` the rendered step buffer of this one.
    """

    skill: Skill
    memory: str = ""
    previous_steps: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the optimizer works, from the configuration.

    ``learning_rate`` is the most items an analyst may propose; ``max_trajectory_tokens`` and ``max_prompt_tokens``
    bound one trajectory and one prompt (estimated tokens, see ``prompting.estimate_tokens``; 0: no bound).
    ``timeout`` is in seconds for each request. An empty effort leaves the choice to the provider. ``priority`` is the
    place in the queue of all requests, lower first.
    """

    mode: UpdateMode = "patch"
    style: ReplyStyle = "full"
    learning_rate: int = 4
    minibatch_size: int = 8
    merge_batch_size: int = 8
    failure_only: bool = False
    max_trajectory_tokens: int = 4000
    max_prompt_tokens: int = 100_000
    rewrite_max_completion_tokens: int = 64_000
    reasoning_effort: str = ""
    rewrite_reasoning_effort: str = ""
    timeout: float = 300.0
    priority: int = 0

    @property
    def compact(self) -> bool:
        """Whether a step uses the small contracts. They propose edits, so other modes keep the full ones."""
        return self.style == "compact" and self.mode == "patch"


@dataclass(frozen=True, slots=True)
class CallError:
    """A call that gave nothing usable, after its retries. ``kind`` is the model error's kind."""

    stage: str
    kind: str
    message: str

    @classmethod
    def of(cls, stage: str, error: ModelError) -> CallError:
        """For the record of a step. A refused key is not for the record: the run must end, so it is raised again."""
        if error.kind == "auth":
            raise error
        return cls(stage, error.kind, str(error))
