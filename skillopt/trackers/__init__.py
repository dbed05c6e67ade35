"""Trackers: a training's numbers and texts in MLflow, Weights & Biases or TensorBoard, beside its run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module

from skillopt.config import ConfigError
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
    return tuple(Found(name, _opener(name, environ)) for name in names)


def _opener(name: str, environ: Mapping[str, str]) -> Open:
    module = import_module(_MODULES[name])
    find: Callable[[Mapping[str, str]], Open] = module.find
    try:
        return find(environ)
    except ConfigError:
        raise
    except Exception as error:  # a package of the user's that does not fit the others may raise anything
        raise ConfigError(
            f"logging.trackers: {name} cannot be used ({error}); install it with: pip install 'skillopt[{name}]'"
        ) from None


@contextmanager
def tracking(found: Sequence[Found], start: Start, events: Events, mask: Callable[[str], str]) -> Iterator[None]:
    """The trackers listen to ``events`` as long as the context lasts. None of them can stop what runs in it. What they
    complain of goes through ``mask``."""
    listener = Tracking(found, start, lambda text: events.emit("note", text=mask(text)))
    events.add(listener)
    grace = HASTE_SECONDS
    try:
        yield
        grace = GRACE_SECONDS
    except Exception:
        grace = GRACE_SECONDS
        raise
    finally:  # after a second Ctrl-C nobody wants to wait
        listener.close(grace)
