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

from skillopt.config.keys import KeyInfo, Section, key, keys_of
from skillopt.config.model_keys import ProviderKeys
from skillopt.config.provider_names import ALIASES, OPENAI_CHAT, ProviderName
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
from skillopt.config.values import invalid, looks_like_a_key, shown

RoleBackend = Literal["openai_chat", ProviderName]
Backend = Literal["auto", "openai_chat", ProviderName]
Effort = Literal["", "low", "medium", "high", "xhigh", "max"]

_BACKEND = (
    "provider of both roles; auto takes the one whose API key is in the environment, and openai_chat means openai or "
    "azure_openai. anthropic is Anthropic's API, claude_chat the claude program. A program that works as a target only "
    "(claude_code_exec, cursor_exec, copilot_exec) leaves the optimizer to auto"
)
_ROLE_BACKEND = "provider of the {role}; blank and openai_chat follow model.backend, openai asks for the OpenAI API"


def _addresses(section: type[Section]) -> list[str]:
    return [name for name in section.model_fields if name.endswith(("base_url", "endpoint"))]


class GeneralKeys(Section):
    """Keys that concern every provider."""

    backend: Backend = key("auto", _BACKEND, flat="model_backend", flag="backend", on="both", aliases=ALIASES)
    optimizer: str = key("gpt-5.5", "model that proposes edits", flat="optimizer_model", on="both")
    target: str = key("gpt-5.5", "model that the skill is for", flat="target_model", on="both")
    optimizer_backend: RoleBackend = key(
        OPENAI_CHAT, _ROLE_BACKEND.format(role="optimizer"), on="both", aliases=ALIASES, null=(OPENAI_CHAT,)
    )
    target_backend: RoleBackend = key(
        OPENAI_CHAT, _ROLE_BACKEND.format(role="target"), on="both", aliases=ALIASES, null=(OPENAI_CHAT,)
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
    api: Literal["auto", "chat", "responses"] = key(
        "auto", "API of an OpenAI-style provider; auto takes the Responses API for the models that need it", new=True
    )
    reply_style: Literal["auto", "full", "compact"] = key(
        "auto", "how much the optimizer is asked to write; auto is what suits the provider", new=True
    )
    reasoning_effort: Effort = key("medium", "reasoning effort of both roles; blank sends none", on="both")
    rewrite_reasoning_effort: Effort = key("", "reasoning effort of a skill rewrite; blank sends none", on="train")
    rewrite_max_completion_tokens: int = key(64000, "cap of a rewrite's completion tokens", on="train", ge=1)


class ModelConfig(ProviderKeys, GeneralKeys):
    """The two models: the optimizer that writes edits and the target that works with the skill."""

    @field_validator(*_addresses(ProviderKeys), "base_url", "optimizer_base_url", "target_base_url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value and not re.match(r"https?://[^/\s]", value):
            told = "***" if looks_like_a_key(value) else shown(value)
            raise invalid(f"must begin with http:// or https://, got {told}")
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
