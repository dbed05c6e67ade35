"""MLflow: metrics by step, texts as artifacts. Joins the active run of the thread that trains, else makes its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from skillopt.trackers.base import Entry, Open, Outcome, Start

EXPERIMENT = "skillopt"
_STATUS: Mapping[Outcome, str] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_PARAMETERS_AT_ONCE = 100
_LONGEST_PARAMETER = 500


def find(environ: Mapping[str, str]) -> Open:
    """Raises ``ImportError``."""
    import mlflow

    host = mlflow.active_run()  # of this thread: MLflow keeps one a thread
    # What a program has set counts before the environment, and that before .env, which MLflow does not read.
    uri = None if mlflow.is_tracking_uri_set() else environ.get("MLFLOW_TRACKING_URI") or None
    return partial(MlflowTracker, environ, uri, host.info.run_id if host is not None else "")


class MlflowTracker:
    """Logs to the run ``host``, or, when that is blank, to one of its own in ``MLFLOW_EXPERIMENT_NAME``."""

    def __init__(self, environ: Mapping[str, str], uri: str | None, host: str, start: Start) -> None:
        from mlflow import MlflowClient

        self._client: Any = MlflowClient(tracking_uri=uri)
        self._own = not host
        self.run = host or self._resumed(start.run) or self._created(environ, start)

    def log(self, entry: Entry) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, entry.step) for name, value in entry.metrics.items()]
        if metrics:
            self._client.log_batch(self.run, metrics=metrics)
        for name, text in entry.texts.items():
            self._client.log_text(self.run, text, name)

    def close(self, outcome: Outcome) -> None:
        if self._own:
            self._client.set_terminated(self.run, status=_STATUS[outcome])

    def _resumed(self, run: str) -> str:
        """The run of an earlier process, going on; '' when there is none, or none any more."""
        from mlflow.exceptions import MlflowException

        if not run:
            return ""
        try:
            if self._client.get_run(run).info.lifecycle_stage != "active":
                return ""
        except MlflowException:
            return ""
        self._client.update_run(run, status="RUNNING")
        return run

    def _created(self, environ: Mapping[str, str], start: Start) -> str:
        from mlflow.entities import Param
        from mlflow.exceptions import MlflowException

        run = str(self._client.create_run(self._experiment(environ), run_name=start.name).info.run_id)
        params = [Param(start.prefix + key, value[:_LONGEST_PARAMETER]) for key, value in start.parameters.items()]
        try:
            for first in range(0, len(params), _PARAMETERS_AT_ONCE):
                self._client.log_batch(run, params=params[first : first + _PARAMETERS_AT_ONCE])
        except BaseException:
            # Nobody else knows this run: it would be shown as running for ever.
            with suppress(MlflowException):
                self._client.set_terminated(run, status=_STATUS["failed"])
            raise
        return run

    def _experiment(self, environ: Mapping[str, str]) -> str:
        if environ.get("MLFLOW_EXPERIMENT_ID"):
            return environ["MLFLOW_EXPERIMENT_ID"]
        name = environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        found = self._client.get_experiment_by_name(name)
        return str(found.experiment_id if found is not None else self._client.create_experiment(name))
