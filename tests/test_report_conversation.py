"""A stored call as a conversation for people."""

from __future__ import annotations

import pytest

from skillopt.report.conversation import conversation_of, role_and_words

ASKED = ({"role": "system", "content": "s"}, {"role": "user", "content": "u"})
SAID = {"role": "assistant", "content": "a"}
DID = {"type": "tool_call", "name": "sh"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, (*ASKED, SAID)),
        ({"reply_tool_calls": [{"name": "f"}]}, (*ASKED, {**SAID, "tool_calls": [{"name": "f"}]})),
        ({"events": [DID]}, (*ASKED, DID, SAID)),
        ({"events": [DID, SAID]}, (*ASKED, DID, SAID)),
        ({"files": [{"path": "task.md", "content": "t"}]}, ({"role": "file task.md", "content": "t"}, *ASKED, SAID)),
    ],
)
def test_a_call_is_one_conversation(more: dict[str, object], expected: object) -> None:
    assert conversation_of({"messages": list(ASKED), "reply": "a", **more}) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (SAID, ("assistant", "a")),
        ({"type": "reasoning", "content": "hm"}, ("reasoning", "hm")),
        ({"role": "user", "content": "u", "images": ["x"]}, ("user", 'u\n{\n "images": [\n  "x"\n ]\n}')),
        ({"role": "user", "content": "", "images": []}, ("user", '{\n "images": []\n}')),
        (
            {"type": "tool_call", "content": None, "name": "sh"},
            ("tool_call", '{\n "type": "tool_call",\n "name": "sh"\n}'),
        ),
        ({"role": "user", "content": ["a"]}, ("user", '[\n "a"\n]')),
        ({}, ("entry", "{}")),
    ],
)
def test_an_entry_is_told_by_who_speaks_and_in_words(message: dict[str, object], expected: tuple[str, str]) -> None:
    assert role_and_words(message) == expected
