"""The configuration: its schema, and how one is read from files, overrides, flags and a stored run."""

from __future__ import annotations

from skillopt.config.errors import ConfigError
from skillopt.config.flat import explain_difference, fingerprint, flatten, from_flat
from skillopt.config.keys import KeyInfo
from skillopt.config.load import load_config
from skillopt.config.schema import Config, ModelConfig, iter_keys
from skillopt.config.secrets import Redactor, mask, read_environment
from skillopt.config.sections import (
    BudgetConfig,
    EnvConfig,
    EvaluationConfig,
    GradientConfig,
    LoggingConfig,
    OptimizerConfig,
    RuntimeConfig,
    TrainConfig,
)
from skillopt.resources import resolve_skill_path

__all__ = [
    "BudgetConfig",
    "Config",
    "ConfigError",
    "EnvConfig",
    "EvaluationConfig",
    "GradientConfig",
    "KeyInfo",
    "LoggingConfig",
    "ModelConfig",
    "OptimizerConfig",
    "Redactor",
    "RuntimeConfig",
    "TrainConfig",
    "explain_difference",
    "fingerprint",
    "flatten",
    "from_flat",
    "iter_keys",
    "load_config",
    "mask",
    "read_environment",
    "resolve_skill_path",
]
