"""The command line: every published option in both spellings, overrides anywhere, splits."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from skillopt.config import ConfigError, iter_keys, load_config
from skillopt.config.flags import add_flags, canonical_split, flag_values, parse_args
from skillopt.config.keys import Command


def words(text: str) -> list[str]:
    return text.split()


AZURE = words("endpoint api_version api_key auth_mode ad_scope managed_identity_client_id")
QWEN = words("base_url api_key temperature timeout_seconds max_tokens enable_thinking thinking_mode")
CODEX = words("path sandbox profile full_auto reasoning_effort use_sdk network_access web_search approval_policy")
ROLES = ("", "optimizer_", "target_")
SHARED = [
    *words("env backend optimizer_model target_model optimizer_backend target_backend reasoning_effort"),
    *words("azure_endpoint azure_api_version azure_api_key codex_trace_to_optimizer"),
    *(f"{role}azure_openai_{name}" for role in ROLES for name in AZURE),
    *(f"{role}qwen_chat_{name}" for role in ROLES for name in QWEN),
    *(f"minimax_{name}" for name in words("region base_url api_key model temperature max_tokens enable_thinking")),
    *(f"codex_exec_{name}" for name in CODEX),
    *(f"claude_code_exec_{name}" for name in words("path profile use_sdk effort max_thinking_tokens")),
    *words("cursor_exec_path cursor_exec_sandbox copilot_exec_path copilot_exec_home copilot_exec_allow_all_tools"),
    *words("copilot_chat_optimizer_model copilot_chat_target_model copilot_chat_timeout"),
    *words("out_root data_path split_mode split_ratio split_seed split_dir split_output_dir data_root"),
    *words("max_turns max_api_workers workers mode test_env_num"),
]
TRAIN = [
    *SHARED,
    *words("rewrite_reasoning_effort rewrite_max_completion_tokens"),
    *words("num_epochs train_size steps_per_epoch batch_size accumulation seed"),
    *words("minibatch_size merge_batch_size analyst_workers failure_only edit_budget min_edit_budget"),
    *words("lr_scheduler lr_control_mode skill_update_mode longitudinal_pair_policy skill_aware_appendix_source"),
    *words("use_slow_update use_meta_skill use_skill_aware_reflection slow_update_samples"),
    *words("skill_aware_consolidate_threshold use_gate eval_test sel_env_num skill_init max_steps limit"),
    *words("shuffle_choices use_theorem use_sketch image_detail judge_model judge_max_completion_tokens judge_retries"),
    "max_analyst_rounds",
]


def parser_of(command: Command) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=command)
    add_flags(parser, command)
    return parser


def parsed(command: Command, *argv: str) -> argparse.Namespace:
    needed = ["--config", "c.yaml"] if command == "train" else ["--skill", "s.md"]
    return parse_args(parser_of(command), [*needed, *argv])


@pytest.mark.parametrize(("command", "names"), [("train", TRAIN), ("eval", SHARED)])
def test_every_published_option_in_both_spellings(command: Command, names: list[str]) -> None:
    flat = {info.flat: info.dotted for info in iter_keys()}
    flat |= {"backend": "model.backend", "max_analyst_rounds": "gradient.max_analyst_rounds"}
    parser = parser_of(command)
    needed = ["--config", "c"] if command == "train" else ["--skill", "s"]
    for name in names:
        for option in (f"--{name}", f"--{name.replace('_', '-')}"):
            assert flag_values(parse_args(parser, [*needed, option, "x"])) == {flat[name]: "x"}


@pytest.mark.parametrize("name", ["rewrite_reasoning_effort", "batch_size", "edit_budget", "use_gate", "skill_init"])
def test_options_that_only_train_has(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert flag_values(parsed("train", f"--{name}", "x"))
    with pytest.raises(SystemExit) as caught:
        parsed("eval", f"--{name}", "x")
    assert caught.value.code == 2
    assert f"--{name}" in capsys.readouterr().err


def test_overrides_stand_anywhere_and_are_collected() -> None:
    argv = "env.workers=1 --batch_size 3 --cfg-options a.b=1 c=2 --seed 4 --cfg-options d.e=3 env.limit=20 x=1"
    namespace = parsed("train", *argv.split())
    # Those of --cfg-options first; the option takes every word up to the next option.
    assert namespace.overrides == ["a.b=1", "c=2", "d.e=3", "env.limit=20", "x=1", "env.workers=1"]
    assert flag_values(namespace) == {"train.batch_size": "3", "train.seed": "4"}


def test_a_value_that_looks_like_an_override_stays_a_value() -> None:
    namespace = parsed("train", "--skill_init", "a.b=c", "--out-root=x=y", "env.limit=1")
    assert flag_values(namespace) == {"env.skill_init": "a.b=c", "env.out_root": "x=y"}
    assert namespace.overrides == ["env.limit=1"]


def test_two_parses_share_nothing() -> None:
    parser = parser_of("train")
    first = parse_args(parser, ["--config", "c", "--cfg-options", "a.b=1", "c.d=2"])
    second = parse_args(parser, ["--config", "c"])
    assert (first.overrides, second.overrides) == (["a.b=1", "c.d=2"], [])


@pytest.mark.parametrize("argv", [["--batchsize", "3"], ["stray"], ["--batch", "3"], ["-x"]])
def test_unknown_arguments(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed("train", *argv)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert f"unrecognized arguments: {argv[0]}" in error
    assert ("did you mean --batch" in error) is argv[0].startswith("--batch")


@pytest.mark.parametrize("argv", [["--api_key", "sk-secret"], ["--api_key=sk-secret"], ["-k", "sk-secret", "stray"]])
def test_the_value_of_an_unknown_option_is_not_shown(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("train", *argv)
    error = capsys.readouterr().err
    assert "sk-secret" not in error
    assert argv[0].partition("=")[0] in error
    assert ("stray" in error) is ("stray" in argv)


def test_config_is_needed_to_train_and_skill_to_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    for command, needed in (("train", "--config"), ("eval", "--skill")):
        with pytest.raises(SystemExit):
            parse_args(parser_of(command), [])  # type: ignore[arg-type]
        assert needed in capsys.readouterr().err


def test_the_command_of_the_readme() -> None:
    argv = "--config c.yaml --split_dir d --optimizer_model o --target_model t --out_root r --num_epochs 2"
    namespace = parse_args(parser_of("train"), argv.split())
    assert namespace.config == "c.yaml"
    assert namespace.dry_run is False
    config = load_config(None, namespace.overrides, {"env": "searchqa", **flag_values(namespace)})
    assert (config.env.split_dir, config.model.optimizer, config.train.num_epochs) == ("d", "o", 2)


@pytest.mark.parametrize("option", ["--skill", "--skill_path", "--skill-path"])
def test_the_skill_to_evaluate(option: str) -> None:
    namespace = parse_args(parser_of("eval"), [option, "run/best_skill.md", "--split", "valid_seen", "--dry-run"])
    assert (namespace.skill, namespace.split, namespace.config) == ("run/best_skill.md", "valid_seen", None)
    assert namespace.dry_run is True


def test_the_split_defaults_to_all_and_an_unknown_one_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed("eval").split == "all"
    with pytest.raises(SystemExit):
        parsed("eval", "--split", "valid_sen")
    assert "did you mean valid_seen?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train", "train"),
        ("val", "val"),
        ("valid_seen", "val"),
        ("selection", "val"),
        ("test", "test"),
        ("valid_unseen", "test"),
        ("all", "all"),
        (" Test ", "test"),
    ],
)
def test_split_names(name: str, split: str) -> None:
    assert canonical_split(name) == split


def test_an_unknown_split() -> None:
    with pytest.raises(ConfigError, match='there is no split "validation"'):
        canonical_split("validation")


def test_flags_win_over_overrides_and_switches_take_words() -> None:
    namespace = parsed("train", "--use_gate", "on", "--eval-test=off", "evaluation.use_gate=false", "env=searchqa")
    config = load_config(None, namespace.overrides, flag_values(namespace))
    assert (config.evaluation.use_gate, config.evaluation.eval_test) == (True, False)


def test_a_wrong_flag_is_named_in_the_error() -> None:
    namespace = parsed("train", "--batch-size", "2.5", "--qwen_chat_max_tokens", "0", "--resume-policy", "frok")
    with pytest.raises(ConfigError) as caught:
        load_config(None, ["env=searchqa"], flag_values(namespace))
    text = str(caught.value)
    assert "train.batch_size must be a whole number, got 2.5 (--batch_size)" in text
    assert "model.qwen_chat_max_tokens must be at least 1, got 0 (--qwen_chat_max_tokens)" in text
    assert "did you mean fork?" in text


@pytest.mark.parametrize("command", ["train", "eval"])
def test_help_lists_what_is_built(command: Command) -> None:
    text = " ".join(parser_of(command).format_help().split())
    for info in iter_keys():
        if command in info.commands:
            assert (f"--{info.flag} " in text) is info.built
            assert info.description in text or not info.built
    assert "--max_analyst_rounds" not in text
    assert "--batch-size" not in text


def test_the_parser_needs_little_more_than_pydantic() -> None:
    heavy = {"aiohttp", "rich", "sqlite3", "filelock", "json_repair", "asyncio"}
    code = f"import sys, skillopt.config.flags; print({heavy!r} & set(sys.modules))"
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "set()"
