"""What a typed value means for a key of each type, and the ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillopt.config import Config, ConfigError, iter_keys, load_config


def value_of(override: str) -> Any:
    config = load_config(None, ["env.name=searchqa", override])
    section, _, name = override.partition("=")[0].partition(".")
    return getattr(getattr(config, section), name)


@pytest.mark.parametrize("text", ["true", "True", "YES", "on", "1", " on ", '"yes"'])
def test_true(text: str) -> None:
    assert value_of(f"gradient.failure_only={text}") is True


@pytest.mark.parametrize("text", ["false", "False", "NO", "off", "0", "'off'"])
def test_false(text: str) -> None:
    assert value_of(f"evaluation.use_gate={text}") is False


@pytest.mark.parametrize("text", ["2", "maybe", "", "null", "1.0", "[true]", "falsch"])
def test_not_a_bool(text: str) -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.use_gate"):
        value_of(f"evaluation.use_gate={text}")


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("1e3", 1000), ("+2", 2), ("4.0", 4), ('"12"', 12), ("007", 7)])
def test_whole_number(text: str, number: int) -> None:
    value = value_of(f"train.batch_size={text}")
    assert (value, type(value)) == (number, int)


@pytest.mark.parametrize(
    "text",
    ["2.5", "1_000", "0x10", "ten", "true", "null", "", "inf", "nan", "1e400", pytest.param("9" * 5000, id="huge")],
)
def test_not_a_whole_number(text: str) -> None:
    with pytest.raises(ConfigError, match=r"train\.batch_size") as caught:
        value_of(f"train.batch_size={text}")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("text", "number"), [("0", 0.0), (".5", 0.5), ("1e-1", 0.1), ("1", 1.0)])
def test_number(text: str, number: float) -> None:
    value = value_of(f"evaluation.gate_mixed_weight={text}")
    assert (value, type(value)) == (number, float)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("env.split_dir=no", "no"),
        ("env.split_dir=007", "007"),
        ("env.split_dir=1e3", "1e3"),
        ('env.split_dir="null"', "null"),
        ("env.split_dir='a b'", "a b"),
        ("env.split_dir=null", ""),
        ("env.split_dir=", ""),
        ("env.split_dir=[a]/b", "[a]/b"),
        ("env.split_dir=a=b", "a=b"),
        ("env.split_dir=C:\\data: x #1", "C:\\data: x #1"),
        ("env.data_path=~", ""),
        ("model.target=on", "on"),
        ("env.split_ratio=2:1:7", "2:1:7"),
        ("env.split_ratio= 4 : 02:1", "4:2:1"),
        ("model.base_url=", None),
        ("model.base_url=null", None),
        ("model.reasoning_effort=", ""),
        ("model.reasoning_effort=null", ""),
        ("model.reasoning_effort=HIGH", "high"),
        ("model.optimizer_backend=null", "openai_chat"),
        ('model.optimizer_backend=""', "openai_chat"),
        ("model.temperature=0", 0.0),
        ("budget.max_calls=0", 0),
        ("budget.max_calls=null", None),
        ("env.max_completion_tokens=null", None),
        ("env.limit=null", 0),
        ("env.split_seed=0", 0),
        ("logging.predictions=none", "none"),
    ],
)
def test_what_a_value_means(override: str, value: Any) -> None:
    found = value_of(override)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.batch_size=0", "at least 1, got 0"),
        ("train.num_epochs=0", "at least 1"),
        ("train.accumulation=-1", "at least 1"),
        ("gradient.merge_batch_size=1", "at least 2"),
        ("gradient.minibatch_size=0", "at least 1"),
        ("optimizer.learning_rate=0", "at least 1"),
        ("optimizer.min_learning_rate=-1", "at least 0"),
        ("evaluation.gate_mixed_weight=1.01", "at most 1, got 1.01"),
        ("evaluation.gate_mixed_weight=-0.1", "at least 0"),
        ("evaluation.sel_env_num=-1", "at least 0"),
        ("runtime.max_error_rate=2", "at most 1"),
        ("model.timeout_seconds=0", "greater than 0"),
        ("env.exec_timeout=0", "greater than 0"),
        ("env.workers=0", "at least 1"),
        ("env.limit=-5", "at least 0"),
        ("budget.max_tokens=-1", "at least 0"),
        ("env.split_ratio=2:1", "three positive whole numbers"),
        ("env.split_ratio=2:0:1", "three positive whole numbers"),
        ("env.split_ratio=a:b:c", "three positive whole numbers"),
        ("model.base_url=localhost:8000", "must begin with http"),
        ("model.base_url=ftp://x", "must begin with http"),
        ("model.base_url=http:///v1", "must begin with http"),
        ("model.base_url=httpx", "must begin with http"),
        ("env.max_turns=3", "can only be 1"),
        ("train.train_size=1.5", "whole number"),
    ],
)
def test_ranges(override: str, words: str) -> None:
    dotted = override.partition("=")[0]
    with pytest.raises(ConfigError, match=dotted.replace(".", r"\.")) as caught:
        value_of(override)
    assert words in str(caught.value)


def test_typed_values_need_no_text() -> None:
    values = {"use_gate": 0, "train.batch_size": 1e3, "skill_init": Path("a") / "b.md", "env": "x", "target_model": 4}
    config = load_config(None, (), values)
    assert config.evaluation.use_gate is False
    assert config.train.batch_size == 1000
    assert config.env.skill_init == str(Path("a") / "b.md")
    assert config.model.target == "4"


@pytest.mark.parametrize(
    "value", [True, {"a": 1}, [1], pytest.param(10**5000, id="huge"), float("nan"), b"x", object()]
)
def test_values_of_the_wrong_type(value: Any) -> None:
    built = [info for info in iter_keys(Config) if info.built]
    for info in built:
        if not (info.kind.base == "bool" and value is True):
            with pytest.raises(ConfigError, match=info.dotted.replace(".", r"\.")):
                load_config(None, (), {"env.name": "x", info.dotted: value})


def test_a_flag_of_a_text_key_is_taken_as_it_is() -> None:
    flags = {"env": "x", "data_path": "~", "split_dir": "null", "limit": "null", "reasoning_effort": ""}
    config = load_config(None, (), flags)
    assert (config.env.data_path, config.env.split_dir) == ("~", "null")
    assert (config.env.limit, config.model.reasoning_effort) == (0, "")


def test_a_password_in_a_url_is_not_repeated() -> None:
    for dotted in ("model.base_url", "train.batch_size"):
        with pytest.raises(ConfigError) as caught:
            value_of(f"{dotted}=htp://me:hunter22@host/v1")
        assert "hunter22" not in str(caught.value)
        assert "://***@host" in str(caught.value)
    config = load_config(None, ["env.name=x", "model.base_url=https://me:hunter22@host/v1"])
    assert "hunter22" not in repr(config)
    assert config.model.base_url == "https://me:hunter22@host/v1"
