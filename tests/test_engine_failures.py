"""What could not be measured is no zero, what does not work ends the run by name, and both go on afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.folders import read_json, rows, stored, tree
from fakes.world import Call, Played, Script, World, codes, run, section

from skillopt.engine.errors import RoleError
from skillopt.envs.custom import make_env
from skillopt.envs.scoring import EnvError
from skillopt.models.errors import ErrorKind, ModelError

ONE_EPOCH = {"train.num_epochs": 1}


def failing(code: str, kind: ErrorKind = "provider", *, skill: str = "") -> Script:
    """Rollouts of an item fail, where ``skill`` is part of the prompt."""

    def script(system: str, user: str) -> Played:
        return ModelError(kind, f"{kind} on {code}") if code in user and skill in system else None

    return script


def always(kind: ErrorKind, message: str = "down") -> Script:
    return lambda system, user: ModelError(kind, message)


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "results.jsonl").read_text(encoding="utf-8").splitlines()]


# not measured


def test_an_item_that_failed_is_left_out_on_both_sides_of_the_gate(tmp_path: Path) -> None:
    """VA-003 is right under the first skill and cannot be measured under the candidate: no reason to reject it."""
    root = tmp_path / "run"
    world = World(scripts={"rollout": failing("VA-003", skill="alpha")})
    run(world, root, {**ONE_EPOCH, "train.batch_size": 6})
    (row,) = rows(root)
    gate = row["gate"]
    assert (gate["pairs"], gate["excluded"]) == (3, 1)
    assert (row["action"], gate["wins"] + gate["losses"] + gate["ties"]) == ("accept_new_best", 3)
    failed = [each for each in results(root / "steps/step_0001/selection_eval") if each["hard"] is None]
    assert [(each["id"], each["status"], each["error"]["kind"]) for each in failed] == [
        ("VA-003", "infra_error", "provider")
    ]
    measured = [each["hard"] for each in results(root / "steps/step_0001/selection_eval") if each["hard"] is not None]
    assert row["val_hard"] == sum(measured) / 3
    assert row["errors"] == {"selection": 1}


def test_a_train_item_that_failed_is_in_no_mean_and_before_no_analyst(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world = World(scripts={"rollout": failing("TR-002", "timeout")})
    run(world, root, {**ONE_EPOCH, "train.batch_size": 6})
    (row,) = rows(root)
    assert (row["rollout_n"], row["errors"]["rollout"], row["accumulation_batches"][0]["n_envs"]) == (5, 1, 6)
    assert row["rollout_hard"] == 0.0, "TR-002 is the one that needs no rule"
    (failed,) = [each for each in results(root / "steps/step_0001/rollout") if each["hard"] is None]
    assert (failed["id"], failed["status"], failed["soft"]) == ("TR-002", "timeout", None)
    assert all("TR-002" not in codes(call.user) for call in world.of("analyst"))
    assert not (root / "steps/step_0001/rollout/predictions/TR-002").exists()


@pytest.mark.parametrize("kind", ["refused", "context_overflow"])
def test_what_the_skill_itself_brought_about_is_a_zero(tmp_path: Path, kind: ErrorKind) -> None:
    root = tmp_path / "run"
    run(World(scripts={"rollout": failing("TR-002", kind)}), root, {**ONE_EPOCH, "train.batch_size": 6})
    (row,) = rows(root)
    assert (row["rollout_n"], row["rollout_hard"], row["errors"]) == (6, 0.0, {})
    (found,) = [each for each in results(root / "steps/step_0001/rollout") if each["id"] == "TR-002"]
    assert (found["hard"], found["status"], found["agent_ok"]) == (0, "agent_error", False)


def test_a_failed_item_does_not_enter_the_comparison_of_an_epoch(tmp_path: Path) -> None:
    root = tmp_path / "run"
    overrides = {"train.batch_size": 6, "optimizer.slow_update_samples": 6, "optimizer.use_meta_skill": False}
    world = World(scripts={"rollout": failing("TR-000", skill="alpha")})
    run(world, root, overrides)
    pairs = read_json(root / "slow_update/epoch_02/comparison_pairs.json")
    assert len(pairs) == 5
    assert "TR-000" not in {pair["id"] for pair in pairs}
    assert "not measured on both sides: 1" in world.of("slow_update")[0].user


# too much failed


class Outage:
    """A stage that fails while ``down``."""

    def __init__(self, kind: ErrorKind = "provider", after: int = 0) -> None:
        self.kind = kind
        self.left = after
        self.down = True

    def __call__(self, system: str, user: str) -> Played:
        if self.left > 0:
            self.left -= 1
            return None
        return ModelError(self.kind, "no answer from the server") if self.down else None


@pytest.mark.parametrize(
    ("stage", "after", "role"),
    [("rollout", 0, "target"), ("rollout", 12, "target"), ("analyst", 0, "optimizer"), ("analyst", 4, "optimizer")],
)
def test_a_dead_role_ends_the_run_and_is_asked_again(tmp_path: Path, stage: str, after: int, role: str) -> None:
    root, outage = tmp_path / "run", Outage(after=after)
    ending = run(World(scripts={stage: outage}), root)
    assert ending.reason == "error_rate"
    assert ending.detail.startswith(f"{role}: ")
    assert "runtime.max_error_rate=0.3" in ending.detail
    assert "no answer from the server" in ending.detail
    assert read_json(root / "summary.json")["stop_reason"] == "error_rate"
    outage.down = False
    assert run(World(), root).reason == "completed"
    run(World(), tmp_path / "undisturbed")
    assert tree(root) == tree(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("rate", "reason"), [(0.0, "error_rate"), (0.2, "error_rate"), (0.25, "completed"), (1.0, "completed")]
)
def test_the_share_of_failures_that_ends_a_run_is_configured(tmp_path: Path, rate: float, reason: str) -> None:
    """One of four validation items fails."""
    world = World(scripts={"rollout": failing("VA-000")})
    ending = run(world, tmp_path / "run", {**ONE_EPOCH, "runtime.max_error_rate": rate})
    assert ending.reason == reason


def test_a_first_test_that_cannot_be_measured_ends_the_run_before_all_is_paid(tmp_path: Path) -> None:
    world = World(test=6, latency=lambda call: 1.0, scripts={"rollout": failing("TE")})
    ending = run(world, tmp_path / "run", {"train.num_epochs": 10})
    assert ending.reason == "error_rate"
    assert len(world.calls) < 40


UNREADABLE = "I would rather tell you a story."


def test_replies_that_cannot_be_read_are_counted_and_some_are_borne(tmp_path: Path) -> None:
    """One of three analysts never writes JSON; the others do."""
    root = tmp_path / "run"

    def script(system: str, user: str) -> Played:
        return UNREADABLE if "TR-000" in codes(user) else None

    world = World(scripts={"analyst": script})
    ending = run(world, root, {**ONE_EPOCH, "train.batch_size": 6, "gradient.minibatch_size": 2})
    assert ending.reason == "completed"
    (row,) = rows(root)
    assert row["errors"] == {"analyst": 1}
    spoilt = [read_json(path) for path in (root / "steps/step_0001/analysis").iterdir()]
    (bad,) = [each for each in spoilt if each["error"]]
    assert (bad["reply"], bad["error"]["kind"]) == (UNREADABLE, "invalid_output")
    assert "TR-000" in bad["item_ids"]


def test_an_optimizer_that_never_replies_as_asked_ends_the_run_and_is_asked_afresh(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world = World(scripts={"analyst": lambda system, user: UNREADABLE})
    ending = run(world, root)
    assert (ending.reason, len(world.of("analyst"))) == ("error_rate", 4), "two analysts, each asked twice"
    assert ending.detail.startswith("optimizer: 2 of 2 analyst calls of one step failed")
    again = World()
    assert run(again, root).reason == "completed"
    assert len(again.of("analyst")) > 2


def test_one_useless_reply_costs_a_step_and_two_in_a_row_the_run(tmp_path: Path) -> None:
    """Steps with one analyst each: a reply that cannot be read is bad luck once."""
    overrides = {"train.num_epochs": 1, "train.batch_size": 3, "gradient.minibatch_size": 3}
    bad = {"TR-000"}

    def script(system: str, user: str) -> Played:
        return UNREADABLE if bad.intersection(codes(user)) else no_edits(system, user)

    world = World(train=9, scripts={"analyst": script, "rollout": lambda system, user: "<answer>wrong</answer>"})
    assert run(world, tmp_path / "run", overrides).reason == "completed"
    assert [row["errors"].get("analyst", 0) for row in rows(tmp_path / "run")].count(1) == 1
    bad.update(f"TR-{number:03d}" for number in range(9))
    ending = run(world, tmp_path / "other", overrides)
    assert (ending.reason, len(rows(tmp_path / "other"))) == ("error_rate", 1)
    assert ending.detail.startswith("optimizer: 1 of 1 analyst calls of one step failed")


@pytest.mark.parametrize("stage", ["merge", "ranking"])
def test_a_stage_that_fails_falls_back_and_says_so(tmp_path: Path, stage: str) -> None:
    root = tmp_path / "run"
    world = World(scripts={stage: always("provider")})
    ending = run(world, root, {**ONE_EPOCH, "train.batch_size": 6, "gradient.minibatch_size": 2})
    assert ending.reason == "completed"
    (row,) = rows(root)
    assert row["errors"][stage] >= 1
    assert row["n_edits_ranked"] == 2


def test_an_epoch_end_without_answers_keeps_what_there_was(tmp_path: Path) -> None:
    root = tmp_path / "run"
    world = World(scripts={"slow_update": always("timeout"), "meta_skill": always("provider")})
    assert run(world, root).reason == "completed"
    for path in ("slow_update/epoch_02/slow_result.json", "meta_skill/epoch_02/meta_skill_result.json"):
        found = read_json(root / path)
        assert found["action"] == "no_content"
        assert "down" in found["error"]


# refused keys


@pytest.mark.parametrize("stage", ["rollout", "analyst", "merge", "ranking", "slow_update", "meta_skill"])
def test_a_refused_key_ends_the_run_wherever_it_is_met(tmp_path: Path, stage: str) -> None:
    root = tmp_path / "run"
    overrides = {"train.batch_size": 6, "optimizer.learning_rate": 1, "optimizer.min_learning_rate": 1}
    message = "optimizer model 'big': the server refused the key from OPENAI_API_KEY"
    ending = run(World(scripts={stage: always("auth", message)}), root, overrides)
    assert (ending.reason, ending.detail) == ("error", f"auth: {message}")
    assert read_json(root / "summary.json")["stop_reason"] == "error"
    assert run(World(), root, overrides).reason == "completed"


@pytest.mark.parametrize("role", ["target", "optimizer"])
def test_a_role_that_does_not_answer_ends_the_run_before_any_work(tmp_path: Path, role: str) -> None:
    world = World(scripts={f"probe {role}": always("provider", "cannot connect")})
    with pytest.raises(RoleError, match=rf"^{role}: .*cannot connect"):
        run(world, tmp_path / "run")
    assert world.work() == []
    assert run(World(), tmp_path / "run").reason == "completed"


# a user's own code


@pytest.mark.parametrize("code", ["TR-000", "VA-000", "TE-000"])
def test_a_score_function_that_raises_ends_the_run_naming_the_item(tmp_path: Path, code: str) -> None:
    world = World(latency=lambda call: 1.0)

    def score(item: dict[str, Any], answer: str) -> float:
        return 1 / 0 if item["id"] == code else 0.5

    env = make_env(world.items(), lambda item: item["question"], score, name="world")
    with pytest.raises(EnvError, match=f"score failed on item '{code}': ZeroDivisionError: division by zero"):
        run(world, tmp_path / "run", {"train.num_epochs": 10}, env=env)
    assert len(world.calls) < 40, "it is told at once, not after all is paid"


def test_a_score_function_that_is_mended_goes_on_with_what_was_answered(tmp_path: Path) -> None:
    world = World()
    env = make_env(world.items(), lambda item: item["question"], lambda item, answer: 1 / 0, name="world")
    with pytest.raises(EnvError):
        run(world, tmp_path / "run", env=env)
    held = {key for key, *_ in stored(tmp_path / "run")["replies"]}
    again = World()
    assert run(again, tmp_path / "run").reason == "completed"
    assert held
    assert held.isdisjoint(call.key for call in again.work())


# nothing came of it


def no_edits(system: str, user: str) -> Played:
    kind = "success_patterns" if '"success_patterns"' in system else "failure_summary"
    return {"batch_size": 2, kind: [], "patch": {"reasoning": "all is well", "edits": []}}


def unmatched(system: str, user: str) -> Played:
    edits = [{"op": "replace", "target": "a line that is not there", "content": "something else"}]
    return {"batch_size": 2, "failure_summary": [], "patch": {"reasoning": "", "edits": edits}}


def useless(system: str, user: str) -> Played:
    edits = [{"op": "append", "target": "", "content": f"- rule: be kind to {codes(user)[-1]}"}]
    return {"batch_size": 2, "failure_summary": [], "patch": {"reasoning": "", "edits": edits}}


def test_no_edits_proposed(tmp_path: Path) -> None:
    root = tmp_path / "run"
    ending = run(World(scripts={"analyst": no_edits}), root)
    assert ending.summary["no_improvement_reason"] == "no_edits_proposed"
    for row in rows(root):
        assert (row["action"], row["val_hard"], row["n_patches"]) == ("skip_no_patches", None, 0)
        folder = root / f"steps/step_{row['step']:04d}"
        assert not (folder / "selection_eval").exists()
        assert not (folder / "trajectory_digest.json").exists()
        assert (root / f"skills/skill_v{row['step']:04d}.md").exists()


def test_no_edit_applied(tmp_path: Path) -> None:
    root, world = tmp_path / "run", World(scripts={"analyst": unmatched})
    ending = run(world, root, {"optimizer.use_slow_update": False})
    assert ending.summary["no_improvement_reason"] == "no_edit_applied"
    for row in rows(root):
        assert (row["action"], row["val_hard"], row["val_soft"]) == ("skip_no_change", None, None)
        assert row["edit_apply_summary"]["applied"] == 0
        report = read_json(root / f"steps/step_{row['step']:04d}/edit_apply_report.json")
        assert {each["status"] for each in report} == {"skipped_replace_target_not_found"} or all(
            each["status"].startswith("skipped_replace") for each in report
        )
    assert [call.split for call in world.of("rollout")].count("val") == 4, "no candidate was measured"


def test_all_rejected(tmp_path: Path) -> None:
    ending = run(World(scripts={"analyst": useless}), tmp_path / "run", ONE_EPOCH)
    assert {row["action"] for row in rows(tmp_path / "run")} == {"reject"}
    assert ending.summary["no_improvement_reason"] == "all_rejected"


def test_budget_before_first_candidate(tmp_path: Path) -> None:
    ending = run(World(), tmp_path / "run", {"budget.max_calls": 5})
    assert (ending.reason, ending.summary["no_improvement_reason"]) == ("budget", "budget_before_first_candidate")


def test_an_early_stop_for_another_reason_is_no_verdict_on_the_optimizer(tmp_path: Path) -> None:
    ending = run(World(scripts={"analyst": always("provider")}), tmp_path / "run")
    assert (ending.reason, ending.summary["no_improvement_reason"]) == ("error_rate", None)


@pytest.mark.parametrize("played", [ModelError("provider", "down"), "{}", {"new_skill": "", "change_summary": []}])
def test_a_rewrite_that_gives_nothing_is_skipped(tmp_path: Path, played: Any) -> None:
    root = tmp_path / "run"
    world = World(scripts={"rewrite": lambda system, user: played})
    ending = run(world, root, {**ONE_EPOCH, "optimizer.skill_update_mode": "rewrite_from_suggestions"})
    assert ending.reason == "completed"
    for row in rows(root):
        assert (row["action"], row["errors"]["rewrite"], row["val_hard"]) == ("skip_no_rewrite", 1, None)
    assert ending.summary["total_skips"] == 2
    assert ending.summary["no_improvement_reason"] == "no_edit_applied"


# odd texts


def test_half_characters_in_items_and_replies_harm_nothing(tmp_path: Path) -> None:
    world = World()
    items = world.items()
    for rows_ in items.values():
        for row in rows_:
            row["question"] += " \ud83d"
    env = make_env(items, lambda item: item["question"], lambda item, answer: 0.0, name="world")
    world.scripts["rollout"] = lambda system, user: "<answer>half \udc00</answer>"
    assert run(world, tmp_path / "run", ONE_EPOCH, env=env).reason == "completed"
    again = World()
    assert run(again, tmp_path / "run", ONE_EPOCH, env=env).detail == "already finished"


def test_a_call_that_is_under_way_at_the_cap_is_not_lost(tmp_path: Path) -> None:
    """The cap is met while three calls are under way: they are paid, so they are kept."""

    def latency(call: Call) -> float:
        return 1.0 + call.number % 3

    world = World(latency=latency)
    run(world, tmp_path / "run", {"budget.max_calls": 9})
    asked = {call.key for call in world.work()}
    assert asked == {key for key, *_ in stored(tmp_path / "run")["replies"]}
    assert len(asked) == 7
    assert section("## a\nx\n## b\ny", "b") == "y"
