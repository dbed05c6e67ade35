"""Environments: what a task is, and how an answer is scored."""

from skillopt.envs.base import DataError, Env
from skillopt.envs.registry import get_env

__all__ = ["DataError", "Env", "get_env"]
