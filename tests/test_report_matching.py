"""What two lists have in common, in bounded time."""

from __future__ import annotations

from difflib import SequenceMatcher

from hypothesis import given
from hypothesis import strategies as st

from skillopt.report.matching import grouped, opcodes

LISTS = st.lists(st.sampled_from("abcdef"), max_size=30)


@given(LISTS, LISTS, st.integers(0, 10_000))
def test_the_opcodes_make_the_new_list_of_the_old_one(old: list[str], new: list[str], work: int) -> None:
    made: list[str] = []
    places = (0, 0)
    for tag, a, b, c, d in opcodes(old, new, work):
        assert (a, c) == places
        places = (b, d)
        assert (old[a:b] == new[c:d]) == (tag == "equal")
        assert {"delete": c == d, "insert": a == b}.get(tag, b > a and d > c)
        made += new[c:d] if tag != "equal" else old[a:b]
    assert (made, places) == (new, (len(old), len(new)))


@given(LISTS, LISTS, st.integers(1, 5))
def test_groups_are_those_of_difflib(old: list[str], new: list[str], context: int) -> None:
    matcher = SequenceMatcher(None, old, new)
    found = matcher.get_opcodes()
    assert grouped(found, context) == [list(map(tuple, group)) for group in matcher.get_grouped_opcodes(context)]


def test_what_would_take_too_long_is_replaced_between_what_is_alike() -> None:
    old = ["first", *(str(number % 7) for number in range(300)), "last"]
    new = ["first", *(str(number % 5) for number in range(1, 300)), "last"]
    assert opcodes(old, new, 1000) == [
        ("equal", 0, 1, 0, 1),
        ("replace", 1, 301, 1, 300),
        ("equal", 301, 302, 300, 301),
    ]
    assert len(opcodes(old[:100], new[:100])) > 3
