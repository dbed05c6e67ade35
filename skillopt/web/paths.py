"""Which paths of this machine a form may name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from skillopt.resources import config_file, sample_file, shipped_skill

_LONGEST = 4096
"""Characters of a path: more than that no system opens, and following them takes time."""


class PathError(Exception):
    """A path that a form may not name; the message says which ones it may."""


def confined(given: str, allowed: Sequence[Path]) -> Path:
    """The file or folder that ``given`` means, which lies below one of ``allowed`` (relative to the first one that has
    it), links followed. Hidden files and folders are none of ours. Raises ``PathError``."""
    text = given.strip()
    if "\0" in text or not text:
        raise PathError("name a file or folder")
    if text.startswith("~"):  # the command that gets it would look in a home folder
        raise PathError("a path that begins with ~ is not below a folder that the dashboard may read")
    if len(text) > _LONGEST:
        raise PathError(f"a path has at most {_LONGEST:,} characters")
    written = Path(text)
    tries = [written] if written.is_absolute() else [base / written for base in allowed]
    for path in tries:
        real = Path(os.path.realpath(path))
        base = next((base for base in allowed if real == base or base in real.parents), None)
        if base is None or not os.path.exists(real):
            continue
        if any(part.startswith(".") for part in real.relative_to(base).parts):
            raise PathError(f"{text} is hidden, or lies in a hidden folder")
        return real
    raise PathError(
        f"{text} is not there, or not below a folder that the dashboard may read: the roots, and the folder that it "
        "was started in"
    )


def shipped(given: str, folder: Path) -> bool:
    """Whether a path means a file or folder that comes with the package, for a command that runs in ``folder``."""
    text = given.strip()
    if ".." in Path(text).parts or Path(text).is_absolute() or os.path.lexists(folder / text):
        return False
    return bool(config_file(text) or sample_file(text) or shipped_skill(text))


def configurations(folder: Path) -> list[str]:
    """The names of the configurations that a run can be made with: those that are shipped, and those in ``configs/``
    of ``folder``. Bases are none."""
    found = set()
    base = config_file("searchqa/default.yaml")
    homes = [base.parent.parent] if base is not None else []
    for home in [*homes, folder / "configs"]:
        for path in home.rglob("*.yaml") if home.is_dir() else ():
            name = path.relative_to(home)
            real = Path(os.path.realpath(path))
            if home.resolve() in real.parents and not any(part.startswith(("_", ".")) for part in name.parts):
                found.add(f"configs/{name.as_posix()}")
    return sorted(found)
