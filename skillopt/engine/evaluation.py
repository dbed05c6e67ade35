"""The evaluation of one skill on one split, outside training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillopt.config import Redactor, flatten
from skillopt.engine.context import Context, Priority
from skillopt.engine.evaluate import evaluate, rollout_files
from skillopt.engine.models import OpenClients, journaled, open_clients
from skillopt.engine.passes import Pass
from skillopt.engine.prepare import Prepared, write_splits
from skillopt.engine.resume import EVALUATION, open_run
from skillopt.engine.session import caps_of, grace_of, until_stopped
from skillopt.harness.rows import result_row
from skillopt.models.errors import StopRequested
from skillopt.run.events import Events, Listener
from skillopt.run.folder import RunFolder, dump_json
from skillopt.run.spend import SpendMeter
from skillopt.skill import Skill


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation found: means over the ``n`` measured items (None without any), and a row for each item.

    ``cost_usd`` is what all requests in its folder cost, earlier processes included; None while that is not known.
    """

    root: Path
    split: str
    hard: float | None
    soft: float | None
    n: int
    errors: int
    rows: tuple[Mapping[str, Any], ...]
    cost_usd: float | None = None


async def evaluate_skill(
    prepared: Prepared,
    split: str,
    name: str,
    environ: Mapping[str, str],
    redactor: Redactor,
    listeners: Sequence[Listener],
    connect: OpenClients = open_clients,
) -> EvaluationResult:
    """Evaluates the prepared skill; ``name`` is what ``eval_summary.json`` calls it. ``connect`` opens the model.

    Answers that the folder already holds are not asked again; where it holds all of them, nothing is sent at all. A
    folder with the evaluation of something else is treated by ``runtime.resume_policy``. Raises ``StopRequested`` when
    it could not be ended, and as ``train``.
    """
    with open_run(prepared, EVALUATION, redactor.mask, name) as folder:
        prepared = replace(prepared, skill=Skill(redactor.mask(prepared.skill.text)))
        folder.restore()
        write_splits(prepared.env, folder.root)
        provider = prepared.roles["target"].spec.provider
        config = {"config.json": dump_json({**flatten(prepared.config), "target_backend": provider})}
        folder.commit("config", {}, config)  # by it others see the evaluation while it is at work
        meter = SpendMeter(folder.journal, caps_of(prepared), prices=prepared.prices)
        done = await _evaluate(prepared, split, folder, meter, environ, Events(*listeners), connect)
        evaluation = done.evaluation
        summary = {
            "skill": name,
            "split": split,
            "n_items": len(evaluation.scores),
            "hard": evaluation.hard,
            "soft": evaluation.soft,
            "errors": evaluation.errors,
        }
        predictions = prepared.config.logging.predictions != "none"
        files = rollout_files("", evaluation.rollouts, predictions=predictions)
        files |= {"eval_summary.json": dump_json(summary), **config}
        # With other ``logging.predictions`` an earlier process left files that are no longer asked for.
        folder.remove(path for path in folder.journal.paths() if path not in files)
        folder.commit("evaluation", summary, files, done.scope.keys)
        rows = tuple(result_row(rollout) for rollout in evaluation.rollouts)
        means = evaluation.hard, evaluation.soft
        count = len(evaluation.scores)
        return EvaluationResult(folder.root, split, *means, count, evaluation.errors, rows, meter.cost_usd)


async def _evaluate(
    prepared: Prepared,
    split: str,
    folder: RunFolder,
    meter: SpendMeter,
    environ: Mapping[str, str],
    events: Events,
    connect: OpenClients,
) -> Pass:
    config = prepared.config
    items = [item for rows in prepared.items.values() for item in rows]
    clients = connect(config, prepared.roles, meter, environ, lambda text: events.emit("note", text=text))
    try:
        async with journaled(clients, folder, grace_of(config), prepared.prices) as models:
            scope = Context(config, prepared.env, prepared.items, folder, models, meter, events).scope()
            work = evaluate(scope, prepared.skill, items, label=f"{split} split", priority=Priority.GATE)
            done, stop = await until_stopped(work, meter, events)
    finally:
        meter.save()
    if done is None:
        raise stop or StopRequested("error")
    return Pass(done, scope)
