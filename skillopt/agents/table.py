"""Which program serves which provider."""

from __future__ import annotations

from collections.abc import Mapping

from skillopt.agents.claude import CLAUDE
from skillopt.agents.codex import CODEX
from skillopt.agents.copilot import COPILOT
from skillopt.agents.cursor import CURSOR
from skillopt.agents.description import Cli

CLIS: Mapping[str, Cli] = {
    "codex_exec": CODEX,
    "claude_chat": CLAUDE,
    "claude_code_exec": CLAUDE,
    "cursor_exec": CURSOR,
    "copilot_chat": COPILOT,
    "copilot_exec": COPILOT,
}
"""The program behind each provider that is a command line."""
