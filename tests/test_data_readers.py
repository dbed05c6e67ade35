from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillopt.data.errors import DataError
from skillopt.data.readers import find_dataset, read_rows

TMP = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def data(path: Path, *, allow_object: bool = False) -> list[dict[str, object]]:
    return [row.data for row in read_rows(path, allow_object=allow_object)]


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '[\n{"id": "x", "answers": ["é", "b"]},\n{"id": "y", "answers": ["c"]}\n]\n'),
        ("a.jsonl", '{"id": "x", "answers": ["é", "b"]}\n\n{"id": "y", "answers": ["c"]}\n'),
        ("A.CSV", 'id,answers\nx,"[""é"", ""b""]"\ny,"[""c""]"\n'),
    ],
)
@pytest.mark.parametrize("crlf", [False, True])
def test_three_formats_with_bom_and_crlf(tmp_path: Path, name: str, text: str, bom: bytes, crlf: bool) -> None:
    path = write(tmp_path, name, bom + (text.replace("\n", "\r\n") if crlf else text).encode())
    assert data(path) == [{"id": "x", "answers": ["é", "b"]}, {"id": "y", "answers": ["c"]}]


def test_csv_keeps_text_and_quoted_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'id,context,answers\n007,"one\ntwo, three",Paris\n8,,[sic\n')
    assert data(path) == [
        {"id": "007", "context": "one\ntwo, three", "answers": "Paris"},
        {"id": "8", "context": "", "answers": "[sic"},
    ]
    assert [row.place for row in read_rows(path)] == [f"{path} line 3", f"{path} line 4"]


def test_jsonl_is_cut_at_newlines_only(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"id": "x", "t": "a\u2028b\u0085c"}\n')
    assert data(path) == [{"id": "x", "t": "a\u2028b\u0085c"}]


@pytest.mark.parametrize("document", [{"data": [{"id": "x"}], "more": 1}, {"k1": {"id": "x"}}, {"data": {"id": "x"}}])
def test_objects_only_where_allowed(tmp_path: Path, document: object) -> None:
    path = write(tmp_path, "a.json", json.dumps(document))
    assert data(path, allow_object=True) == [{"id": "x"}]
    with pytest.raises(DataError, match=r"a\.json: holds an object, but an array"):
        read_rows(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '[{"id": "x"}, 3]', r"a\.json row 2: is a number, but a row is a JSON object"),
        ("a.json", "[null]", r"row 1: is null"),
        ("a.json", '{"id": 1}\n{"id": 2}\n', r"Extra data \(line 2, column 1\).*\.jsonl"),
        ("a.json", "", r"a\.json: not valid JSON"),
        ("a.json", "[" * 100_000, r"a\.json: not usable JSON"),
        ("a.json", '[{"id": ' + "9" * 5000 + "}]", r"a\.json: not usable JSON|^$"),
        ("a.jsonl", '{"id": "x"}\n{"id": }\n', r"a\.jsonl line 2: not valid JSON: .* \(column 8\)"),
        ("a.jsonl", '{"id": "x", "score": NaN}\n', r"line 1: nan is not a JSON number"),
        ("a.jsonl", '{"id": "x", "list": [{"score": 1e999}]}\n', r"line 1: inf is not"),
        ("a.jsonl", '{"id": "x", "t": "\\ud83d"}\n', r"line 1: .*surrogate"),
        ("a.csv", "id,a\nx,1\ny\n", r"a\.csv line 3: has 1 columns, but the header has 2"),
        ("a.csv", "id,a,a\n", r"line 1: the header names column 'a' twice"),
        ("a.csv", "id,\n", r"line 1: a column of the header has no name"),
        ("a.csv", 'id,a\nx,"open\n', r"not valid CSV"),
        ("a.csv", "id,answers\nx,\"['a', 'b']\"\n", r"line 2: answers is in brackets but is not a JSON list"),
        ("a.csv", "id,a\nx," + "y" * 200_000 + "\n", r"line 2: not valid CSV: field larger"),
        ("a.json", b"\xff\xfe[\x00]\x00", r"a\.json: not UTF-8 text \(byte 0\)"),
        ("a.txt", "x", r"a\.txt: unknown kind of data file; use \.json, \.jsonl, \.csv"),
    ],
)
def test_errors_say_where_and_what(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    path = write(tmp_path, name, text)
    if "9" * 5000 in str(text):
        try:  # Python before 3.10.7 has no limit for the digits of a number
            json.loads(str(text))
        except ValueError:
            pass
        else:
            pytest.skip("this Python reads numbers of any length")
    with pytest.raises(DataError, match=message):
        read_rows(path)


def test_missing_file_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json: no such file"):
        read_rows(tmp_path / "none.json")


@TMP
@given(
    suffix=st.sampled_from([".json", ".jsonl", ".csv"]),
    content=st.one_of(
        st.binary(max_size=80),
        st.text(alphabet='[]{}",:\n\r\\u d8e1N\0\ufeffé', max_size=60).map(lambda t: t.encode()),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
            lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_a_reader_gives_writable_rows_or_a_data_error(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = write(tmp_path, f"any{suffix}", content)
    try:
        rows = read_rows(path, allow_object=True)
    except DataError:
        with pytest.raises(DataError, match=rf"any\{suffix}"):
            read_rows(path, allow_object=True)
        return
    for row in rows:
        json.dumps(row.data, ensure_ascii=False, allow_nan=False).encode()


@TMP
@given(
    rows=st.lists(st.dictionaries(st.text(), st.one_of(st.none(), st.integers(), st.text()), min_size=1), max_size=5)
)
def test_what_is_written_as_json_is_read_back(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    array = write(tmp_path, "r.json", json.dumps(rows, ensure_ascii=False))
    lines = write(tmp_path, "r.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    assert data(array) == rows
    assert data(lines) == rows


def test_the_dataset_is_a_file_or_the_only_one_of_a_folder(tmp_path: Path) -> None:
    file = write(tmp_path, "raw/only.jsonl", "")
    write(tmp_path, "raw/notes.md", "")
    write(tmp_path, "raw/._only.json", "")
    write(tmp_path, "raw/split_manifest.json", "")
    assert find_dataset(file) == file
    assert find_dataset(tmp_path / "raw") == file
    write(tmp_path, "raw/other.csv", "")
    with pytest.raises(DataError, match=r"exactly one .* has only\.jsonl, other\.csv"):
        find_dataset(tmp_path / "raw")


@pytest.mark.parametrize("blank", ["", "  "])
def test_an_empty_data_path_is_not_the_working_directory(blank: str) -> None:
    with pytest.raises(DataError, match=r"env\.data_path is empty"):
        find_dataset(blank)


def test_data_paths_that_are_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        find_dataset(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has none"):
        find_dataset(tmp_path / "empty")
    write(tmp_path, "split/train/items.json", "[]")
    with pytest.raises(DataError, match=r"split already.*env\.split_mode=split_dir.*env\.split_dir="):
        find_dataset(tmp_path / "split")
