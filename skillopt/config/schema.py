"""The configuration of a run: nine sections of typed keys, frozen.

Everything else about the configuration is made from this schema: the reading of files, overrides and flags, the help
text, the reference page, and the check on resume.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from skillopt.config.keys import KeyInfo, key, keys_of
from skillopt.config.model_keys import ProviderKeys
from skillopt.config.sections import (
    BudgetConfig,
    EnvConfig,
    EvaluationConfig,
    GradientConfig,
    LoggingConfig,
    OptimizerConfig,
    RuntimeConfig,
    TrainConfig,
)
from skillopt.config.values import invalid, shown

Provider = Literal["openai", "openai_chat", "openai_compatible", "local"]
Backend = Literal["auto", "openai", "openai_chat", "openai_compatible", "local"]
Effort = Literal["", "low", "medium", "high", "xhigh", "max"]

_COMPATIBLE = {
    "openai_compatible_chat": "openai_compatible",
    "openai-compatible": "openai_compatible",
    "compat": "openai_compatible",
}
_LATER = {
    **dict.fromkeys(("azure", "azure_openai", "azure-openai"), "it needs the Azure OpenAI provider"),
    **dict.fromkeys(("claude", "claude_chat", "anthropic"), "it needs the Claude provider"),
    **dict.fromkeys(("qwen", "qwen_chat"), "it needs the Qwen provider; openai_compatible reaches a Qwen server too"),
    **dict.fromkeys(("minimax", "minimax_chat"), "it needs the MiniMax provider"),
    **dict.fromkeys(("codex", "codex_exec"), "it needs the Codex agent"),
    "claude_code_exec": "it needs the Claude Code agent",
    **dict.fromkeys(("cursor", "cursor_agent", "cursor_exec"), "it needs the Cursor agent"),
    **dict.fromkeys(
        ("copilot", "copilot_cli", "github_copilot", "copilot_chat", "copilot_exec"), "it needs the Copilot agent"
    ),
}
_FOLLOWS = "openai_chat"


class ModelConfig(ProviderKeys):
    """The two models: the optimizer that writes edits and the target that works with the skill."""

    backend: Backend = key(
        "auto",
        "provider of both roles; auto takes the one whose API key is in the environment",
        flat="model_backend",
        flag="backend",
        on="both",
        aliases=_COMPATIBLE,
        later=_LATER,
    )
    optimizer: str = key("gpt-5.5", "model that proposes edits", flat="optimizer_model", on="both")
    target: str = key("gpt-5.5", "model that the skill is for", flat="target_model", on="both")
    optimizer_backend: Provider = key(
        _FOLLOWS,
        "provider of the optimizer; blank and openai_chat follow model.backend, openai asks for the OpenAI API",
        on="both",
        aliases=_COMPATIBLE,
        later=_LATER,
        null=(_FOLLOWS,),
    )
    target_backend: Provider = key(
        _FOLLOWS,
        "provider of the target; blank and openai_chat follow model.backend, openai asks for the OpenAI API",
        on="both",
        aliases=_COMPATIBLE,
        later=_LATER,
        null=(_FOLLOWS,),
    )
    base_url: str | None = key(None, "address of the API for both roles; null takes it from the environment", new=True)
    optimizer_base_url: str | None = key(None, "address of the API for the optimizer", new=True)
    target_base_url: str | None = key(None, "address of the API for the target", new=True)
    temperature: float | None = key(None, "sampling temperature of both roles; null sends none", new=True, ge=0)
    optimizer_temperature: float | None = key(None, "sampling temperature of the optimizer", new=True, ge=0)
    target_temperature: float | None = key(None, "sampling temperature of the target", new=True, ge=0)
    timeout_seconds: float = key(
        300.0, "seconds for one request; a rollout has env.exec_timeout instead", new=True, gt=0
    )
    reply_style: Literal["auto", "full", "compact"] = key(
        "auto", "how much the optimizer is asked to write; auto is what suits the provider", new=True
    )
    reasoning_effort: Effort = key("medium", "reasoning effort of both roles; blank sends none", on="both")
    rewrite_reasoning_effort: Effort = key("", "reasoning effort of a skill rewrite; blank sends none", on="train")
    rewrite_max_completion_tokens: int = key(64000, "cap of a rewrite's completion tokens", on="train", ge=1)

    @field_validator("base_url", "optimizer_base_url", "target_base_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"https?://[^/\s]", value):
            raise invalid(f"must begin with http:// or https://, got {shown(value)}")
        return value


class Config(BaseModel):
    """The whole configuration. Built from files, overrides and flags by ``load_config``."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=())

    model: ModelConfig = Field(default_factory=ModelConfig, description="the two models")
    train: TrainConfig = Field(default_factory=TrainConfig, description="length and data of the training")
    gradient: GradientConfig = Field(default_factory=GradientConfig, description="reflection and merging")
    optimizer: OptimizerConfig = Field(default_factory=OptimizerConfig, description="edits and epoch ends")
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig, description="gate and final test")
    env: EnvConfig = Field(default_factory=EnvConfig, description="benchmark and data")
    runtime: RuntimeConfig = Field(default_factory=RuntimeConfig, description="behaviour of the run")
    budget: BudgetConfig = Field(default_factory=BudgetConfig, description="caps on spending")
    logging: LoggingConfig = Field(default_factory=LoggingConfig, description="what is written")


SECTIONS: tuple[str, ...] = tuple(Config.model_fields)


def iter_keys(config: type[BaseModel] = Config) -> tuple[KeyInfo, ...]:
    """Every key of the schema, built or not, in its order."""
    return tuple(keys_of(config).values())


def key_by_dotted() -> Mapping[str, KeyInfo]:
    """Every key by its dotted name."""
    return keys_of(Config)


@cache
def key_by_flat() -> Mapping[str, KeyInfo]:
    """Every key by its name in a flat configuration."""
    return {info.flat: info for info in iter_keys()}
