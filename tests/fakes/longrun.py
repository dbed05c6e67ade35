"""A long run as a folder, without running it: many steps, many items, texts of some length. Rows as the engine's."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SEED_SKILL = (
    "# Answering\n\nRead the passages. Reply with one short answer.\n\n## Rules\n\n- Take the answer from the text.\n"
)
_RULES = (
    "Give the full name of a person as the passages spell it, without titles.",
    "Answer with the shortest span that names the thing; leave out articles.",
    "Write numbers as digits and years as four digits.",
    "When two passages disagree, trust the one that names the clue's subject.",
    "Expand an abbreviation that the passages expand at least once.",
    "Leave out what stands in parentheses.",
    "Use the singular unless the clue asks for several things.",
    "If no passage names the answer, say the most likely one from the clue.",
)
_WORDS = [
    "strait",
    "harbour",
    "ledger",
    "passage",
    "clerk",
    "voyage",
    "record",
    "archive",
    "copy",
    "flood",
    "navigator",
    "survey",
    "letter",
    "museum",
]


def long_run(root: Path, *, steps: int = 40, epochs: int = 4, test: int = 2_000, val: int = 200, seed: int = 5) -> Path:
    """A finished run of ``steps`` steps that climbs from about 0.45 to 0.7 on ``test`` and ``val`` items."""
    rng = random.Random(seed)
    write(root, "config.json", _config(root, steps, epochs))
    base = [rng.random() for _ in range(val)]
    score = before = _mean(_passes(base, 0.45))
    skill, version, rows = SEED_SKILL, SEED_SKILL, []
    write(root, "skills/skill_v0000.md", SEED_SKILL)
    write(root, "selection_eval_baseline/results.jsonl", _results("val", _passes(base, 0.45), rng))
    best_step = 0
    for number in range(1, steps + 1):
        candidate = _edited(skill, number, rng)
        hoped = 0.45 + 0.27 * (1 - math.exp(-number / 12)) + rng.uniform(-0.06, 0.03)
        found = _mean(_passes(base, hoped))
        action = "skip_no_patches" if number % 13 == 6 else "accept_new_best" if found > score else "reject"
        row = _row(number, epochs, steps, action, found, score, val, rng)
        if action == "accept_new_best":
            score, best_step, skill, version = found, number, candidate, candidate
        row |= {"current_score": score, "best_score": score, "current_origin": f"step_{best_step:04d}"}
        row |= {"best_origin": f"step_{best_step:04d}", "best_step": best_step}
        rows.append(row)
        _step(root, number, action, candidate, version, found, base, hoped, rng)
    write(root, "best_skill.md", skill)
    write(root, "history.json", rows)
    _tests(root, test, rng)
    write(root, "runtime_state.json", {"best_score": score, "best_skill_path": "best_skill.md", "best_step": best_step})
    write(root, "summary.json", _summary(rows, before, score, best_step, val, test))
    return root


def write(root: Path, name: str, content: str | Mapping[str, Any] | Sequence[Any]) -> None:
    """A file of a run; what is no text is written as JSON."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def _step(
    root: Path, number: int, action: str, candidate: str, after: str, found: float, base: list[float], hoped: float,
    rng: random.Random,
) -> None:  # fmt: skip
    below = f"steps/step_{number:04d}"
    write(root, f"skills/skill_v{number:04d}.md", after)
    if action.startswith("skip"):
        return
    edit = {
        "op": "append",
        "content": candidate.rstrip().rpartition("\n")[2],
        "support_count": 5,
        "source_type": "failure",
    }
    write(root, f"{below}/candidate_skill.md", candidate)
    write(root, f"{below}/ranked_edits.json", {"reasoning": "what failed most", "edits": [edit]})
    write(root, f"{below}/edit_apply_report.json", [{"index": 1, "status": "applied_append"}])
    write(root, f"{below}/selection_eval/results.jsonl", _results("val", _passes(base, hoped), rng))


def _tests(root: Path, test: int, rng: random.Random) -> None:
    base = [rng.random() for _ in range(test)]
    luck = [value + rng.uniform(-0.12, 0.12) for value in base]
    write(root, "test_eval_baseline/results.jsonl", _results("test", _passes(base, 0.44), rng))
    write(root, "test_eval/results.jsonl", _results("test", _passes(luck, 0.68), rng))
    write(root, "test_eval_final/results.jsonl", _results("test", _passes(luck, 0.68), rng))


def _passes(base: Sequence[float], share: float) -> list[int]:
    return [int(value < share) for value in base]


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values)


def _results(split: str, passes: Sequence[int], rng: random.Random) -> str:
    rows = []
    for index, hard in enumerate(passes):
        answer = "Ondra Velkin" if hard else rng.choice(("Captain Ondra Velkin", "Velkin (Ondra)", "the navigator"))
        text = " ".join(rng.choice(_WORDS) for _ in range(60))
        row = {
            "id": f"{split}-{index:04d}",
            "hard": hard,
            "soft": float(hard) or rng.choice((0.0, 0.5, 0.8)),
            "status": "ok",
            "predicted_answer": answer,
            "fail_reason": "" if hard else "the answer is not one of the expected ones",
            "question": f"Clue {index}: this navigator charted the southern {rng.choice(_WORDS)} named in the archive",
            "gold_answers": ["Ondra Velkin"],
            "response": f"The passages speak of a {text}.\n<answer>{answer}</answer>",
        }
        rows.append(json.dumps(row))
    return "\n".join(rows) + "\n"


def _edited(skill: str, number: int, rng: random.Random) -> str:
    if number % 5 == 0:
        return skill.replace("one short answer", f"one short answer of at most {rng.randint(3, 9)} words")
    return f"{skill}- {rng.choice(_RULES)} (seen in step {number})\n"


def _row(
    number: int, epochs: int, steps: int, action: str, found: float, score: float, val: int, rng: random.Random
) -> dict[str, Any]:
    measured = not action.startswith("skip")
    calls = {"rollout": (val + 16, 180_000, 9_000, 0.031), "analyst": (4, 30_000, 1_500, 0.09)}
    tokens = {
        stage: {"calls": count, "prompt_tokens": prompt, "completion_tokens": completion, "cost_usd": usd}
        for stage, (count, prompt, completion, usd) in calls.items()
    }
    row = {
        "step": number,
        "epoch": (number - 1) * epochs // steps + 1,
        "train_hard": round(min(1.0, max(0.0, score + rng.uniform(-0.15, 0.15))), 4),
        "rollout_n": 40,
        "edit_budget": max(2, round(4 - 2 * number / steps)),
        "action": action,
        "edit_apply_summary": {"total": 1, "applied": int(measured)},
        "tokens": tokens,
        "tokens_total": sum(count[1] + count[2] for count in calls.values()),
        "cost_usd": 0.121,
        "timing": {"rollout_s": 21.5, "reflect_s": 9.0, "aggregate_s": 3.1, "select_s": 1.2, "update_s": 0.0,
                   "evaluate_s": round(rng.uniform(30, 45), 1)},
        "wall_time_s": 68.0,
    }  # fmt: skip
    if measured:
        wins = max(0, round((found - score) * val)) + 6
        verdict = {"action": action, "metric": "hard", "candidate_score": found, "current_score": score, "pairs": val}
        row |= {"val_hard": found, "gate": verdict | {"wins": wins, "losses": wins - round((found - score) * val)}}
    return row


def _config(root: Path, steps: int, epochs: int) -> dict[str, Any]:
    return {
        "env": "searchqa",
        "target_model": "gpt-5-nano",
        "optimizer_model": "gpt-5",
        "num_epochs": epochs,
        "steps_per_epoch": steps // epochs,
        "batch_size": 40,
        "edit_budget": 4,
        "skill_update_mode": "patch",
        "gate_metric": "hard",
        "seed": 42,
        "out_root": str(root),
    }


def _summary(rows: list[dict[str, Any]], before: float, score: float, best: int, val: int, test: int) -> dict[str, Any]:
    origin = f"step_{best:04d}"
    return {
        "version": "skillopt-0.3.0",
        "stop_reason": "completed",
        "baseline_selection_hard": before,
        "best_selection_hard": score,
        "best_step": best,
        "best_origin": origin,
        "current_origin": origin,
        "total_steps": len(rows),
        "selection_n": val,
        "test_n": test,
        "total_wall_time_s": 2_912.4,
    }
