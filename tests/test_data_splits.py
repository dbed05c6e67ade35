from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillopt.data import DataError, Schema, Splits, SplitSettings, load_splits
from skillopt.data.splits import generated_dir

QA = Schema("qa", ("question", "answers"), materialize="fetch --manifest-dir {manifest_dir}")


def row(item_id: Any, **more: Any) -> dict[str, Any]:
    return {"id": item_id, "question": f"q {item_id}", "answers": ["a"], **more}


def split_dir(root: Path, **splits: list[dict[str, Any]]) -> SplitSettings:
    for name in ("train", "val", "test"):
        folder = root / name
        folder.mkdir(parents=True)
        (folder / "items.json").write_text(json.dumps(splits.get(name, [row(f"{name}-1")])))
    return SplitSettings("split_dir", split_dir=root)


def refused(settings: SplitSettings, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_splits(settings, QA)


def write(splits: Splits, out_root: Path) -> None:
    assert splits.cut is not None
    splits.cut.write(out_root)


def test_a_split_folder_in_file_order(tmp_path: Path) -> None:
    settings = split_dir(tmp_path / "s", train=[row("b"), row(7, extra=1), row("a")])
    splits = load_splits(settings, QA)
    assert [item.id for item in splits.train] == ["b", "7", "a"]
    assert splits.train[1].data == {"id": "7", "question": "q 7", "answers": ["a"], "extra": 1}
    assert splits.of("val") == splits.val
    assert [item.id for item in splits.test] == ["test-1"]


def test_each_split_may_have_its_own_format_and_the_first_file_by_name_counts(tmp_path: Path) -> None:
    settings = split_dir(tmp_path / "s")
    (tmp_path / "s/train/a.csv").write_text("id,question,answers\nx,q,A\n")
    (tmp_path / "s/train/.hidden.json").write_text("no JSON")
    (tmp_path / "s/val/all.jsonl").write_text(json.dumps(row("v")) + "\n")
    splits = load_splits(settings, QA)
    assert [item.id for item in splits.train] == ["x"]
    assert [item.id for item in splits.val] == ["v"]


@pytest.mark.parametrize(("limit", "kept"), [(None, 3), (0, 3), (1, 1), (2, 2), (9, 3)])
def test_limit_keeps_the_first_of_each_split(tmp_path: Path, limit: int | None, kept: int) -> None:
    settings = split_dir(tmp_path / "s", train=[row("a"), row("b"), row("c")])
    splits = load_splits(replace(settings, limit=limit), QA)
    assert [item.id for item in splits.train] == ["a", "b", "c"][:kept]
    assert len(splits.val) == 1


def test_an_empty_split_is_read(tmp_path: Path) -> None:
    assert load_splits(split_dir(tmp_path / "s", val=[]), QA).val == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split_mode": "split-dir"}, "unknown env.split_mode 'split-dir'; did you mean 'split_dir'"),
        ({"split_dir": " "}, r"env\.split_dir is empty"),
        ({"split_dir": "/no/such"}, r"env\.split_dir=/no/such: no such folder.*\n  fetch --manifest-dir MANIFEST_DIR"),
        ({"limit": -1}, r"env\.limit=-1"),
        ({"split_mode": "ratio"}, r"env\.data_path is empty"),
    ],
)
def test_bad_options_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    refused(replace(split_dir(tmp_path / "s"), **change), message)


def test_a_missing_folder_and_an_empty_one(tmp_path: Path) -> None:
    settings = split_dir(tmp_path / "s")
    (tmp_path / "s/val/items.json").unlink()
    refused(settings, r"val: holds no \.json, \.jsonl or \.csv file")
    (tmp_path / "s/val").rmdir()
    refused(settings, r"has no val/; it needs train/, val/ and test/")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"question": "q", "answers": ["a"]}, r"train/items\.json row 2: has no 'id'"),
        (row(" "), r"row 2: has no 'id'"),
        (row(None), r"row 2: has no 'id'"),
        (row(True), r"row 2: has the id True"),
        (row(1.5), r"row 2: has the id 1\.5"),
        (row(["x"]), r"row 2: has the id \['x'\]"),
        ({"key": "k", "question": "q", "answers": ["a"]}, r"row 2: has a 'key' but no 'id'; name the column 'id'"),
        ({"id": "x", "question": "q"}, r"row 2: lacks answers; qa rows hold id, question, answers"),
        ({"id": "x"}, r"row 2: lacks question, answers"),
    ],
)
def test_a_bad_row_is_named_by_its_number(tmp_path: Path, bad: dict[str, Any], message: str) -> None:
    refused(split_dir(tmp_path / "s", train=[row("ok"), bad]), message)


@pytest.mark.parametrize("twice", [["a", "b", "a"], [1, "b", "1"]])
def test_an_id_twice_in_a_split_is_refused_with_both_places(tmp_path: Path, twice: list[Any]) -> None:
    settings = split_dir(tmp_path / "s", train=[row(item_id) for item_id in twice])
    refused(settings, f"id '{twice[0]}' stands twice: .*train/items.json row 1 and .*train/items.json row 3")


def test_an_id_in_two_splits_is_refused_with_both_places(tmp_path: Path) -> None:
    settings = split_dir(tmp_path / "s", train=[row("t"), row("x")], test=[row("x")])
    refused(settings, "id 'x' is in two splits, train and test: .*train/items.json row 2 and .*test/items.json")
    # Also when a limit would hide it: the overlap is a fault of the data.
    refused(replace(settings, limit=1), "id 'x' is in two splits")


@pytest.mark.parametrize("manifest", [[{"id": "a"}, {"id": "b"}], [{"id": "a", "source_files": "f.txt"}]])
def test_an_id_manifest_is_answered_with_what_to_run(tmp_path: Path, manifest: list[dict[str, Any]]) -> None:
    settings = split_dir(tmp_path / "s", train=manifest)
    refused(settings, rf"this is an id manifest.*run\n  fetch --manifest-dir {tmp_path / 's'}\nand set")


def test_without_required_fields_only_bare_ids_are_a_manifest(tmp_path: Path) -> None:
    schema = Schema("mine")
    settings = split_dir(tmp_path / "s", train=[{"id": "a", "word": "w"}])
    assert load_splits(settings, schema).train[0].data == {"id": "a", "word": "w"}
    with pytest.raises(DataError, match=r"this is an id manifest.*fetch the rows"):
        load_splits(split_dir(tmp_path / "t", train=[{"id": "a"}]), schema)


# ratio mode


def dataset(tmp_path: Path, n: int = 20) -> Path:
    path = tmp_path / "raw.json"
    path.write_text(json.dumps([row(f"i:{number}") for number in range(n)]))
    return path


@pytest.mark.parametrize("seed", [0, 42, None])
def test_ratio_mode_is_the_published_algorithm(tmp_path: Path, seed: int | None) -> None:
    settings = SplitSettings(data_path=dataset(tmp_path), split_seed=seed)
    splits = load_splits(settings, QA)
    expected = [f"i:{number}" for number in range(20)]
    random.Random(42 if seed is None else seed).shuffle(expected)
    assert [item.id for item in splits.train] == expected[:4]
    assert [item.id for item in splits.val] == expected[4:6]
    assert [item.id for item in splits.test] == expected[6:]


def test_ratio_mode_writes_what_split_dir_mode_reads(tmp_path: Path) -> None:
    settings = SplitSettings(data_path=dataset(tmp_path), split_ratio="1:1:2", split_seed=0)
    splits = load_splits(replace(settings, limit=2), QA)
    assert not (tmp_path / "run").exists(), "reading writes nothing"
    write(splits, tmp_path / "run")
    folder = tmp_path / "run/_generated_splits/qa_1-1-2_seed0"
    assert generated_dir(settings, "qa", tmp_path / "run") == folder
    whole = load_splits(SplitSettings("split_dir", split_dir=folder), QA)
    assert (len(whole.train), len(whole.val), len(whole.test)) == (5, 5, 10)
    assert splits.train == whole.train[:2]
    assert json.loads((folder / "split_manifest.json").read_text()) == {
        "source_data_path": str(tmp_path / "raw.json"),
        "split_mode": "ratio",
        "split_ratio": "1:1:2",
        "split_seed": 0,
        "counts": {"train": 5, "val": 5, "test": 10},
    }


def test_an_identical_run_touches_nothing_and_a_changed_one_writes(tmp_path: Path) -> None:
    out = tmp_path / "splits"
    settings = SplitSettings(data_path=dataset(tmp_path), split_output_dir=out)
    files = [out / "split_manifest.json", *(out / s / "items.json" for s in ("train", "val", "test"))]

    def stamps() -> list[tuple[int, int]]:
        return [(path.stat().st_mtime_ns, path.stat().st_ino) for path in files]

    write(load_splits(settings, QA), tmp_path / "run")
    first = stamps()
    write(load_splits(settings, QA), tmp_path / "run")
    assert stamps() == first
    assert not (tmp_path / "run").exists()
    assert sorted(path for path in out.rglob("*") if path.is_file()) == sorted(files)
    write(load_splits(replace(settings, split_seed=7), QA), tmp_path / "run")
    assert all(before != after for before, after in zip(first, stamps(), strict=True))


def test_ratio_mode_checks_rows_before_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    path.write_text("\n".join(json.dumps(row(item_id)) for item_id in ("a", "b", "a")))
    refused(SplitSettings(data_path=path), r"id 'a' stands twice: .*line 1 and .*raw\.jsonl line 3")
    path.write_text(json.dumps({"id": "a"}))
    refused(SplitSettings(data_path=path), "this is an id manifest")
    path.write_text(json.dumps(row("a")))
    refused(SplitSettings(data_path=path, split_ratio="1:2"), r"env\.split_ratio='1:2'")
    assert not (tmp_path / "run").exists()


def test_ratio_mode_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = SplitSettings(data_path=dataset(tmp_path), split_output_dir=tmp_path / "file/below")
    with pytest.raises(DataError, match=r"items\.json: cannot be written"):
        write(load_splits(settings, QA), tmp_path)
