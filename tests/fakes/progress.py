"""Events of a run, as its displays get them."""

from __future__ import annotations

from typing import Any

START = {
    "env": "searchqa",
    "target": "gpt-5.5-mini",
    "optimizer": "gpt-5.5",
    "train": 40,
    "val": 20,
    "test": 40,
    "epochs": 4,
    "steps": 4,
    "out_root": "/runs/outputs/skillopt_searchqa_gpt-5.5_20260101_120000",
    "notes": (),
}
ROW = {
    "step": 1,
    "epoch": 1,
    "action": "accept_new_best",
    "current_score": 0.45,
    "best_score": 0.45,
    "best_step": 1,
    "cost_usd": None,
    "timing": {"rollout_s": 1.0},
    "wall_time_s": 12.0,
}


def item(label: str, done: int, total: int, hard: float | None = 1.0, **more: Any) -> dict[str, Any]:
    """The fields of ``item_done``."""
    measured = {"accuracy": 0.625, "hard": hard, "status": "ok", "error": None}
    return {"label": label, "done": done, "total": total, "id": f"q{done}", **measured, **more}
