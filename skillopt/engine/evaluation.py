"""The evaluation of one skill on one split, outside training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillopt.config import Redactor, flatten
from skillopt.engine.context import Context, Priority
from skillopt.engine.evaluate import evaluate, rollout_files
from skillopt.engine.models import Models, OpenClients, check_models, journaled, open_clients
from skillopt.engine.passes import Pass
from skillopt.engine.prepare import Prepared
from skillopt.engine.resume import EVALUATION, open_run
from skillopt.engine.session import caps_of, grace_of, until_stopped
from skillopt.harness.rows import result_row
from skillopt.models.errors import StopRequested
from skillopt.models.types import ModelSpec, Reply, Request
from skillopt.run.events import Events, Listener
from skillopt.run.folder import RunFolder, dump_json
from skillopt.run.journaled import JournaledModel
from skillopt.run.spend import Caps, SpendMeter
from skillopt.skill import Skill


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
    connect: OpenClients = open_clients,
) -> EvaluationResult:
    """Evaluates the prepared skill; ``name`` is what ``eval_summary.json`` calls it. ``connect`` opens the model.

    Answers that the folder already holds are not asked again; where it holds all of them, nothing is sent at all.
    Raises ``StopRequested`` when it could not be ended, and as ``train``.
    """
    with open_run(prepared, EVALUATION, redactor.mask) as folder:
        prepared = replace(prepared, skill=Skill(redactor.mask(prepared.skill.text)))
        folder.restore()
        done = await _from_folder(prepared, folder)
        if done is None:
            done = await _asked(prepared, split, folder, environ, Events(*listeners), connect)
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
        files["eval_summary.json"] = dump_json(summary)
        files["config.json"] = dump_json(flatten(prepared.config))
        folder.commit("evaluation", summary, files, done.scope.keys)
        rows = tuple(result_row(rollout) for rollout in evaluation.rollouts)
        means = evaluation.hard, evaluation.soft
        return EvaluationResult(folder.root, split, *means, len(evaluation.scores), evaluation.errors, rows)


async def _from_folder(prepared: Prepared, folder: RunFolder) -> Pass | None:
    """The evaluation out of the answers that the folder holds; None when one is missing."""
    models: Models = {
        role: JournaledModel(_NoModel(found.spec), folder.journal) for role, found in prepared.roles.items()
    }
    meter = SpendMeter(folder.journal, Caps())
    try:
        return await _evaluated(prepared, "stored answers", folder, models, meter, Events())
    except _NotStored:
        return None


async def _asked(
    prepared: Prepared,
    split: str,
    folder: RunFolder,
    environ: Mapping[str, str],
    events: Events,
    connect: OpenClients,
) -> Pass:
    """The evaluation by the model."""
    config = prepared.config
    meter = SpendMeter(folder.journal, caps_of(prepared))
    clients = connect(config, prepared.roles, meter, environ, lambda text: events.emit("note", text=text))
    try:
        async with journaled(clients, folder, grace_of(config)) as models:

            async def work() -> Pass:
                await check_models(models)
                return await _evaluated(prepared, f"{split} split", folder, models, meter, events)

            done, stop = await until_stopped(work(), meter, events)
    finally:
        meter.close()
    if done is None:
        raise stop or StopRequested("error")
    return done


async def _evaluated(
    prepared: Prepared, label: str, folder: RunFolder, models: Models, meter: SpendMeter, events: Events
) -> Pass:
    items = [item for rows in prepared.items.values() for item in rows]
    scope = Context(prepared.config, prepared.env, prepared.items, folder, models, meter, events).scope()
    return Pass(await evaluate(scope, prepared.skill, items, label=label, priority=Priority.GATE), scope)


class _NotStored(Exception):
    """An answer that the folder does not hold."""


@dataclass
class _NoModel:
    """Stands in for the model while the folder alone is asked."""

    spec: ModelSpec

    async def complete(self, request: Request) -> Reply:
        raise _NotStored
