"""The whole instrumented workflow, cell by cell: baseline, training, curves, evolution, report, comparison, export.

Run the cells in an editor or a notebook, or all of them: python examples/instrumented_workflow.py
The model runs on this machine (pip install -e '.[local,report]'). MODEL in the environment names another one, such
as openai/gpt-5-mini. RUN names a finished run to look at instead of training anew, such as outputs/quickstart, which
`skillopt demo` leaves. The same in commands: docs/tutorial.md.
"""

# %%
from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import skillopt
from skillopt.cli import blame, compare, export, log, report
from skillopt.models.errors import StopRequested
from skillopt.report.evolution import diff, unified
from skillopt.report.final import curves_of, read_final, read_flips
from skillopt.report.lineage import skill_named
from skillopt.report.run import read_run

MODEL = os.environ.get("MODEL", "local/qwen2.5-coder-1.5b")
PROVIDER = {"model.backend": "auto"}  # that which MODEL names
CONFIG = "configs/quickstart.yaml"  # the data, the sizes, the first skill
SEED = Path(__file__).resolve().parent.parent / "data/samples/house-style/seed_skill.md"
OUT = Path("outputs/workflow")
say = partial(print, flush=True)  # at once, also into a file


def in_a_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ctrl-C ends in a line: what was finished is saved."""
    if issubclass(kind, KeyboardInterrupt | StopRequested):
        sys.stderr.write("interrupted: the same command goes on from here\n")
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = in_a_line


# %% A listener hears of everything that happens
def watch(event: str, fields: Mapping[str, Any]) -> None:
    if event == "pass_started":
        say(f"{fields['label']}: {fields['total']} items")
    elif event == "step_done":
        row = fields["row"]
        say(f"step {row['step']}: {row['action']}, train {row['train_hard']}, gate {row['val_hard']}")


# %% Baseline: the first skill on the test items. The same call again asks nothing twice
task: dict[str, Any] = {"env": "searchqa", "config": CONFIG, "overrides": PROVIDER, "target": MODEL}
task["listeners"] = [watch]
baseline = skillopt.evaluate(skill=SEED, out_root=OUT / "baseline", **task)
say(f"baseline: {baseline.hard} on {baseline.n} test items, {baseline.errors} not measured")


# %% Training, or a run that there is
run = skillopt.load_run(os.environ["RUN"]) if os.environ.get("RUN") else None
run = run or skillopt.train(skill=SEED, out_root=OUT / "run", **task)
if run.stop_reason != "completed":
    sys.exit(f"{run}; the same command goes on")
say(run)

# %% Curves: the numbers behind the charts
view = read_run(run.path)
curves = curves_of(view)
say(f"baseline on the val items: {curves.baseline}")
for step, row in zip(curves.steps, run.history, strict=True):
    say(f"step {step}: edit budget {row.get('edit_budget')}, tokens {row['tokens_total']:,}, cost {row['cost_usd']}")

# %% Evolution: what changed in the skill, and where each line comes from
seed, best = skill_named(view, "seed"), skill_named(view, "best")
say("\n".join(unified(diff(seed.text, best.text, seed.name, best.name))))
log.main([str(run.path)])
blame.main([str(run.path)])

# %% Report: report.html and training_dashboard.png
report.main([str(run.path)])

# %% Final comparison: paired, on items that training never saw
final = read_final(view, "test")
for arm in final.arms if final else ():
    say(arm.name, arm.hard, arm.lift)
flips = read_flips(view, "test")
for flip in flips.fixed[:3] if flips else ():
    say(f"fixed: {flip.id}: {flip.before.answer!r} -> {flip.after.answer!r}")

skill = run.path / "best_skill.md"
again = skillopt.evaluate(skill=skill, out_root=OUT / "best", **task)
say(f"best skill: {again.hard} on {again.n} test items, {again.errors} not measured")
compare.main([str(OUT / "baseline"), str(OUT / "best")])

# %% Export: the best skill as an Agent Skill
about = "Answers questions about a passage in the house style. Use when a passage and a question are given."
place = OUT / "house-style"
export.main(
    [str(run.path), "--to", "file", "--out", str(place), "--name", "house-style", "--description", about, "--yes"]
)
export.main(["--check", str(place)])
