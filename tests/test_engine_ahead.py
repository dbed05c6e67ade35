"""Calls ahead of their turn: sent only when it is certain that they will be needed, and nothing else is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.folders import kills, rows, stored, tree
from fakes.world import Call, Script, World, run, skill_of

import skillopt.engine.ahead as ahead
from skillopt.models.errors import ModelError
from skillopt.skill import GUIDANCE_START

Latency = Callable[[Call], float]
SLOW = 50.0
ONE_STEP_EPOCHS = {"train.batch_size": 6, "train.num_epochs": 3, "env.workers": 8, "gradient.analyst_workers": 8}


def spread(seed: int) -> Latency:
    """Latencies with a long tail, by the key of the call."""
    return lambda call: 0.5 + (int(call.key[seed : seed + 4], 16) % 100) ** 3 / 50_000


def slow_on(code: str) -> Latency:
    """One item that takes for ever under every skill but the first."""
    return lambda call: SLOW if call.code == code and "rule: alpha" in call.system else 1.0


class Sent:
    """A latency that notes when each call is sent."""

    def __init__(self, latency: Latency) -> None:
        self.latency = latency
        self.at: dict[str, float] = {}

    def __call__(self, call: Call) -> float:
        self.at[call.key] = asyncio.get_running_loop().time()
        return self.latency(call)


def never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead.Ahead, "_start", lambda self, coming, work: None)


CASES: dict[str, dict[str, Any]] = {
    "steps": {},
    "one step an epoch": ONE_STEP_EPOCHS,
    "one epoch": {"train.num_epochs": 1},
    "no gate": {"evaluation.use_gate": False},
    "guidance without a gate": {"optimizer.slow_update_gate_with_selection": False, **ONE_STEP_EPOCHS},
    "meta skill alone": {"optimizer.use_slow_update": False, **ONE_STEP_EPOCHS},
    "no memory": {"optimizer.use_slow_update": False, "optimizer.use_meta_skill": False},
    "changed pairs": {"optimizer.longitudinal_pair_policy": "changed", **ONE_STEP_EPOCHS},
    "micro-batches": {"train.accumulation": 2, "train.batch_size": 2},
    "no test": {"evaluation.eval_test": False},
}


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("case", CASES)
def test_results_and_requests_are_those_of_a_run_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, seed: int
) -> None:
    with_it, without = (World(latency=spread(seed)) for _ in range(2))
    run(with_it, tmp_path / "with", CASES[case])
    with monkeypatch.context() as patch:
        never(patch)
        run(without, tmp_path / "without", CASES[case])
    assert sorted(call.key for call in with_it.work()) == sorted(call.key for call in without.work())
    assert tree(tmp_path / "with") == tree(tmp_path / "without")
    assert stored(tmp_path / "with") == stored(tmp_path / "without")


# when it is certain


def first_gate(root: Path, latency: Latency, scripts: dict[str, Script] | None = None) -> tuple[World, Sent]:
    sent = Sent(latency)
    world = World(val=8, scripts=scripts or {}, latency=sent)
    run(world, root, {"train.num_epochs": 1, "env.workers": 8, "optimizer.use_slow_update": False})
    return world, sent


def times(world: World, sent: Sent, split: str) -> list[float]:
    """When the items of a split were sent under a skill that has learnt something."""
    return [sent.at[call.key] for call in world.of("rollout", split) if "rule: alpha" in call.system]


def test_the_next_step_does_not_wait_for_what_cannot_change_the_verdict(tmp_path: Path) -> None:
    """The candidate passes more items than the one that is missing could cost it."""
    world, sent = first_gate(tmp_path / "run", slow_on("VA-000"))
    assert rows(tmp_path / "run")[0]["action"] == "accept_new_best"
    assert min(times(world, sent, "train")) < min(times(world, sent, "val")) + SLOW / 2


def test_the_next_step_waits_for_what_can(tmp_path: Path) -> None:
    """The candidate passes one item more and one is missing that the current skill passes."""

    def target(system: str, user: str) -> str | None:
        if "VA-" not in user:
            return None
        passed = "VA-002" in user or ("VA-001" in user and "rule: alpha" in system)
        return f"<answer>{'name of ' + user.split()[1] if passed else 'unknown'}</answer>"

    world, sent = first_gate(tmp_path / "run", slow_on("VA-002"), {"rollout": target})
    assert rows(tmp_path / "run")[0]["action"] == "accept_new_best"
    assert min(times(world, sent, "train")) >= min(times(world, sent, "val")) + SLOW


def test_the_end_of_an_epoch_is_asked_while_its_last_gate_runs(tmp_path: Path) -> None:
    """The last candidate is rejected for certain while one of its items still runs."""
    sent = Sent(lambda call: SLOW if call.code == "VA-001" and "noise" in call.system else 1.0)

    def analyst(system: str, user: str) -> dict[str, Any] | None:
        if "noise" in skill_of(user) or "## Optimizer Meta Skill" in user:
            return None
        edit = {"op": "append", "target": "", "content": "- rule: noise"}
        return {"batch_size": 1, "failure_summary": [], "patch": {"reasoning": "", "edits": [edit]}}

    world = World(val=8, scripts={"analyst": analyst}, latency=sent)
    run(world, tmp_path / "run", {**ONE_STEP_EPOCHS, "train.num_epochs": 2})
    assert [row["action"] for row in rows(tmp_path / "run")][:2] == ["reject", "reject"]
    noisy = [call for call in world.of("rollout", "val") if "noise" in call.system]
    last_gate = [sent.at[call.key] for call in noisy if GUIDANCE_START in call.system]
    (slow,) = (sent.at[call.key] for call in world.of("slow_update"))
    assert max(last_gate) < slow < min(last_gate) + SLOW / 2
    guided = [sent.at[call.key] for call in world.of("rollout", "val") if "Mind" in call.system]
    assert guided
    assert max(guided) < min(last_gate) + SLOW / 2, "and so is the gate of the guidance"


def test_the_test_of_a_trained_skill_waits_for_the_last_optimizer_call(tmp_path: Path) -> None:
    """The guidance is judged and the last skill certain while the meta skill is still being written."""
    sent = Sent(lambda call: SLOW if call.stage == "meta_skill" else 1.0)
    world = World(latency=sent)
    run(world, tmp_path / "run", {**ONE_STEP_EPOCHS, "train.num_epochs": 2})
    (advice,) = (sent.at[call.key] for call in world.of("meta_skill"))
    tests = [sent.at[call.key] for call in world.of("rollout", "test") if "rule: alpha" in call.system]
    guided = [sent.at[call.key] for call in world.of("rollout", "val") if "Keep to the rules" in call.system]
    assert tests
    assert min(tests) >= advice + SLOW
    assert guided
    assert max(guided) < advice + SLOW


# what it must not do


def test_nothing_is_sent_ahead_under_a_cap(tmp_path: Path) -> None:
    sent = Sent(slow_on("VA-000"))
    world = World(val=8, latency=sent)
    overrides = {"train.num_epochs": 1, "env.workers": 8, "optimizer.use_slow_update": False}
    run(world, tmp_path / "run", {**overrides, "budget.max_calls": 10_000})
    assert min(times(world, sent, "train")) >= min(times(world, sent, "val")) + SLOW


@pytest.mark.parametrize("stage", ["rollout", "slow_update", "meta_skill"])
def test_what_fails_ahead_is_told_in_its_turn_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """The same requests, rows and errors as in a run that asks everything in its turn."""

    def down(system: str, user: str) -> Exception | None:
        return ModelError("timeout", "too slow") if stage != "rollout" or "TR-004" in user else None

    # Every pass asks again what failed in an earlier one: with one pass a skill the requests can be counted.
    passes = {"optimizer.use_slow_update": False, "optimizer.use_meta_skill": False} if stage == "rollout" else {}
    found = []
    for name in ("with", "without"):
        world = World(val=8, scripts={stage: down}, latency=spread(2))
        with monkeypatch.context() as patch:
            if name == "without":
                never(patch)
            run(world, tmp_path / name, {**ONE_STEP_EPOCHS, **passes, "runtime.max_error_rate": 0.5})
        found.append((sorted(call.key for call in world.work()), tree(tmp_path / name)))
    assert found[0] == found[1]


def test_a_kill_at_any_write_asks_nothing_again(tmp_path: Path) -> None:
    overrides = {**ONE_STEP_EPOCHS, "train.num_epochs": 2}

    def world() -> World:
        return World(val=5, test=2, latency=spread(5))

    whole, root = world(), tmp_path / "run"
    with kills(root, tmp_path / "kills", lambda number: number % 11 == 3) as taken:
        run(whole, root, overrides)
    keys = {call.key for call in whole.work()}
    assert len(keys) == len(whole.work()), "no call was asked twice"
    assert len(taken.made) > 10
    for killed in taken.made:
        again = world()
        assert run(again, killed.root, overrides).reason == "completed"
        assert sorted(call.key for call in again.work()) == sorted(keys - killed.held), killed.moment
        assert (tree(killed.root), stored(killed.root)) == (tree(root), stored(root)), killed.moment


# merges


def half_passed(system: str, user: str) -> str | None:
    """Every other item is answered well."""
    code = user.split()[1]
    return f"<answer>{'name of ' + code if int(code[-1]) % 2 else 'unknown'}</answer>"


def merges(root: Path, latency: Latency, **more: Any) -> tuple[World, Sent]:
    sent = Sent(latency)
    world = World(scripts={"rollout": half_passed}, latency=sent)
    overrides = {"train.num_epochs": 1, "train.batch_size": 6, "gradient.minibatch_size": 1, **more}
    run(world, root, overrides)
    return world, sent


def a_slow_success(call: Call) -> float:
    return SLOW if call.stage == "analyst" and "success analysis" in call.system else 1.0


def when(world: World, sent: Sent, stage: str, success: bool) -> list[float]:
    return [sent.at[call.key] for call in world.of(stage) if ("success analysis" in call.system) == success]


def test_failures_are_merged_while_successes_are_still_read(tmp_path: Path) -> None:
    world, sent = merges(tmp_path / "run", a_slow_success)
    assert min(when(world, sent, "merge", False)) < max(when(world, sent, "analyst", True)) + SLOW / 2
    assert min(when(world, sent, "merge", True)) >= max(when(world, sent, "analyst", True)) + SLOW
    usual, _ = merges(tmp_path / "usual", lambda call: 1.0)
    assert sorted(call.key for call in world.work()) == sorted(call.key for call in usual.work())
    assert tree(tmp_path / "run") == tree(tmp_path / "usual")


def test_nothing_is_merged_early_where_a_budget_bounds_the_run(tmp_path: Path) -> None:
    world, sent = merges(tmp_path / "run", a_slow_success, **{"budget.max_calls": 10_000})
    assert min(when(world, sent, "merge", False)) >= max(when(world, sent, "analyst", True)) + SLOW
