from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from skillopt.data import DataError, SplitSettings
from skillopt.data.materialize import Sources, hub_sources, main, materialize
from skillopt.envs.searchqa import make
from skillopt.extras import install_hint


def source_row(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "question": f"q {key}", "context": "[DOC] c", "answers": ["A"], "labels": 1, **more}


SOURCES: Sources = [
    ("train", [source_row("k1"), source_row("k9"), source_row("k9"), source_row("k3")]),
    ("validation", [source_row("k2"), source_row("k4", answers=["é", "b"])]),
]


def manifest(root: Path, **ids: list[str]) -> Path:
    for split, default in (("train", ["k3", "k1"]), ("val", ["k2"]), ("test", ["k4"])):
        (root / split).mkdir(parents=True)
        rows = [{"id": item_id} for item_id in ids.get(split, default)]
        (root / split / "items.json").write_text(json.dumps(rows))
    return root


def test_rows_in_the_order_of_the_manifest(tmp_path: Path) -> None:
    out = tmp_path / "out"
    counts = materialize(manifest(tmp_path / "m"), out, SOURCES)
    assert counts == {"train": 2, "val": 1, "test": 1}
    train = json.loads((out / "train/items.json").read_text("utf-8"))
    assert train == [
        {"id": key, "question": f"q {key}", "context": "[DOC] c", "answers": ["A"]} for key in ("k3", "k1")
    ]
    assert json.loads((out / "test/items.json").read_text("utf-8"))[0]["answers"] == ["é", "b"]
    about = json.loads((out / "split_manifest.json").read_text())
    assert about["counts"] == counts
    assert about["source_dataset"] == "lucadiliello/searchqa"
    env = make(SplitSettings("split_dir", split_dir=out), tmp_path)
    assert [item.id for item in env.load("train")] == ["k3", "k1"]


def test_the_same_again_touches_nothing(tmp_path: Path) -> None:
    out, ids = tmp_path / "out", manifest(tmp_path / "m")
    materialize(ids, out, SOURCES)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    materialize(ids, out, SOURCES)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_a_manifest_may_be_filled_in_place(tmp_path: Path) -> None:
    ids = manifest(tmp_path / "m")
    materialize(ids, ids, SOURCES)
    assert materialize(ids, ids, SOURCES) == {"train": 2, "val": 1, "test": 1}


@pytest.mark.parametrize(
    ("ids", "sources", "message"),
    [
        ({"test": ["k1"]}, SOURCES, r"id 'k1' stands twice in the manifest: .*train.* row 2 and .*test.* row 1"),
        ({"train": ["k1", "k1"]}, SOURCES, "id 'k1' stands twice in the manifest"),
        ({"train": [" "]}, SOURCES, r"items\.json row 1: has no 'id'"),
        ({"train": ["k9"]}, SOURCES, "key 'k9' stands twice in the source dataset: in train and in train"),
        ({}, [*SOURCES, ("more", [source_row("k2")])], "key 'k2' stands twice .*: in validation and in more"),
        ({"val": ["k2", "k7", "k8"]}, SOURCES, "2 of 6 ids are not in the source dataset, first k7, k8"),
        ({}, [("t", [{"id": "k1"}])], "4 of 4 ids are not in the source dataset"),
        ({}, [("t", [source_row("k1", answers=[])])], "key 'k1' of source split 't' lacks answers"),
        ({}, [("t", [source_row("k1", context=None, question="")])], "'k1' .* lacks question, context"),
    ],
)
def test_failures_write_nothing(tmp_path: Path, ids: dict[str, list[str]], sources: Sources, message: str) -> None:
    with pytest.raises(DataError, match=message):
        materialize(manifest(tmp_path / "m", **ids), tmp_path / "out", sources)
    assert not (tmp_path / "out").exists()


def test_folders_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train: no id list here"):
        materialize(tmp_path / "none", tmp_path / "out", SOURCES)
    ids = manifest(tmp_path / "m")
    (ids / "val/items.json").rename(ids / "val/ids.json")
    with pytest.raises(DataError, match=r"val holds ids\.json, which would be read in place of items\.json"):
        materialize(ids, ids, SOURCES)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def load_dataset(name: str) -> Mapping[str, Any]:
        asked.append(name)
        if name == "gone":
            raise FileNotFoundError("no such dataset")
        return dict(SOURCES)

    fake = ModuleType("datasets")
    fake.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", fake)
    arguments = ["--manifest-dir", str(manifest(tmp_path / "m")), "--output-dir", str(tmp_path / "out")]
    assert main(arguments) == 0
    assert asked == ["lucadiliello/searchqa"]
    assert "train 2, val 1, test 1" in capsys.readouterr().out
    assert main([*arguments, "--dataset", "gone"]) == 1
    assert capsys.readouterr().err == "error: dataset 'gone' cannot be loaded: no such dataset\n"


def test_without_the_library_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=re.escape(install_hint("searchqa"))):
        list(hub_sources("any"))
    assert main(["--manifest-dir", str(manifest(tmp_path / "m")), "--output-dir", str(tmp_path / "out")]) == 1
    assert install_hint("searchqa") in capsys.readouterr().err


def test_a_bad_manifest_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    def fetch() -> Iterator[tuple[str, list[dict[str, Any]]]]:
        raise AssertionError("fetched")
        yield "train", []

    with pytest.raises(DataError, match="stands twice"):
        materialize(manifest(tmp_path / "m", val=["k1"]), tmp_path / "out", fetch())
