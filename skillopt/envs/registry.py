"""Environments by name: the built-in ones and those that installed packages offer."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

from skillopt.data.errors import DataError
from skillopt.data.names import known_names
from skillopt.data.splits import SplitOptions
from skillopt.envs.base import Env
from skillopt.spelling import nearest

GROUP: Final = "skillopt.envs"
BUILT_IN: Final = (EntryPoint("searchqa", "skillopt.envs.searchqa:make", GROUP),)
NOT_BUILT: Final = ("alfworld", "docvqa", "livemathematicianbench", "officeqa", "spreadsheetbench")


class EnvImportError(ImportError):
    """A registered environment that cannot be imported, with the cause."""


def get_env(name: str, options: SplitOptions, out_root: Path, *, plugins: Iterable[EntryPoint] | None = None) -> Env:
    """The environment ``name``, imported only now and made by its factory ``make(options, out_root) -> Env``.

    ``options`` is the ``env`` section of the configuration. ``plugins`` are the offers of other packages (None: the
    installed entry points of the group ``skillopt.envs``). Raises ``DataError`` for an unknown name and
    ``EnvImportError`` for a known one that does not import.
    """
    point = _find(name, entry_points(group=GROUP) if plugins is None else plugins)
    try:
        factory = point.load()
    except (ImportError, AttributeError) as error:
        cause = f"{type(error).__name__}: {error}"
        raise EnvImportError(f"environment {name!r} ({point.value}) cannot be imported: {cause}") from error
    env = factory(options, out_root)
    if not isinstance(env, Env):
        raise TypeError(
            f"environment {name!r} ({point.value}) made no Env: it needs name, version, load, prompt, score"
        )
    return env


def _find(name: str, plugins: Iterable[EntryPoint]) -> EntryPoint:
    # Later entries win: a package may not take the name of a built-in environment.
    points = {point.name: point for point in (*plugins, *BUILT_IN)}
    if name in points:
        return points[name]
    if not name.strip():
        raise DataError(f"env.name is empty; known: {', '.join(sorted(points))}", setting="env.name")
    if name in NOT_BUILT:
        said = f"environment {name!r} is not built yet; known: {', '.join(sorted(points))}"
        raise DataError(said, setting="env.name")
    hint = "; an environment that a Python program made goes on with that program"
    raise DataError(
        f"unknown environment {name!r}; {known_names(name, sorted(points))}{hint}",
        setting="env.name",
        choices=[match] if (match := nearest(name, points)) else [],
    )
