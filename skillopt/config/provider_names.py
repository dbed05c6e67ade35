"""The names of the providers: the one table that the configuration and the model layer both take them from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

ProviderName = Literal[
    "openai",
    "openai_compatible",
    "azure_openai",
    "anthropic",
    "qwen_chat",
    "minimax_chat",
    "claude_chat",
    "copilot_chat",
    "codex_exec",
    "claude_code_exec",
    "cursor_exec",
    "copilot_exec",
    "local",
    "openrouter",
    "deepseek",
    "groq",
    "mistral",
    "gemini",
    "together",
    "fireworks",
    "cerebras",
    "xai",
    "moonshot",
    "dashscope",
    "nvidia",
    "ollama",
    "vllm",
    "sglang",
    "lmstudio",
    "llama_server",
]

OPENAI_CHAT = "openai_chat"
"""What published configurations hold for a role that nobody set; as ``model.backend`` it means OpenAI or Azure."""

ALIASES: Mapping[str, str] = {
    "azure": "azure_openai",
    "compat": "openai_compatible",
    "openai_compatible_chat": "openai_compatible",
    "claude": "claude_chat",
    "claude_code": "claude_code_exec",
    "codex": "codex_exec",
    "cursor": "cursor_exec",
    "cursor_agent": "cursor_exec",
    "copilot": "copilot_chat",
    "copilot_cli": "copilot_chat",
    "github_copilot": "copilot_chat",
    "qwen": "qwen_chat",
    "minimax": "minimax_chat",
    "llama.cpp": "local",
    "llamacpp": "local",
    "google": "gemini",
    "grok": "xai",
    "kimi": "moonshot",
    "lm_studio": "lmstudio",
}
"""Other spellings of a provider; a hyphen stands for an underscore everywhere."""

AZURE_AUTH_MODES: Mapping[str, str] = {
    "key": "api_key",
    "compat": "openai_compatible",
    "openai": "openai_compatible",
    "aad": "managed_identity",
    "azure_ad": "managed_identity",
}
"""Other spellings of the ways to authenticate with Azure."""
