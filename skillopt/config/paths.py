"""The paths of a configuration in the form in which they mean the same from any folder."""

from __future__ import annotations

import os

from skillopt.config.schema import Config


def anchored(config: Config) -> Config:
    """``config`` with absolute paths for the files and folders that are there, and for the one that is written.

    A run so finds its data again when it is resumed from another folder. A name that is nowhere here stays: it may be
    that of a shipped file, which is found from anywhere.
    """
    env, budget = config.env, config.budget
    written = {"split_output_dir": os.path.abspath(env.split_output_dir) if env.split_output_dir else ""}
    read = {name: _absolute(getattr(env, name)) for name in ("skill_init", "split_dir", "data_path")}
    return config.model_copy(
        update={
            "env": env.model_copy(update={**read, **written}),
            "budget": budget.model_copy(update={"prices": _absolute(budget.prices)}),
        }
    )


def _absolute(path: str) -> str:
    found = os.path.expanduser(path)
    return os.path.abspath(found) if path and os.path.exists(found) else path
