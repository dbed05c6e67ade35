"""Weights & Biases: metrics over ``<prefix>step``, texts as artifacts. Joins ``wandb.run``, else makes its own run."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from skillopt.config import ConfigError
from skillopt.config.errors import Problem, Source
from skillopt.trackers.base import Entry, Open, Outcome, Start

PROJECT = "skillopt"


def find(environ: Mapping[str, str]) -> Open:
    """Raises ``ImportError``, and ``ConfigError`` when a run of our own would ask a person for a key."""
    import wandb

    talks = wandb.run is None and environ.get("WANDB_MODE", "online") in ("", "online", "shared")
    if talks and not environ.get("WANDB_API_KEY") and not _logged_in(wandb):
        said = "logging.trackers: wandb has no key; type `wandb login`, set WANDB_API_KEY, or set WANDB_MODE=offline"
        raise ConfigError(Problem(said, Source.key("logging.trackers"), command="wandb login"))
    return partial(WandbTracker, environ, wandb.run)


def _logged_in(wandb: Any) -> bool:
    try:
        return bool(wandb.login(prompt=False))
    except TypeError:  # before 0.31 it always asks
        return bool(wandb.api.api_key)


class WandbTracker:
    """Logs to the run ``host``, or, when that is None, to one of its own in the project ``WANDB_PROJECT``."""

    def __init__(self, environ: Mapping[str, str], host: Any, start: Start) -> None:
        self._own = host is None
        self._run = _own_run(environ, start) if host is None else host
        self._prefix = start.prefix
        self._known: set[str] = set()
        self.run = str(self._run.id)

    def log(self, entry: Entry) -> None:
        step = f"{self._prefix}step"
        for name in entry.metrics.keys() - self._known:
            # An axis of our own: the host's run counts its steps otherwise, and refuses to go back.
            self._run.define_metric(name, step_metric=step)
            self._known.add(name)
        if entry.metrics:
            self._run.log({**entry.metrics, step: entry.step})
        if entry.texts:
            self._log_texts(entry)

    def close(self, outcome: Outcome) -> None:
        if self._own:
            self._run.finish(exit_code=0 if outcome == "finished" else 1)

    def _log_texts(self, entry: Entry) -> None:
        import wandb

        label = re.sub(r"[^\w.-]+", "-", self._prefix).strip("-") or PROJECT
        artifact: Any = wandb.Artifact(f"{label}-{self.run}", type="skillopt")
        for name, text in entry.texts.items():
            with artifact.new_file(name, mode="w", encoding="utf-8") as handle:
                handle.write(text)
        self._run.log_artifact(artifact, aliases=["latest", f"step-{entry.step}"])


def _own_run(environ: Mapping[str, str], start: Start) -> Any:
    import wandb

    mode: Any = environ.get("WANDB_MODE") or None
    settings = wandb.Settings(
        # The terminal is the live view's, and the command line and the surroundings of a user are their own business.
        console="off",
        silent=True,
        disable_code=True,
        disable_git=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
        api_key=environ.get("WANDB_API_KEY") or None,
    )
    return wandb.init(
        project=environ.get("WANDB_PROJECT") or PROJECT,
        entity=environ.get("WANDB_ENTITY") or None,
        mode=mode,
        dir=environ.get("WANDB_DIR") or str(start.root),
        name=start.name,
        id=start.run or uuid.uuid4().hex[:8],
        resume="allow",
        reinit="create_new",
        config={start.prefix + key: value for key, value in start.parameters.items()},
        settings=settings,
    )
