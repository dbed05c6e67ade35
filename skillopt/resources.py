"""Finds the files that come with the package: configurations, sample data and initial skills.

In a checkout they lie in ``configs/`` and ``data/`` beside the package, in an installed wheel inside the package.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

PACKAGE = Path(__file__).resolve().parent


def config_file(name: str, *, package: Path = PACKAGE) -> Path | None:
    """A shipped configuration by its name, with or without the leading ``configs/``; None when there is none."""
    return _find(name, "configs", package / "configs", package)


def sample_file(name: str, *, package: Path = PACKAGE) -> Path | None:
    """A shipped data file or folder by its name, with or without the leading ``data/``; None when there is none."""
    return _find(name, "data", package / "sample_data", package)


def resolve_skill_path(name: str, *, package: Path = PACKAGE) -> Path | None:
    """The file that ``name`` means: that file if it is there, else the shipped one of that name, else None.

    ``skillopt/envs/searchqa/skills/initial.md`` and ``data/samples/…`` so work from any folder and from a wheel.
    """
    path = Path(os.path.expanduser(name))
    return path if os.path.isfile(path) else shipped_skill(name, package=package)


def shipped_skill(name: str, *, package: Path = PACKAGE) -> Path | None:
    """The shipped skill file of that name, whatever else lies there; None when there is none."""
    parts = _parts(name)
    if parts[:1] == ("data",):
        return sample_file(name, package=package)
    if parts[:1] != (package.name,) or ".." in parts:
        return None
    shipped = package.joinpath(*parts[1:])
    return shipped if os.path.isfile(shipped) else None


def _find(name: str, folder: str, packaged: Path, package: Path) -> Path | None:
    checkout = package.parent / folder
    if packaged.is_dir():
        root = packaged
    elif (package.parent / "pyproject.toml").is_file() and checkout.is_dir():
        root = checkout
    else:
        return None
    parts = _parts(name)
    if ".." in parts or Path(name).is_absolute():
        return None
    found = root.joinpath(*(parts[1:] if parts[:1] == (folder,) else parts))
    return found if os.path.exists(found) else None


def _parts(name: str) -> tuple[str, ...]:
    return PurePosixPath(name.replace("\\", "/")).parts
