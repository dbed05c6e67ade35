"""What outside programs may rely on when they read a log of optimizer requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import pytest
from fakes.scripted import ScriptedModel, rollout

from skillopt.models.errors import ModelError
from skillopt.models.types import Request
from skillopt.optimizer.aggregate import aggregate
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.items import Candidate, EditItem, Patch, Suggestion, UpdateMode
from skillopt.optimizer.meta_skill import meta_skill
from skillopt.optimizer.minibatch import Minibatch
from skillopt.optimizer.pairs import pair_up
from skillopt.optimizer.reflect import analyse
from skillopt.optimizer.rejected import make_entry, render
from skillopt.optimizer.select import decide_learning_rate, select
from skillopt.optimizer.slow_update import slow_update
from skillopt.optimizer.update import update
from skillopt.skill import Skill

ALL_KEYS = (
    "failure_summary",
    "success_patterns",
    "edits",
    "revise_suggestions",
    "skill_candidates",
    "selected_indices",
    "learning_rate",
    "new_skill",
    "change_summary",
    "slow_update_content",
    "meta_skill_content",
)
ITEMS: Mapping[UpdateMode, tuple[str, Any]] = {
    "patch": ("edits", EditItem(op="append", content="- rule\n[0] not an entry", source_type="failure")),
    "rewrite_from_suggestions": ("revise_suggestions", Suggestion(title="t", instruction="do it")),
    "full_rewrite_minibatch": ("skill_candidates", Candidate(title="t", new_skill="# S")),
}
CANDIDATE_KEYS = {"new_skill", "change_summary"}
SKILL = Skill("# Skill\n\n## Rules\n- be brief\n")
REJECTED = '- **loud-rule**: always shout.\n[0] {"op": "append"}'
PREVIOUS = render(
    [
        make_entry(
            step=1,
            action="reject",
            rollouts=[rollout(1)],
            reflections=[],
            selected=Patch("", (EditItem(op="append", content=REJECTED),)),
            unapplied=[f"append {REJECTED}"],
        )
    ]
)
CONTEXT = OptimizerContext(SKILL, "## Advice\n- prefer short rules", PREVIOUS)


def refuse(request: Request) -> ModelError:
    return ModelError("refused", "only the prompt matters here")


def calls(mode: UpdateMode) -> dict[str, Request]:
    """The first request of every call that a mode can make, by a name of its own."""
    settings = Settings(mode=mode, learning_rate=3)
    item = ITEMS[mode][1]
    patches = [Patch("r", (item,)), Patch("r", (item,))]
    merged = Patch("r", (item,) * 5)
    failures, successes = (rollout(1), rollout(2)), (rollout(3, 1.0),)
    pairing = pair_up([*failures, *successes], [*failures, *successes])

    async def run() -> dict[str, ScriptedModel]:
        models: dict[str, ScriptedModel] = {}

        def model(name: str) -> ScriptedModel:
            models[name] = ScriptedModel(refuse)
            return models[name]

        await analyse(model("analyst_error"), CONTEXT, settings, Minibatch("failure", 0, failures))
        await analyse(model("analyst_success"), CONTEXT, settings, Minibatch("success", 0, successes))
        await aggregate(model("merge_failure"), CONTEXT, settings, patches, [])
        await aggregate(model("merge_success"), CONTEXT, settings, [], patches)
        await aggregate(model("merge_final"), CONTEXT, settings, patches[:1], patches[:1])
        await select(model("ranking"), CONTEXT, settings, merged, 3)
        await decide_learning_rate(
            model("lr"), CONTEXT, settings, merged, rollout_n=3, rollout_hard=0.5, rollout_soft=0.5
        )
        if mode == "rewrite_from_suggestions":
            await update(model("rewrite"), CONTEXT, settings, merged, merged)
        await slow_update(model("slow_update"), settings, SKILL, SKILL, pairing)
        await meta_skill(model("meta_skill"), settings, SKILL, SKILL, "old advice", pairing)
        return models

    return {name: model.requests[0] for name, model in asyncio.run(run()).items()}


CALLS = {mode: calls(mode) for mode in ITEMS}
EVERY_CALL = [(mode, name) for mode, requests in CALLS.items() for name in requests]


def system(mode: UpdateMode, name: str) -> str:
    return CALLS[mode][name].messages[0].content


def user(mode: UpdateMode, name: str) -> str:
    return CALLS[mode][name].messages[1].content


def sections(text: str) -> dict[str, str]:
    """Headings (``## ``) and bodies of a user message."""
    parts = re.split(r"(?m)^## (.*)$", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def expected_keys(mode: UpdateMode, name: str) -> set[str]:
    items = {ITEMS[mode][0], *(CANDIDATE_KEYS if mode == "full_rewrite_minibatch" else ())}
    return {
        "analyst_error": {"failure_summary"} | items,
        "analyst_success": {"success_patterns"} | items,
        "merge_failure": items,
        "merge_success": items,
        "merge_final": items,
        "ranking": {"selected_indices"},
        "lr": {"learning_rate"},
        "rewrite": CANDIDATE_KEYS,
        "slow_update": {"slow_update_content"},
        "meta_skill": {"meta_skill_content"},
    }[name]


@pytest.mark.parametrize(("mode", "name"), EVERY_CALL)
def test_system_prompts_name_the_keys_of_their_own_reply_and_no_other(mode: UpdateMode, name: str) -> None:
    text = system(mode, name)
    assert {key for key in ALL_KEYS if f'"{key}"' in text} == expected_keys(mode, name)


@pytest.mark.parametrize(("mode", "name"), EVERY_CALL)
def test_merges_and_success_analysts_say_what_they_are(mode: UpdateMode, name: str) -> None:
    text = system(mode, name)
    assert ("final merge" in text) == (name == "merge_final")
    assert ("success analysis" in text) == (name in ("merge_success", "analyst_success"))


@pytest.mark.parametrize(("mode", "name"), EVERY_CALL)
def test_stage_labels(mode: UpdateMode, name: str) -> None:
    labels = {"lr": "lr_autonomous", "analyst_error": "analyst", "analyst_success": "analyst"}
    expected = "merge" if name.startswith("merge") else labels.get(name, name)
    assert CALLS[mode][name].stage == expected


@pytest.mark.parametrize(("mode", "name"), EVERY_CALL)
def test_the_current_skill_has_its_section(mode: UpdateMode, name: str) -> None:
    assert f"## Current Skill\n{SKILL.text.strip()}\n" in user(mode, name)


@pytest.mark.parametrize(("mode", "name"), EVERY_CALL)
def test_what_was_tried_is_prose_in_its_section_alone(mode: UpdateMode, name: str) -> None:
    text = user(mode, name)
    if name in ("slow_update", "meta_skill"):
        assert "Previous Steps" not in text
        return
    body = sections(text)["Previous Steps"]
    assert "loud-rule" in body
    assert text.count("loud-rule") == body.count("loud-rule")
    assert all(line.lstrip().startswith("- ") for line in body.strip().splitlines())
    assert not re.search(r"(?m)^\s*(\[\d+\]|[{\[])", body)
    assert not re.search(r"(?m)^[ \t>]{0,4}[-*] \*\*loud-rule", text)


@pytest.mark.parametrize(("mode", "name"), EVERY_CALL)
def test_the_memory_stands_in_its_section(mode: UpdateMode, name: str) -> None:
    found = sections(user(mode, name)).get("Optimizer Meta Skill")
    if name in ("rewrite", "slow_update"):
        assert found is None
    elif name == "meta_skill":
        assert found is not None
        assert found.strip() == "old advice"
    else:
        assert found is not None
        assert found.strip() == "#### Advice\n- prefer short rules"


@pytest.mark.parametrize("mode", ITEMS)
def test_trajectories_have_their_section_and_hold_the_questions(mode: UpdateMode) -> None:
    failed = sections(user(mode, "analyst_error"))["Failed Trajectories"]
    assert "question 1?" in failed
    assert "question 2?" in failed
    assert "question 3?" in sections(user(mode, "analyst_success"))["Successful Trajectories"]
    for name in ("slow_update", "meta_skill"):
        assert all(f"question {n}?" in user(mode, name) for n in (1, 2, 3))


@pytest.mark.parametrize("mode", ITEMS)
def test_budgets(mode: UpdateMode) -> None:
    budgets = {"analyst_error", "analyst_success"} if mode != "full_rewrite_minibatch" else set()
    found = {name for name in CALLS[mode] if re.search(r"\bbudget=3\b", user(mode, name))}
    assert found == budgets | {"ranking"}


@pytest.mark.parametrize("mode", ITEMS)
def test_a_ranking_pool_is_indexed_lines_and_nothing_else_is(mode: UpdateMode) -> None:
    assert re.findall(r"(?m)^\[(\d+)\] ", user(mode, "ranking")) == ["0", "1", "2", "3", "4"]
    if mode == "patch":
        assert re.search(r"(?m)^\[0\] op=append ", user(mode, "ranking"))


@pytest.mark.parametrize(("mode", "name"), EVERY_CALL)
def test_what_changes_least_comes_first(mode: UpdateMode, name: str) -> None:
    order = list(sections(user(mode, name)))
    variable = order[-1]
    assert variable.startswith(
        ("Failed", "Successful", "Patches", "Proposed Items", "Selected Suggestions", "Longitudinal Comparison")
    )
    if "Previous Steps" in order:
        assert order.index("Current Skill") < order.index("Previous Steps") < order.index(variable)


@pytest.mark.parametrize("name", ["analyst_error", "analyst_success", "merge_failure", "merge_success", "merge_final"])
@pytest.mark.parametrize("mode", ITEMS)
def test_proposers_are_told_the_rules_of_the_edit_engine(mode: UpdateMode, name: str) -> None:
    text = system(mode, name)
    for region in ("SLOW_UPDATE_START", "SLOW_UPDATE_END", "APPENDIX_START", "APPENDIX_END", "frontmatter", "null"):
        assert region in text
    if mode == "patch":
        assert "character for character" in text
        assert "exactly once" in text
    if name.startswith("analyst"):
        assert "budget" in text
        assert "names, numbers or answers" in text


def test_no_prompt_file_is_unused_and_none_has_an_open_placeholder() -> None:
    files = {entry.name for entry in resources.files("skillopt.optimizer").joinpath("prompts").iterdir()}
    calls = ("analyst_error", "analyst_success", "merge_failure", "merge_success", "merge_final", "ranking")
    calls += ("lr_autonomous", "rewrite_skill", "slow_update", "meta_skill")
    compact = ("analyst_error_compact", "slow_update_compact", "meta_skill_compact")
    modes = tuple(f"change_{mode}" for mode in ITEMS)
    assert files == {f"{name}.md" for name in (*calls, *compact, *modes)}
    for mode, name in EVERY_CALL:
        assert "$" not in system(mode, name)
