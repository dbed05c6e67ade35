"""MLflow, Weights & Biases and tensorboardX as far as trackers use them: their documented functions, recorded."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

Broken = Callable[[str], None]
"""Is called with the name of each function that is used; may raise or wait."""


@dataclass
class Logged:
    """What a run of a tracker got. ``status`` is '' while it goes on; ``threads`` are those it was used in."""

    name: str = ""
    place: str = ""
    metrics: list[tuple[str, float, int]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    status: str = ""
    threads: set[int] = field(default_factory=set)

    def curve(self, name: str) -> list[tuple[int, float]]:
        return [(step, value) for metric, value, step in self.metrics if metric == name]


@dataclass
class Fake:
    """The runs of a tracker by id. ``host`` is the id of the one that the surrounding program has started."""

    runs: dict[str, Logged] = field(default_factory=dict)
    host: str = ""
    used: list[str] = field(default_factory=list)
    broken: Broken = lambda name: None
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def run(self) -> Logged:
        """The only run."""
        (run,) = self.runs.values()
        return run

    def use(self, function: str, run: str = "") -> Logged:
        self.used.append(function)
        self.broken(function)
        found = self.runs.setdefault(run, Logged()) if run else Logged()
        found.threads.add(threading.get_ident())
        return found

    def start_host(self) -> Logged:
        self.host = "host"
        return self.runs.setdefault("host", Logged("host", status="RUNNING"))


class MlflowException(Exception):
    pass


class _MlflowClient:
    def __init__(self, fake: Fake, tracking_uri: str | None) -> None:
        self._fake = fake
        self._uri = tracking_uri

    def get_experiment_by_name(self, name: str) -> Any:
        self._fake.use("get_experiment_by_name")
        return None

    def create_experiment(self, name: str) -> str:
        self._fake.use("create_experiment")
        return f"{self._uri or ''}{name}"

    def create_run(self, experiment_id: str, run_name: str) -> Any:
        run = f"run{next(self._fake.ids)}"
        logged = self._fake.use("create_run", run)
        logged.name, logged.place, logged.status = run_name, experiment_id, "RUNNING"
        return SimpleNamespace(info=SimpleNamespace(run_id=run))

    def get_run(self, run: str) -> Any:
        if run not in self._fake.runs:
            raise MlflowException(f"no run {run}")
        self._fake.use("get_run", run)
        return SimpleNamespace(info=SimpleNamespace(lifecycle_stage="active"))

    def update_run(self, run: str, status: str) -> None:
        self._fake.use("update_run", run).status = status

    def log_batch(self, run: str, metrics: Sequence[Any] = (), params: Sequence[Any] = ()) -> None:
        logged = self._fake.use("log_batch", run)
        assert len(params) <= 100, "MLflow takes no more at once"
        logged.metrics += [(metric.key, metric.value, metric.step) for metric in metrics]
        for param in params:
            if logged.parameters.setdefault(param.key, param.value) != param.value:
                raise MlflowException("a parameter cannot change")

    def log_text(self, run: str, text: str, artifact_file: str) -> None:
        self._fake.use("log_text", run).texts[artifact_file] = text

    def set_terminated(self, run: str, status: str) -> None:
        self._fake.use("set_terminated", run).status = status


def mlflow(patch: pytest.MonkeyPatch, *, uri_set: bool = True) -> Fake:
    """Installs MLflow. Its active run belongs to the thread that installs it, as in the real one."""
    fake = Fake()
    thread = threading.get_ident()

    def active_run() -> Any:
        mine = fake.host and threading.get_ident() == thread
        return SimpleNamespace(info=SimpleNamespace(run_id=fake.host)) if mine else None

    def metric(key: str, value: float, timestamp: int, step: int) -> Any:
        return SimpleNamespace(key=key, value=value, timestamp=timestamp, step=step)

    def client(tracking_uri: str | None = None) -> _MlflowClient:
        return _MlflowClient(fake, tracking_uri)

    def param(key: str, value: str) -> Any:
        return SimpleNamespace(key=key, value=value)

    functions = {"active_run": active_run, "is_tracking_uri_set": lambda: uri_set, "MlflowClient": client}
    _install(patch, "mlflow", functions)
    _install(patch, "mlflow.entities", {"Metric": metric, "Param": param})
    _install(patch, "mlflow.exceptions", {"MlflowException": MlflowException})
    return fake


class _Artifact:
    def __init__(self, name: str, type: str) -> None:
        self.name = name
        self.files: dict[str, str] = {}

    @contextmanager
    def new_file(self, name: str, mode: str = "x", encoding: str | None = None) -> Iterator[io.StringIO]:
        assert (mode, encoding) == ("w", "utf-8")
        handle = io.StringIO()
        yield handle
        self.files[name] = handle.getvalue()


class _WandbRun:
    def __init__(self, fake: Fake, id_: str) -> None:
        self.id = id_
        self._fake = fake
        self._axes: dict[str, str] = {}

    def define_metric(self, name: str, step_metric: str) -> None:
        self._fake.use("define_metric", self.id)
        self._axes[name] = step_metric

    def log(self, data: Mapping[str, float]) -> None:
        logged = self._fake.use("log", self.id)
        for name, value in data.items():
            if name in self._axes:
                logged.metrics.append((name, value, int(data[self._axes[name]])))

    def log_artifact(self, artifact: _Artifact, aliases: Sequence[str]) -> None:
        self._fake.use("log_artifact", self.id).texts.update(artifact.files)

    def finish(self, exit_code: int) -> None:
        self._fake.use("finish", self.id).status = f"exit {exit_code}"


def wandb(patch: pytest.MonkeyPatch, *, key: bool = True) -> Fake:
    """Installs Weights & Biases; ``key``: somebody has logged in."""
    fake = Fake()

    def init(*, id: str, name: str, project: str, config: Mapping[str, str], resume: str, **more: Any) -> _WandbRun:
        logged = fake.use("init", id)
        assert resume == "allow"
        assert more["reinit"] == "create_new", "the host's wandb.run is not ours to set"
        logged.name, logged.place, logged.parameters = name, project, dict(config)
        return _WandbRun(fake, id)

    module = _install(patch, "wandb", {"init": init, "Artifact": _Artifact, "run": None})
    patch.setattr(module, "login", lambda prompt: key, raising=False)
    patch.setattr(module, "Settings", lambda **given: SimpleNamespace(**given), raising=False)
    start = fake.start_host

    def start_host() -> Logged:
        patch.setattr(module, "run", _WandbRun(fake, "host"))
        return start()

    patch.setattr(fake, "start_host", start_host)
    return fake


class _SummaryWriter:
    def __init__(self, fake: Fake, logdir: str) -> None:
        self._fake = fake
        self._logdir = logdir
        fake.use("open", logdir)

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self._fake.use("add_scalar", self._logdir).metrics.append((tag, value, step))

    def add_text(self, tag: str, text: str, step: int) -> None:
        self._fake.use("add_text", self._logdir).texts[f"{tag}@{step}"] = text

    def flush(self) -> None:
        self._fake.use("flush", self._logdir)

    def close(self) -> None:
        self._fake.use("close", self._logdir).status = "closed"


def tensorboard(patch: pytest.MonkeyPatch) -> Fake:
    """Installs tensorboardX."""
    fake = Fake()
    _install(patch, "tensorboardX", {"SummaryWriter": lambda logdir, filename_suffix: _SummaryWriter(fake, logdir)})
    return fake


def absent(patch: pytest.MonkeyPatch, name: str) -> None:
    """Makes a package one that is not installed."""
    patch.setitem(sys.modules, name, None)


def _install(patch: pytest.MonkeyPatch, name: str, members: Mapping[str, Any]) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(members)
    patch.setitem(sys.modules, name, module)
    return module
