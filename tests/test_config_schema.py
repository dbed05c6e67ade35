"""The schema against the published tables: names, flat names, defaults, choices, what is built."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from skillopt.config import Config, ConfigError, flatten, iter_keys, load_config
from skillopt.config.keys import KeyInfo
from skillopt.config.provider_names import ALIASES as BACKEND_ALIASES
from skillopt.config.provider_names import ProviderName

ROLES = ("", "optimizer_", "target_")
AZURE = ("endpoint", "api_version", "api_key", "auth_mode", "ad_scope", "managed_identity_client_id")
QWEN = str.split("base_url api_key temperature timeout_seconds max_tokens enable_thinking thinking_mode")
MINIMAX = str.split("region base_url api_key model temperature max_tokens enable_thinking")
CODEX = str.split("path sandbox profile reasoning_effort use_sdk network_access web_search approval_policy")
CLAUDE = str.split("path profile use_sdk effort max_thinking_tokens")
NUMBERS = str.split(
    "timeout_seconds chat_timeout max_tokens thinking_tokens thinking network_access web_search all_tools"
)

# dotted key -> (flat name, default), from the published base configuration; ours where the contract differs.
PUBLISHED: dict[str, tuple[str, Any]] = {
    "train.num_epochs": ("num_epochs", 4),
    "train.train_size": ("train_size", 0),
    "train.batch_size": ("batch_size", 40),
    "train.accumulation": ("accumulation", 1),
    "train.seed": ("seed", 42),
    "gradient.minibatch_size": ("minibatch_size", 8),
    "gradient.merge_batch_size": ("merge_batch_size", 8),
    "gradient.analyst_workers": ("analyst_workers", 16),
    "gradient.failure_only": ("failure_only", False),
    "optimizer.learning_rate": ("edit_budget", 4),
    "optimizer.min_learning_rate": ("min_edit_budget", 2),
    "optimizer.lr_scheduler": ("lr_scheduler", "cosine"),
    "optimizer.lr_control_mode": ("lr_control_mode", "fixed"),
    "optimizer.skill_update_mode": ("skill_update_mode", "patch"),
    "optimizer.use_slow_update": ("use_slow_update", True),
    "optimizer.slow_update_samples": ("slow_update_samples", 20),
    "optimizer.slow_update_gate_with_selection": ("slow_update_gate_with_selection", True),
    "optimizer.longitudinal_pair_policy": ("longitudinal_pair_policy", "mixed"),
    "optimizer.use_meta_skill": ("use_meta_skill", True),
    "evaluation.use_gate": ("use_gate", True),
    "evaluation.gate_metric": ("gate_metric", "hard"),
    "evaluation.gate_mixed_weight": ("gate_mixed_weight", 0.5),
    "evaluation.sel_env_num": ("sel_env_num", 0),
    "evaluation.test_env_num": ("test_env_num", 0),
    "evaluation.eval_test": ("eval_test", True),
    "env.name": ("env", ""),
    "env.skill_init": ("skill_init", ""),
    "env.out_root": ("out_root", ""),
    "env.split_mode": ("split_mode", "ratio"),
    "env.split_ratio": ("split_ratio", "2:1:7"),
    "env.split_seed": ("split_seed", 42),
    "env.split_dir": ("split_dir", ""),
    "env.data_path": ("data_path", ""),
    "env.split_output_dir": ("split_output_dir", ""),
    "env.exec_timeout": ("exec_timeout", 120),
    "env.limit": ("limit", 0),
    "env.max_turns": ("max_turns", 1),
    "env.max_completion_tokens": ("max_completion_tokens", 16384),
    "model.backend": ("model_backend", "auto"),
    "model.optimizer": ("optimizer_model", "gpt-5.5"),
    "model.target": ("target_model", "gpt-5.5"),
    "model.optimizer_backend": ("optimizer_backend", "openai_chat"),
    "model.target_backend": ("target_backend", "openai_chat"),
    "model.reasoning_effort": ("reasoning_effort", "medium"),
    "model.rewrite_reasoning_effort": ("rewrite_reasoning_effort", ""),
    "model.rewrite_max_completion_tokens": ("rewrite_max_completion_tokens", 64000),
    "model.codex_exec_full_auto": ("codex_exec_full_auto", False),
    # Providers and programs: blank leaves the environment in control, then the provider's own default.
    **{
        f"model.{name}": (name, None if name.endswith(("api_key", *NUMBERS)) else "")
        for name in (
            *(f"azure_{name}" for name in ("endpoint", "api_version", "api_key")),
            *(f"{role}azure_openai_{name}" for role in ROLES for name in AZURE),
            *(f"{role}qwen_chat_{name}" for role in ROLES for name in QWEN),
            *(f"minimax_{name}" for name in MINIMAX),
            *(f"{role}minimax_{name}" for role in ROLES[1:] for name in ("base_url", "api_key")),
            *(f"codex_exec_{name}" for name in CODEX),
            *(f"claude_code_exec_{name}" for name in CLAUDE),
            *("cursor_exec_path", "cursor_exec_sandbox", "copilot_exec_path", "copilot_exec_home"),
            *("copilot_exec_allow_all_tools", "copilot_chat_optimizer_model", "copilot_chat_target_model"),
            "copilot_chat_timeout",
        )
    },
}
NEW: dict[str, Any] = {
    "model.base_url": None,
    "model.optimizer_base_url": None,
    "model.target_base_url": None,
    "model.temperature": None,
    "model.optimizer_temperature": None,
    "model.target_temperature": None,
    "model.timeout_seconds": 300,
    "model.reply_style": "auto",
    "model.api": "auto",
    "model.qwen_chat_use_max_completion_tokens": None,
    "model.anthropic_thinking_tokens": None,
    "model.optimizer_anthropic_thinking_tokens": None,
    "model.target_anthropic_thinking_tokens": None,
    "runtime.resume_policy": "strict",
    "runtime.max_error_rate": 0.3,
    "budget.max_calls": None,
    "budget.max_tokens": None,
    "budget.max_usd": None,
    "budget.prices": "",
    "budget.max_seconds": None,
    "logging.predictions": "train",
    "logging.trackers": (),
    "logging.tracker_prefix": "skillopt/",
    "evaluation.gate_rule": "strict",
    "gradient.max_trajectory_tokens": 2000,
    "gradient.max_prompt_tokens": 60000,
    "env.force_answer_tag": False,
}
# A value that is not the default, for each published key whose feature is not built.
UNBUILT: dict[str, str] = {
    "train.steps_per_epoch": "10",
    "optimizer.meta_learning_rate": "3",
    "optimizer.use_skill_aware_reflection": "true",
    "optimizer.skill_aware_appendix_source": "failure_only",
    "optimizer.skill_aware_consolidate_threshold": "5",
    "evaluation.use_semantic_density": "yes",
    "evaluation.semantic_density_weight": "0.1",
    "evaluation.leading_words": "[always, never]",
    "env.max_steps": "50",
    "env.max_api_workers": "8",
    "env.mode": "multi",
    "env.data_root": "data",
    "env.image_detail": "high",
    "env.shuffle_choices": "true",
    "env.use_theorem": "on",
    "env.use_sketch": "1",
    "env.data_dirs": "[a, b]",
    "env.search_mode": "offline",
    "env.max_tool_turns": "24",
    "env.max_queries_per_turn": "4",
    "env.judge_model": "m",
    "env.judge_max_completion_tokens": "9",
    "env.judge_retries": "2",
    "env.max_turns": "2",
    "model.codex_trace_to_optimizer": "false",
    "model.codex_exec_use_sdk": "true",
    "model.claude_code_exec_use_sdk": "true",
    "evaluation.gate_rule": "paired",
}
KEYS = {info.dotted: info for info in iter_keys(Config)}
# Each is a choice whose other values only are unbuilt.
PARTLY_BUILT = {
    "env.max_turns",
    "evaluation.gate_rule",
    "model.codex_exec_use_sdk",
    "model.claude_code_exec_use_sdk",
}


def load(*overrides: str) -> Config:
    return load_config(None, ["env.name=searchqa", *overrides])


@pytest.mark.parametrize("dotted", PUBLISHED)
def test_published_key(dotted: str) -> None:
    flat, default = PUBLISHED[dotted]
    info = KEYS[dotted]
    assert (info.flat, info.default, info.built) == (flat, default, True)


def test_every_built_key_is_in_one_of_the_tables() -> None:
    built = {dotted for dotted, info in KEYS.items() if info.built}
    assert built == {*PUBLISHED, *NEW, "env.workers"}


@pytest.mark.parametrize("dotted", NEW)
def test_new_key_has_its_dotted_name_in_the_flat_form(dotted: str) -> None:
    assert (KEYS[dotted].flat, KEYS[dotted].default) == (dotted, NEW[dotted])


@pytest.mark.parametrize("dotted", UNBUILT)
def test_a_key_that_is_not_built_is_refused_by_name(dotted: str) -> None:
    assert KEYS[dotted].built is (dotted in PARTLY_BUILT)
    with pytest.raises(ConfigError, match=dotted.replace(".", r"\.")) as caught:
        load(f"{dotted}={UNBUILT[dotted]}")
    assert len(caught.value.problems) == 1
    assert "this version" in str(caught.value)
    assert "secret-value" not in str(caught.value)


@pytest.mark.parametrize("info", [info for info in iter_keys() if not info.built], ids=lambda info: info.dotted)
def test_a_key_that_is_not_built_passes_at_its_default_and_blank(info: KeyInfo) -> None:
    default = "null" if info.default is None else str(info.default)
    for text in (default, "", "null"):
        assert load(f"{info.dotted}={text}") == load()


def test_flat_names_are_unique() -> None:
    flat = [info.flat for info in iter_keys()]
    assert len(flat) == len(set(flat))


def test_every_key_is_described() -> None:
    assert all(info.description and not info.description.endswith(".") for info in iter_keys())


def test_a_configuration_is_frozen_and_knows_no_other_key() -> None:
    config = Config()
    with pytest.raises(ValidationError):
        config.train.batch_size = 3
    with pytest.raises(ValidationError):
        Config.model_validate({"train": {"bogus": 1}})
    assert hash(config) == hash(Config())


# canonical name -> what published configurations call it
BACKENDS = {
    "auto": "auto",
    "openai": "openai OPENAI",
    "openai_chat": "openai_chat OpenAI_Chat openai-chat",
    "openai_compatible": "openai_compatible openai_compatible_chat openai-compatible compat",
    "azure_openai": "azure azure_openai azure-openai",
    "anthropic": "anthropic",
    "claude_chat": "claude claude_chat",
    "claude_code_exec": "claude_code_exec claude-code-exec",
    "codex_exec": "codex codex_exec",
    "cursor_exec": "cursor cursor_agent cursor_exec",
    "copilot_chat": "copilot copilot_cli github_copilot copilot_chat",
    "copilot_exec": "copilot_exec",
    "qwen_chat": "qwen qwen_chat",
    "minimax_chat": "minimax minimax_chat",
    "local": "local llama.cpp",
}


@pytest.mark.parametrize(
    ("name", "canonical"), [(name, canonical) for canonical, names in BACKENDS.items() for name in names.split()]
)
def test_backend_names(name: str, canonical: str) -> None:
    assert load(f"model.backend={name}").model.backend == canonical
    if canonical != "auto":
        assert load(f"model.target_backend={name}").model.target_backend == canonical
        assert load(f"model.optimizer_backend={name}").model.optimizer_backend == canonical


def test_every_provider_has_one_name() -> None:
    assert len(set(get_args(ProviderName))) == len(get_args(ProviderName))
    assert not set(BACKEND_ALIASES) & set(get_args(ProviderName))
    assert set(BACKEND_ALIASES.values()) <= set(get_args(ProviderName))


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("qwen_chat_temperature=0.70", "0.7"),
        ("qwen_chat_temperature=0", "0"),
        ("minimax_temperature=none", "none"),
        ("target_qwen_chat_temperature=OFF", "none"),
        ("qwen_chat_temperature=null", ""),
        ("qwen_chat_enable_thinking=yes", True),
        ("azure_openai_auth_mode=AAD", "managed_identity"),
        ("azure_openai_auth_mode=key", "api_key"),
        ("azure_openai_auth_mode=compat", "openai_compatible"),
        ("codex_exec_use_sdk=auto", "auto"),
        ("codex_exec_use_sdk=off", "false"),
        ("codex_exec_sandbox=read-only", "read-only"),
        ("anthropic_thinking_tokens=0", 0),
    ],
)
def test_values_of_provider_keys(typed: str, read: object) -> None:
    name, _, _ = typed.partition("=")
    assert getattr(load(f"model.{typed}").model, name) == read


@pytest.mark.parametrize(
    "typed",
    [
        "qwen_chat_temperature=warm",
        "minimax_temperature=-1",
        "qwen_chat_thinking_mode=on",
        "qwen_chat_base_url=localhost:8000",
        "azure_openai_endpoint=host",
        "azure_openai_auth_mode=password",
        "minimax_region=mars",
        "codex_exec_sandbox=none",
        "cursor_exec_sandbox=yes",
        "anthropic_thinking_tokens=100",
        "qwen_chat_max_tokens=0",
        "copilot_chat_timeout=0",
    ],
)
def test_values_of_provider_keys_that_make_no_sense(typed: str) -> None:
    with pytest.raises(ConfigError, match=rf"^model\.{typed.partition('=')[0]} "):
        load(f"model.{typed}")


def test_an_unknown_backend_gets_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"model\.backend must be one of auto, .*did you mean openai\?"):
        load("model.backend=opena")


ALIASES = {
    "optimizer.lr_control_mode": {
        "fixed": "fixed manual scheduler scheduled",
        "autonomous": "autonomous auto optimizer",
        "none": "none off no_lr",
    },
    "optimizer.skill_update_mode": {
        "patch": "patch edits",
        "rewrite_from_suggestions": "rewrite_from_suggestions rewrite suggestions rewrite_suggestions",
        "full_rewrite_minibatch": "full_rewrite_minibatch full_rewrite minibatch_full_rewrite skill_rewrite_minibatch",
    },
    "optimizer.longitudinal_pair_policy": {
        "mixed": "mixed default random all",
        "changed": "changed change delta 10_01 01_10",
        "unchanged": "unchanged stable same 00_11",
    },
}


@pytest.mark.parametrize(
    ("dotted", "name", "canonical"),
    [
        (dotted, name, canonical)
        for dotted, choices in ALIASES.items()
        for canonical, names in choices.items()
        for name in names.split()
    ],
)
def test_aliases(dotted: str, name: str, canonical: str) -> None:
    assert flatten(load(f"{dotted}={name}"))[KEYS[dotted].flat] == canonical


@pytest.mark.parametrize("dotted", [*ALIASES, "optimizer.lr_scheduler", "evaluation.gate_metric", "env.split_mode"])
def test_an_unknown_choice_is_an_error_never_a_default(dotted: str) -> None:
    choice = KEYS[dotted].kind.choices[0]
    with pytest.raises(ConfigError, match=f"{dotted} must be one of .*; did you mean {choice}"):
        load(f"{dotted}={choice}x")


@pytest.mark.parametrize("mode", ["fixed", "autonomous", "none"])
def test_a_full_rewrite_has_no_edit_budget(mode: str) -> None:
    config = load("optimizer.skill_update_mode=full_rewrite", f"optimizer.lr_control_mode={mode}")
    assert config.optimizer.lr_control_mode == "none"
