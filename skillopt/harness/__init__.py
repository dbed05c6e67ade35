"""How a target works on an item."""

from skillopt.harness.chat import ChatHarness, compose
from skillopt.harness.rows import result_row

__all__ = ["ChatHarness", "compose", "result_row"]
