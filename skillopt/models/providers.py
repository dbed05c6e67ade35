"""The table of providers. A provider that speaks a protocol of the house is a row here and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from skillopt.models.profile import ANY_VENDOR, PATIENCE, Provider

_hosted = partial(Provider, reasoning_effort=False)
_router = partial(Provider, router=True)
_own_server = partial(Provider, router=True, needs_key=False, reasoning_effort=False)
_program = partial(
    Provider,
    base_url="",
    protocol="cli",
    needs_key=False,
    tools=False,
    images=False,
    patience=120.0,  # it starts a session, reads its settings, thinks
)

_OPENAI = (
    Provider(
        name="openai",
        prefix="OPENAI",
        base_url="https://api.openai.com/v1",
        max_tokens_field="max_completion_tokens",
        default_model="gpt-5.5",
        any_endpoint=True,
        openai_models=True,
        responses=True,
        vendor=ANY_VENDOR,
        note="OpenAI, or any endpoint that OPENAI_BASE_URL names",
    ),
    _router(
        name="openai_compatible",
        prefix="OPENAI_COMPATIBLE",
        base_url="https://api.openai.com/v1",
        default_model="gpt-4o-mini",
        any_endpoint=True,
        openai_models=True,
        vendor=ANY_VENDOR,
        note="any endpoint that speaks OpenAI's chat protocol: a gateway, LiteLLM, a server of one's own",
    ),
    Provider(
        name="azure_openai",
        prefix="AZURE_OPENAI",
        base_url="",
        auth="api-key",
        max_tokens_field="max_completion_tokens",
        default_model="gpt-5.5",
        openai_models=True,
        responses=True,
        vendor="openai",
        note="Azure OpenAI: a key, the Azure CLI, a managed identity, or its OpenAI-compatible endpoint",
    ),
)

_OTHERS = (
    _own_server(
        name="qwen_chat",
        prefix="QWEN_CHAT",
        base_url="http://localhost:8000/v1",
        default_model="Qwen/Qwen3.5-4B",
        temperature=0.7,
        max_tokens=8000,
        note="Qwen behind vLLM, SGLang or a gateway, with its thinking switch",
    ),
    _hosted(
        name="minimax_chat",
        prefix="MINIMAX",
        base_url="https://api.minimax.io/v1",
        default_model="MiniMax-M3",
        json_schema=False,
        temperature=0.7,
        max_tokens=8000,
        vendor="minimax",
        note="MiniMax; MINIMAX_REGION is global_en or cn_zh",
    ),
    _router(
        name="openrouter",
        prefix="OPENROUTER",
        base_url="https://openrouter.ai/api/v1",
        default_model="openai/gpt-5.5",
        vendor=ANY_VENDOR,
        note="OpenRouter",
    ),
    _hosted(
        name="deepseek",
        prefix="DEEPSEEK",
        base_url="https://api.deepseek.com/v1",
        default_model="deepseek-chat",
        images=False,
        note="DeepSeek",
    ),
    _hosted(
        name="groq",
        prefix="GROQ",
        base_url="https://api.groq.com/openai/v1",
        default_model="llama-3.3-70b-versatile",
        router=True,
        note="Groq",
    ),
    _hosted(
        name="mistral",
        prefix="MISTRAL",
        base_url="https://api.mistral.ai/v1",
        default_model="mistral-large-latest",
        note="Mistral",
    ),
    Provider(
        name="gemini",
        prefix="GEMINI",
        also=("GOOGLE",),
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        default_model="gemini-2.5-flash",
        vendor="google",
        note="Google Gemini, by its OpenAI-compatible endpoint",
    ),
    _hosted(
        name="together",
        prefix="TOGETHER",
        base_url="https://api.together.xyz/v1",
        default_model="meta-llama/Llama-3.3-70B-Instruct-Turbo",
        router=True,
        note="Together AI",
    ),
    _hosted(
        name="fireworks",
        prefix="FIREWORKS",
        base_url="https://api.fireworks.ai/inference/v1",
        router=True,
        note="Fireworks AI",
    ),
    _hosted(
        name="cerebras",
        prefix="CEREBRAS",
        base_url="https://api.cerebras.ai/v1",
        max_tokens_field="max_completion_tokens",
        images=False,
        note="Cerebras",
    ),
    _hosted(
        name="xai",
        prefix="XAI",
        base_url="https://api.x.ai/v1",
        default_model="grok-4",
        note="xAI",
    ),
    _hosted(
        name="moonshot",
        prefix="MOONSHOT",
        base_url="https://api.moonshot.ai/v1",
        note="Moonshot AI (Kimi)",
    ),
    _hosted(
        name="dashscope",
        prefix="DASHSCOPE",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        default_model="qwen-plus",
        note="Alibaba Cloud's Qwen models",
    ),
    _hosted(
        name="nvidia",
        prefix="NVIDIA",
        base_url="https://integrate.api.nvidia.com/v1",
        router=True,
        note="NVIDIA's hosted models",
    ),
    _own_server(
        name="ollama",
        prefix="OLLAMA",
        base_url="http://localhost:11434/v1",
        vendor="local",
        start="ollama serve",
        pull="ollama pull {model}",
        note="Ollama on this machine",
    ),
    _own_server(
        name="vllm",
        prefix="VLLM",
        base_url="http://localhost:8000/v1",
        start="vllm serve {model}",
        note="a vLLM server",
    ),
    _own_server(
        name="sglang",
        prefix="SGLANG",
        base_url="http://localhost:30000/v1",
        start="python -m sglang.launch_server --model-path {model}",
        note="an SGLang server",
    ),
    _own_server(
        name="lmstudio",
        prefix="LMSTUDIO",
        base_url="http://localhost:1234/v1",
        vendor="local",
        start="lms server start",
        note="LM Studio on this machine",
    ),
    _own_server(
        name="llama_server",
        prefix="LLAMA_SERVER",
        base_url="http://localhost:8080/v1",
        grammar=True,
        vendor="local",
        start="llama-server -m FILE.gguf",
        note="llama.cpp's server, started by you",
    ),
    Provider(
        name="anthropic",
        prefix="ANTHROPIC",
        base_url="https://api.anthropic.com/v1",
        protocol="messages",
        auth="x-api-key",
        default_model="claude-sonnet-4-6",
        note="Anthropic's Messages API",
    ),
)

_PROGRAMS = (
    _program(
        name="claude_chat",
        prefix="CLAUDE",
        also=("CLAUDE_CODE_EXEC",),
        program="claude",
        default_model="claude-sonnet-4-6",
        vendor="anthropic",
        tells_cost=True,
        note="Claude by the Claude Code CLI (`claude -p`), as a chat model",
    ),
    _program(
        name="copilot_chat",
        prefix="COPILOT_CHAT",
        also=("COPILOT_EXEC",),
        program="copilot",
        reasoning_effort=False,
        note="GitHub Copilot's CLI (`copilot -p`), as a chat model",
    ),
    _program(
        name="codex_exec",
        prefix="CODEX_EXEC",
        also=("CODEX",),
        program="codex",
        default_model="gpt-5.5",
        images=True,
        agent=True,
        openai_models=True,
        vendor="openai",
        note="the Codex CLI: an agent as target, a chat model as optimizer",
    ),
    _program(
        name="claude_code_exec",
        prefix="CLAUDE_CODE_EXEC",
        also=("CLAUDE",),
        program="claude",
        default_model="claude-sonnet-4-6",
        images=True,
        agent=True,
        roles=("target",),
        vendor="anthropic",
        tells_cost=True,
        note="the Claude Code CLI as an agent",
    ),
    _program(
        name="cursor_exec",
        prefix="CURSOR_EXEC",
        program="cursor-agent",
        default_model="composer-2.5",
        reasoning_effort=False,
        images=True,
        agent=True,
        roles=("target",),
        note="Cursor's CLI as an agent",
    ),
    _program(
        name="copilot_exec",
        prefix="COPILOT_EXEC",
        program="copilot",
        reasoning_effort=False,
        images=True,
        agent=True,
        roles=("target",),
        note="GitHub Copilot's CLI as an agent",
    ),
)

_LOCAL = Provider(
    name="local",
    prefix="",
    base_url="",
    grammar=True,
    tools=False,
    images=False,
    reply_style="compact",
    needs_key=False,
    default_model="qwen2.5-coder-1.5b",
    patience=90.0,  # a CPU may read its prompt slowly
    note="a GGUF model on this machine, served by the embedded llama.cpp",
)

PROVIDERS: Mapping[str, Provider] = {row.name: row for row in (*_OPENAI, *_OTHERS, *_PROGRAMS, _LOCAL)}
"""By name. Of several that the environment has keys for, the first one here is taken."""


def patience_with(provider: str) -> float:
    """Seconds that a probe may take; ``provider`` may also be the name of a client that is not ours."""
    row = PROVIDERS.get(provider)
    return PATIENCE if row is None else row.patience
