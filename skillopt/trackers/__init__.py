"""Trackers: a training's numbers and texts in MLflow, Weights & Biases or TensorBoard, beside its run folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module

from skillopt.config import ConfigError
from skillopt.config.errors import Problem, Source
from skillopt.extras import install_hint
from skillopt.run.events import Events
from skillopt.trackers.base import Entry, Found, Open, Outcome, Start, Tracker
from skillopt.trackers.listener import GRACE_SECONDS, HASTE_SECONDS, Tracking

__all__ = ["Entry", "Found", "Open", "Outcome", "Start", "Tracker", "find_trackers", "tracking"]

_MODULES = {
    "mlflow": "skillopt.trackers.mlflow",
    "wandb": "skillopt.trackers.wandb",
    "tensorboard": "skillopt.trackers.tensorboard",
}


def find_trackers(names: Sequence[str], environ: Mapping[str, str]) -> tuple[Found, ...]:
    """Imports the trackers and notes the host's runs that they join: to be called in the thread that started those.

    Raises ``ConfigError`` when one is not installed or has no key: that is known before anything is spent.
    """
    found, lost = [], {}
    for name in names:
        try:
            found.append(Found(name, _opener(name, environ)))
        except ConfigError:
            raise
        except Exception as error:  # a package of the user's that does not fit the others may raise anything
            lost[name] = error
    if lost:
        told = ", ".join(f"{name} cannot be used ({error})" for name, error in lost.items())
        install = install_hint(*lost)
        said = f"logging.trackers: {told}; install {'it' if len(lost) == 1 else 'them'} with: {install}"
        raise ConfigError(Problem(said, Source.key("logging.trackers"), command=install))
    return tuple(found)


def _opener(name: str, environ: Mapping[str, str]) -> Open:
    find: Callable[[Mapping[str, str]], Open] = import_module(_MODULES[name]).find
    return find(environ)


@contextmanager
def tracking(found: Sequence[Found], start: Start, events: Events, mask: Callable[[str], str]) -> Iterator[None]:
    """The trackers listen to ``events`` as long as the context lasts. None of them can stop what runs in it. What they
    complain of goes through ``mask``."""
    listener = Tracking(found, start, lambda text: events.emit("note", text=mask(text)))
    events.add(listener)
    grace = GRACE_SECONDS
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):  # after a second Ctrl-C nobody wants to wait
        grace = HASTE_SECONDS
        raise
    finally:
        listener.close(grace)
