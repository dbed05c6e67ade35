from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.data import DataError, resolve_split, safe_name

ANY_TEXT = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=[]), max_size=100),
    st.text(alphabet="ab./~_-: 01", max_size=6),
    st.text(alphabet="con.aux~0123456789abcdef", max_size=24),
)
RESERVED = {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))}


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train", "train"),
        ("val", "val"),
        ("valid_seen", "val"),
        ("selection", "val"),
        ("test", "test"),
        ("valid_unseen", "test"),
        (" Test ", "test"),
    ],
)
def test_split_names_and_aliases(name: str, split: str) -> None:
    assert resolve_split(name) == split


@pytest.mark.parametrize(("name", "near"), [("tset", "test"), ("trian", "train"), ("validseen", "valid_seen")])
def test_an_unknown_split_is_an_error_with_the_nearest_name(name: str, near: str) -> None:
    with pytest.raises(DataError, match=f"unknown split '{name}'; did you mean '{near}'"):
        resolve_split(name)


@pytest.mark.parametrize("name", ["", "all", "xyzzy"])
def test_an_unknown_split_lists_the_known_ones(name: str) -> None:
    with pytest.raises(DataError, match=r"Known: train, val, valid_seen, selection, test, valid_unseen"):
        resolve_split(name)


@pytest.mark.parametrize("item_id", ["train-0001", "UID0002", "221c83e6630f4e7983da48fa28da1882", "a.b_c", "7"])
def test_a_plain_id_stays_as_it_is(item_id: str) -> None:
    assert safe_name(item_id) == item_id


@pytest.mark.parametrize(
    ("item_id", "begins"),
    [
        ("train:0000", "train_0000~"),
        ("../../etc/passwd", "_etc_passwd~"),
        ("..", "_~"),
        ("con", "con~"),
        ("NUL.txt", "NUL_txt~"),
        ("-rf", "rf~"),
        ("ends.", "ends_~"),
        ("", "~"),
        ("x" * 81, "xxxx"),
    ],
)
def test_any_other_id_keeps_what_is_readable(item_id: str, begins: str) -> None:
    assert safe_name(item_id).startswith(begins)


@given(ANY_TEXT)
def test_a_name_is_safe_on_any_file_system(item_id: str) -> None:
    name = safe_name(item_id)
    assert name == safe_name(item_id)
    assert re.fullmatch(r"[A-Za-z0-9._~-]{1,80}", name)
    assert not name.startswith((".", "-"))
    assert not name.endswith(".")
    assert name.split(".")[0].lower() not in RESERVED


@given(ANY_TEXT, ANY_TEXT)
def test_other_ids_have_other_names(left: str, right: str) -> None:
    assert (safe_name(left) == safe_name(right)) == (left == right)


@given(ANY_TEXT)
def test_a_name_is_not_the_name_of_another_id(item_id: str) -> None:
    name = safe_name(item_id)
    assert name == item_id or safe_name(name) != name
