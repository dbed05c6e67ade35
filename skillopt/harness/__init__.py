"""How a target works on an item."""

from skillopt.harness.agent import AgentHarness
from skillopt.harness.base import Harness
from skillopt.harness.chat import ChatHarness, compose
from skillopt.harness.choose import harness_for
from skillopt.harness.rows import result_row

__all__ = ["AgentHarness", "ChatHarness", "Harness", "compose", "harness_for", "result_row"]
