"""The flat form, what a stored one means, and what a resume compares."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from skillopt.config import (
    Config,
    ConfigError,
    Redactor,
    explain_difference,
    fingerprint,
    flatten,
    from_flat,
    iter_keys,
    load_config,
)

# As the published trainer writes it: resolved values, derived ones, features that are not built, masked secrets.
PUBLISHED_RUN: dict[str, Any] = {
    "env": "searchqa",
    "model_backend": "azure_openai",
    "optimizer_model": "gpt-5.5",
    "target_model": "gpt-5.4",
    "optimizer_backend": "openai_chat",
    "target_backend": "claude_code_exec",
    "reasoning_effort": "high",
    "rewrite_reasoning_effort": "",
    "azure_openai_endpoint": "https://somewhere",
    "azure_openai_api_version": "2024-12-01-preview",
    "azure_api_key": "abcd...wxyz",
    "qwen_chat_temperature": None,
    "minimax_temperature": "0.7",
    "minimax_enable_thinking": "false",
    "codex_trace_to_optimizer": True,
    "resolved_qwen_thinking_modes": {"target": "enabled"},
    "num_epochs": 2,
    "train_size": 400,
    "steps_per_epoch": 10,
    "batches_per_epoch": 10,
    "samples_per_epoch": 400,
    "batch_size": 40,
    "edit_budget": 1,
    "min_edit_budget": 2,
    "gate_metric": None,
    "lr_control_mode": "none",
    "max_analyst_rounds": 3,
    "use_skill_aware_reflection": True,
    "max_turns": 30,
    "some_option_of_a_benchmark": [1, 2],
    "split_seed": 0,
    "workers": 24,
}


def test_round_trip_over_json() -> None:
    config = load_config(
        None,
        [
            "env.name=searchqa",
            "budget.max_calls=0",
            "model.temperature=0.2",
            "optimizer.skill_update_mode=full_rewrite",
        ],
    )
    assert from_flat(json.loads(json.dumps(flatten(config)))) == config


def test_flatten_has_every_built_key_but_secrets_and_nothing_else() -> None:
    assert list(flatten(Config())) == [info.flat for info in iter_keys() if info.built and not info.secret]


def test_no_key_of_a_provider_in_any_form() -> None:
    keys = [info for info in iter_keys() if info.secret]
    assert len(keys) == 10
    config = load_config(None, (), {"env.name": "x", **{info.dotted: "sk-of-a-provider" for info in keys}})
    assert all(getattr(config.model, info.name).get_secret_value() == "sk-of-a-provider" for info in keys)
    plain = load_config(None, ["env.name=x"])
    assert flatten(config) == flatten(plain)
    assert fingerprint(config) == fingerprint(plain)
    assert "sk-of-a-provider" not in repr(config) + config.model_dump_json()
    assert Redactor.collect({}, config).mask("it is sk-of-a-provider!") == "it is ***!"


def test_published_names() -> None:
    flat = flatten(load_config(None, ["env.name=searchqa", "optimizer.learning_rate=7", "model.target=t"]))
    assert (flat["env"], flat["edit_budget"], flat["target_model"], flat["model_backend"]) == (
        "searchqa",
        7,
        "t",
        "auto",
    )
    assert flat["budget.max_calls"] is None


def test_a_run_of_the_published_trainer_loads() -> None:
    with pytest.warns(UserWarning, match="this version does not have; ignored: ") as caught:
        config = from_flat(PUBLISHED_RUN)
    assert len(caught) == 1
    named = str(caught[0].message).partition("ignored: ")[2].split(", ")
    assert named == [
        "env.max_turns",
        "optimizer.use_skill_aware_reflection",
    ]
    assert (config.env.name, config.model.target, config.model.reasoning_effort) == ("searchqa", "gpt-5.4", "high")
    assert (config.model.backend, config.model.target_backend) == ("azure_openai", "claude_code_exec")
    assert (config.model.azure_openai_endpoint, config.model.azure_api_key) == ("https://somewhere", None)
    assert (config.model.minimax_temperature, config.model.minimax_enable_thinking) == ("0.7", False)
    assert (config.train.num_epochs, config.train.train_size, config.env.split_seed) == (2, 0, 0)
    assert (config.optimizer.learning_rate, config.optimizer.min_learning_rate) == (1, 1)
    assert config.evaluation.gate_metric == "hard"


def test_our_own_run_loads_without_a_warning() -> None:
    stored = {**flatten(Config()), "train_size": 7, "steps_per_epoch": 3, "resolved_target": "x", "token_summary": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_flat(stored) == Config()


@pytest.mark.parametrize("stored", [{"batch_size": "many"}, {"batch_size": [3]}, {"use_gate": 7}, {"train": 3}])
def test_a_stored_value_that_is_wrong(stored: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        from_flat(stored)


def test_no_password_in_any_form() -> None:
    config = load_config(None, ["env.name=x", "model.base_url=https://me:hunter22@host:8/v1"])
    flat = flatten(config)
    assert flat["model.base_url"] == "https://***@host:8/v1"
    assert from_flat(flat).model.base_url == "https://host:8/v1"
    assert fingerprint(config)["model.base_url"] == "https://host:8/v1"
    assert fingerprint(from_flat(flat)) == fingerprint(config)


MAY_DIFFER = {
    "budget.max_calls": "5",
    "budget.max_tokens": "5",
    "budget.max_usd": "5",
    "budget.prices": "prices.yaml",
    "budget.max_seconds": "5",
    "runtime.resume_policy": "fork",
    "runtime.max_error_rate": "0.5",
    "logging.predictions": "all",
    "logging.trackers": "[mlflow, wandb]",
    "logging.tracker_prefix": "lab/",
    "env.workers": "3",
    "gradient.analyst_workers": "3",
    "env.out_root": "elsewhere",
    "env.skill_init": "s.md",
    "env.split_dir": "d",
    "env.data_path": "all.json",
    "env.split_output_dir": "cut",
    **{f"model.{role}qwen_chat_timeout_seconds": "5" for role in ("", "optimizer_", "target_")},
    "model.copilot_chat_timeout": "5",
    **{f"model.{name}_exec_path": "/bin/x" for name in ("codex", "claude_code", "cursor", "copilot")},
    "model.copilot_exec_home": "/home/x",
}
MATTERS = {
    "train.num_epochs": "9",
    "train.batch_size": "9",
    "train.seed": "9",
    "optimizer.learning_rate": "9",
    "evaluation.use_gate": "false",
    "evaluation.eval_test": "false",
    "env.limit": "9",
    "env.max_completion_tokens": "null",
    "model.target": "other",
    "model.backend": "local",
    "model.temperature": "0",
    "model.base_url": "http://x",
    "model.reply_style": "compact",
    "model.api": "responses",
    "model.codex_exec_sandbox": "read-only",
    "model.qwen_chat_thinking_mode": "enabled",
    "gradient.max_prompt_tokens": "9",
}


def test_what_may_differ_on_resume() -> None:
    secrets = {info.dotted for info in iter_keys() if info.secret}
    assert set(fingerprint(Config())) == {info.dotted for info in iter_keys() if info.built} - set(MAY_DIFFER) - secrets
    base = load_config(None, ["env.name=x"])
    for dotted, value in MAY_DIFFER.items():
        changed = load_config(None, ["env.name=x", f"{dotted}={value}"])
        assert changed != base
        assert fingerprint(changed) == fingerprint(base)


@pytest.mark.parametrize("dotted", MATTERS)
def test_what_matters_on_resume(dotted: str) -> None:
    base = fingerprint(load_config(None, ["env.name=x"]))
    changed = fingerprint(load_config(None, ["env.name=x", f"{dotted}={MATTERS[dotted]}"]))
    lines = explain_difference(json.loads(json.dumps(base)), changed)
    assert [line.partition(": ")[0] for line in lines] == [dotted]


def test_the_difference_is_shown_with_both_values() -> None:
    old = fingerprint(load_config(None, ["env.name=x", "train.batch_size=4", "evaluation.use_gate=true"]))
    new = fingerprint(load_config(None, ["env.name=x", "train.batch_size=8", "evaluation.use_gate=false"]))
    del old["model.temperature"]  # as if a later version had added the key
    old["a.removed_key"] = 3
    assert explain_difference(old, new) == [
        "train.batch_size: 4 -> 8",
        "evaluation.use_gate: true -> false",
        "a.removed_key: 3 -> null",
    ]
    assert explain_difference(new, new) == []
    assert explain_difference({"model.target": "", "model.base_url": None}, {"model.target": "x"}) == [
        'model.target: "" -> x'
    ]
    assert explain_difference({"env.split_dir": "a"}, {}) == [], "paths counted in earlier versions"
