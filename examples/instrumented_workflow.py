"""The whole instrumented workflow, cell by cell: baseline, training, curves, evolution, report, comparison, export.

Run the cells in an editor or a notebook, or all of them: python examples/instrumented_workflow.py
The model runs on this machine (pip install 'skillopt[local,report]'). MODEL in the environment names another one, such
as openai/gpt-5.5-mini. The same in commands: docs/tutorial.md.
"""

# %%
from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import skillopt
from skillopt.cli import blame, compare, export, log, report
from skillopt.report.evolution import diff, unified
from skillopt.report.final import curves_of, read_final, read_flips
from skillopt.report.lineage import skill_named
from skillopt.report.run import read_run

MODEL = os.environ.get("MODEL", "local/qwen2.5-coder-1.5b")
PROVIDER = {"model.backend": "auto"}  # that which MODEL names
CONFIG = "configs/quickstart.yaml"  # the data, the sizes, the first skill
SEED = Path(__file__).resolve().parent.parent / "data/samples/house-style/seed_skill.md"
OUT = Path("outputs/workflow")

# %% Baseline: the first skill on the test items
baseline = skillopt.evaluate(
    skill=SEED, env="searchqa", config=CONFIG, overrides=PROVIDER, target=MODEL, out_root=OUT / "baseline"
)
print(f"baseline: {baseline.hard} on {baseline.n} test items, {baseline.errors} not measured")


# %% Training: a listener hears of everything that happens. The same call again asks nothing twice
def watch(event: str, fields: Mapping[str, Any]) -> None:
    if event == "step_done":
        row = fields["row"]
        print(f"step {row['step']}: {row['action']}, train {row['train_hard']}, gate {row['val_hard']}")


run = skillopt.train(
    skill=SEED,
    env="searchqa",
    config=CONFIG,
    overrides=PROVIDER,
    target=MODEL,
    out_root=OUT / "run",
    listeners=[watch],
)
print(run)

# %% Curves: the numbers behind the charts
view = read_run(run.path)
curves = curves_of(view)
print(f"baseline on the val items: {curves.baseline}")
for step, row in zip(curves.steps, run.history, strict=True):
    print(f"step {step}: edit budget {row.get('edit_budget')}, tokens {row['tokens_total']:,}, cost {row['cost_usd']}")

# %% Evolution: what changed in the skill, and where each line comes from
seed, best = skill_named(view, "seed"), skill_named(view, "best")
print("\n".join(unified(diff(seed.text, best.text, seed.name, best.name))))
log.main([str(run.path)])
blame.main([str(run.path)])

# %% Report: report.html and training_dashboard.png
report.main([str(run.path)])

# %% Final comparison: paired, on items that training never saw
final = read_final(view, "test")
for arm in final.arms if final else ():
    print(arm.name, arm.hard, arm.lift)
flips = read_flips(view, "test")
for flip in flips.fixed[:3] if flips else ():
    print(f"fixed: {flip.id}: {flip.before.answer!r} -> {flip.after.answer!r}")

skill = run.path / "best_skill.md"
again = skillopt.evaluate(
    skill=skill, env="searchqa", config=CONFIG, overrides=PROVIDER, target=MODEL, out_root=OUT / "best"
)
print(f"best skill: {again.hard} on {again.n} test items, {again.errors} not measured")
compare.main([str(OUT / "baseline"), str(OUT / "best")])

# %% Export: the best skill as an Agent Skill
about = "Answers questions about a passage in the house style. Use when a passage and a question are given."
place = OUT / "house-style"
export.main(
    [str(run.path), "--to", "file", "--out", str(place), "--name", "house-style", "--description", about, "--yes"]
)
export.main(["--check", str(place)])
