"""The keys of single providers and agents, by their published names.

A key S of the provider with the prefix P is ``P_S``, for one role ``optimizer_P_S`` or ``target_P_S``; in capitals it
is the environment variable of the same meaning. Blank and null leave the environment in control, and then the
provider's row in ``models/providers.py``.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import SecretStr, field_validator
from pydantic_core import PydanticCustomError

from skillopt.config.keys import Section, key
from skillopt.config.provider_names import AZURE_AUTH_MODES
from skillopt.config.values import invalid, read_float, shown

AuthMode = Literal["", "api_key", "openai_compatible", "azure_cli", "managed_identity"]
ThinkingMode = Literal["", "server_default", "enabled", "disabled"]
Region = Literal["", "global_en", "cn_zh"]
UseSdk = Literal["", "auto", "false"]
AgentEffort = Literal["", "none", "low", "medium", "high", "xhigh", "max"]
CodexEffort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
CodexSandbox = Literal["", "read-only", "workspace-write", "danger-full-access"]
CodexApproval = Literal["", "untrusted", "on-failure", "on-request", "never"]
CursorSandbox = Literal["", "enabled", "disabled"]

LEAST_THINKING = 1024
"""The fewest tokens that Anthropic's API takes as a budget for thoughts."""
NO_SDK = {"no": "false", "off": "false", "0": "false"}
"""Other spellings of a ``UseSdk``."""

_both = partial(key, on="both")
_text = partial(key, "", on="both")
_unset = partial(key, None, on="both")
_path = partial(key, "", on="both", resume=False)
_seconds = partial(key, None, on="both", resume=False, gt=0)
_auth = partial(key, "", on="both", aliases=AZURE_AUTH_MODES)
_sdk = partial(
    key,
    "",
    on="both",
    aliases=NO_SDK,
    later=dict.fromkeys(("true", "yes", "on", "1"), "the program itself is run, which shows all that it does"),
)
_AUTH = "how to authenticate with Azure; blank: a key where there is one, else the Azure CLI"
_OLD_THINKING = "old form of thinking_mode: true is enabled, false is server_default"
_NO_HEAT = "blank leaves it to the environment and then 0.7; none sends none"


class AzureKeys(Section):
    """Azure OpenAI, for both roles and for one role."""

    azure_endpoint: str = _text("old name of azure_openai_endpoint")
    azure_api_version: str = _text("old name of azure_openai_api_version")
    azure_api_key: SecretStr | None = _unset("old name of azure_openai_api_key")
    azure_openai_endpoint: str = _text("address of the Azure resource, such as https://NAME.openai.azure.com")
    azure_openai_api_version: str = _text("version of the Azure API; blank is 2024-12-01-preview")
    azure_openai_api_key: SecretStr | None = _unset("Azure API key")
    azure_openai_auth_mode: AuthMode = _auth(_AUTH)
    azure_openai_ad_scope: str = _text("scope of an Azure token; blank is that of Azure's cognitive services")
    azure_openai_managed_identity_client_id: str = _text("client id of a managed identity")
    optimizer_azure_openai_endpoint: str = _text("Azure endpoint of the optimizer")
    optimizer_azure_openai_api_version: str = _text("Azure API version of the optimizer")
    optimizer_azure_openai_api_key: SecretStr | None = _unset("Azure API key of the optimizer")
    optimizer_azure_openai_auth_mode: AuthMode = _auth("how the optimizer authenticates with Azure")
    optimizer_azure_openai_ad_scope: str = _text("scope of the optimizer's Azure token")
    optimizer_azure_openai_managed_identity_client_id: str = _text("the optimizer's managed identity")
    target_azure_openai_endpoint: str = _text("Azure endpoint of the target")
    target_azure_openai_api_version: str = _text("Azure API version of the target")
    target_azure_openai_api_key: SecretStr | None = _unset("Azure API key of the target")
    target_azure_openai_auth_mode: AuthMode = _auth("how the target authenticates with Azure")
    target_azure_openai_ad_scope: str = _text("scope of the target's Azure token")
    target_azure_openai_managed_identity_client_id: str = _text("the target's managed identity")


class QwenKeys(Section):
    """Qwen behind vLLM or SGLang, for both roles and for one role."""

    qwen_chat_base_url: str = _text("address of the Qwen server; blank is http://localhost:8000/v1")
    qwen_chat_api_key: SecretStr | None = _unset("API key of the Qwen server, where it wants one")
    qwen_chat_temperature: str = _text(f"sampling temperature of Qwen; {_NO_HEAT}")
    qwen_chat_timeout_seconds: float | None = _seconds("seconds for one request to Qwen")
    qwen_chat_max_tokens: int | None = _unset("cap of Qwen's completion tokens; null is 8000", ge=1)
    qwen_chat_enable_thinking: bool | None = _unset(_OLD_THINKING)
    qwen_chat_thinking_mode: ThinkingMode = _text("Qwen's thinking: on, off, or as the server has it (blank)")
    qwen_chat_use_max_completion_tokens: bool | None = key(
        None, "send the cap of Qwen's completion tokens as max_completion_tokens", new=True
    )
    optimizer_qwen_chat_base_url: str = _text("address of the optimizer's Qwen server")
    optimizer_qwen_chat_api_key: SecretStr | None = _unset("API key of the optimizer's Qwen server")
    optimizer_qwen_chat_temperature: str = _text("temperature of Qwen as optimizer; none sends none")
    optimizer_qwen_chat_timeout_seconds: float | None = _seconds("seconds for one request to Qwen as optimizer")
    optimizer_qwen_chat_max_tokens: int | None = _unset("cap of completion tokens of Qwen as optimizer", ge=1)
    optimizer_qwen_chat_enable_thinking: bool | None = _unset("for the optimizer: " + _OLD_THINKING)
    optimizer_qwen_chat_thinking_mode: ThinkingMode = _text("thinking of Qwen as optimizer")
    target_qwen_chat_base_url: str = _text("address of the target's Qwen server")
    target_qwen_chat_api_key: SecretStr | None = _unset("API key of the target's Qwen server")
    target_qwen_chat_temperature: str = _text("temperature of Qwen as target; none sends none")
    target_qwen_chat_timeout_seconds: float | None = _seconds("seconds for one request to Qwen as target")
    target_qwen_chat_max_tokens: int | None = _unset("cap of completion tokens of Qwen as target", ge=1)
    target_qwen_chat_enable_thinking: bool | None = _unset("for the target: " + _OLD_THINKING)
    target_qwen_chat_thinking_mode: ThinkingMode = _text("thinking of Qwen as target")


class MiniMaxKeys(Section):
    """MiniMax, for both roles and for one role. The latter never had an option on the command line."""

    minimax_region: Region = _text("region of MiniMax; a base URL outranks it")
    minimax_base_url: str = _text("address of MiniMax")
    minimax_api_key: SecretStr | None = _unset("API key of MiniMax")
    minimax_model: str = _text("MiniMax's model for a role that names none; blank is MiniMax-M3")
    minimax_temperature: str = _text(f"sampling temperature of MiniMax; {_NO_HEAT}")
    minimax_max_tokens: int | None = _unset("cap of MiniMax's completion tokens; null is 8000", ge=1)
    minimax_enable_thinking: bool | None = _unset("let MiniMax think; null does not, and MiniMax-M2 always does")
    optimizer_minimax_base_url: str = key("", "address of MiniMax for the optimizer")
    optimizer_minimax_api_key: SecretStr | None = key(None, "API key of MiniMax for the optimizer")
    target_minimax_base_url: str = key("", "address of MiniMax for the target")
    target_minimax_api_key: SecretStr | None = key(None, "API key of MiniMax for the target")


class AnthropicKeys(Section):
    """Anthropic's Messages API."""

    anthropic_thinking_tokens: int | None = key(
        None,
        f"tokens that Claude may think with at Anthropic's API, {LEAST_THINKING} or more; null and 0 switch it off",
        new=True,
    )
    optimizer_anthropic_thinking_tokens: int | None = key(
        None, "the same for the optimizer; 0 switches it off", new=True
    )
    target_anthropic_thinking_tokens: int | None = key(None, "the same for the target; 0 switches it off", new=True)

    @field_validator(
        "anthropic_thinking_tokens", "optimizer_anthropic_thinking_tokens", "target_anthropic_thinking_tokens"
    )
    @classmethod
    def _enough(cls, value: int | None) -> int | None:
        if value is not None and value != 0 and value < LEAST_THINKING:
            raise invalid(f"must be 0 or at least {LEAST_THINKING}, got {value}")
        return value


class AgentKeys(Section):
    """Command-line programs: Codex, Claude Code, Cursor, Copilot."""

    codex_trace_to_optimizer: bool = key(
        True,
        "show what an agent did to the analysts",
        on="both",
        unbuilt="the work of every agent is shown to the analysts; gradient.max_trajectory_tokens says how much of it",
    )
    codex_exec_path: str = _path("Codex's program; blank looks for codex")
    codex_exec_sandbox: CodexSandbox = _text(
        "what Codex may write; blank is workspace-write for a target and read-only for an optimizer"
    )
    codex_exec_profile: str = _text("profile of Codex's own configuration")
    codex_exec_full_auto: bool = _both(False, "retired, without an effect; use codex_exec_sandbox")
    codex_exec_reasoning_effort: CodexEffort = _text(
        "reasoning effort of Codex; blank and none leave it to the program"
    )
    codex_exec_use_sdk: UseSdk = _sdk("whether Codex is run by its SDK: it never is")
    codex_exec_network_access: bool | None = _unset("let Codex use the network; null does not")
    codex_exec_web_search: bool | None = _unset("let Codex search the web; null does not")
    codex_exec_approval_policy: CodexApproval = _text(
        "when Codex asks for approval; blank is never, since nobody answers"
    )
    claude_code_exec_path: str = _path("Claude Code's program; blank looks for claude")
    claude_code_exec_profile: str = _text("profile that Claude Code is told")
    claude_code_exec_use_sdk: UseSdk = _sdk("whether Claude Code is run by its SDK: it never is")
    claude_code_exec_effort: AgentEffort = _text("reasoning effort of Claude Code; blank is medium, none sends none")
    claude_code_exec_max_thinking_tokens: int | None = _unset(
        "cap of Claude Code's thinking tokens; null is 16384", ge=0
    )
    cursor_exec_path: str = _path("Cursor's program; blank looks for cursor-agent")
    cursor_exec_sandbox: CursorSandbox = _text("Cursor's own sandbox; blank is enabled")
    copilot_exec_path: str = _path("Copilot's program; blank looks for copilot")
    copilot_exec_home: str = _path("folder that Copilot keeps its files in; blank is its own choice")
    copilot_exec_allow_all_tools: bool | None = _unset("let Copilot use every tool; null does not")
    copilot_chat_optimizer_model: str = _text("Copilot's model for an optimizer that names none")
    copilot_chat_target_model: str = _text("Copilot's model for a target that names none")
    copilot_chat_timeout: float | None = _seconds("seconds for one call of Copilot as a chat model")


class ProviderKeys(AgentKeys, AnthropicKeys, MiniMaxKeys, QwenKeys, AzureKeys):
    """All of them; their fields come in the reverse order of the bases."""

    @field_validator(
        "qwen_chat_temperature",
        "optimizer_qwen_chat_temperature",
        "target_qwen_chat_temperature",
        "minimax_temperature",
    )
    @classmethod
    def _heat(cls, value: str) -> str:
        """A number as it is stored, ``none``, or blank."""
        if not value or value.lower() in ("none", "off", "null"):
            return value and "none"
        try:
            number = read_float(value)
        except PydanticCustomError:
            number = -1.0
        if number < 0:
            raise invalid(f"must be a number of 0 or more, or none; got {shown(value)}")
        return f"{number:g}"
