"""How a run trains: batches, modes, budgets of edits, the gate, the memories, the ends of epochs and the test."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fakes.folders import read_json, rows
from fakes.world import SEED_SKILL, Call, Played, Script, World, codes, run, section, skill_of

from skillopt.models.errors import ModelError
from skillopt.skill import GUIDANCE_START, Skill

ONE_STEP = {"train.num_epochs": 1, "train.batch_size": 6}
FULL = SEED_SKILL + "\n- rule: alpha always\n\n- rule: bravo always\n\n- rule: carol always\n\n- rule: be tidy\n"


ALL_RULES = "- rule: alpha, bravo and carol always"


def edits_reply(*edits: dict[str, Any]) -> dict[str, Any]:
    causes = [{"failure_type": "form", "count": 1, "description": "a cause"}]
    return {"batch_size": 1, "failure_summary": causes, "patch": {"reasoning": "", "edits": list(edits)}}


def append(line: str) -> dict[str, Any]:
    return {"op": "append", "target": "", "content": line}


def proposing(*lines: str) -> Script:
    """Every analyst proposes these lines."""
    return lambda system, user: edits_reply(*(append(line) for line in lines))


def text_of(call: Call) -> str:
    return f"{call.system}\n{call.user}"


def skills_measured(world: World, split: str) -> list[str]:
    """The skills that items of a split were answered with, in the order of their first answer."""
    found = [call.system.partition("## Skill\n")[2] for call in world.of("rollout", split)]
    return list(dict.fromkeys(found))


# batches


def test_every_item_is_rolled_out_once_an_epoch(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(train=7), root, {"train.batch_size": 3, "train.num_epochs": 2})
    history = rows(root)
    assert [(row["step"], row["epoch"], row["step_in_epoch"]) for row in history] == [
        *((1, 1, 0), (2, 1, 1), (3, 1, 2), (4, 2, 0), (5, 2, 1), (6, 2, 2)),
    ]
    assert [row["rollout_n"] for row in history] == [3, 3, 1, 3, 3, 1]
    for epoch in (1, 2):
        ids = [
            json.loads(line)["id"]
            for row in history
            if row["epoch"] == epoch
            for line in (root / f"steps/step_{row['step']:04d}/rollout/results.jsonl").read_text().splitlines()
        ]
        assert sorted(ids) == [f"TR-{number:03d}" for number in range(7)]


def test_accumulation_joins_the_micro_batches_of_a_step(tmp_path: Path) -> None:
    root, world = tmp_path / "run", World(train=10)
    run(world, root, {"train.num_epochs": 1, "train.batch_size": 4, "train.accumulation": 2})
    history = rows(root)
    sizes = [[batch["n_envs"] for batch in row["accumulation_batches"]] for row in history]
    assert sizes == [[4, 4], [2, 4]], "an empty last batch is filled from a fresh shuffle"
    seeds = [batch["batch_seed"] for row in history for batch in row["accumulation_batches"]]
    assert seeds == [1043, 1044, 1045, 1046]
    for row in history:
        batches = row["accumulation_batches"]
        assert row["rollout_n"] == sum(batch["n_envs"] for batch in batches)
        mean = sum(batch["hard"] * batch["n_envs"] for batch in batches) / row["rollout_n"]
        assert row["rollout_hard"] == pytest.approx(mean, abs=1e-5), "means are over items"
        assert row["n_patches"] == sum(batch["n_failure_patches"] + batch["n_success_patches"] for batch in batches)


def test_a_minibatch_goes_to_its_analyst_while_others_still_roll(tmp_path: Path) -> None:
    def latency(call: Call) -> float:
        return 1.0 if call.stage == "rollout" else 0.1

    world = World(train=8, latency=latency)
    run(world, tmp_path / "run", {"train.num_epochs": 1, "train.batch_size": 8, "env.workers": 2})
    order = [call.stage for call in world.work() if call.stage == "analyst" or call.split == "train"]
    assert "analyst" in order[: order.index("rollout") + 8], "the first analyst began before the last rollout"


def test_the_same_skill_on_the_same_item_is_answered_once(tmp_path: Path) -> None:
    """Nothing is ever accepted: later epochs find every answer in the journal."""
    world = World(scripts={"analyst": proposing("- rule: be kind")})
    run(world, tmp_path / "run", {"train.num_epochs": 4, "optimizer.use_slow_update": False})
    assert len(world.of("rollout", "train")) == 6
    assert len(world.of("rollout", "test")) == 3


def test_a_call_is_charged_to_the_first_step_that_needs_it(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(scripts={"analyst": proposing("- rule: be kind")}), root, {"optimizer.use_slow_update": False})
    rollouts = [row["tokens"].get("rollout", {}).get("calls", 0) for row in rows(root)]
    assert rollouts == [3 + 4, 3, 0, 0], "one candidate on 4 items; the second epoch asks nothing new"


# update modes


@pytest.mark.parametrize("mode", ["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"])
def test_every_update_mode_improves_the_skill(tmp_path: Path, mode: str) -> None:
    root, world = tmp_path / "run", World()
    ending = run(world, root, {**ONE_STEP, "optimizer.skill_update_mode": mode, "gradient.minibatch_size": 6})
    (row,) = rows(root)
    assert row["action"] == "accept_new_best"
    step = root / "steps/step_0001"
    names = {path.name for path in step.iterdir()}
    special = {"edit_apply_report.json", "rewrite_result.json", "full_rewrite_result.json"} & names
    if mode == "patch":
        assert special == {"edit_apply_report.json"}
    elif mode == "rewrite_from_suggestions":
        assert special == {"rewrite_result.json"}
        assert set(read_json(step / "rewrite_result.json")) == {"reasoning", "new_skill", "change_summary"}
        assert row["rewrite_change_summary"]
        assert read_json(step / "merged_patch.json")["revise_suggestions"]
        (call,) = world.of("rewrite")
        assert "Optimizer Meta Skill" not in call.user
    else:
        assert special == {"full_rewrite_result.json"}
        result = read_json(step / "full_rewrite_result.json")
        assert set(result) == {"selected_candidate", "merged_patch"}
        assert {"title", "change_summary", "new_skill"} <= set(result["selected_candidate"])
        assert (row["edit_budget"], row["lr_control_mode"], world.of("ranking")) == (None, "none", [])
    assert "alpha" in (root / "best_skill.md").read_text(encoding="utf-8")
    assert ending.summary["best_step"] == 1


@pytest.mark.parametrize("mode", ["rewrite_from_suggestions", "full_rewrite_minibatch"])
def test_a_rewrite_keeps_frontmatter_and_guidance(tmp_path: Path, mode: str) -> None:
    skill = f"---\nname: x\n---\n{SEED_SKILL}\n{GUIDANCE_START}\nkeep me\n<!-- SLOW_UPDATE_END -->\n"
    run(World(), tmp_path / "run", {**ONE_STEP, "optimizer.skill_update_mode": mode}, skill=skill)
    best = Skill.from_bytes((tmp_path / "run/skills/skill_v0001.md").read_bytes())
    assert (best.frontmatter, best.guidance) == (Skill(skill).frontmatter, "keep me")
    assert best.body != Skill(skill).body


def test_failure_only_asks_no_success_analyst(tmp_path: Path) -> None:
    world = World()
    run(world, tmp_path / "run", {"gradient.failure_only": True})
    assert world.of("analyst")
    assert not any('"success_patterns"' in call.system for call in world.of("analyst"))


def test_the_compact_style_of_small_models_trains_too(tmp_path: Path) -> None:
    world = World()
    ending = run(world, tmp_path / "run", {"model.reply_style": "compact"})
    assert ending.summary["test_hard"] == 1.0
    assert world.stages().keys() == {"probe", "rollout", "analyst", "slow_update", "meta_skill"}


# budgets of edits

MANY = ["- one", "- two", "- three", "- four", "- five", "- six"]


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        ("constant", [4] * 8),
        ("cosine", [4, 4, 3, 3, 3, 2, 2, 2]),
        ("linear", [4, 4, 3, 3, 3, 2, 2, 2]),
        ("autonomous", [999] * 8),
    ],
)
def test_the_schedule_sets_the_edit_budget(tmp_path: Path, scheduler: str, expected: list[int]) -> None:
    world = World(train=4, scripts={"analyst": proposing(*MANY)})
    overrides = {
        "train.num_epochs": 4,
        "train.batch_size": 2,
        "optimizer.learning_rate": 4,
        "optimizer.min_learning_rate": 2,
        "optimizer.lr_scheduler": scheduler,
        "optimizer.use_slow_update": False,
    }
    run(world, tmp_path / "run", overrides)
    found = rows(tmp_path / "run")
    assert [row["edit_budget"] for row in found] == expected
    assert [row["n_edits_ranked"] for row in found] == [min(budget, 4) for budget in expected], "4 an analyst at most"
    assert all("budget=4" in call.user for call in world.of("analyst")), "analysts always get the most"


def test_the_optimizer_may_set_the_budget_itself(tmp_path: Path) -> None:
    root, world = tmp_path / "run", World()
    run(world, root, {"optimizer.lr_control_mode": "autonomous"})
    found = [row for row in rows(root) if "lr_decision" in row]
    assert found
    for row in found:
        decision = read_json(root / f"steps/step_{row['step']:04d}/lr_decision.json")
        assert decision == row["lr_decision"]
        assert (decision["learning_rate"], row["edit_budget"], row["n_edits_ranked"]) == (1, 1, 1)
        assert {"raw_learning_rate", "available_update_items", "clamped", "fallback", "reasoning"} <= set(decision)
    lines = [json.loads(line) for line in (root / "lr_history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [{**row["lr_decision"], "step": row["step"], "epoch": row["epoch"]} for row in found]
    assert "n=3 hard=0.0000" in world.of("lr_autonomous")[0].user


@pytest.mark.parametrize("played", [{"learning_rate": 0}, ModelError("provider", "down")])
def test_a_budget_of_nothing_changes_nothing(tmp_path: Path, played: Any) -> None:
    root = tmp_path / "run"
    world = World(scripts={"lr_autonomous": lambda system, user: played})
    run(world, root, {**ONE_STEP, "optimizer.lr_control_mode": "autonomous", "optimizer.use_slow_update": False})
    (row,) = rows(root)
    assert (row["action"], row["edit_budget"], row["n_edits_ranked"], row["val_hard"]) == ("skip_no_change", 0, 0, None)
    assert world.of("ranking") == []
    assert row["errors"].get("lr", 0) == int(isinstance(played, ModelError))


# the gate

HALF_BETTER = "- rule: bravo always"


def half_better(system: str, user: str) -> Played:
    """A rule that makes two-rule items half right and no item of these two whole."""
    return edits_reply(append(HALF_BETTER))


@pytest.mark.parametrize(
    ("metric", "weight", "action"),
    [
        ("hard", 0.5, "reject"),
        ("soft", 0.5, "accept_new_best"),
        ("mixed", 0.0, "reject"),
        ("mixed", 0.5, "accept_new_best"),
    ],
)
def test_the_metric_decides(tmp_path: Path, metric: str, weight: float, action: str) -> None:
    """The validation items need [bravo carol] and nothing: bravo alone moves soft and leaves hard."""
    root = tmp_path / "run"
    world = World(val=2, scripts={"analyst": half_better})
    items = world.items()
    items["val"][0]["question"] = "Item VA-000 wants [bravo carol]: what is it called?"
    items["val"][1]["question"] = "Item VA-001 wants []: what is it called?"
    world.items = lambda: items  # type: ignore[method-assign]
    overrides = {**ONE_STEP, "evaluation.gate_metric": metric, "evaluation.gate_mixed_weight": weight}
    run(world, root, overrides)
    (row,) = rows(root)
    hard, soft = (0.5, 0.5), ((1 + 0.5 / 3) / 2, (1 + 0.5 / 2) / 2)
    share = {"hard": 0.0, "soft": 1.0, "mixed": weight}[metric]
    before, after = ((1 - share) * hard[side] + share * soft[side] for side in (0, 1))
    assert (row["action"], row["gate_metric"], row["gate"]["rule"]) == (action, metric, "strict")
    assert row["candidate_gate_score"] == pytest.approx(after)
    assert row["current_score"] == pytest.approx(before if action == "reject" else after)
    assert (row["selection_hard"], row["selection_soft"]) == (hard[1], pytest.approx(soft[1]))


def test_a_tie_is_rejected(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(scripts={"analyst": proposing("- rule: be kind")}), root, ONE_STEP)
    (row,) = rows(root)
    assert (row["action"], row["gate"]["estimate"], row["gate"]["ties"]) == ("reject", 0.0, 4)
    assert (row["current_origin"], row["best_origin"], row["best_step"]) == ("initial_skill", "initial_skill", 0)
    assert (root / "best_skill.md").read_text(encoding="utf-8") == SEED_SKILL
    digest = read_json(root / "steps/step_0001/trajectory_digest.json")
    assert digest["rejected_edits"] == [{"op": "append", "content": "- rule: be kind", "target": ""}]
    assert (digest["score_before"], digest["score_after"]) == (row["current_score"], row["candidate_gate_score"])


def test_without_the_gate_every_candidate_is_taken_and_the_best_is_kept(tmp_path: Path) -> None:
    root = tmp_path / "run"

    def script(system: str, user: str) -> Played:
        return edits_reply(append("- make noise" if "carol" in skill_of(user) else ALL_RULES))

    overrides = {"train.num_epochs": 1, "train.batch_size": 3, "gradient.minibatch_size": 3}
    world = World(scripts={"analyst": script})
    run(world, root, {**overrides, "evaluation.use_gate": False})
    first, second = rows(root)
    assert [row["action"] for row in (first, second)] == ["force_accept", "force_accept"]
    assert second["val_hard"] < first["val_hard"]
    assert (second["best_step"], second["current_origin"], second["best_origin"]) == (1, "step_0002", "step_0001")
    assert (second["current_score"], second["best_score"]) == (second["val_hard"], first["val_hard"])
    assert "noise" in (root / "skills/skill_v0002.md").read_text(encoding="utf-8")
    assert "noise" not in (root / "best_skill.md").read_text(encoding="utf-8")


def test_without_validation_items_the_last_skill_is_the_best(tmp_path: Path) -> None:
    root, world = tmp_path / "run", World(val=0)
    ending = run(world, root, {"evaluation.use_gate": False})
    assert "alpha" in (root / "best_skill.md").read_text(encoding="utf-8")
    assert (ending.summary["best_selection_hard"], ending.summary["test_hard"]) == (None, 1.0)
    assert ending.summary["no_improvement_reason"] is None


def test_the_gate_looks_at_the_first_items_only(tmp_path: Path) -> None:
    root, world = tmp_path / "run", World(val=6, test=5)
    ending = run(world, root, {"evaluation.sel_env_num": 2, "evaluation.test_env_num": 3})
    assert {call.code for call in world.of("rollout", "val")} == {"VA-000", "VA-001"}
    assert {call.code for call in world.of("rollout", "test")} == {"TE-000", "TE-001", "TE-002"}
    assert (ending.summary["selection_n"], ending.summary["test_n"]) == (2, 3)


# what was tried before


def test_what_was_rejected_is_told_to_everyone_in_the_next_step_and_only_in_this_epoch(tmp_path: Path) -> None:

    def script(system: str, user: str) -> Played:
        return edits_reply(append("- rule: be kind 71"), append(f"- think of {codes(user)[-1]}"))

    world = World(train=8, scripts={"analyst": script})
    overrides = {"train.batch_size": 4, "optimizer.learning_rate": 2, "gradient.minibatch_size": 2}
    run(world, tmp_path / "run", {**overrides, "optimizer.min_learning_rate": 2})
    steps = [row["step"] for row in rows(tmp_path / "run")]
    assert steps == [1, 2, 3, 4]
    told = {
        stage: ["be kind 71" in section(call.user, "Previous Steps") for call in world.of(stage)]
        for stage in ("analyst", "merge", "ranking")
    }
    assert told["ranking"] == [False, True, False, True]
    for stage in ("analyst", "merge"):
        assert sorted(told[stage]) == [False] * (len(told[stage]) // 2) + [True] * (len(told[stage]) // 2)
    for call in (*world.of("analyst"), *world.of("merge"), *world.of("ranking")):
        previous = section(call.user, "Previous Steps")
        assert not re.search(r"(?m)^\s*\[\d+\]", previous)
        assert "{" not in previous


def test_an_edit_that_did_not_apply_is_told_in_the_next_step(tmp_path: Path) -> None:
    lost = {"op": "replace", "target": "a line that is nowhere 71", "content": "x"}
    world = World(scripts={"analyst": lambda system, user: edits_reply(lost, append("- rule: be kind"))})
    run(world, tmp_path / "run", {"train.num_epochs": 1, "optimizer.min_learning_rate": 2})
    first, second = rows(tmp_path / "run")
    assert first["edit_apply_summary"] == {"total": 2, "applied": 1, "skipped": 1, "errors": 0}
    told = [section(call.user, "Previous Steps") for call in world.of("analyst")]
    assert any("Did not apply" in text and "nowhere 71" in text for text in told)
    assert second["action"] == "reject"


# the ends of epochs


def test_epoch_one_gets_an_empty_block_unmeasured(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world = World(scripts={"analyst": proposing("- rule: be kind")})
    run(world, root, {"train.num_epochs": 1})
    last = Skill.from_bytes((root / "skills/skill_v0002.md").read_bytes())
    assert last.guidance == ""
    assert last.same_content(Skill(SEED_SKILL))
    assert skills_measured(world, "val").count(last.text) == 0
    assert skills_measured(world, "test") == [SEED_SKILL], "an empty block is no other skill"


def test_without_slow_update_and_meta_skill_an_epoch_just_ends(tmp_path: Path) -> None:
    root, world = tmp_path / "run", World()
    run(world, root, {"optimizer.use_slow_update": False, "optimizer.use_meta_skill": False})
    assert not (root / "slow_update").exists()
    assert not (root / "meta_skill").exists()
    assert GUIDANCE_START not in (root / "skills/skill_v0004.md").read_text(encoding="utf-8")
    assert world.of("slow_update") == world.of("meta_skill") == []


def test_the_meta_skill_alone_compares_in_its_own_folder(tmp_path: Path) -> None:
    root, world = tmp_path / "run", World()
    run(world, root, {"optimizer.use_slow_update": False})
    folder = root / "meta_skill/epoch_02"
    assert {path.name for path in folder.iterdir()} == {
        *("meta_skill_result.json", "comparison_pairs.json", "rollout_prev", "rollout_curr"),
    }
    assert not (root / "slow_update").exists()


GUIDE = {"reasoning": "", "slow_update_content": "Mind alpha, bravo and carol."}
KIND = proposing("- rule: be kind")


def test_guidance_that_helps_passes_the_gate_and_may_be_the_best(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world = World(scripts={"analyst": KIND, "slow_update": lambda system, user: GUIDE})
    ending = run(world, root)
    slow = read_json(root / "slow_update/epoch_02/slow_result.json")
    assert (slow["action"], slow["selection_hard"]) == ("accept_new_best", 1.0)
    assert (ending.summary["best_origin"], ending.summary["best_step"]) == ("slow_update_epoch_02", 4)
    best = Skill.from_bytes((root / "best_skill.md").read_bytes())
    assert best.guidance == GUIDE["slow_update_content"]
    assert best.same_body(Skill(SEED_SKILL))
    assert ending.summary["test_hard"] == 1.0
    assert (root / "skills/skill_v0004.md").read_bytes() == (root / "best_skill.md").read_bytes()


def test_guidance_that_harms_is_rejected(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world = World(scripts={"slow_update": lambda system, user: {"slow_update_content": "Make noise."}})
    ending = run(world, root)
    assert read_json(root / "slow_update/epoch_02/slow_result.json")["action"] == "reject"
    assert "noise" not in (root / "skills/skill_v0004.md").read_text(encoding="utf-8")
    assert ending.summary["current_origin"] == "slow_update_placeholder_epoch_01"


UNGATED = {"optimizer.slow_update_gate_with_selection": False, "train.num_epochs": 3, "train.batch_size": 6}


def test_ungated_guidance_is_measured_at_the_next_gate_and_credited_with_nothing_before(tmp_path: Path) -> None:
    """Guidance that harms enters unmeasured; the next candidate is compared with what it really scores."""
    root = tmp_path / "run"

    def script(system: str, user: str) -> Played:
        return edits_reply(append("- rule: be kind" if "carol" in skill_of(user) else ALL_RULES))

    noisy: Script = lambda system, user: {"slow_update_content": "Make noise."}  # noqa: E731
    world = World(scripts={"analyst": script, "slow_update": noisy})
    ending = run(world, root, UNGATED)
    first, second, third = rows(root)
    assert read_json(root / "slow_update/epoch_02/slow_result.json")["action"] == "force_accept"
    assert (first["action"], second["action"]) == ("accept_new_best", "reject")
    assert second["current_score"] == first["val_hard"]
    assert third["gate"]["current_score"] < first["val_hard"], "the noisy skill was measured, not believed"
    assert third["current_score"] == third["gate"]["current_score"]
    assert third["best_score"] == first["val_hard"]
    assert ending.summary["best_origin"] == "step_0001"
    assert "noise" not in (root / "best_skill.md").read_text(encoding="utf-8")


def test_the_last_skill_is_promoted_when_it_is_better(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world = World(scripts={"analyst": KIND, "slow_update": lambda system, user: GUIDE})
    ending = run(world, root, {**UNGATED, "train.num_epochs": 2})
    assert rows(root)[-1]["best_step"] == 0
    assert (ending.summary["best_origin"], ending.summary["best_step"]) == ("slow_update_epoch_02", 2)
    assert (ending.summary["final_selection_hard"], ending.summary["test_hard"]) == (1.0, 1.0)
    assert (root / "final_selection_eval/results.jsonl").exists()
    assert GUIDE["slow_update_content"] in (root / "best_skill.md").read_text(encoding="utf-8")
    assert read_json(root / "runtime_state.json")["best_origin"] == "slow_update_epoch_02"


def test_without_a_final_test_there_is_no_promotion_and_no_test(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world = World(scripts={"analyst": KIND, "slow_update": lambda system, user: GUIDE})
    ending = run(world, root, {**UNGATED, "train.num_epochs": 2, "evaluation.eval_test": False})
    assert world.of("rollout", "test") == []
    assert (ending.summary["best_step"], ending.summary["test_hard"], ending.summary["test_lift"]) == (0, None, None)
    assert not list(root.glob("test_eval*"))


def test_the_advice_of_an_epoch_is_read_in_the_next_and_never_lost(tmp_path: Path) -> None:
    turns = iter(["advice 71", "", "advice 73"])

    def meta(system: str, user: str) -> Played:
        return {"reasoning": "", "meta_skill_content": next(turns)}

    world = World(scripts={"analyst": KIND, "meta_skill": meta})
    overrides = {"train.num_epochs": 4, "train.batch_size": 6, "gradient.minibatch_size": 6}
    run(world, tmp_path / "run", overrides)
    told = [section(call.user, "Optimizer Meta Skill") for call in world.of("analyst")]
    assert [text for text in told if "advice" not in text], "epochs 1 and 2 know nothing yet"
    assert {text for text in told if "advice" in text} == {"advice 71"}, "an empty advice does not erase the last one"
    assert read_json(tmp_path / "run/meta_skill/epoch_03/meta_skill_result.json")["action"] == "no_content"
    assert "advice 71" in section(world.of("meta_skill")[-1].user, "Optimizer Meta Skill")
    assert all("advice" not in text_of(call) for call in world.of("rollout")), "it is not for the target"


def test_the_meta_skill_judges_the_epoch_before_its_slow_update(tmp_path: Path) -> None:
    world = World(scripts={"slow_update": lambda system, user: GUIDE})
    run(world, tmp_path / "run", {"train.num_epochs": 2})
    (meta,) = world.of("meta_skill")
    assert GUIDE["slow_update_content"] not in skill_of(meta.user)


PAIRS = {"train.batch_size": 6, "optimizer.slow_update_samples": 2}


@pytest.mark.parametrize(
    ("policy", "categories"),
    [
        ("mixed", {"improved", "stable_success", "persistent_fail", "regressed"}),
        ("changed", {"improved", "regressed"}),
        ("unchanged", {"stable_success", "persistent_fail"}),
    ],
)
def test_the_pair_policy_picks_what_is_compared(tmp_path: Path, policy: str, categories: set[str]) -> None:
    root, world = tmp_path / "run", World()
    run(world, root, {**PAIRS, "optimizer.longitudinal_pair_policy": policy})
    folder = root / "slow_update/epoch_02"
    pairs = read_json(folder / "comparison_pairs.json")
    assert {pair["category"] for pair in pairs} <= categories
    assert len(pairs) <= 2
    assert (folder / "comparison_pairs_all.json").exists() == (policy != "mixed")
    shown = set(codes(world.of("slow_update")[0].user))
    assert shown == {pair["id"] for pair in pairs}
    if policy == "changed":
        everything = read_json(folder / "comparison_pairs_all.json")
        changed = [pair["id"] for pair in everything if pair["category"] in categories]
        assert [pair["id"] for pair in pairs] == changed[:2]


def test_changed_pairs_are_looked_for_in_all_of_the_train_split(tmp_path: Path) -> None:
    """Nothing changes: the whole split is compared, and nothing is shown."""
    root, world = tmp_path / "run", World(scripts={"analyst": KIND})
    run(world, root, {**PAIRS, "optimizer.longitudinal_pair_policy": "changed"})
    folder = root / "slow_update/epoch_02"
    assert read_json(folder / "comparison_pairs.json") == []
    assert len(read_json(folder / "comparison_pairs_all.json")) == 6


def test_an_equal_skill_is_not_compared_at_a_cost(tmp_path: Path) -> None:
    """The epoch changed nothing: its first and its last skill have the same answers."""
    world = World(scripts={"analyst": KIND})
    run(world, tmp_path / "run", {"train.num_epochs": 3, "optimizer.slow_update_samples": 6})
    by_skill = dict.fromkeys(skills_measured(world, "train"), 0)
    assert len(world.of("rollout", "train")) == 6 * len(by_skill)


# the test split


def test_a_trained_skill_meets_the_test_split_after_the_last_optimizer_call(tmp_path: Path) -> None:
    world = World()
    run(world, tmp_path / "run")
    last = max(call.number for call in world.calls if call.role == "optimizer")
    for call in world.of("rollout", "test"):
        first_skill = call.system.endswith(f"## Skill\n{SEED_SKILL}")
        assert first_skill or call.number > last


def test_each_distinct_skill_is_tested_once(tmp_path: Path) -> None:
    root, world = tmp_path / "run", World()
    run(world, root)
    assert len(world.of("rollout", "test")) == 3 * len(skills_measured(world, "test")) == 6
    best, final = (read_json(root / name / "summary.json") for name in ("test_eval", "test_eval_final"))
    assert best == final


def test_a_skill_that_is_perfect_already_leaves_nothing_to_do(tmp_path: Path) -> None:
    root, world = tmp_path / "run", World()
    ending = run(world, root, {"optimizer.use_slow_update": False}, skill=FULL)
    assert {row["action"] for row in rows(root)} == {"skip_no_patches"}
    assert (ending.summary["best_selection_hard"], ending.summary["no_improvement_reason"]) == (
        1.0,
        "no_edits_proposed",
    )


def test_a_blank_skill_leaves_no_trace_in_the_prompt(tmp_path: Path) -> None:
    world = World()
    run(world, tmp_path / "run", ONE_STEP, skill="")
    assert all("## Skill" not in call.system for call in world.of("rollout", "train"))
    assert (tmp_path / "run/skills/skill_v0000.md").read_bytes() == b""


def test_line_ends_of_a_skill_are_kept(tmp_path: Path) -> None:
    run(World(), tmp_path / "run", ONE_STEP, skill=SEED_SKILL.replace("\n", "\r\n"))
    best = (tmp_path / "run/best_skill.md").read_bytes()
    assert b"alpha" in best
    assert best.count(b"\n") == best.count(b"\r\n")


@pytest.mark.parametrize("overrides", [{}, {"budget.max_calls": 20}], ids=["completed", "stopped"])
def test_the_summary_tells_the_configuration_as_its_file_does(tmp_path: Path, overrides: dict[str, Any]) -> None:
    run(World(), tmp_path / "run", overrides)
    told = read_json(tmp_path / "run/summary.json")["config"]
    assert told == read_json(tmp_path / "run/config.json")
    assert told["optimizer_backend"] == told["target_backend"] == "openai"
