"""Agent programs (Codex, Claude Code, Cursor, Copilot) as models: one run of a program is one call."""
