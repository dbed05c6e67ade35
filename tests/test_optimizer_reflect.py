"""Minibatches in item order, and what an analyst call gives, whatever comes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from fakes.scripted import ScriptedModel, edit, failure_reply, rollout
from hypothesis import given
from hypothesis import strategies as st

from skillopt.models.errors import ErrorKind, ModelError, StopRequested
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.minibatch import Minibatch, Minibatcher, is_failure
from skillopt.optimizer.reflect import Reflection, analyse, patches_of
from skillopt.skill import Skill

CONTEXT = OptimizerContext(Skill("# Skill\n\n- be brief\n"), "advice", "- Step 1 ended with reject.")
FAILURES = Minibatch("failure", 0, (rollout(1), rollout(2)))
SUCCESSES = Minibatch("success", 2, (rollout(3, 1.0),))


def reflect(
    script: list[object], minibatch: Minibatch = FAILURES, **settings: object
) -> tuple[Reflection, ScriptedModel]:
    model = ScriptedModel(script)  # type: ignore[arg-type]
    return asyncio.run(analyse(model, CONTEXT, Settings(**settings), minibatch, batch_index=1)), model  # type: ignore[arg-type]


@given(st.lists(st.sampled_from([0.0, 1e-12, 0.3, 1.0, None]), max_size=30), st.integers(1, 5), st.booleans())
def test_minibatches_hold_each_outcome_in_item_order(hards: list[float | None], size: int, failure_only: bool) -> None:
    rollouts = [rollout(number, hard) for number, hard in enumerate(hards)]
    batcher = Minibatcher(Settings(minibatch_size=size, failure_only=failure_only))
    closed = [batch for each in rollouts if (batch := batcher.add(each))]
    assert all(len(batch.rollouts) == size for batch in closed)
    batches = [*closed, *batcher.flush()]
    failures = [each for batch in batches if batch.kind == "failure" for each in batch.rollouts]
    successes = [each for batch in batches if batch.kind == "success" for each in batch.rollouts]
    assert failures == [each for each, hard in zip(rollouts, hards, strict=True) if hard is not None and hard < 1e-9]
    expected = [each for each, hard in zip(rollouts, hards, strict=True) if hard is not None and hard >= 1e-9]
    assert successes == ([] if failure_only else expected)
    for kind in ("failure", "success"):
        assert [batch.index for batch in batches if batch.kind == kind] == list(
            range(sum(batch.kind == kind for batch in batches))
        )


def test_a_minibatch_closes_as_soon_as_it_is_full() -> None:
    batcher = Minibatcher(Settings(minibatch_size=2))
    assert batcher.add(rollout(1)) is None
    assert batcher.add(rollout(2, 1.0)) is None
    full = batcher.add(rollout(3))
    assert full is not None
    assert [each.item.id for each in full.rollouts] == ["item-1", "item-3"]
    assert [(batch.kind, batch.index) for batch in batcher.flush()] == [("success", 0)]
    assert batcher.flush() == ()


def test_compact_minibatches_are_failures_of_at_most_four() -> None:
    batcher = Minibatcher(Settings(minibatch_size=8, style="compact"))
    batches = [batch for n in range(10) if (batch := batcher.add(rollout(n, 0.0 if n < 9 else 1.0)))]
    assert [len(batch.rollouts) for batch in [*batches, *batcher.flush()]] == [4, 4, 1]


def test_what_was_not_measured_is_no_failure() -> None:
    assert is_failure(rollout(1, 0.0))
    assert not is_failure(rollout(1, 0.3))
    assert not is_failure(rollout(1, None))


def test_a_reflection_holds_patch_file_and_summary() -> None:
    got, model = reflect([failure_reply("- one", "- two")])
    assert got.error is None
    assert got.name == "minibatch_fail_000"
    assert (got.batch_index, got.item_ids) == (1, ("item-1", "item-2"))
    assert got.patch is not None
    assert [item.to_dict() for item in got.patch.items] == [
        {"op": "append", "content": "- one", "support_count": 2, "source_type": "failure"},
        {"op": "append", "content": "- two", "support_count": 2, "source_type": "failure"},
    ]
    assert got.raw == {**failure_reply("- one", "- two"), "source_type": "failure"}
    assert [(p.failure_type, p.count) for p in got.failure_summary] == [("form", 2)]
    request = model.requests[0]
    assert (request.stage, request.max_tokens) == ("analyst", 16_384)


def test_items_beyond_the_budget_are_cut_and_counted() -> None:
    got, _ = reflect([failure_reply("- one", "- two", "- three")], learning_rate=2)
    assert got.patch is not None
    assert got.raw is not None
    assert len(got.patch.items) == len(got.raw["patch"]["edits"]) == 2
    assert got.over_budget == 1


def test_support_is_never_more_than_the_trajectories_shown() -> None:
    for claimed, support in ((99, 2), ("many", 1), (0, 1), (2, 2)):
        got, _ = reflect([failure_reply("- one", batch_size=claimed)])
        assert got.patch is not None
        assert got.patch.items[0].support_count == support


def test_nothing_proposed_is_no_patch_and_no_error() -> None:
    got, _ = reflect([{"success_patterns": [], "patch": {"edits": []}}], SUCCESSES)
    assert (got.patch, got.error, got.name) == (None, None, "minibatch_succ_002")
    assert got.raw is not None
    assert got.raw["source_type"] == "success"


@pytest.mark.parametrize("kind", ["refused", "context_overflow", "timeout", "provider", "truncated", "rate_limited"])
def test_a_failed_call_is_an_error_of_its_kind(kind: ErrorKind) -> None:
    got, _ = reflect([ModelError(kind, "no", raw="half a reply")])
    assert got.error is not None
    assert (got.error.stage, got.error.kind) == ("analyst", kind)
    assert (got.patch, got.raw, got.raw_text) == (None, None, "half a reply")


def test_an_unusable_reply_is_asked_again_once() -> None:
    got, model = reflect(["no JSON here", failure_reply("- one")])
    assert (got.reasked, len(model.requests)) == (True, 2)
    got, _ = reflect(["no JSON here", "still none"])
    assert got.error is not None
    assert (got.error.kind, got.raw_text) == ("invalid_output", "still none")


@pytest.mark.parametrize("error", [ModelError("auth", "bad key"), StopRequested("budget")])
def test_what_ends_a_run_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        reflect([error])


def test_full_rewrite_keeps_one_candidate_and_may_be_long() -> None:
    candidates = [{"title": "a", "change_summary": [], "new_skill": "# A"}, {"title": "b", "new_skill": "# B"}]
    got, model = reflect([{"patch": {"skill_candidates": candidates}}], mode="full_rewrite_minibatch")
    assert got.patch is not None
    assert len(got.patch.items) == 1
    assert model.requests[0].max_tokens == 64_000
    assert "budget=" not in model.user()


def test_trimming_is_counted() -> None:
    long = Minibatch("failure", 0, (rollout(1, user_prompt="word " * 9000), rollout(2)))
    got, model = reflect([failure_reply()], long, max_trajectory_tokens=1000)
    assert got.trimmed == 1
    assert f"[… {got.tokens_left_out} tokens left out …]" in model.user()
    whole, model = reflect([failure_reply()], long, max_trajectory_tokens=0, max_prompt_tokens=0)
    assert whole.trimmed == 0
    assert "tokens left out" not in model.user()
    cut, model = reflect([failure_reply()], long, max_trajectory_tokens=0, max_prompt_tokens=3000)
    assert cut.trimmed == 1
    assert sum(len(message.content) for message in model.requests[0].messages) < 4 * 3200


def test_settings_reach_the_request() -> None:
    _, model = reflect([failure_reply()], reasoning_effort="high", timeout=12.0, priority=7)
    request = model.requests[0]
    assert (request.reasoning_effort, request.timeout, request.priority) == ("high", 12.0, 7)
    _, model = reflect([failure_reply()])
    assert model.requests[0].reasoning_effort is None


def test_patches_come_in_plan_order() -> None:
    base, _ = reflect([failure_reply("- x")])
    shuffled = [
        replace(base, batch_index=b, minibatch_index=m, patch=replace(base.patch, reasoning=f"{b}{m}"))
        for b, m in ((1, 1), (0, 1), (1, 0), (0, 0))
    ]  # type: ignore[type-var]
    assert [patch.reasoning for patch in patches_of(shuffled, "failure")] == ["00", "01", "10", "11"]
    assert patches_of(shuffled, "success") == []


def test_a_null_replacement_is_kept_apart_from_an_empty_one() -> None:
    null, empty = edit("", "replace", "a"), {**edit("", "replace", "b"), "content": ""}
    null["content"] = None
    got, _ = reflect([{"patch": {"edits": [null, empty]}}])
    assert got.patch is not None
    assert [getattr(item, "content", "?") for item in got.patch.items] == [None, ""]
