"""Replies of analysts and merges: what is forgiven, what is refused, what ends up on disk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from skillopt.models.wire import strict_ready
from skillopt.optimizer.compact import AnalystReply
from skillopt.optimizer.items import (
    ITEMS_KEY,
    Candidate,
    EditItem,
    Patch,
    ProposedEdit,
    Suggestion,
    as_count,
    with_provenance,
)
from skillopt.optimizer.meta_skill import CompactMetaSkillReply, MetaSkillReply
from skillopt.optimizer.replies import (
    ANALYST_REPLY,
    MERGE_REPLY,
    FailureCandidates,
    FailureEdits,
    FailureSuggestions,
    MergedCandidates,
    MergedEdits,
    SuccessEdits,
    merged_items,
    proposals,
)
from skillopt.optimizer.select import LrReply, RankingReply
from skillopt.optimizer.slow_update import CompactSlowUpdateReply, SlowUpdateReply
from skillopt.optimizer.update import RewriteReply

EDIT = {"op": "append", "target": "", "content": "- rule"}


def contents(reply: Any) -> list[str | None]:
    return [item.content for item in proposals(reply.patch)]


@pytest.mark.parametrize(
    ("reply", "expected", "dropped"),
    [
        ({"patch": {"edits": [EDIT]}}, ["- rule"], 0),
        ({"edits": [EDIT], "reasoning": "r"}, ["- rule"], 0),
        ({"patch": {"edits": None}}, [], 0),
        ({"patch": None}, [], 0),
        ({"patch": {}}, [], 0),
        ({"patch": [EDIT]}, ["- rule"], 0),
        ({"patch": {"edits": EDIT}}, ["- rule"], 0),
        ({"patch": {"edits": [EDIT, "text", 3, None]}}, ["- rule"], 3),
        ({"patch": {"edits": [{**EDIT, "content": None}]}}, [None], 0),
        ({"patch": {"edits": [{**EDIT, "content": ["a", "b"]}]}}, ["a\nb"], 0),
        ({"patch": {"edits": [{**EDIT, "content": 3}]}}, ["3"], 0),
        ({"patch": {"edits": [{"op": "invent", "content": "x", "why": "extra key"}]}}, ["x"], 0),
        ({"batch_size": "many", "failure_summary": None, "patch": {"edits": []}}, [], 0),
    ],
)
def test_harmless_faults_of_an_analyst_are_forgiven(reply: Any, expected: list[str | None], dropped: int) -> None:
    read = FailureEdits.model_validate(reply)
    assert contents(read) == expected
    assert read.patch.dropped == dropped


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"batch_size": 3, "failure_summary": []},
        {"patch": {"edits": "append a rule"}},
        {"patch": {"edits": [{**EDIT, "content": {"text": "x"}}]}},
        {"patch": "append a rule"},
        {"failure_summary": "x", "patch": 3},
    ],
)
def test_what_could_mean_something_else_is_refused(reply: Any) -> None:
    with pytest.raises(ValidationError):
        FailureEdits.model_validate(reply)


def test_failure_summary_is_read_leniently() -> None:
    reply = {"failure_summary": [{"failure_type": "a", "count": "x"}, "b", 3], "patch": {}}
    summary = FailureEdits.model_validate(reply).failure_summary
    assert [(p.failure_type, p.count, p.description) for p in summary] == [("a", 1, ""), ("", 1, "b")]
    assert SuccessEdits.model_validate({"success_patterns": "one", "patch": {}}).success_patterns == ["one"]


def test_edits_where_suggestions_are_due_become_suggestions() -> None:
    read = FailureSuggestions.model_validate({"patch": {"edits": [{"op": "delete", "target": "- old"}, 3]}})
    (suggestion,) = read.patch.revise_suggestions
    assert "delete" in suggestion.instruction
    assert "- old" in suggestion.instruction
    assert read.patch.dropped == 1


def test_edits_where_candidates_are_due_are_counted_as_dropped() -> None:
    read = FailureCandidates.model_validate({"patch": {"edits": [EDIT, EDIT]}})
    assert read.patch.skill_candidates == []
    assert read.patch.dropped == 2


def test_a_merge_must_hold_its_items_key() -> None:
    with pytest.raises(ValidationError, match='has no "edits"'):
        MergedEdits.model_validate({"reasoning": "nothing to do"})
    assert merged_items(MergedEdits.model_validate({"edits": []})) == ()
    (item,) = merged_items(MergedEdits.model_validate({"patch": {"edits": [{**EDIT, "support_count": "x"}]}}))
    assert item.support_count == 1


def test_a_reply_cannot_name_the_items_that_an_edit_comes_from() -> None:
    (item,) = merged_items(MergedEdits.model_validate({"edits": [{**EDIT, "source_items": ["TR-1"]}]}))
    assert "source_items" not in item.to_dict()
    named = with_provenance(ProposedEdit(op="append", content="- x"), "failure", 4, ("TR-1",))
    assert named.to_dict()["source_items"] == ("TR-1",)


def test_a_merge_of_candidates_may_be_one_bare_candidate() -> None:
    read = MergedCandidates.model_validate({"reasoning": "r", "change_summary": "one", "new_skill": "# S"})
    assert [(c.new_skill, c.change_summary) for c in read.skill_candidates] == [("# S", ["one"])]


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (3, 3),
        ("3", 3),
        (2.0, 2),
        (0, 0),
        (-2, 0),
        (None, 1),
        (True, 1),
        ("three", 1),
        (float("inf"), 1),
        ("nan", 1),
        ([], 1),
    ],
)
def test_counts(value: Any, count: int) -> None:
    assert as_count(value) == count


def test_published_shape_of_each_kind_of_item() -> None:
    edits = Patch("r", (EditItem(op="append", content="- x", support_count=2, source_type="failure", merge_level=1),))
    assert edits.to_dict("patch") == {
        "reasoning": "r",
        "edits": [{"op": "append", "content": "- x", "support_count": 2, "source_type": "failure", "merge_level": 1}],
    }
    suggestion = Patch("", (Suggestion(type="clarify", title="t", instruction="i"),))
    assert suggestion.to_dict("rewrite_from_suggestions")["revise_suggestions"][0] == {
        "type": "clarify",
        "title": "t",
        "instruction": "i",
        "priority_hint": "medium",
        "support_count": 1,
    }
    candidate = Patch("", (Candidate(title="t", change_summary=["a"], new_skill="# S\n", source_type="success"),))
    assert candidate.to_dict("full_rewrite_minibatch")["skill_candidates"][0] == {
        "title": "t",
        "change_summary": ["a"],
        "new_skill": "# S\n",
        "support_count": 1,
        "source_type": "success",
    }


def test_provenance_is_stamped_on_the_mode_s_own_form() -> None:
    for (kind, mode), reply_type in ANALYST_REPLY.items():
        reply = reply_type.model_validate({"patch": {ITEMS_KEY[mode]: [{"title": "t", "content": "c"}]}})
        item = with_provenance(proposals(reply.patch)[0], kind, 5)
        assert (item.source_type, item.support_count) == (kind, 5)
        assert isinstance(item, {"patch": EditItem, "rewrite_from_suggestions": Suggestion}.get(mode, Candidate))


REPLY_TYPES: list[type[BaseModel]] = [
    *ANALYST_REPLY.values(),
    *MERGE_REPLY.values(),
    AnalystReply,
    RankingReply,
    LrReply,
    RewriteReply,
    SlowUpdateReply,
    CompactSlowUpdateReply,
    MetaSkillReply,
    CompactMetaSkillReply,
]


@pytest.mark.parametrize("reply_type", REPLY_TYPES)
def test_schemas_are_strict_and_hold_nothing_of_ours(reply_type: type[BaseModel]) -> None:
    schema = reply_type.model_json_schema()
    assert strict_ready(schema)
    text = str(schema)
    for private in ("merge_level", "source_items", "dropped", "docstring", "'description': '"):
        assert private not in text


def test_merge_schemas_ask_for_support_and_source_analyst_schemas_do_not() -> None:
    assert "support_count" in str(MERGE_REPLY["patch"].model_json_schema())
    assert "support_count" not in str(ANALYST_REPLY["failure", "patch"].model_json_schema())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["patch", "edits", "revise_suggestions", "skill_candidates", "op", "content", "new_skill", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_read_or_refused(value: Any) -> None:
    for reply_type in (*ANALYST_REPLY.values(), *MERGE_REPLY.values()):
        try:
            read = reply_type.model_validate(value)
        except ValidationError:
            continue
        assert read.model_dump() is not None
