"""Budgets that stop a run and let it go on, and what may differ when it does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fakes.folders import read_json, rows, tree
from fakes.world import DEFAULTS, SEED_SKILL, World, run

from skillopt.engine.resume import ResumeError
from skillopt.run.folder import FolderError

# budgets


@pytest.mark.parametrize("cap", [0, 1, 2, 3, 7, 12, 21, 30, 44])
def test_a_cap_on_calls_is_never_passed_and_a_larger_one_goes_on(tmp_path: Path, cap: int) -> None:
    root, world = tmp_path / "run", World()
    ending = run(world, root, {"budget.max_calls": cap})
    assert (ending.reason, len(world.calls)) == ("budget", cap)
    assert ending.detail == f"budget.max_calls={cap} is reached ({cap} spent)"
    summary = read_json(root / "summary.json")
    assert (summary["stop_reason"], sum(summary["requests"].values())) == ("budget", cap)
    again = World()
    run(again, root, {"budget.max_calls": 10_000})
    run(World(), tmp_path / "undisturbed")
    assert tree(root).keys() == tree(tmp_path / "undisturbed").keys()
    assert rows(root)[-1]["tokens_total"] == rows(tmp_path / "undisturbed")[-1]["tokens_total"]


def test_the_same_cap_again_sends_nothing(tmp_path: Path) -> None:
    run(World(), tmp_path / "run", {"budget.max_calls": 9})
    world = World()
    assert run(world, tmp_path / "run", {"budget.max_calls": 9}).reason == "budget"
    assert world.calls == []


@pytest.mark.parametrize("cap", [0, 100, 1500, 6000])
def test_a_cap_on_tokens_holds_but_for_what_is_in_flight(tmp_path: Path, cap: int) -> None:
    root, world = tmp_path / "run", World(latency=lambda call: 1.0)
    ending = run(world, root, {"budget.max_tokens": cap})
    assert ending.reason == "budget"
    spent = [len(call.system + call.user) // 4 for call in world.calls]
    in_flight = DEFAULTS["env.workers"] + DEFAULTS["gradient.analyst_workers"]
    assert sum(spent[:-in_flight]) <= cap
    assert run(World(), root).reason == "completed"


def test_a_cap_on_seconds_counts_all_processes(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world = World(latency=lambda call: 0.05)
    ending = run(world, root, {"budget.max_seconds": 0.4}, real_time=True)
    assert ending.reason == "budget"
    assert ending.detail.startswith("budget.max_seconds=0.4 is reached")
    assert 0.4 <= ending.summary["total_wall_time_s"] + 0.05 < 3.0
    again = World()
    assert run(again, root, {"budget.max_seconds": 0.4}).reason == "budget"
    assert again.calls == []
    assert run(World(), root, {"budget.max_seconds": 3600}).reason == "completed"


def test_a_capped_run_does_nothing_before_its_turn(tmp_path: Path) -> None:
    """With a cap the money goes to what is needed first: the test of the first skill waits for the end."""
    world = World()
    run(world, tmp_path / "run", {"budget.max_calls": 10_000})
    order = [call.split or call.stage for call in world.work()]
    assert order.index("test") > max(number for number, name in enumerate(order) if name in ("analyst", "merge"))


def test_retries_and_failures_count(tmp_path: Path) -> None:
    from skillopt.models.errors import ModelError

    world = World(
        scripts={"rollout": lambda system, user: ModelError("provider", "down") if "VA-000" in user else None}
    )
    ending = run(world, tmp_path / "run", {"budget.max_calls": 20})
    assert (ending.reason, len(world.calls)) == ("budget", 20)
    assert ending.summary["requests"]["provider"] >= 1


# what may differ


@pytest.mark.parametrize(
    "changed",
    [
        {"env.workers": 1},
        {"gradient.analyst_workers": 1},
        {"budget.max_calls": 500},
        {"runtime.max_error_rate": 0.9},
        {"logging.predictions": "all"},
    ],
)
def test_what_changes_no_result_may_differ(tmp_path: Path, changed: dict[str, Any]) -> None:
    root = tmp_path / "run"
    run(World(), root, {"budget.max_calls": 20})
    assert run(World(), root, {"budget.max_calls": None, **changed}).reason == "completed"


DIFFERENT = [
    ({"env.exec_timeout": 5.0}, "env.exec_timeout: 120.0 -> 5.0"),
    ({"model.timeout_seconds": 5.0}, "model.timeout_seconds: 300.0 -> 5.0"),
    ({"train.batch_size": 2}, "train.batch_size: 3 -> 2"),
    ({"train.seed": 7}, "train.seed: 42 -> 7"),
    ({"train.num_epochs": 3}, "train.num_epochs: 2 -> 3"),
    ({"evaluation.gate_metric": "soft"}, "evaluation.gate_metric: hard -> soft"),
    ({"evaluation.use_gate": False}, "evaluation.use_gate: true -> false"),
    ({"model.target": "other"}, "model.target: small-target -> other"),
    ({"model.reasoning_effort": ""}, 'model.reasoning_effort: medium -> ""'),
    ({"model.target_temperature": 0.0}, "model.target_temperature: null -> 0.0"),
]


@pytest.mark.parametrize(("changed", "line"), DIFFERENT, ids=[line for _, line in DIFFERENT])
def test_strict_refuses_and_shows_the_difference(tmp_path: Path, changed: dict[str, Any], line: str) -> None:
    root = tmp_path / "run"
    run(World(), root, {"budget.max_calls": 20})
    before = tree(root)
    world = World()
    with pytest.raises(ResumeError) as refused:
        run(world, root, changed)
    message = str(refused.value)
    assert f"  {line}\n" in message
    assert "--resume-policy fork" in message
    assert "--resume-policy force" in message
    assert world.calls == []
    assert tree(root) == before


def test_strict_shows_other_items_another_skill_and_another_endpoint(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(), root, {"budget.max_calls": 20})
    environ = {"OPENAI_API_KEY": "sk-other-0123456789", "OPENAI_BASE_URL": "http://127.0.0.1:8/v1"}
    with pytest.raises(ResumeError) as refused:
        run(World(val=5, version="2"), root, skill=SEED_SKILL + "- more\n", environ=environ)
    lines = str(refused.value).splitlines()
    assert "  val items: 4 -> 5 (other ids, contents or order)" in lines
    assert "  version of the environment: 1 -> 2" in lines
    assert any(re.fullmatch(r"  first skill: [0-9a-f]{16} -> [0-9a-f]{16}", line) for line in lines)
    assert "  target base_url: http://127.0.0.1:9/v1 -> http://127.0.0.1:8/v1" in lines
    assert not any("train items" in line for line in lines)


def test_another_key_is_no_difference(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(), root, {"budget.max_calls": 20})
    environ = {"OPENAI_API_KEY": "sk-other-0123456789", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert run(World(), root, environ=environ).reason == "completed"


FORK = {"runtime.resume_policy": "fork"}
FORCE = {"runtime.resume_policy": "force"}


def test_fork_goes_on_beside_and_pays_only_for_what_is_new(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(), root)
    before = tree(root)
    more = {"train.num_epochs": 3}
    world = World()
    ending = run(world, root, {**more, **FORK})
    assert (ending.reason, ending.root) == ("completed", tmp_path / "run-fork1")
    assert tree(root) == before
    fresh = World()
    run(fresh, tmp_path / "fresh", more)
    asked, all_of_it = ({call.key for call in each.work()} for each in (world, fresh))
    assert asked < all_of_it
    assert len(asked) < len(all_of_it) / 2
    ours, theirs = tree(ending.root), tree(tmp_path / "fresh")
    for name in ("config.json", "summary.json"):  # where the policy and the number of processes are told
        ours.pop(name), theirs.pop(name)
    assert ours == theirs


def test_a_fork_is_found_again_and_another_difference_makes_another_fork(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(), root, {"budget.max_calls": 20})
    stopped = run(World(), root, {"train.seed": 7, "budget.max_calls": 25, **FORK})
    assert (stopped.root.name, stopped.reason) == ("run-fork1", "budget")
    assert run(World(), root, {"train.seed": 7, **FORK}).root.name == "run-fork1"
    assert run(World(), root, {"train.seed": 8, **FORK}).root.name == "run-fork2"
    again = World()
    assert run(again, root, {"train.seed": 7, **FORK}).detail == "already finished"
    assert again.calls == []


def test_fork_takes_no_folder_or_file_that_is_somebody_elses(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(), root, {"budget.max_calls": 20})
    (tmp_path / "run-fork1").write_text("a file", encoding="utf-8")
    (tmp_path / "run-fork2").mkdir()
    (tmp_path / "run-fork2" / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "run-fork3").mkdir()
    assert run(World(), root, {"train.seed": 7, **FORK}).root.name == "run-fork3"


@pytest.mark.parametrize("policy", [FORK, FORCE])
def test_without_a_difference_every_policy_goes_on_here(tmp_path: Path, policy: dict[str, Any]) -> None:
    root = tmp_path / "run"
    run(World(), root, {"budget.max_calls": 20})
    assert run(World(), root, policy).root == root
    again = World()
    assert run(again, root, policy).detail == "already finished"
    assert again.calls == []


def test_force_goes_on_here_from_the_last_step(tmp_path: Path) -> None:
    """A finished run of two epochs gets a third one; its best skill is tested anew, its old test is no answer."""
    root = tmp_path / "run"
    run(World(), root)
    world = World()
    ending = run(world, root, {"train.num_epochs": 3, **FORCE})
    assert (ending.reason, ending.root, len(rows(root))) == ("completed", root, 6)
    assert {row["epoch"] for row in rows(root)} == {1, 2, 3}
    assert {call.split for call in world.of("rollout")} <= {"train", "val", "test"}
    assert read_json(root / "summary.json")["total_steps"] == 6
    assert run(World(), root, {"train.num_epochs": 3}).detail == "already finished", "that is its configuration now"


def test_force_tests_what_it_reports(tmp_path: Path) -> None:
    """The first run ends with the first skill; the forced one trains a better one, whose test score is its own."""
    root = tmp_path / "run"
    nothing: dict[str, Any] = {"batch_size": 1, "failure_summary": [], "patch": {"reasoning": "", "edits": []}}
    first = run(World(scripts={"analyst": lambda system, user: nothing}), root, {"train.num_epochs": 1})
    world = World()
    second = run(world, root, {"train.num_epochs": 3, **FORCE})
    assert second.summary["best_step"] > 0
    assert second.summary["test_hard"] > first.summary["test_hard"]
    assert len(world.of("rollout", "test")) >= 3


def test_force_does_not_take_steps_for_other_steps(tmp_path: Path) -> None:
    """With another number of steps an epoch the third step would be another epoch's."""
    root, world = tmp_path / "run", World()
    run(World(), root, {"budget.max_calls": 20})
    with pytest.raises(ResumeError, match=r"has 2 steps an epoch, and now there would be 3: it cannot go on in place"):
        run(world, root, {"train.batch_size": 2, **FORCE})
    assert world.calls == []
    assert run(World(), root).reason == "completed"


def test_a_folder_of_the_published_implementation_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    (root / "runtime_state.json").write_text("{}", encoding="utf-8")
    world = World()
    for policy in ("strict", "fork", "force"):
        with pytest.raises(FolderError, match="published implementation"):
            run(world, root, {"runtime.resume_policy": policy})
    assert world.calls == []
    assert [path.name for path in root.iterdir()] == ["runtime_state.json"]
