"""The step buffer: joined rightly, kept through JSON, shown as prose."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fakes.scripted import rollout
from hypothesis import given
from hypothesis import strategies as st

from skillopt.optimizer.items import Candidate, EditItem, Patch, Suggestion
from skillopt.optimizer.prompting import estimate_tokens
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.rejected import (
    StepEntry,
    describe,
    failure_patterns,
    from_json,
    make_entry,
    render,
    to_json,
)
from skillopt.optimizer.replies import FailurePattern

RULE = "- **always-elaborate**: always explain the answer."


def reflection(index: int, ids: tuple[str, ...], *patterns: tuple[str, int, str]) -> Reflection:
    summary = tuple(FailurePattern(failure_type=t, count=c, description=d) for t, c, d in patterns)
    return Reflection("failure", 0, index, ids, failure_summary=summary)


def entry(step: int = 3, action: str = "reject", **changes: Any) -> StepEntry:
    fields: dict[str, Any] = {
        "step": step,
        "action": action,
        "rollouts": [rollout(1), rollout(2), rollout(3, 1.0), rollout(4, None)],
        "reflections": [reflection(0, ("item-1",), ("form", 1, "too long"))],
        "selected": Patch("", (EditItem(op="append", content=RULE),)),
        "unapplied": ["delete “x”, because: not found"],
        "score_before": 0.5,
        "score_after": 0.25,
    }
    return make_entry(**{**fields, **changes})


def test_patterns_name_the_items_of_their_own_minibatch() -> None:
    reflections = [
        reflection(0, ("item-1", "item-2"), ("form", 2, "Too long")),
        reflection(1, ("item-3",), ("content", 1, "wrong person"), ("form", 1, "too  long")),
    ]
    found = failure_patterns([rollout(n) for n in (1, 2, 3)], reflections)
    assert [(p.pattern, p.count, p.task_ids) for p in found] == [
        ("form: Too long", 3, ("item-1", "item-2", "item-3")),
        ("content: wrong person", 1, ("item-3",)),
    ]


def test_failures_nobody_described_are_grouped_by_reason() -> None:
    rollouts = [
        rollout(1, reason="no answer tag: <b>"),
        rollout(2, reason="No answer tag: x"),
        rollout(3, reason=""),
        rollout(4, reason="described"),
        rollout(5, 1.0),
        rollout(6, None),
    ]
    found = failure_patterns(rollouts, [reflection(0, ("item-4",), ("t", 1, "d")), reflection(1, ("item-1",))])
    assert [(p.pattern, p.count, p.task_ids) for p in found] == [
        ("no answer tag", 2, ("item-1", "item-2")),
        ("t: d", 1, ("item-4",)),
        ("no reason given", 1, ("item-3",)),
    ]


def test_digest_of_a_rejected_step() -> None:
    assert entry().digest() == {
        "step": 3,
        "action": "reject",
        "n_total": 3,
        "n_fail": 2,
        "failure_patterns": [
            {"pattern": "form: too long", "count": 1, "task_ids": ["item-1"]},
            {"pattern": "wrong answer", "count": 1, "task_ids": ["item-2"]},
        ],
        "score_before": 0.5,
        "score_after": 0.25,
        "rejected_edits": [{"op": "append", "content": RULE, "target": ""}],
        "unapplied": ["delete “x”, because: not found"],
    }


@pytest.mark.parametrize("action", ["accept_new_best", "force_accept", "skip_no_change"])
def test_digest_of_another_step_has_no_rejected_edits(action: str) -> None:
    digest = entry(action=action).digest()
    assert not {"score_before", "score_after", "rejected_edits"} & digest.keys()
    assert digest["unapplied"] == ["delete “x”, because: not found"]


def test_the_buffer_survives_json() -> None:
    entries = (entry(1), entry(2, "accept", unapplied=()), entry(3, score_before=None))
    assert from_json(json.loads(json.dumps(to_json(entries)))) == entries


def test_nothing_before_is_an_empty_text() -> None:
    assert render(()) == ""


def test_a_step_in_prose() -> None:
    text = render([entry()])
    assert text.splitlines()[0] == "- Step 3 ended with reject: 2 of 3 trajectories failed."
    assert "score 0.5000 before, 0.2500 with them" in text
    assert "Rejected: append “**always-elaborate**: always explain the answer.”" in text
    assert "Did not apply: delete “x”, because: not found." in text
    assert "item-1" not in text, "ids tell the optimizer nothing"


RULE_LINE = re.compile(r"(?m)^[ \t>]{0,4}[-*] \*\*")
INDEX_LINE = re.compile(r"(?m)^\s*\[\d+\]")
texts = st.text(st.sampled_from(list('-*#>[]{}0123 \n\tab“:"')), max_size=60)


@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "insert_after", "replace", "delete", "?"]), texts, texts), max_size=4
    ),
    texts,
)
def test_no_quoted_text_looks_like_a_rule_an_index_or_a_heading(edits: list[tuple[str, str, str]], other: str) -> None:
    items: list[Any] = [EditItem(op=op, target=target, content=content) for op, target, content in edits]
    items += [Suggestion(title=other, instruction=other), Candidate(title=other, change_summary=[other])]
    shown = render(
        [
            entry(
                selected=Patch("", tuple(items)),
                unapplied=[describe(item) for item in items],
                reflections=[reflection(0, ("item-1",), (other, 1, other))],
            )
        ]
    )
    assert not RULE_LINE.search(shown)
    assert not INDEX_LINE.search(shown)
    assert all(re.match(r"(- Step|  - [A-Z])", line) for line in shown.splitlines())


def test_a_rule_is_never_shown_as_a_rule_of_the_skill() -> None:
    shown = render([entry(unapplied=[RULE, f"\n{RULE}"])])
    assert "**always-elaborate**" in shown
    assert not RULE_LINE.search(shown)


def test_the_oldest_steps_go_first_and_it_is_said() -> None:
    entries = [entry(step) for step in range(1, 30)]
    text = render(entries, max_tokens=400)
    assert estimate_tokens(text) <= 430
    kept = [int(number) for number in re.findall(r"- Step (\d+) ended", text)]
    assert kept == list(range(30 - len(kept), 30))
    assert text.splitlines()[0] == f"- {29 - len(kept)} older steps of this epoch left out here."
    assert re.findall(r"Step (\d+) ended", render(entries, max_tokens=1)) == ["29"]


def test_long_texts_are_cut() -> None:
    shown = render([entry(selected=Patch("", (EditItem(op="append", content="word " * 500),)))])
    assert "…”" in shown
    assert len(shown) < 900
