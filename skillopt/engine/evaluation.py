"""The evaluation of one skill on one split, outside training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.config import Redactor, flatten
from skillopt.engine.context import Context, Priority
from skillopt.engine.evaluate import Evaluation, evaluate, rollout_files
from skillopt.engine.models import check_models, open_models
from skillopt.engine.prepare import Prepared
from skillopt.engine.resume import EVALUATION, open_run
from skillopt.engine.session import caps_of, until_stopped
from skillopt.harness.rows import result_row
from skillopt.models.errors import StopRequested
from skillopt.run.events import Events, Listener
from skillopt.run.folder import dump_json
from skillopt.run.spend import SpendMeter


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation found: means over the ``n`` measured items (None without any), and a row for each item."""

    root: Path
    split: str
    hard: float | None
    soft: float | None
    n: int
    errors: int
    rows: tuple[Mapping[str, Any], ...]


async def evaluate_skill(
    prepared: Prepared,
    split: str,
    name: str,
    environ: Mapping[str, str],
    redactor: Redactor,
    listeners: Sequence[Listener],
) -> EvaluationResult:
    """Evaluates the prepared skill; ``name`` is what ``eval_summary.json`` calls it.

    Answers that the folder already holds are not asked again. Raises ``StopRequested`` when it could not be ended, and
    as ``train``.
    """
    items = [item for rows in prepared.items.values() for item in rows]
    with open_run(prepared, EVALUATION, redactor.mask) as folder:
        meter = SpendMeter(folder.journal, caps_of(prepared))
        events = Events(*listeners)
        say = lambda text: events.emit("note", text=text)  # noqa: E731
        async with open_models(prepared.config, prepared.roles, folder, meter, environ, say) as models:
            context = Context(prepared.config, prepared.env, prepared.items, folder, models, meter, events)
            scope = context.scope()

            async def work() -> Evaluation:
                await check_models(models)
                return await evaluate(scope, prepared.skill, items, label=f"{split} split", priority=Priority.GATE)

            done, stop = await until_stopped(work(), meter, events)
        meter.close()
        if done is None:
            raise stop or StopRequested("error")
        summary = {
            "skill": name,
            "split": split,
            "n_items": len(done.scores),
            "hard": done.hard,
            "soft": done.soft,
            "errors": done.errors,
        }
        files = rollout_files("", done.rollouts, predictions=prepared.config.logging.predictions != "none")
        files["eval_summary.json"] = dump_json(summary)
        files["config.json"] = dump_json(flatten(prepared.config))
        folder.commit("evaluation", summary, files, scope.keys)
        rows = tuple(result_row(rollout) for rollout in done.rollouts)
        return EvaluationResult(folder.root, split, done.hard, done.soft, len(done.scores), done.errors, rows)
