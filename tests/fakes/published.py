"""A run folder as the published implementation leaves it: its files, written by hand.

No journal, no events, no analysis; absolute paths of another machine, a key in clear text, edits applied by other rules
than ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

KEY = "sk-published-0123456789"
SEED = "# Skill\n\n- Answer the question.\n"
APPENDED = "- Use digits.\n- Name the unit."
REJECTED = "- Shout."
REPLACED = "- Answer the question in three words."
GUIDANCE = "Keep answers short."
START, END = "<!-- SLOW_UPDATE_START -->", "<!-- SLOW_UPDATE_END -->"
BLOCK = f"\n{START}\n{END}\n"

V1 = f"# Skill\n\n- Answer the question.\n\n\n{APPENDED}\n"
V1_PLACEHOLDER = V1 + BLOCK
CANDIDATE_2 = V1_PLACEHOLDER.replace("\n\n\n", "\n\n").replace(BLOCK, f"\n{REJECTED}\n{BLOCK}")
CANDIDATE_3 = V1_PLACEHOLDER.replace("- Answer the question.", REPLACED)
V3 = CANDIDATE_3.replace(f"{START}\n", f"{START}\n{GUIDANCE}\n")

TRAIN, VAL, TEST = ("train1", "train2", "train3"), ("val1", "val2", "val3", "val4"), (1, 2, 3, 4)
"""Item ids; those of the test split are numbers."""


def published_run(root: Path, *, finished: bool = True) -> Path:
    """Two epochs of two steps and one: accepted, rejected, accepted, then guidance that was let in unmeasured."""
    _write(root, "config.json", _config())
    history = [
        _row(1, "accept_new_best", 0.5, 0.5),
        _row(2, "reject", 0.25, 0.5),
        _row(3, "accept_new_best", 0.75, 0.75),
    ]
    _write(root, "history.json", history)
    _write(root, "runtime_state.json", _pointers())
    for number, text in enumerate((SEED, V1, V1_PLACEHOLDER, V3)):
        _text(root, f"skills/skill_v{number:04d}.md", text)
    _text(root, "best_skill.md", CANDIDATE_3)
    _results(root, "selection_eval_baseline", VAL, [1, 0, 0, 0])
    _step(root, history[0], V1, [1, 1, 0, 0], _append(APPENDED), "applied_append")
    _step(root, history[1], CANDIDATE_2, [1, 0, 0, 0], _append(REJECTED), "applied_append_before_slow_update")
    edit = {"op": "replace", "target": "- Answer the question.", "content": REPLACED}
    _step(root, history[2], CANDIDATE_3, [1, 1, 1, 0], edit, "applied_replace")
    _epochs(root)
    if finished:
        for folder, hard in (
            ("test_eval_baseline", [0, 0, 0, 1]),
            ("test_eval", [1, 1, 1, 0]),
            ("test_eval_final", [1, 1, 0, 0]),
        ):
            _results(root, folder, TEST, hard)
            _write(root, f"{folder}/summary.json", {"overall": {"total": 4, "hard_acc": sum(hard) / 4}})
        _write(root, "summary.json", _summary())
    return root


def published_evaluation(root: Path) -> Path:
    """An evaluation: the rollouts lie at the top."""
    _results(root, "", TEST, [1, 1, 1, 1])
    summary = {"skill": "/home/someone/skill.md", "split": "valid_unseen", "n_items": 4, "hard": 1.0, "soft": 1.0}
    _write(root, "eval_summary.json", summary)
    return root


def _config() -> dict[str, Any]:
    keys = {"azure_openai_api_key": KEY, "openai_base_url": f"https://user:{KEY}@host/v1"}
    return {"env": "searchqa", "num_epochs": 2, "steps_per_epoch": 2, "seed": 42, "skill_update_mode": "patch", **keys}


def _pointers() -> dict[str, Any]:
    return {
        "last_completed_step": 3,
        "current_skill_path": "/home/someone/outputs/run/skills/skill_v0003.md",
        "current_score": 0.75,
        "current_origin": "slow_update_epoch_02",
        "best_skill_path": "/home/someone/outputs/run/best_skill.md",
        "best_score": 0.75,
        "best_step": 3,
        "best_origin": "step_0003",
    }


def _summary() -> dict[str, Any]:
    return {
        "version": "skillopt-0.1.0",
        "baseline_selection_hard": 0.25,
        "best_selection_hard": 0.75,
        "best_step": 3,
        "current_origin": "slow_update_epoch_02",
        "best_origin": "step_0003",
        "baseline_test_hard": 0.25,
        "baseline_test_soft": 0.25,
        "test_hard": 0.75,
        "test_soft": 0.75,
        "final_test_hard": 0.5,
        "final_test_soft": 0.5,
        "token_summary": {
            "rollout": {"calls": 30, "prompt_tokens": 3000, "completion_tokens": 300, "total_tokens": 3300},
            "analyst": {"calls": 6, "prompt_tokens": 600, "completion_tokens": 60, "total_tokens": 660},
            "_total": {"calls": 36, "prompt_tokens": 3600, "completion_tokens": 360, "total_tokens": 3960},
        },
        "config": _config(),
    }


def _row(step: int, action: str, score: float, current: float) -> dict[str, Any]:
    return {
        "step": step,
        "epoch": 1 if step < 3 else 2,
        "step_in_epoch": step if step < 3 else 1,
        "timing": {"rollout_s": 2.0, "reflect_s": 1.5, "evaluate_s": 3.0},
        "tokens": {
            "rollout": {"calls": 7, "prompt_tokens": 700, "completion_tokens": 70},
            "analyst": {"calls": 2, "prompt_tokens": 200, "completion_tokens": 20},
        },
        "rollout_hard": 0.333333,
        "rollout_soft": 0.5,
        "rollout_n": 3,
        "n_patches": 1,
        "n_edits_merged": 1,
        "n_edits_ranked": 1,
        "edit_budget": 4 - step,
        "lr_control_mode": "fixed",
        "support_counts": [2],
        "edit_apply_summary": {"total": 1, "applied": 1, "skipped": 0, "errors": 0},
        "selection_hard": score,
        "selection_soft": score,
        "gate_metric": "hard",
        "candidate_gate_score": score,
        "action": action,
        "current_score": current,
        "best_score": current,
        "best_step": 1 if step < 3 else 3,
        "current_origin": "step_0001" if step < 3 else "step_0003",
        "best_origin": "step_0001" if step < 3 else "step_0003",
        "wall_time_s": 6.5,
    }


def _append(content: str) -> dict[str, str]:
    return {"op": "append", "target": "", "content": content}


def _step(
    root: Path, row: Mapping[str, Any], candidate: str, hard: Sequence[int], edit: Mapping[str, str], status: str
) -> None:
    below = f"steps/step_{row['step']:04d}"
    patch = {"reasoning": "what was missing", "edits": [edit]}
    _write(
        root,
        f"{below}/patches/minibatch_fail_000.json",
        {"failure_summary": [], "patch": patch, "source_type": "failure"},
    )
    stamped = {**edit, "support_count": 2, "source_type": "failure", "merge_level": 1}
    _write(root, f"{below}/merged_patch.json", {"reasoning": "merged", "edits": [stamped]})
    _write(root, f"{below}/ranked_edits.json", {"reasoning": "ranked", "edits": [stamped]})
    report = {
        "op": edit["op"],
        "target": edit["target"],
        "content_preview": edit["content"],
        "status": status,
        "index": 1,
    }
    _write(root, f"{below}/edit_apply_report.json", [report])
    _write(root, f"{below}/step_record.json", row)
    _text(root, f"{below}/candidate_skill.md", candidate)
    _results(root, f"{below}/rollout", TRAIN, [1, 0, 0])
    _write(root, f"{below}/rollout/predictions/train1/conversation.json", [{"role": "user", "content": "question"}])
    _results(root, f"{below}/selection_eval", VAL, hard)


def _epochs(root: Path) -> None:
    _write(root, "slow_update/epoch_01/slow_result.json", {"action": "inject_placeholder", "epoch": 1})
    _write(root, "meta_skill/epoch_01/meta_skill_result.json", {"action": "skip_first_epoch", "epoch": 1})
    slow = {"reasoning": "r", "slow_update_content": GUIDANCE, "time_s": 1.0, "prev_hard": 0.5, "curr_hard": 0.7}
    _write(root, "slow_update/epoch_02/slow_result.json", {**slow, "action": "force_accept"})
    _text(root, "slow_update/epoch_02/candidate_skill.md", V3)
    pair = {"id": "train1", "task": "q", "category": "stable_success", "prev": {"hard": 1}, "curr": {"hard": 1}}
    _write(root, "slow_update/epoch_02/comparison_pairs.json", [pair])


def _results(root: Path, folder: str, ids: Sequence[str | int], hard: Sequence[int]) -> None:
    rows = [
        {
            "id": id_,
            "hard": score,
            "soft": float(score),
            "predicted_answer": f"answer {id_}" if score else "nothing",
            "fail_reason": "" if score else "wrong",
            "question": f"question {id_}",
            "gold_answers": [f"answer {id_}"],
        }
        for id_, score in zip(ids, hard, strict=True)
    ]
    _text(
        root, f"{folder}/results.jsonl" if folder else "results.jsonl", "".join(json.dumps(row) + "\n" for row in rows)
    )


def _write(root: Path, name: str, value: Any) -> None:
    _text(root, name, json.dumps(value, indent=2))


def _text(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
