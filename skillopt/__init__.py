"""SkillOpt trains the skill document of a frozen language model.

``train`` and ``evaluate`` are the two verbs; ``make_env`` turns items, a prompt and a score into an environment;
``load_run`` opens a run folder.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skillopt.version import __version__

if TYPE_CHECKING:
    from skillopt.api import Run, TrainingStopped, evaluate, load_run, train
    from skillopt.engine.evaluation import EvaluationResult
    from skillopt.envs.base import Env
    from skillopt.envs.custom import make_env
    from skillopt.skill import Skill
    from skillopt.types import Answer, Item, Score, Task

_HOMES = {
    "Answer": "skillopt.types",
    "Env": "skillopt.envs.base",
    "EvaluationResult": "skillopt.engine.evaluation",
    "Item": "skillopt.types",
    "Run": "skillopt.api",
    "Score": "skillopt.types",
    "Skill": "skillopt.skill",
    "Task": "skillopt.types",
    "TrainingStopped": "skillopt.api",
    "evaluate": "skillopt.api",
    "load_run": "skillopt.api",
    "make_env": "skillopt.envs.custom",
    "train": "skillopt.api",
}

__all__ = [
    "Answer",
    "Env",
    "EvaluationResult",
    "Item",
    "Run",
    "Score",
    "Skill",
    "Task",
    "TrainingStopped",
    "__version__",
    "evaluate",
    "load_run",
    "make_env",
    "train",
]


def __getattr__(name: str) -> Any:
    """Imports a public name on first use: ``skillopt --help`` must not pay for the engine."""
    if name not in _HOMES:
        raise AttributeError(f"module 'skillopt' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
