"""The keys of the providers and agents that a published configuration may name and that are not built yet.

They are known, so that a file which leaves them at their defaults loads and one that relies on them is refused by
name. Nothing reads them; a key moves to ``schema.py`` when its provider is built.
"""

from __future__ import annotations

from functools import partial

from pydantic import SecretStr

from skillopt.config.keys import Section, key

_IN_ENVIRONMENT = "; keys of available providers belong in the environment or in .env, not in the configuration"

_azure = partial(key, on="both", unbuilt="it needs the Azure OpenAI provider")
_azure_key = partial(key, None, on="both", unbuilt="it needs the Azure OpenAI provider" + _IN_ENVIRONMENT)
_qwen = partial(key, on="train", unbuilt="it needs the Qwen provider")
_qwen_key = partial(key, None, on="train", unbuilt="it needs the Qwen provider" + _IN_ENVIRONMENT)
_minimax = partial(key, on="both", unbuilt="it needs the MiniMax provider")
_minimax_key = partial(key, None, unbuilt="it needs the MiniMax provider" + _IN_ENVIRONMENT)
_codex = partial(key, on="both", unbuilt="it needs the Codex agent")
_claude = partial(key, on="both", unbuilt="it needs the Claude Code agent")
_cursor = partial(key, on="both", unbuilt="it needs the Cursor agent")
_copilot = partial(key, on="both", unbuilt="it needs the Copilot agent")

_API_VERSION = "2024-12-01-preview"
_SCOPE = "https://cognitiveservices.azure.com/.default"


class AzureKeys(Section):
    """Azure OpenAI, for both roles and for one role."""

    azure_endpoint: str = _azure("", "Azure endpoint, old name")
    azure_api_version: str = _azure("", "Azure API version, old name")
    azure_api_key: SecretStr | None = _azure_key("Azure API key, old name")
    azure_openai_endpoint: str = _azure("", "Azure endpoint")
    azure_openai_api_version: str = _azure(_API_VERSION, "Azure API version")
    azure_openai_api_key: SecretStr | None = _azure_key("Azure API key")
    azure_openai_auth_mode: str = _azure("", "how to authenticate with Azure")
    azure_openai_ad_scope: str = _azure(_SCOPE, "scope of an Azure token")
    azure_openai_managed_identity_client_id: str = _azure("", "client id of a managed identity")
    optimizer_azure_openai_endpoint: str = _azure("", "Azure endpoint of the optimizer")
    optimizer_azure_openai_api_version: str = _azure("", "Azure API version of the optimizer")
    optimizer_azure_openai_api_key: SecretStr | None = _azure_key("Azure API key of the optimizer")
    optimizer_azure_openai_auth_mode: str = _azure("", "how the optimizer authenticates with Azure")
    optimizer_azure_openai_ad_scope: str = _azure("", "scope of the optimizer's Azure token")
    optimizer_azure_openai_managed_identity_client_id: str = _azure("", "the optimizer's managed identity")
    target_azure_openai_endpoint: str = _azure("", "Azure endpoint of the target")
    target_azure_openai_api_version: str = _azure("", "Azure API version of the target")
    target_azure_openai_api_key: SecretStr | None = _azure_key("Azure API key of the target")
    target_azure_openai_auth_mode: str = _azure("", "how the target authenticates with Azure")
    target_azure_openai_ad_scope: str = _azure("", "scope of the target's Azure token")
    target_azure_openai_managed_identity_client_id: str = _azure("", "the target's managed identity")


class QwenKeys(Section):
    """Qwen behind vLLM or SGLang, for both roles and for one role."""

    qwen_chat_base_url: str = _qwen("", "address of the Qwen server")
    qwen_chat_api_key: SecretStr | None = _qwen_key("API key of the Qwen server")
    qwen_chat_temperature: float = _qwen(0.7, "sampling temperature")
    qwen_chat_timeout_seconds: float = _qwen(300.0, "seconds for one request")
    qwen_chat_max_tokens: int = _qwen(8000, "cap of completion tokens")
    qwen_chat_enable_thinking: bool = _qwen(False, "thinking switch, old form")
    qwen_chat_thinking_mode: str = _qwen("", "server_default, enabled or disabled")
    optimizer_qwen_chat_base_url: str = _qwen("", "address of the optimizer's Qwen server")
    optimizer_qwen_chat_api_key: SecretStr | None = _qwen_key("API key of the optimizer's Qwen server")
    optimizer_qwen_chat_temperature: float | None = _qwen(None, "temperature of the optimizer")
    optimizer_qwen_chat_timeout_seconds: float | None = _qwen(None, "seconds for one request of the optimizer")
    optimizer_qwen_chat_max_tokens: int | None = _qwen(None, "cap of the optimizer's completion tokens")
    optimizer_qwen_chat_enable_thinking: bool | None = _qwen(None, "thinking switch of the optimizer, old form")
    optimizer_qwen_chat_thinking_mode: str = _qwen("", "thinking mode of the optimizer")
    target_qwen_chat_base_url: str = _qwen("", "address of the target's Qwen server")
    target_qwen_chat_api_key: SecretStr | None = _qwen_key("API key of the target's Qwen server")
    target_qwen_chat_temperature: float | None = _qwen(None, "temperature of the target")
    target_qwen_chat_timeout_seconds: float | None = _qwen(None, "seconds for one request of the target")
    target_qwen_chat_max_tokens: int | None = _qwen(None, "cap of the target's completion tokens")
    target_qwen_chat_enable_thinking: bool | None = _qwen(None, "thinking switch of the target, old form")
    target_qwen_chat_thinking_mode: str = _qwen("", "thinking mode of the target")


class MiniMaxKeys(Section):
    """MiniMax. The role-prefixed ones never had an option on the command line."""

    minimax_region: str = _minimax("", "region of the service")
    minimax_base_url: str = _minimax("", "address of the service")
    minimax_api_key: SecretStr | None = _minimax_key("API key of the service", on="both")
    minimax_model: str = _minimax("MiniMax-M3", "model name")
    minimax_temperature: float = _minimax(0.7, "sampling temperature")
    minimax_max_tokens: int = _minimax(8000, "cap of completion tokens")
    minimax_enable_thinking: bool = _minimax(False, "thinking switch")
    optimizer_minimax_base_url: str = _minimax("", "address for the optimizer", on="")
    optimizer_minimax_api_key: SecretStr | None = _minimax_key("API key for the optimizer")
    target_minimax_base_url: str = _minimax("", "address for the target", on="")
    target_minimax_api_key: SecretStr | None = _minimax_key("API key for the target")


class AgentKeys(Section):
    """Command-line agents: Codex, Claude Code, Cursor, Copilot."""

    codex_trace_to_optimizer: bool = _codex(True, "show summaries of agent traces to the analysts")
    codex_exec_path: str = _codex("", "path of the program")
    codex_exec_sandbox: str = _codex("", "sandbox mode")
    codex_exec_profile: str = _codex("", "profile of the program's own configuration")
    codex_exec_full_auto: bool = _codex(False, "retired switch")
    codex_exec_reasoning_effort: str = _codex("", "reasoning effort")
    codex_exec_use_sdk: str = _codex("", "auto, true or false: use the SDK")
    codex_exec_network_access: bool = _codex(False, "let the agent use the network")
    codex_exec_web_search: bool = _codex(False, "let the agent search the web")
    codex_exec_approval_policy: str = _codex("", "when the agent asks for approval")
    claude_code_exec_path: str = _claude("claude", "path of the program")
    claude_code_exec_profile: str = _claude("", "profile")
    claude_code_exec_use_sdk: str = _claude("auto", "auto, true or false: use the SDK")
    claude_code_exec_effort: str = _claude("medium", "reasoning effort")
    claude_code_exec_max_thinking_tokens: int = _claude(16384, "cap of thinking tokens")
    cursor_exec_path: str = _cursor("", "path of the program")
    cursor_exec_sandbox: str = _cursor("", "sandbox mode")
    copilot_exec_path: str = _copilot("", "path of the program")
    copilot_exec_home: str = _copilot("", "home folder of the program")
    copilot_exec_allow_all_tools: bool = _copilot(False, "let the agent use every tool")
    copilot_chat_optimizer_model: str = _copilot("", "model of the optimizer")
    copilot_chat_target_model: str = _copilot("", "model of the target")
    copilot_chat_timeout: float | None = _copilot(None, "seconds for one call")


class ProviderKeys(AzureKeys, QwenKeys, MiniMaxKeys, AgentKeys):
    """All of them."""
