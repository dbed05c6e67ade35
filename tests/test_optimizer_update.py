"""From selected items to a candidate, in the three modes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fakes.scripted import ScriptedModel, no_calls

from skillopt.models.errors import ModelError, StopRequested
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.items import Candidate, EditItem, Patch, Suggestion
from skillopt.optimizer.update import Update, update
from skillopt.skill import Skill

TEXT = """---
name: demo
---
# Skill

- be brief
- be kind

<!-- SLOW_UPDATE_START -->
- guidance stays
<!-- SLOW_UPDATE_END -->
"""
CONTEXT = OptimizerContext(Skill(TEXT), "the memory", "- Step 1 ended with reject.")


def run(script: Any, selected: Patch, **settings: Any) -> tuple[Update, ScriptedModel]:
    model = ScriptedModel(script)
    return asyncio.run(update(model, CONTEXT, Settings(**settings), selected, selected)), model


def patch(*items: Any) -> Patch:
    return Patch("why", items)


def test_patch_mode_applies_edits_and_reports_them() -> None:
    selected = patch(
        EditItem(op="append", content="- one more"),
        EditItem(op="replace", target="be brief", content="be very brief"),
        EditItem(op="delete", target="not there"),
        EditItem(op="replace", target="- be kind"),
        EditItem(op="polish", content="x"),
        EditItem(op="replace", target="guidance stays", content="gone"),
    )
    got, _ = run(no_calls, selected)
    assert got.candidate is not None
    assert "- one more" in got.candidate.text
    assert "- be very brief" in got.candidate.text
    assert got.candidate.guidance == "- guidance stays"
    statuses = [row["status"] for row in got.report]
    assert [status.startswith("applied") for status in statuses] == [True, True, False, False, False, False]
    assert statuses[2:] == ["skipped_delete_unmatched", "error", "skipped_unknown_op", "skipped_protected_region"]
    assert got.artifacts == {"edit_apply_report.json": list(got.report)}
    assert got.summary == {"total": 6, "applied": 2, "skipped": 3, "errors": 1}
    assert len(got.unapplied) == 4
    assert got.unapplied[0].startswith("delete “not there”, because: ")


def test_patch_mode_without_effect_gives_the_same_text() -> None:
    got, _ = run(no_calls, patch(EditItem(op="delete", target="nowhere")))
    assert got.candidate is not None
    assert got.candidate.hash == CONTEXT.skill.hash


def test_rewrite_mode_asks_once_with_its_own_settings() -> None:
    reply = {"reasoning": "r", "change_summary": ["c"], "new_skill": "# Skill\n\n- be brief and kind\n\n\n"}
    selected = patch(Suggestion(type="merge_rules", title="t", instruction="join the rules"))
    got, model = run(
        [reply],
        selected,
        mode="rewrite_from_suggestions",
        rewrite_max_completion_tokens=999,
        rewrite_reasoning_effort="high",
        reasoning_effort="low",
    )
    assert got.candidate is not None
    assert got.candidate.body.strip() == "# Skill\n\n- be brief and kind"
    assert got.candidate.text.startswith("---\nname: demo\n---\n")
    assert got.candidate.guidance == "- guidance stays"
    assert got.artifacts["rewrite_result.json"] == {**reply, "new_skill": "# Skill\n\n- be brief and kind\n"}
    assert (got.change_summary, got.summary) == (("c",), None)
    request = model.requests[0]
    assert (request.stage, request.max_tokens, request.reasoning_effort) == ("rewrite", 999, "high")
    assert "join the rules" in model.user()
    assert "## Previous Steps\n- Step 1" in model.user()
    assert "the memory" not in model.user()


def test_rewrite_effort_is_its_own_even_when_unset() -> None:
    selected = patch(Suggestion(instruction="x"))
    _, model = run([{"new_skill": "# S"}], selected, mode="rewrite_from_suggestions", reasoning_effort="low")
    assert model.requests[0].reasoning_effort is None


@pytest.mark.parametrize("script", [[ModelError("provider", "x")], [{"new_skill": "  "}] * 2, [{"reasoning": "r"}] * 2])
def test_a_rewrite_that_gives_nothing_is_no_candidate(script: Any) -> None:
    got, model = run(script, patch(Suggestion(instruction="x")), mode="rewrite_from_suggestions")
    assert got.candidate is None
    assert got.error is not None
    assert got.error.stage == "rewrite"
    assert len(model.requests) == len(script), "a blank skill is asked again once"


@pytest.mark.parametrize("error", [ModelError("auth", "bad key"), StopRequested("budget")])
def test_what_ends_a_run_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        run([error], patch(Suggestion(instruction="x")), mode="rewrite_from_suggestions")


def test_no_suggestions_no_call() -> None:
    got, _ = run(no_calls, patch(), mode="rewrite_from_suggestions")
    assert got.candidate == CONTEXT.skill


def test_full_rewrite_takes_the_first_candidate_with_a_text() -> None:
    blank, chosen = (
        Candidate(title="blank", new_skill=" \n"),
        Candidate(title="b", change_summary=["c"], new_skill="# New"),
    )
    got, _ = run(no_calls, patch(blank, chosen, Candidate(new_skill="# Later")), mode="full_rewrite_minibatch")
    assert got.candidate is not None
    assert got.candidate.body.strip() == "# New"
    assert got.candidate.guidance == "- guidance stays"
    content = got.artifacts["full_rewrite_result.json"]
    assert content["selected_candidate"] == {"title": "b", "change_summary": ["c"], "new_skill": "# New"}
    assert len(content["merged_patch"]["skill_candidates"]) == 3


def test_full_rewrite_without_a_text_is_no_candidate() -> None:
    got, _ = run(no_calls, patch(Candidate(title="blank")), mode="full_rewrite_minibatch")
    assert got.candidate is None
