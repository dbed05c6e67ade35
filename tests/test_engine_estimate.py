"""What a dry run tells against what a run sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.world import Played, Script, World, codes, play, prepared, run, skill_of

from skillopt.engine.estimate import RoleEstimate, cost_line, estimate, estimate_evaluation
from skillopt.models.pricing import Price


def busy(system: str, user: str) -> Played:
    """Analysts that always have something new to say, useful or not: every step goes through all stages."""
    reply = json.loads(play("analyst", system, user))
    patch = reply["patch"]
    key = next(name for name in patch if name != "reasoning")
    skill, about = skill_of(user), " ".join(codes(user.partition(" Trajectories")[2]))
    line = f"- think of {about} after {len(skill)}"
    extra = {
        "edits": {"op": "append", "target": "", "content": line},
        "revise_suggestions": {"type": "add_rule", "title": line, "instruction": f"Add: {line}"},
        "skill_candidates": {"title": line, "change_summary": [line], "new_skill": f"{skill}\n{line}\n"},
    }
    if len(patch[key]) < (1 if key == "skill_candidates" else 2):
        patch[key].append(extra[key])
    return dict(reply)


def nothing(system: str, user: str) -> Played:
    return {"batch_size": 1, "failure_summary": [], "success_patterns": [], "patch": {"reasoning": "", "edits": []}}


def told_and_sent(tmp_path: Path, script: Script | None, overrides: dict[str, Any]) -> list[tuple[RoleEstimate, int]]:
    """Each role's estimate, and how many requests it got in the end."""
    world = World(train=16, val=8, test=24, scripts={"analyst": script} if script else {})
    ready = prepared(world, tmp_path / "run", overrides)
    style = ready.roles["optimizer"].spec.reply_style
    agent = ready.roles["target"].profile.agent
    told = estimate(ready.config, ready.env, ready.items, ready.skill.text, style, agent=agent)
    assert run(world, tmp_path / "run", overrides).reason == "completed"
    return [(role, sum(call.role == role.role for call in world.calls)) for role in told]


CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"train.num_epochs": 1},
    {"train.num_epochs": 4, "train.batch_size": 8, "gradient.minibatch_size": 4},
    {"train.num_epochs": 3, "train.batch_size": 16, "gradient.minibatch_size": 3},
    {"train.accumulation": 2},
    {"train.batch_size": 5, "train.accumulation": 4},
    {"gradient.merge_batch_size": 2, "train.batch_size": 16},
    {"optimizer.use_slow_update": False, "optimizer.use_meta_skill": False},
    {"optimizer.use_slow_update": False},
    {"optimizer.skill_update_mode": "rewrite"},
    {"optimizer.skill_update_mode": "full_rewrite"},
    {"optimizer.lr_control_mode": "autonomous"},
    {"optimizer.longitudinal_pair_policy": "changed"},
    {"optimizer.slow_update_gate_with_selection": False},
    {"evaluation.use_gate": False},
    {"evaluation.eval_test": False},
    {"evaluation.sel_env_num": 3, "evaluation.test_env_num": 5},
    {"model.target_backend": "codex_exec"},
]


@pytest.mark.parametrize("overrides", CONFIGURATIONS, ids=str)
def test_a_run_sends_what_was_told_and_more_than_half_of_the_most(tmp_path: Path, overrides: dict[str, Any]) -> None:
    for told, sent in told_and_sent(tmp_path, busy, overrides):
        assert told.low <= sent <= told.high <= 2 * sent


NO_GATE: list[dict[str, Any]] = [
    {},
    {"train.num_epochs": 1},
    {"train.accumulation": 2},
    {"optimizer.use_slow_update": False},
    {"optimizer.use_slow_update": False, "optimizer.use_meta_skill": False, "train.num_epochs": 3},
    {"optimizer.slow_update_gate_with_selection": False},
    {"evaluation.sel_env_num": 3, "evaluation.test_env_num": 5},
    {"model.target_backend": "codex_exec"},
]


@pytest.mark.parametrize("overrides", NO_GATE, ids=str)
def test_where_nothing_is_rejected_the_target_gets_exactly_what_was_told(
    tmp_path: Path, overrides: dict[str, Any]
) -> None:
    target, _ = told_and_sent(tmp_path, busy, {"evaluation.use_gate": False, **overrides})
    told, sent = target
    assert sent == told.high


@pytest.mark.parametrize("script", [None, nothing], ids=["learns at once", "proposes nothing"])
@pytest.mark.parametrize(
    "overrides",
    [{}, {"gradient.failure_only": True}, {"model.reply_style": "compact"}, {"gradient.minibatch_size": 8}],
    ids=str,
)
def test_a_run_that_has_less_to_do_stays_within_the_bounds(
    tmp_path: Path, script: Script | None, overrides: dict[str, Any]
) -> None:
    if overrides.get("model.reply_style") == "compact" and script is nothing:
        script = lambda system, user: {"rules": []}  # noqa: E731
    for told, sent in told_and_sent(tmp_path, script, overrides):
        assert told.low <= sent <= told.high


def test_the_line_of_a_role_names_it_and_its_calls() -> None:
    assert RoleEstimate("target", 12, 34, 5600, 789).line() == (
        "target: 12-34 calls, at most about 5,600 prompt and 789 completion tokens"
    )
    assert RoleEstimate("optimizer", 7, 7, 10, 20).line().startswith("optimizer: 7 calls, ")


def test_an_agent_is_told_as_runs_whose_cost_nobody_knows() -> None:
    target = RoleEstimate("target", 12, 34, 33_000, 789, agent=True)
    assert target.line() == "target: 12-34 runs of an agent, each of about 1,000 prompt tokens times its turns"
    optimizer = RoleEstimate("optimizer", 1, 2, 3, 4, 1.5)
    assert cost_line([target, optimizer]) == "cost: not known beforehand (target by its turns, optimizer $1.50)"
    assert cost_line([target]) == "cost: not known beforehand (target by its turns)"


def test_a_price_does_not_make_the_cost_of_an_agent_known(tmp_path: Path) -> None:
    ready = prepared(World(), tmp_path / "run", {"model.target_backend": "codex_exec"})
    price = Price(1.0, 1.0)
    told = estimate(ready.config, ready.env, ready.items, "", "full", {"target": price}, agent=True)
    assert told[0].cost_usd is None
    assert estimate_evaluation(ready.env, ready.items, "", price, agent=True).cost_usd is None


def test_the_money_of_the_bound_is_told_by_role_and_in_all(tmp_path: Path) -> None:
    ready = prepared(World(), tmp_path / "run")
    prices = {"target": Price(1.0, 10.0, cached=0.1), "optimizer": Price(100.0, 1000.0)}
    told = estimate(ready.config, ready.env, ready.items, ready.skill.text, "full", prices)  # type: ignore[arg-type]
    plain = estimate(ready.config, ready.env, ready.items, ready.skill.text, "full")
    assert [(each.prompt_tokens, each.high) for each in told] == [(each.prompt_tokens, each.high) for each in plain]
    assert [each.cost_usd for each in plain] == [None, None]
    target, optimizer = told
    assert target.cost_usd == pytest.approx((target.prompt_tokens + 10 * target.completion_tokens) / 1e6)
    assert optimizer.cost_usd == pytest.approx((optimizer.prompt_tokens + 10 * optimizer.completion_tokens) / 1e4)


def test_the_line_of_the_money() -> None:
    target, optimizer = RoleEstimate("target", 1, 2, 3, 4, 0.25), RoleEstimate("optimizer", 1, 2, 3, 4, 1.5)
    assert cost_line([target, optimizer]) == "cost: at most about $1.75 (target $0.2500, optimizer $1.50)"
    assert cost_line([target]) == "cost: at most about $0.2500"
    unknown = RoleEstimate("optimizer", 1, 2, 3, 4)
    assert cost_line([target, unknown]) == "cost: price unknown (target $0.2500, optimizer price unknown)"


def test_an_evaluation_asks_each_item_once_and_probes(tmp_path: Path) -> None:
    ready = prepared(World(), tmp_path / "run")
    told = estimate_evaluation(ready.env, {"test": ready.items["test"]}, ready.skill.text, Price(1.0, 1.0))
    assert (told.low, told.high) == (4, 4)
    assert told.cost_usd == pytest.approx((told.prompt_tokens + told.completion_tokens) / 1e6)
    assert told.line().startswith("target: 4 calls, at most about ")


def test_an_estimate_sends_and_writes_nothing(tmp_path: Path) -> None:
    world = World()
    ready = prepared(world, tmp_path / "run")
    estimate(ready.config, ready.env, ready.items, ready.skill.text, "full")
    assert world.calls == []
    assert list(tmp_path.iterdir()) == []
