"""Train a skill for SearchQA, then score it on the test split:

    python examples/train_searchqa.py SPLIT_DIR OUT_ROOT

SPLIT_DIR is what scripts/materialize_searchqa.py writes. The models are behind OPENAI_API_KEY, or OPENAI_BASE_URL.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import skillopt

CONFIG = "configs/searchqa/default.yaml"


def show(event: str, fields: Mapping[str, Any]) -> None:
    """A listener hears of everything that happens; this one tells the steps."""
    if event == "step_done":
        row = fields["row"]
        print(f"step {row['step']}: {row['action']}, train {row['train_hard']}, best {row['best_score']}")


def main(split_dir: str, out_root: str) -> None:
    data = {"env.split_dir": split_dir}
    run = skillopt.train(
        env="searchqa",
        config=CONFIG,
        target="gpt-5-mini",
        optimizer="gpt-5.2",
        epochs=2,
        out_root=out_root,
        overrides=data,
        listeners=[show],
    )
    print(f"stopped: {run.stop_reason}; lift on the test split: {run.summary['test_lift']}")
    best = run.path / "best_skill.md"
    result = skillopt.evaluate(
        skill=best, env="searchqa", config=CONFIG, target="gpt-5-mini", out_root=f"{out_root}-test", overrides=data
    )
    print(f"{best}: {result.hard:.4f} hard, {result.soft:.4f} soft on {result.n} items ({result.errors} not measured)")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], str(Path(sys.argv[2])))
