"""Train and evaluate skills from Python, without a configuration file."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from skillopt.concurrency import run
from skillopt.config import Redactor, load_config, read_environment
from skillopt.engine.evaluation import EvaluationResult, evaluate_skill
from skillopt.engine.prepare import prepare_evaluation, prepare_training, read_skill
from skillopt.engine.session import Ending
from skillopt.engine.session import train as train_session
from skillopt.envs.base import Env
from skillopt.run.events import Listener
from skillopt.skill import Skill

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """A training run on disk. Everything is read from its folder, so a folder that was moved or copied works too."""

    path: Path

    @property
    def best_skill(self) -> str:
        """The text of the best skill so far."""
        return Skill.from_bytes((self.path / "best_skill.md").read_bytes()).text

    @property
    def history(self) -> list[dict[str, Any]]:
        """One row a step, in order."""
        return list(self._json("history.json", []))

    @property
    def summary(self) -> dict[str, Any]:
        """``summary.json``; empty while the run has not ended or stopped."""
        return dict(self._json("summary.json", {}))

    def __str__(self) -> str:
        """Where the run is, how it ended and what it scored, in one line."""
        summary = self.summary
        if not summary:
            return f"run {self.path}: not ended"
        why = summary["no_improvement_reason"]
        test = f"test {summary['baseline_test_hard']} -> {summary['test_hard']}"
        scores = f"{test}, best on selection {summary['best_selection_hard']}"
        return f"run {self.path}: {summary['stop_reason']}, {scores}" + (f", no improvement: {why}" if why else "")

    @property
    def stop_reason(self) -> str | None:
        """``completed``, or why the run stopped early; None while it has not ended."""
        return self.summary.get("stop_reason")

    @property
    def cost_usd(self) -> float | None:
        """What all requests of the run cost, in US dollars; None while it has not ended, and where a part of it is not
        known: ``summary["cost_summary"]`` says which."""
        costs: dict[str, dict[str, float | None]] = self.summary.get("cost_summary", {})
        return costs["_total"]["cost_usd"] if costs else None

    def _json(self, name: str, default: Any) -> Any:
        path = self.path / name
        return json.loads(path.read_text(encoding="utf-8-sig")) if path.exists() else default


class TrainingStopped(RuntimeError):
    """A training run that ended badly: a model that does not answer, or too many failed calls. Its finished work is
    kept in ``run``; the same call goes on from there."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(f"{ending.detail or ending.reason} (run folder: {ending.root})")
        self.run = Run(ending.root)
        self.reason = ending.reason


def load_run(path: str | os.PathLike[str]) -> Run:
    """The run in a folder, finished or not. Raises ``FileNotFoundError`` when there is none."""
    root = Path(path)
    if not (root / "config.json").exists():
        raise FileNotFoundError(f"{root} is not a run folder: it has no config.json")
    return Run(root)


def train(
    *,
    skill: str | os.PathLike[str] | Skill = "",
    env: Env | str,
    target: str = "",
    optimizer: str = "",
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: int | None = None,
    workers: int | None = None,
    seed: int | None = None,
    out_root: str | os.PathLike[str] = "outputs/skillopt",
    config: str | os.PathLike[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    listeners: Sequence[Listener] = (),
    environ: Mapping[str, str] | None = None,
) -> Run:
    """Trains ``skill`` on ``env`` and returns the finished run.

    ``skill`` is a Markdown text, a path of a Markdown file, or a ``Skill``; '' starts from nothing. ``env`` is an
    environment (see ``skillopt.make_env``) or the name of a built-in one. ``target`` and ``optimizer`` name models
    (``"gpt-5-mini"``, ``"openai/gpt-5-mini"``, ``"local/qwen2.5-coder-1.5b"``); the optimizer is the target unless
    named. Other keys go into ``overrides`` (``{"gradient.minibatch_size": 4}``) or a ``config`` file. ``environ``
    (default: the process's, and ``.env``) holds the API keys.

    The same call again resumes: it pays for nothing twice. Ctrl-C, or a spent budget, returns the run so far; see
    ``Run.stop_reason``. Raises ``TrainingStopped`` when the run ends badly, and ``ConfigError``, ``DataError``,
    ``ProviderError``, ``FolderError``, ``ResumeError`` or ``RoleError`` before any work is sent.
    """
    values = {
        "model.target": target,
        "model.optimizer": optimizer or target,
        "train.num_epochs": epochs,
        "train.batch_size": batch_size,
        "train.seed": seed,
        "optimizer.learning_rate": learning_rate,
        "env.workers": workers,
        "env.out_root": os.path.expanduser(out_root),
    }
    environ = _environment(environ)
    loaded, own_env = _configuration(config, values, overrides, env, environ)
    prepared = prepare_training(loaded, environ, env=own_env, skill=_skill(skill) if skill else None)
    ending = _run(train_session(prepared, environ, Redactor.collect(environ, loaded), listeners))
    if ending.reason in ("error", "error_rate"):
        raise TrainingStopped(ending)
    return Run(ending.root)


def evaluate(
    *,
    skill: str | os.PathLike[str] | Skill,
    env: Env | str,
    target: str = "",
    split: str = "test",
    workers: int | None = None,
    out_root: str | os.PathLike[str] = "",
    config: str | os.PathLike[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    listeners: Sequence[Listener] = (),
    environ: Mapping[str, str] | None = None,
) -> EvaluationResult:
    """Scores ``skill`` on a split of ``env`` (``train``, ``val``, ``test`` or ``all``); arguments as in ``train``.

    Without an ``out_root`` each evaluation has a folder of its own, ``outputs/evaluation`` or one beside it. One that
    is named and holds the evaluation of another skill, model or other items is refused (``ResumeError``), unless
    ``runtime.resume_policy`` says otherwise.
    """
    values: dict[str, Any] = {"model.target": target, "env.workers": workers}
    if out_root:
        values["env.out_root"] = os.path.expanduser(out_root)
    else:
        values |= {"env.out_root": "outputs/evaluation", "runtime.resume_policy": "fork"}
    environ = _environment(environ)
    loaded, own_env = _configuration(config, values, overrides, env, environ)
    prepared = prepare_evaluation(loaded, environ, _skill(skill), split, env=own_env)
    name = os.fspath(skill) if isinstance(skill, os.PathLike) else prepared.skill.hash
    return _run(evaluate_skill(prepared, split, name, environ, Redactor.collect(environ, loaded), listeners))


def _environment(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return read_environment(Path.cwd(), os.environ) if environ is None else environ


def _configuration(
    config: str | os.PathLike[str] | None,
    values: Mapping[str, Any],
    overrides: Mapping[str, Any] | None,
    env: Env | str,
    environ: Mapping[str, str],
) -> tuple[Any, Env | None]:
    """The configuration, and the environment when it is an object of the caller's."""
    flags = {key: value for key, value in values.items() if value not in (None, "")}
    flags |= {"env.name": env if isinstance(env, str) else env.name} | dict(overrides or {})
    loaded = load_config(Path(config) if config else None, (), flags, environ=environ)
    return loaded, None if isinstance(env, str) else env


def _skill(skill: str | os.PathLike[str] | Skill) -> Skill:
    """A path names a file; so does a one-line string that is the path of one, or ends like one. Any other string is the
    text."""
    if isinstance(skill, Skill):
        return skill
    if isinstance(skill, os.PathLike):
        return read_skill(os.fspath(skill), "skill")
    if "\n" not in skill and len(skill) < 1000 and (skill.endswith(".md") or Path(skill).is_file()):
        return read_skill(skill, "skill")
    return Skill(skill)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Runs to the end, in a notebook too, whose own event loop is running: then in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run, work).result()
