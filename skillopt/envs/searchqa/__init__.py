"""SearchQA: a short answer from web snippets."""

from skillopt.envs.searchqa.env import SearchQA, make

__all__ = ["SearchQA", "make"]
