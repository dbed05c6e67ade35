"""One skill on one split: scores, files, and answers that are asked once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.folders import read_json, tree
from fakes.virtual_time import run_virtual
from fakes.world import ENVIRON, SEED_SKILL, Script, World, configuration, run

from skillopt.config import ConfigError, Redactor
from skillopt.engine.errors import RoleError
from skillopt.engine.evaluation import EvaluationResult, evaluate_skill
from skillopt.engine.prepare import prepare_evaluation
from skillopt.engine.resume import ResumeError
from skillopt.models.errors import ModelError, StopRequested
from skillopt.report.folder import find_runs
from skillopt.report.run import read_run
from skillopt.run.folder import RunFolder
from skillopt.skill import Skill

ALPHA = SEED_SKILL + "- rule: alpha always\n"


def evaluation(
    world: World, root: Path, split: str = "test", skill: str = SEED_SKILL, overrides: dict[str, Any] | None = None
) -> EvaluationResult:
    config = configuration(root, overrides)
    prepared = prepare_evaluation(config, ENVIRON, Skill(skill), split, env=world.env())
    work = evaluate_skill(prepared, split, "skill.md", ENVIRON, Redactor.collect(ENVIRON, config), [], world.clients)
    return run_virtual(work)


def rows(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def times(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file() and path.name != ".lock"}


def test_scores_and_files(tmp_path: Path) -> None:
    world = World(test=6)
    found = evaluation(world, tmp_path / "eval")
    assert (found.split, found.n, found.errors, found.hard) == ("test", 6, 0, 1 / 6)
    assert found.root == tmp_path / "eval"
    assert read_json(tmp_path / "eval/config.json")["target_backend"] == "openai", "what served it"
    summary = read_json(tmp_path / "eval/eval_summary.json")
    assert {key: summary[key] for key in ("skill", "split", "n_items", "hard", "soft")} == {
        "skill": "skill.md",
        "split": "test",
        "n_items": 6,
        "hard": found.hard,
        "soft": found.soft,
    }
    assert [row["id"] for row in rows(tmp_path / "eval")] == [f"TE-{number:03d}" for number in range(6)]
    assert rows(tmp_path / "eval") == json.loads(json.dumps(list(found.rows)))
    assert len(list((tmp_path / "eval/predictions").iterdir())) == 6
    assert {call.role for call in world.calls} == {"target"}, "the optimizer has nothing to do with it"


@pytest.mark.parametrize(("split", "n"), [("train", 6), ("val", 4), ("selection", 4), ("valid_unseen", 3), ("all", 13)])
def test_splits_by_their_names(tmp_path: Path, split: str, n: int) -> None:
    assert evaluation(World(), tmp_path / "eval", split).n == n


def test_the_first_items_only(tmp_path: Path) -> None:
    found = evaluation(World(test=5), tmp_path / "eval", overrides={"evaluation.test_env_num": 2})
    assert [row["id"] for row in found.rows] == ["TE-000", "TE-001"]
    assert evaluation(World(), tmp_path / "all", "all", overrides={"evaluation.test_env_num": 2}).n == 13


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the test split of world is empty"):
        evaluation(World(test=0), tmp_path / "eval")
    assert not (tmp_path / "eval").exists()


def test_the_same_evaluation_again_sends_nothing_and_changes_nothing(tmp_path: Path) -> None:
    first = evaluation(World(), tmp_path / "eval")
    before = times(tmp_path / "eval")
    world = World()
    again = evaluation(world, tmp_path / "eval")
    assert world.calls == []
    assert times(tmp_path / "eval") == before
    assert (again.hard, again.soft, again.rows) == (first.hard, first.soft, first.rows)


OTHERWISE: dict[str, tuple[dict[str, Any], str]] = {
    "another skill": ({"skill": ALPHA}, r"  skill: skill\.md \([0-9a-f]{16}\) -> skill\.md \([0-9a-f]{16}\)"),
    "another split": ({"split": "val"}, "  splits: test -> val"),
    "more splits": ({"split": "all"}, "  splits: test -> train, val, test"),
    "other items": ({"world": World(test=5)}, r"  test items: 3 -> 5 \(other ids, contents or order\)"),
    "fewer items": ({"overrides": {"evaluation.test_env_num": 2}}, r"  test items: 3 -> 2 \(.*\)"),
    "another prompt or score": ({"world": World(version="2")}, "  version of the environment: 1 -> 2"),
    "another model": ({"overrides": {"model.target": "other"}}, "  target model: small-target -> other"),
    "another temperature": ({"overrides": {"model.temperature": 0.5}}, r"  target temperature: None -> 0\.5"),
    "shorter answers": ({"overrides": {"env.max_completion_tokens": 9}}, r"  env\.max_completion_tokens: \d+ -> 9"),
}
"""What matters, and the line that a refusal shows."""
FORCE, FORK = {"runtime.resume_policy": "force"}, {"runtime.resume_policy": "fork"}


@pytest.mark.parametrize("other", OTHERWISE)
def test_a_folder_with_another_evaluation_is_refused_and_kept(tmp_path: Path, other: str) -> None:
    given, line = OTHERWISE[other]
    evaluation(World(), tmp_path / "eval")
    before = tree(tmp_path / "eval")
    world = given.get("world", World())
    with pytest.raises(ResumeError, match=rf"(?m)^{line}$") as refused:
        evaluation(world, tmp_path / "eval", **{key: given[key] for key in given if key != "world"})
    assert (world.calls, tree(tmp_path / "eval")) == ([], before)
    for way_out in ("--out_root", "--resume-policy fork", "--resume-policy force"):
        assert way_out in str(refused.value)


@pytest.mark.parametrize(
    "overrides",
    [
        {"env.workers": 1},
        {"budget.max_calls": 500},
        {"logging.predictions": "none"},
        {"model.optimizer": "another", "optimizer.learning_rate": 3, "train.num_epochs": 9, "env.limit": 50},
    ],
)
def test_what_no_result_hangs_on_may_differ(tmp_path: Path, overrides: dict[str, Any]) -> None:
    first = evaluation(World(), tmp_path / "eval")
    world = World()
    again = evaluation(world, tmp_path / "eval", overrides=overrides)
    assert (world.calls, again.rows) == ([], first.rows)


def test_force_replaces_the_evaluation_and_keeps_its_answers(tmp_path: Path) -> None:
    first = evaluation(World(), tmp_path / "eval")
    world = World()
    second = evaluation(world, tmp_path / "eval", skill=ALPHA, overrides=FORCE)
    assert (len(world.of("rollout")), second.root) == (3, tmp_path / "eval")
    assert second.rows != first.rows
    world = World()
    third = evaluation(world, tmp_path / "eval", overrides=FORCE)
    assert (world.calls, third.rows, rows(tmp_path / "eval")) == ([], first.rows, list(first.rows))


def test_a_forced_evaluation_that_does_not_end_leaves_no_result_of_another(tmp_path: Path) -> None:
    evaluation(World(), tmp_path / "eval")
    with pytest.raises(StopRequested):
        evaluation(World(), tmp_path / "eval", skill=ALPHA, overrides={**FORCE, "budget.max_calls": 0})
    assert [path.name for path in (tmp_path / "eval").glob("*.json*")] == ["config.json"]


def test_fork_goes_on_beside_with_the_answers_that_are_still_valid(tmp_path: Path) -> None:
    evaluation(World(), tmp_path / "eval", "val")
    before = tree(tmp_path / "eval")
    for asked in ({"train", "test"}, set()):  # the same command finds its own folder again
        world = World()
        found = evaluation(world, tmp_path / "eval", "all", overrides=FORK)
        assert ({call.split for call in world.of("rollout")}, found.root) == (asked, tmp_path / "eval-fork1")
    assert tree(tmp_path / "eval") == before


def test_a_folder_without_an_answer_bears_no_name(tmp_path: Path) -> None:
    """As after a model that was misspelt: nothing is there that could be replaced."""
    unknown = World(scripts={"probe": lambda system, user: ModelError("bad_request", "no such model")})
    with pytest.raises(RoleError):
        evaluation(unknown, tmp_path / "eval", overrides={"model.target": "smal-target"})
    assert evaluation(World(), tmp_path / "eval").n == 3


def test_an_evaluation_that_did_not_note_what_it_was_of_is_not_replaced(tmp_path: Path) -> None:
    evaluation(World(), tmp_path / "eval")
    with RunFolder(tmp_path / "eval") as folder:
        folder.journal.set_meta("identity", json.dumps({"kind": "evaluation"}))
    with pytest.raises(ResumeError, match=r"what was evaluated: not known -> skill\.md"):
        evaluation(World(), tmp_path / "eval")
    assert evaluation(World(), tmp_path / "eval", overrides=FORCE).n == 3


def test_items_that_failed_are_no_zeros_and_are_asked_again(tmp_path: Path) -> None:
    down: Script = lambda system, user: ModelError("timeout", "too slow") if "TE-001" in user else None  # noqa: E731
    overrides = {"runtime.max_error_rate": 0.5}
    found = evaluation(World(scripts={"rollout": down}), tmp_path / "eval", overrides=overrides)
    assert (found.n, found.errors) == (2, 1)
    assert [row["status"] for row in rows(tmp_path / "eval")] == ["ok", "timeout", "ok"]
    assert read_json(tmp_path / "eval/eval_summary.json")["n_items"] == 2
    world = World()
    again = evaluation(world, tmp_path / "eval", overrides=overrides)
    assert ([call.code for call in world.of("rollout")], again.n, again.errors) == (["TE-001"], 3, 0)


def test_too_many_failures_end_it(tmp_path: Path) -> None:
    down: Script = lambda system, user: ModelError("provider", "down")  # noqa: E731
    with pytest.raises(StopRequested) as stopped:
        evaluation(World(scripts={"rollout": down}), tmp_path / "eval")
    assert stopped.value.reason == "error_rate"
    assert stopped.value.detail.startswith("target: ")
    assert evaluation(World(), tmp_path / "eval").n == 3


def test_a_target_that_does_not_answer_is_told_before_any_work(tmp_path: Path) -> None:
    world = World(scripts={"probe": lambda system, user: ModelError("provider", "cannot connect")})
    with pytest.raises(RoleError, match=r"^target: .*cannot connect"):
        evaluation(world, tmp_path / "eval")
    assert world.work() == []


def test_a_budget_stops_it_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    with pytest.raises(StopRequested, match=r"budget.max_calls=3 is reached"):
        evaluation(World(), tmp_path / "eval", overrides={"budget.max_calls": 3})
    world = World()
    assert evaluation(world, tmp_path / "eval", overrides={"budget.max_calls": 9}).n == 3
    assert len(world.of("rollout")) == 1


def test_the_folder_of_a_training_run_is_not_written_over(tmp_path: Path) -> None:
    run(World(), tmp_path / "run", {"train.num_epochs": 1})
    before = times(tmp_path / "run")
    with pytest.raises(ResumeError, match=r"is the folder of another kind of run \(training\)"):
        evaluation(World(), tmp_path / "run")
    assert times(tmp_path / "run") == before


def test_what_an_earlier_evaluation_of_more_items_left_is_removed(tmp_path: Path) -> None:
    world = World(val=3, test=6)
    evaluation(world, tmp_path / "eval", "all")
    evaluation(world, tmp_path / "eval", "val", skill=ALPHA, overrides=FORCE)
    named = {path.parent.name for path in (tmp_path / "eval").rglob("conversation.json")}
    assert named == {row["id"] for row in rows(tmp_path / "eval")}
    assert len(named) == 3


def test_an_evaluation_that_stopped_can_be_found(tmp_path: Path) -> None:
    """Its configuration is there before its first request, by which the dashboard lists it."""
    root = tmp_path / "runs" / "eval"
    with pytest.raises(StopRequested):
        evaluation(World(), root, overrides={"budget.max_calls": 3})
    assert find_runs([tmp_path]) == [root]
    assert read_run(root).kind == "evaluation"
