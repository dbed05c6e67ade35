"""Scripts that plot a run by guessing its columns: each guess hits the right one, and each file pattern finds files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from fakes.folders import rows
from fakes.world import World, run

GUESSES: Mapping[str, tuple[str, ...]] = {
    "step": ("step",),
    "train": ("train_acc", "train_hard", "train"),
    "val": ("val_acc", "val_hard", "valid", "val"),
    "budget": ("edit_budget", "lr", "learning_rate", "budget"),
    "tokens": ("token", "cost"),
}
PATTERNS = (
    "skills/skill_v*.md",
    "steps/step_*/patches/*.json",
    "steps/step_*/analysis/*",
    "slow_update/epoch_*/*",
    "meta_skill/epoch_*/*",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plotting") / "run"
    assert run(World(), folder).reason == "completed"
    return folder


def leaves(value: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, entry in value.items():
        name = f"{prefix}.{key}"
        found.update(leaves(entry, name) if isinstance(entry, dict) else {name: entry})
    return found


def normalized(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as ``pandas.json_normalize`` lays it out: plain fields first, then the leaves of nested objects."""
    flat = {key: value for key, value in row.items() if not isinstance(value, dict)}
    for key, value in row.items():
        if isinstance(value, dict):
            flat.update(leaves(value, key))
    return flat


def columns(table: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns of a table, in the order in which its rows first have them."""
    return list(dict.fromkeys(key for row in table for key in normalized(row)))


def guess(names: Sequence[str], words: Sequence[str]) -> str | None:
    """The first column that holds the first word that any column holds."""
    return next((name for word in words for name in names if word in name.lower()), None)


def test_the_guesses_hit_the_right_columns(root: Path) -> None:
    names = columns(rows(root))
    assert {what: guess(names, words) for what, words in GUESSES.items()} == {
        "step": "step",
        "train": "train_hard",
        "val": "val_hard",
        "budget": "edit_budget",
        "tokens": "tokens_total",
    }


def test_the_columns_hold_what_they_are_taken_for(root: Path) -> None:
    history = rows(root)
    names = columns(history)
    columns_of = {what: guess(names, words) for what, words in GUESSES.items()}
    table = [normalized(row) for row in history]
    for number, (row, flat) in enumerate(zip(history, table, strict=True), start=1):
        assert flat[str(columns_of["step"])] == number
        assert flat[str(columns_of["train"])] == row["rollout_hard"], "train accuracy"
        if "selection_hard" in row:
            assert flat[str(columns_of["val"])] == row["selection_hard"], "accuracy of the candidate at the gate"
        if row["n_patches"]:
            assert 1 <= flat[str(columns_of["budget"])] <= 2, "the schedule goes from 2 edits to 1"
        spent = sum(role["prompt_tokens"] + role["completion_tokens"] for role in row["tokens"].values())
        assert flat[str(columns_of["tokens"])] == spent > 0
    assert any("selection_hard" in row for row in history)
    assert any(row["n_patches"] for row in history)


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")
def test_pandas_lays_out_the_same_columns(root: Path) -> None:
    import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

    history = json.loads((root / "history.json").read_text(encoding="utf-8"))
    assert list(pandas.json_normalize(history).columns) == columns(history)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_file_pattern_finds_files(root: Path, pattern: str) -> None:
    found = [path for path in root.glob(pattern) if path.is_file()]
    assert found
    assert all(path.stat().st_size for path in found)
