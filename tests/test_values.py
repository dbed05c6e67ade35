"""Values of files that anyone may have written."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.values import DEEPEST, LARGEST, TooMuch, count, fraction, label, parse_json, whole

HUGE = 10**400
"""A whole number that JSON may hold and no float can."""


@pytest.mark.parametrize(
    ("value", "as_fraction", "as_whole"),
    [
        (3, 3.0, 3),
        (-3, -3.0, -3),
        (0.5, 0.5, 0),
        (True, None, 0),
        (None, None, 0),
        ("3", None, 0),
        ([3], None, 0),
        (math.nan, None, 0),
        (math.inf, None, 0),
        (LARGEST, float(LARGEST), LARGEST),
        (LARGEST + 1, None, 0),
        (1.7e308, None, 0),
        (HUGE, None, 0),
        (-HUGE, None, 0),
    ],
)
def test_numbers(value: Any, as_fraction: float | None, as_whole: int) -> None:
    assert fraction(value) == as_fraction
    assert whole(value) == as_whole
    assert (count(value) or 0) == as_whole


@given(st.integers() | st.floats() | st.integers().map(lambda n: n**31))
def test_every_number_can_be_reckoned_with(value: float) -> None:
    assert math.isfinite(fraction(value) or 0.0)
    assert f"{whole(value) + whole(value):,}"
    assert whole(value) / 3 <= 1 << 63


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda each: st.lists(each, max_size=3)))
def test_a_document_of_the_usual_size_is_what_json_says(value: Any) -> None:
    assert parse_json(json.dumps(value)) == parse_json(b"\xef\xbb\xbf" + json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2), "nested too deep"),
        ('{"a":' * (DEEPEST + 2) + "1" + "}" * (DEEPEST + 2), "nested too deep"),
        ("[" + "[]," * 200 + "[]]", "more than 100 parts"),
    ],
)
def test_a_document_is_refused_that_would_not_end_well(document: str, problem: str) -> None:
    with pytest.raises(TooMuch, match=problem):
        parse_json(document, 100)


def test_what_no_parser_gets_through_is_torn() -> None:
    with pytest.raises(ValueError, match="nested"):
        parse_json("[" * 100_000)
    assert parse_json("[" * DEEPEST + "]" * DEEPEST)


def test_a_label_ends_between_two_words() -> None:
    assert (label("short"), label(None), label(3)) == ("short", "", "3")
    assert label("one two three", 9) == "one two…"
    assert label("sk-half-of-a-secret-is-not-known-as-one", 9) == "…"
