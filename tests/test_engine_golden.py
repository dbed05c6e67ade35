"""What a whole run leaves on disk: the published tree of files, and the published fields in each of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.folders import read_json, rows, stored, tree
from fakes.world import Call, World, codes, run, stage_of, wants

from skillopt.engine.session import Ending
from skillopt.skill import Skill

# Published names of the fields, by file. A test below compares the files of a run with them.
ROW_ALWAYS = (
    *("step", "epoch", "step_in_epoch", "timing", "tokens", "rollout_hard", "rollout_soft", "rollout_n"),
    *("accumulation_batches", "n_patches", "n_failure_patches", "n_success_patches", "action"),
    *("current_score", "best_score", "best_step", "skill_len", "wall_time_s", "current_origin", "best_origin"),
)
ROW_WITH_PATCHES = (
    *("n_edits_merged", "n_edits_ranked", "edit_budget", "lr_control_mode", "support_counts"),
    *("candidate_hash", "candidate_skill_len", "edit_apply_summary"),
)
ROW_GATED = ("selection_hard", "selection_soft", "gate_metric", "candidate_gate_score")
ROW_NEW = (
    *("train_hard", "train_soft", "val_hard", "val_soft", "tokens_total", "cost_usd", "errors", "trimmed", "dropped"),
)
ROW_NEW_GATED = ("gate",)
BATCH = ("batch_idx", "batch_seed", "n_envs", "hard", "soft", "n_failure_patches", "n_success_patches")
STATE = (
    *("last_completed_step", "current_skill_path", "current_score", "current_origin"),
    *("best_skill_path", "best_score", "best_step", "best_origin"),
)
SUMMARY = (
    *("version", "config", "baseline_selection_hard", "best_selection_hard", "final_selection_hard"),
    *("final_selection_soft", "best_step", "current_origin", "best_origin", "total_steps", "total_accepts"),
    *("total_rejects", "total_skips", "epoch_stats", "baseline_test_hard", "baseline_test_soft", "test_hard"),
    *("test_soft", "final_test_hard", "final_test_soft", "test_delta_hard", "final_test_delta_hard"),
    *("total_wall_time_s", "token_summary"),
)
SUMMARY_NEW = (
    *("stop_reason", "no_improvement_reason", "selection_n", "test_n", "test_lift", "test_errors", "requests"),
    "cost_summary",
)
EPOCH_STATS = (
    *("epoch", "steps", "accepts", "rejects", "skips", "best_score_at_epoch_end", "current_score_at_epoch_end"),
)
TOKENS = ("calls", "prompt_tokens", "completion_tokens")
REPORT = ("op", "target", "content_preview", "status", "index")
PAIR = ("id", "task", "category", "prev", "curr")
PAIR_SIDE = ("hard", "soft", "predicted_answer", "fail_reason")
SLOW = (
    *("reasoning", "slow_update_content", "time_s", "prev_hard", "curr_hard", "candidate_hash", "update_origin"),
    *("update_target", "selection_hard", "selection_soft", "action"),
)
META = ("reasoning", "meta_skill_content", "time_s", "action")
RESULT = ("id", "hard", "soft", "predicted_answer", "fail_reason", "agent_ok", "n_turns", "status")


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, World, Ending]:
    root, world = tmp_path_factory.mktemp("golden") / "run", World()
    return root, world, run(world, root)


def keys(value: Any) -> set[str]:
    return set(value)


# the tree


def step_files(row: dict[str, Any], ids: list[str], kinds: list[str]) -> set[str]:
    """The files of a step with one micro-batch, by what it did."""
    names = {"step_record.json", "rollout/results.jsonl"}
    names |= {f"rollout/predictions/{id_}/conversation.json" for id_ in ids}
    names |= {f"{folder}/minibatch_{kind}.json" for folder in ("patches", "analysis") for kind in kinds}
    if row["action"] != "skip_no_patches":
        names |= {"merged_patch.json", "ranked_edits.json", "edit_apply_report.json", "candidate_skill.md"}
        names |= {"trajectory_digest.json"}
    if row["action"] in ("accept_new_best", "reject"):
        names |= {"selection_eval/results.jsonl"}
    return {f"steps/step_{row['step']:04d}/{name}" for name in names}


def test_the_tree_is_the_published_one(golden: tuple[Path, World, Ending]) -> None:
    root, _, _ = golden
    history = rows(root)
    assert [row["action"] for row in history] == ["accept_new_best", "accept_new_best", *["skip_no_patches"] * 2]
    expected = {
        *("best_skill.md", "config.json", "events.jsonl", "history.json", "journal.sqlite"),
        *("runtime_state.json", "summary.json", "selection_eval_baseline/results.jsonl"),
        *(f"skills/skill_v{number:04d}.md" for number in range(5)),
        *(f"slow_update/epoch_{epoch:02d}/slow_result.json" for epoch in (1, 2)),
        *(f"meta_skill/epoch_{epoch:02d}/meta_skill_result.json" for epoch in (1, 2)),
        *(f"slow_update/epoch_02/{name}" for name in ("candidate_skill.md", "comparison_pairs.json")),
        *(f"slow_update/epoch_02/{name}/results.jsonl" for name in ("rollout_prev", "rollout_curr", "selection_eval")),
        *(f"{name}/results.jsonl" for name in ("test_eval_baseline", "test_eval", "test_eval_final")),
        *(f"{name}/summary.json" for name in ("test_eval_baseline", "test_eval", "test_eval_final")),
    }
    for row, kinds in zip(
        history, (["fail_000", "fail_001"], ["fail_000", "succ_000"], ["succ"], ["succ"]), strict=True
    ):
        results = (root / f"steps/step_{row['step']:04d}/rollout/results.jsonl").read_text(encoding="utf-8")
        ids = [json.loads(line)["id"] for line in results.splitlines()]
        if kinds == ["succ"]:
            kinds = [
                path.stem.removeprefix("minibatch_") for path in root.glob(f"steps/step_{row['step']:04d}/patches/*")
            ]
            assert all(kind.startswith("succ") for kind in kinds)
        expected |= step_files(row, ids, kinds)
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert found - {".lock"} == expected


def test_micro_batches_have_folders_of_their_own(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(), root, {"train.accumulation": 2, "train.batch_size": 2, "train.num_epochs": 1})
    assert [row["step"] for row in rows(root)] == [1, 2]
    for step in (1, 2):
        folder = root / f"steps/step_{step:04d}"
        assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == [
            "batch_0",
            "batch_1",
            "selection_eval",
        ]
        for batch in ("batch_0", "batch_1"):
            assert (folder / batch / "rollout" / "results.jsonl").exists()
            assert list((folder / batch / "patches").iterdir())
    assert [batch["batch_seed"] for row in rows(root) for batch in row["accumulation_batches"]] == [
        1043,
        1044,
        1045,
        1046,
    ]


@pytest.mark.parametrize(
    ("wanted", "split"), [("none", set()), ("train", {"train"}), ("all", {"train", "val", "test"})]
)
def test_predictions_are_written_where_asked(tmp_path: Path, wanted: str, split: set[str]) -> None:
    root = tmp_path / "run"
    run(World(), root, {"logging.predictions": wanted, "train.num_epochs": 1})
    names = {path.parent.name[:2] for path in root.rglob("conversation.json")}
    assert names == {{"train": "TR", "val": "VA", "test": "TE"}[each] for each in split}
    for path in root.rglob("conversation.json"):
        events = read_json(path)
        assert [event["role"] for event in events] == ["user", "assistant", "system"]
        assert path.parent.name in events[0]["content"]


# the fields


def test_rows_have_the_published_fields(golden: tuple[Path, World, Ending]) -> None:
    root, _, _ = golden
    for row in rows(root):
        expected = {*ROW_ALWAYS, *ROW_NEW}
        if row["action"] != "skip_no_patches":
            expected |= {*ROW_WITH_PATCHES, *ROW_GATED, *ROW_NEW_GATED}
        assert keys(row) == expected
        assert read_json(root / f"steps/step_{row['step']:04d}/step_record.json") == row
        for batch in row["accumulation_batches"]:
            assert keys(batch) == {*BATCH}
        for stage in row["tokens"].values():
            assert keys(stage) == {*TOKENS}
        two = {"rollout_s", "reflect_s"}
        rest = {"aggregate_s", "select_s", "update_s"} if row["action"] != "skip_no_patches" else set()
        assert two | rest <= keys(row["timing"]) <= two | rest | {"evaluate_s"}


def test_a_row_says_what_a_curve_needs(golden: tuple[Path, World, Ending]) -> None:
    root, _, _ = golden
    for row in rows(root):
        skipped = row["action"].startswith("skip")
        assert row["train_hard"] == row["rollout_hard"]
        assert (row["val_hard"] is None) == skipped
        if not skipped:
            assert (row["val_hard"], row["val_soft"]) == (row["selection_hard"], row["selection_soft"])
        assert row["cost_usd"] is None
        columns = list(flattened(row))
        first = next(name for name in columns if "token" in name)
        assert first == "tokens_total"
        tokens = row["tokens"].values()
        assert row["tokens_total"] == sum(each["prompt_tokens"] + each["completion_tokens"] for each in tokens)
        assert not any("worker" in name for name in columns)


def flattened(value: Any, prefix: str = "") -> dict[str, Any]:
    """Columns as a data frame would name them."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, entry in value.items():
            found |= flattened(entry, f"{prefix}.{key}" if prefix else key)
        return found
    return {prefix: value}


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from numbers(entry)
    elif isinstance(value, float):
        yield value


def test_every_json_file_is_utf8_without_nan_and_ends_a_line(golden: tuple[Path, World, Ending]) -> None:
    root, _, _ = golden
    files = [path for path in root.rglob("*") if path.suffix in (".json", ".jsonl")]
    assert len(files) > 30
    for path in files:
        text = path.read_bytes().decode()
        assert text.endswith("\n")
        assert "\r" not in text
        documents = text.splitlines() if path.suffix == ".jsonl" else [text]
        for document in documents:
            assert all(math.isfinite(number) for number in numbers(json.loads(document))), path


def test_the_totals_count_every_call_once(golden: tuple[Path, World, Ending]) -> None:
    root, world, _ = golden
    summary = read_json(root / "summary.json")
    assert summary["token_summary"]["_total"]["calls"] == len(world.work())
    assert {stage: each["calls"] for stage, each in summary["token_summary"].items() if stage != "_total"} == {
        stage: count for stage, count in world.stages().items() if stage != "probe"
    }
    assert summary["requests"] == {"ok": len(world.calls)}
    of_steps = sum(row["tokens_total"] for row in rows(root))
    assert 0 < of_steps < summary["token_summary"]["_total"]["total_tokens"]
    assert len({call.key for call in world.work()}) == len(world.work()), "nothing was asked twice"


def test_the_summary_has_the_published_fields(golden: tuple[Path, World, Ending]) -> None:
    root, _, ending = golden
    summary = read_json(root / "summary.json")
    assert keys(summary) == {*SUMMARY, *SUMMARY_NEW}
    assert summary == json.loads(json.dumps(ending.summary))
    assert all(keys(each) == {*EPOCH_STATS} for each in summary["epoch_stats"])
    assert all(keys(each) == {*TOKENS, "total_tokens"} for each in summary["token_summary"].values())
    assert re.fullmatch(r"skillopt-\d+\.\d+\.\d+\S*", summary["version"])
    facts = {key: summary[key] for key in ("stop_reason", "no_improvement_reason", "best_step", "best_origin")}
    assert facts == {
        "stop_reason": "completed",
        "no_improvement_reason": None,
        "best_step": 2,
        "best_origin": "step_0002",
    }
    assert (summary["total_steps"], summary["total_accepts"], summary["total_rejects"], summary["total_skips"]) == (
        *(4, 2, 0, 2),
    )
    assert (summary["baseline_selection_hard"], summary["best_selection_hard"]) == (0.25, 1.0)
    assert summary["test_delta_hard"] == pytest.approx(summary["test_hard"] - summary["baseline_test_hard"])
    assert (summary["selection_n"], summary["test_n"], summary["test_lift"]["n"]) == (4, 3, 3)


def test_the_state_points_into_the_folder(golden: tuple[Path, World, Ending]) -> None:
    root, _, _ = golden
    state = read_json(root / "runtime_state.json")
    assert keys(state) == {*STATE}
    assert state["last_completed_step"] == 4
    assert state["current_skill_path"] == "skills/skill_v0004.md"
    assert state["best_skill_path"] == "best_skill.md"
    for name in ("current_skill_path", "best_skill_path"):
        assert not Path(state[name]).is_absolute()
        assert (root / state[name]).exists()
    assert (state["current_score"], state["best_score"]) == (1.0, 1.0)


def test_the_configuration_is_flat_and_resolved(golden: tuple[Path, World, Ending]) -> None:
    root, _, _ = golden
    config = read_json(root / "config.json")
    found = {key: config[key] for key in ("env", "edit_budget", "train_size", "steps_per_epoch", "target_model")}
    assert found == {
        "env": "world",
        "edit_budget": 2,
        "train_size": 6,
        "steps_per_epoch": 2,
        "target_model": "small-target",
    }
    assert (config["optimizer_backend"], config["target_backend"]) == ("openai", "openai")


def test_the_artifacts_of_a_step_have_the_published_fields(golden: tuple[Path, World, Ending]) -> None:
    root, _, _ = golden
    step = root / "steps/step_0001"
    patch = read_json(step / "patches/minibatch_fail_000.json")
    assert {"batch_size", "failure_summary", "patch", "source_type"} <= keys(patch)
    assert {"reasoning", "edits"} <= keys(patch["patch"])
    assert patch["source_type"] == "failure"
    merged = read_json(step / "merged_patch.json")
    assert keys(merged) == {"reasoning", "edits"}
    assert keys(merged["edits"][0]) == {"op", "content", "support_count", "source_type", "merge_level"}
    ranked = read_json(step / "ranked_edits.json")
    assert {"reasoning", "edits"} <= keys(ranked) <= {"reasoning", "edits", "ranking_details"}
    report = read_json(step / "edit_apply_report.json")
    assert [keys(each) for each in report] == [{*REPORT}] * 2
    assert [(each["index"], each["status"]) for each in report] == [(1, "applied_append"), (2, "applied_append")]
    digest = read_json(step / "trajectory_digest.json")
    assert {"step", "action", "n_total", "n_fail", "failure_patterns"} <= keys(digest)
    assert keys(digest["failure_patterns"][0]) == {"pattern", "count", "task_ids"}
    candidate = Skill.from_bytes((step / "candidate_skill.md").read_bytes())
    row = rows(root)[0]
    assert (row["candidate_hash"], row["candidate_skill_len"]) == (candidate.hash, len(candidate.text))
    assert (root / "skills/skill_v0001.md").read_bytes() == candidate.to_bytes()


def test_the_artifacts_of_an_epoch_have_the_published_fields(golden: tuple[Path, World, Ending]) -> None:
    root, _, _ = golden
    assert read_json(root / "slow_update/epoch_01/slow_result.json") == {"action": "inject_placeholder", "epoch": 1}
    assert read_json(root / "meta_skill/epoch_01/meta_skill_result.json") == {"action": "skip_first_epoch", "epoch": 1}
    slow = read_json(root / "slow_update/epoch_02/slow_result.json")
    assert keys(slow) == {*SLOW}
    assert (slow["update_origin"], slow["action"]) == ("slow_update_momentum", "reject")
    pairs = read_json(root / "slow_update/epoch_02/comparison_pairs.json")
    assert len(pairs) == 3
    for pair in pairs:
        assert keys(pair) == {*PAIR}
        assert keys(pair["prev"]) == keys(pair["curr"]) == {*PAIR_SIDE}
    meta = read_json(root / "meta_skill/epoch_02/meta_skill_result.json")
    assert keys(meta) == {*META}
    assert meta["action"] == "write_meta_skill"


def test_results_are_in_item_order_with_the_published_fields(golden: tuple[Path, World, Ending]) -> None:
    root, _, _ = golden
    for folder, ids in (
        ("selection_eval_baseline", [f"VA-{number:03d}" for number in range(4)]),
        ("test_eval", [f"TE-{number:03d}" for number in range(3)]),
    ):
        found = [
            json.loads(line) for line in (root / folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        assert [row["id"] for row in found] == ids
        for row in found:
            assert {*RESULT} <= keys(row)
            assert row["status"] == "ok"
    overall = read_json(root / "test_eval/summary.json")["overall"]
    assert (overall["total"], overall["errors"]) == (3, 0)


def test_prompts_tell_their_stage_and_hold_what_a_log_reader_needs(golden: tuple[Path, World, Ending]) -> None:
    _, world, _ = golden
    for call in world.calls:
        assert stage_of(call.system) == call.stage
        if call.stage in ("rollout", "analyst", "slow_update", "meta_skill"):
            assert set(codes(call.user)) == set(wants(call.user)), "every prompt about items holds their questions"
    systems = {call.system for call in world.of("rollout")}
    skills = {call.system.partition("## Skill\n")[2] for call in world.of("rollout")}
    assert len(systems) == len(skills), "the target's system message varies with the skill only"


# determinism


def shuffled(seed: int) -> Any:
    def latency(call: Call) -> float:
        return (int(call.key[seed : seed + 4], 16) % 89) / 50

    return latency


@pytest.mark.parametrize(("workers", "seed"), [(1, 3), (2, 5), (32, 7), (32, 11)])
def test_workers_and_latencies_change_no_byte(
    tmp_path: Path, golden: tuple[Path, World, Ending], workers: int, seed: int
) -> None:
    root, world = tmp_path / "run", World(latency=shuffled(seed))
    run(world, root, {"env.workers": workers, "gradient.analyst_workers": workers})
    reference, _, _ = golden
    same = {"workers": 4, "analyst_workers": 4}
    found, expected = (
        {name: content for name, content in tree(folder).items() if name not in ("config.json", "summary.json")}
        for folder in (root, reference)
    )
    assert found == expected
    assert {**read_json(root / "config.json"), **same, "out_root": ""} == {
        **read_json(reference / "config.json"),
        "out_root": "",
    }
    assert stored(root)["replies"] == stored(reference)["replies"]


def test_two_runs_are_one_but_for_their_clocks(tmp_path: Path, golden: tuple[Path, World, Ending]) -> None:
    root = tmp_path / "run"
    run(World(latency=shuffled(2)), root, real_time=False)
    reference, _, _ = golden
    assert tree(root) == tree(reference)
    assert stored(root) == stored(reference)
