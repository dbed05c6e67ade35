"""The hierarchical merge: levels, sides at once, fallbacks that are counted."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from fakes.scripted import Answer, ScriptedModel, edit, no_calls

from skillopt.models.errors import ModelError, StopRequested
from skillopt.models.types import Request
from skillopt.optimizer.aggregate import Merged, aggregate
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.items import EditItem, Patch
from skillopt.skill import Skill
from skillopt.types import SourceType

CONTEXT = OptimizerContext(Skill("# Skill\n"), "advice", "- Step 1 ended with reject.")


def patch(name: str, source: SourceType = "failure") -> Patch:
    return Patch(f"why {name}", (EditItem(op="append", content=f"- {name}", source_type=source),))


def patches(prefix: str, count: int, source: SourceType = "failure") -> list[Patch]:
    return [patch(f"{prefix}{number}", source) for number in range(count)]


def joined(request: Request) -> Answer:
    """Merges into one edit whose content lists the inputs, in order."""
    names = re.findall(r'"content": "- ([^"]+)"', request.messages[1].content)
    return {"reasoning": "m", "edits": [{**edit("- " + "+".join(names)), "support_count": len(names)}]}


def run(model: ScriptedModel, failures: list[Patch], successes: list[Patch], **settings: object) -> Merged:
    return asyncio.run(aggregate(model, CONTEXT, Settings(**settings), failures, successes))  # type: ignore[arg-type]


def contents(merged: Merged) -> list[str | None]:
    return [item.content for item in merged.patch.items if isinstance(item, EditItem)]


@pytest.mark.parametrize(("failures", "successes"), [(0, 0), (1, 0), (0, 1)])
def test_nothing_to_merge_costs_nothing(failures: int, successes: int) -> None:
    merged = run(ScriptedModel(no_calls), patches("f", failures), patches("s", successes, "success"))
    assert contents(merged) == [f"- {side}0" for side, n in (("f", failures), ("s", successes)) if n]
    assert merged.fallbacks == ()
    assert all(item.merge_level is None for item in merged.patch.items), "a single patch is returned untouched"


def test_levels_chunks_and_single_patches() -> None:
    model = ScriptedModel(joined)
    merged = run(model, patches("f", 7), [], merge_batch_size=3)
    # 7 patches: 3 + 3 + 1 (passed through), then these three.
    assert contents(merged) == ["- f0+f1+f2+f3+f4+f5+f6"]
    assert len(model.requests) == 3
    assert [item.merge_level for item in merged.patch.items] == [2]
    assert [re.search(r"merge level (\d)", model.user(n)).group(1) for n in range(3)] == ["1", "1", "2"]  # type: ignore[union-attr]


def test_both_sides_end_in_a_final_merge() -> None:
    model = ScriptedModel(joined)
    merged = run(model, patches("f", 2), patches("s", 2, "success"))
    assert contents(merged) == ["- f0+f1+s0+s1"]
    assert len(model.requests) == 3
    assert "final merge" in model.system(2)
    assert [(item.merge_level, item.source_type) for item in merged.patch.items] == [(2, "mixed")]
    assert set(model.stages) == {"merge"}


def test_one_patch_a_side_is_only_a_final_merge() -> None:
    model = ScriptedModel(joined)
    run(model, patches("f", 1), patches("s", 1, "success"))
    assert len(model.requests) == 1
    assert "final merge" in model.system()


def test_the_sides_run_at_the_same_time() -> None:
    begun: list[str] = []

    async def both() -> None:
        together = asyncio.Event()

        class Meeting(ScriptedModel):
            async def complete(self, request: Request):  # type: ignore[no-untyped-def]
                if "final merge" not in request.messages[0].content:
                    begun.append(request.stage)
                    if len(begun) == 2:
                        together.set()
                    await together.wait()
                return await super().complete(request)

        work = aggregate(Meeting(joined), CONTEXT, Settings(), patches("f", 2), patches("s", 2, "success"))
        await asyncio.wait_for(work, 5)

    asyncio.run(both())
    assert len(begun) == 2


def test_the_order_in_which_calls_end_does_not_matter() -> None:
    quick = run(ScriptedModel(joined), patches("f", 6), patches("s", 4, "success"), merge_batch_size=2)
    odd = ScriptedModel(joined, delays=[0.03, 0.02, 0.01, 0.0, 0.02])
    slow = run(odd, patches("f", 6), patches("s", 4, "success"), merge_batch_size=2)
    assert slow.patch == quick.patch


@pytest.mark.parametrize("kind", ["invalid_output", "refused", "context_overflow", "provider", "timeout"])
def test_a_failed_merge_is_concatenation_and_is_counted(kind: str) -> None:
    def failing(request: Request) -> Answer:
        return ModelError(kind, "no")  # type: ignore[arg-type]

    merged = run(ScriptedModel(failing), patches("f", 2), patches("s", 2, "success"))
    assert contents(merged) == ["- f0", "- f1", "- s0", "- s1"]
    assert [error.kind for error in merged.fallbacks] == [kind] * 3
    assert {error.stage for error in merged.fallbacks} == {
        "merge_failure, level 1",
        "merge_success, level 1",
        "merge_final, level 2",
    }


def test_a_reply_without_items_falls_back_after_one_more_try() -> None:
    model = ScriptedModel([{"reasoning": "x"}, {"reasoning": "still"}])
    merged = run(model, patches("f", 2), [])
    assert contents(merged) == ["- f0", "- f1"]
    assert [error.kind for error in merged.fallbacks] == ["invalid_output"]


@pytest.mark.parametrize("error", [ModelError("auth", "bad key"), StopRequested("interrupted")])
def test_what_ends_a_run_is_raised(error: Exception) -> None:
    model = ScriptedModel([error, joined_text(), joined_text()], delays=[0.0, 0.02, 0.02])
    with pytest.raises(type(error)):
        run(model, patches("f", 6), [], merge_batch_size=2)


def joined_text() -> str:
    return json.dumps({"edits": [edit("- m")]})


def test_non_object_items_are_dropped_and_counted() -> None:
    merged = run(ScriptedModel([{"edits": [edit("- a"), "b", None]}]), patches("f", 2), [])
    assert (contents(merged), merged.dropped) == (["- a"], 2)


def test_sides_stamp_their_source_and_the_final_merge_trusts_the_reply() -> None:
    wrong = {"edits": [{**edit("- a"), "source_type": "success"}]}
    assert run(ScriptedModel([wrong]), patches("f", 2), []).patch.items[0].source_type == "failure"
    model = ScriptedModel([{"edits": [{**edit("- a"), "source_type": "success"}, {**edit("- b"), "source_type": "?"}]}])
    merged = run(model, patches("f", 1), patches("s", 1, "success"))
    assert [item.source_type for item in merged.patch.items] == ["success", "mixed"]


def test_a_side_that_was_merged_away_leaves_the_other_as_it_is() -> None:
    def script(request: Request) -> Answer:
        empty = "success analysis" in request.messages[0].content
        return {"edits": []} if empty else joined(request)

    merged = run(ScriptedModel(script), patches("f", 2), patches("s", 2, "success"))
    assert contents(merged) == ["- f0+f1"]


def test_merges_see_the_step_buffer_and_the_memory() -> None:
    model = ScriptedModel(joined)
    run(model, patches("f", 2), patches("s", 1, "success"))
    for number in range(2):
        assert "## Previous Steps\n- Step 1 ended with reject." in model.user(number)
        assert "## Optimizer Meta Skill\nadvice" in model.user(number)
