from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.envs.extract import extract

REPLIES = st.lists(
    st.one_of(
        st.sampled_from(["<answer>", "</answer>", "<ANSWER>", "</Answer >", "\n", " ", "\r\n"]), st.text(max_size=5)
    )
).map("".join)


@pytest.mark.parametrize(
    ("reply", "text", "rule"),
    [
        ("<answer>Paris</answer>", "Paris", "tag"),
        ("so: <answer> Paris </answer> done", "Paris", "tag"),
        ("<Answer>Paris</ANSWER>", "Paris", "tag"),
        ("<answer>\nParis\nFrance\n</answer>", "Paris\nFrance", "tag"),
        ("<answer>a</answer> no, <answer>b</answer>", "b", "tag"),
        ("<answer>a</answer> and <answer>b", "a", "tag"),
        ("I write <answer> tags. <answer>Paris</answer>", "Paris", "tag"),
        ("<answer>Paris</answer> closes with </answer>", "Paris", "tag"),
        ("<answer></answer>", "", "tag"),
        ("<answer >Paris</answer\n>", "Paris", "tag"),
        ("İ <answer>İzmir</answer>", "İzmir", "tag"),
        ("first <answer>a <answer>Paris\n", "Paris", "open_tag"),
        ("<answer>", "", "open_tag"),
        ("</answer> <answer>x", "x", "open_tag"),
        ("I think.\n\n  Paris  \n \n", "Paris", "last_line"),
        ("Paris</answer>", "Paris", "last_line"),
        ("Paris\n</answer>", "Paris", "last_line"),
        ("<answers>Paris</answers>", "<answers>Paris</answers>", "last_line"),
        ("", "", "whole"),
        (" \n\t", "", "whole"),
        ("</answer>", "", "whole"),
    ],
)
def test_rules(reply: str, text: str, rule: str) -> None:
    answer = extract(reply)
    assert (answer.text, answer.rule, answer.reply) == (text, rule, reply)


def test_other_tags_and_none() -> None:
    assert extract("<label>B</label>", "label").text == "B"
    assert extract("<a.b>B</a.b> <axb>C</axb>", "a.b").text == "B"
    whole = extract(" all\nof it <answer>x</answer> ", None)
    assert (whole.text, whole.rule) == ("all\nof it <answer>x</answer>", "whole")


@given(REPLIES)
def test_an_answer_is_a_stripped_part_of_the_reply(reply: str) -> None:
    answer = extract(reply)
    assert answer.text == answer.text.strip()
    if answer.rule != "last_line":
        assert answer.text in reply
    assert (answer.rule == "whole") <= (answer.text == "")


@given(REPLIES, st.text(alphabet="abc \n", max_size=8), st.text(alphabet="xyz \n", max_size=8))
def test_a_complete_tag_at_the_end_always_wins(before: str, inside: str, after: str) -> None:
    answer = extract(f"{before}<answer>{inside}</answer>{after}")
    assert (answer.text, answer.rule) == (inside.strip(), "tag")
