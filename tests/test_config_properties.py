"""Properties of the whole: round trips, precedence, and no failure but ``ConfigError`` whatever is typed."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt.config import Config, ConfigError, KeyInfo, fingerprint, flatten, from_flat, iter_keys, load_config
from skillopt.config.flat import explain_difference

BUILT = [info for info in iter_keys() if info.built and not info.secret]
TEXTS = {
    "env.split_ratio": st.tuples(*[st.integers(1, 99)] * 3).map(lambda parts: ":".join(map(str, parts))),
    "env.name": st.sampled_from(["searchqa", "other"]),
    "logging.trackers": st.lists(st.sampled_from(["mlflow", "wandb", "tensorboard"]), unique=True),
    "logging.tracker_prefix": st.sampled_from(["", "skillopt/", "lab/run-1.", "a"]),
}
# The floor depends on the rate, and the number of turns has one value.
FIXED = {
    "optimizer.min_learning_rate": st.just(1),
    "env.max_turns": st.just(1),
    **{
        info.dotted: st.sampled_from(["", "0", "0.5", "none"])
        for info in BUILT
        if info.kind.base == "text" and info.name.endswith("_temperature")
    },
    **{info.dotted: st.integers(1024, 9999) for info in BUILT if info.name.endswith("thinking_tokens")},
}
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12).map(str.strip)
_URL = st.from_regex(r"https?://[a-z]{1,9}(:[0-9]{2,4})?/v1", fullmatch=True)


def values_of(info: KeyInfo) -> st.SearchStrategy[Any]:
    if info.dotted in FIXED:
        return FIXED[info.dotted]
    if info.dotted in TEXTS:
        return TEXTS[info.dotted]
    bases: Mapping[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "int": st.integers(2, 10**6),
        "float": st.floats(0.01, 1.0),
        "text": _URL if info.name.endswith(("base_url", "endpoint")) else _TEXT,
        "choice": st.sampled_from(info.kind.choices or ("",)),
    }
    values = bases[info.kind.base]
    return st.none() | values if info.kind.nullable else values


OPTIONAL = [info for info in BUILT if info.name != "name"]


def some(infos: list[KeyInfo]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"env.name": TEXTS["env.name"], **{info.dotted: values_of(info) for info in infos}},
    )


SETTINGS = st.lists(st.sampled_from(OPTIONAL), max_size=12, unique_by=lambda info: info.dotted).flatmap(some)


@settings(max_examples=50, deadline=None)
@given(SETTINGS)
def test_flatten_and_from_flat_are_inverse(values: dict[str, Any]) -> None:
    values = {**values, "train.train_size": 0}  # the one key that a stored configuration holds as a derived value
    config = load_config(None, (), values)
    again = from_flat(json.loads(json.dumps(flatten(config))))
    assert again == config
    assert explain_difference(fingerprint(again), fingerprint(config)) == []


@settings(max_examples=50, deadline=None)
@given(SETTINGS, SETTINGS, SETTINGS, SETTINGS, st.data())
def test_precedence(base: Any, child: Any, overrides: Any, flags: Any, data: st.DataObject) -> None:
    flat = {info.dotted: info.flat for info in BUILT}

    def shaped(values: dict[str, Any]) -> dict[str, Any]:
        document: dict[str, Any] = {}
        for dotted, value in values.items():
            section, _, name = dotted.partition(".")
            if section == "env" or data.draw(st.booleans()):
                document.setdefault(section, {})[name] = value
            else:
                document[flat[dotted]] = value
        return document

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "base.yaml").write_text(yaml.safe_dump(shaped(base)), encoding="utf-8")
        path = Path(folder) / "child.yaml"
        path.write_text(yaml.safe_dump({"_base_": "base.yaml", **shaped(child)}), encoding="utf-8")
        typed = [f"{dotted}={json.dumps(value, ensure_ascii=False)}" for dotted, value in overrides.items()]
        config = load_config(path, typed, flags)
    merged = {**base, **child, **overrides, **flags}
    if "optimizer.min_learning_rate" not in merged:
        assert config.optimizer.min_learning_rate <= config.optimizer.learning_rate
    assert config == load_config(None, (), merged)


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_NAMES = st.sampled_from([name for info in iter_keys() for name in (info.flat, info.dotted, info.name)])
_KEYS = (
    _NAMES | st.sampled_from(["_base_", "env", "train", "model", "max_analyst_rounds", "sandbox"]) | st.text(max_size=6)
)
_TREES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=8
)


def only_config_error(path: Path | None, overrides: list[str], flags: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            config = load_config(path, overrides, flags)
        except ConfigError:
            pass
        else:
            assert json.dumps(flatten(config), allow_nan=False)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(_KEYS, _TREES, max_size=5))
def test_any_mapping_loads_or_is_a_config_error(document: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.yaml"
        path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
        only_config_error(path, [], {})


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")))
def test_any_file_loads_or_is_a_config_error(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.yaml"
        path.write_bytes(content)
        only_config_error(path, [], {})


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(_KEYS, st.text(max_size=8)).map("=".join) | st.text(max_size=12), max_size=4))
def test_any_override_loads_or_is_a_config_error(overrides: list[str]) -> None:
    only_config_error(None, ["env=x", *overrides], {})


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(_NAMES, _TREES, max_size=4))
def test_any_flag_loads_or_is_a_config_error(flags: dict[str, Any]) -> None:
    only_config_error(None, ["env=x"], flags)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(_KEYS, _TREES, max_size=5))
def test_any_stored_configuration_loads_or_is_a_config_error(stored: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(ConfigError):
            assert isinstance(from_flat(stored), Config)
