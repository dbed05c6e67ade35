"""Which harness a target needs."""

from __future__ import annotations

from skillopt.harness.agent import AgentHarness
from skillopt.harness.base import Harness
from skillopt.harness.chat import ChatHarness
from skillopt.models.providers import PROVIDERS
from skillopt.models.types import ChatModel


def harness_for(model: ChatModel, *, max_tokens: int | None, timeout: float) -> Harness:
    """A workspace for a target that is an agent, a conversation for any other."""
    row = PROVIDERS.get(model.spec.provider)
    if row is not None and row.agent:
        return AgentHarness(model, timeout=timeout)
    return ChatHarness(model, max_tokens=max_tokens, timeout=timeout)
