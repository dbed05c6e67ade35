"""Where coding agents look for skills: the path that a ``SKILL.md`` gets, and what may stand in its way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt.config import ConfigError
from skillopt.skill.agent_format import FILE_NAME

# Below a project; below the home folder, and the variable that moves it.
_PROJECT = {
    "claude": ".claude/skills",
    "codex": ".agents/skills",
    "cursor": ".cursor/skills",
    "copilot": ".github/skills",
}
_USER = {
    "claude": (".claude/skills", "CLAUDE_CONFIG_DIR"),
    "codex": (".agents/skills", "CODEX_HOME"),
    "cursor": (".cursor/skills", ""),
    "copilot": (".copilot/skills", ""),
}
TOOLS = tuple(_PROJECT)


@dataclass(frozen=True, slots=True)
class Target:
    """Who is to find a skill: a tool, in the folder ``project`` or (None) in all projects of the user; or (``tool`` is
    ``file``) whoever looks at ``out``, a ``.md`` file or the folder that gets ``SKILL.md``. Paths are absolute."""

    tool: str
    project: Path | None = None
    out: Path = Path()

    @property
    def named(self) -> str:
        """The name for a skill that a path of the user's own gives; '' for a tool's path."""
        if self.tool != "file":
            return ""
        if not _is_file_name(self.out):
            return self.out.name
        return self.out.parent.name if self.out.name == FILE_NAME else self.out.stem


@dataclass(frozen=True, slots=True)
class Place:
    """Where a ``SKILL.md`` goes: ``path``, which must not lead out of ``base`` by a link."""

    base: Path
    path: Path


def place_of(target: Target, name: str, home: Path, environ: Mapping[str, str]) -> Place:
    """Where the skill ``name`` goes."""
    if target.tool == "file":
        path = target.out if _is_file_name(target.out) else target.out / FILE_NAME
        return Place(path.parent, path)
    if target.project is not None:
        return Place(target.project, target.project / _PROJECT[target.tool] / name / FILE_NAME)
    below, variable = _USER[target.tool]
    moved = environ.get(variable, "")
    base = absolute(moved) if moved else home
    return Place(base, base / ("skills" if moved else below) / name / FILE_NAME)


def confine(place: Place) -> None:
    """Refuses a place that a link leads away from. Raises ``ConfigError``."""
    real, base = os.path.realpath(place.path.parent), os.path.realpath(place.base)
    if real != base and not real.startswith(base.rstrip(os.sep) + os.sep):
        raise ConfigError(f"{place.path.parent} leads to {real}, which is outside of {place.base}: nothing was written")
    if place.path.is_symlink():
        raise ConfigError(f"{place.path} is a link; remove it first: nothing is written through links")
    if place.path.exists() and not place.path.is_file():
        raise ConfigError(f"{place.path} is there and is no file")


def place_notes(place: Place, name: str) -> list[str]:
    """What keeps a tool from finding the skill ``name`` in a place of the user's choice."""
    if place.path.name != FILE_NAME:
        return [f"tools look for files called {FILE_NAME}"]
    folder = place.path.parent.name
    if folder != name:
        return [f"the folder is called {folder!r} and the skill {name!r}: tools want the same name"]
    return []


def absolute(path: str) -> Path:
    """``path`` from the root, links left as they are, ``~`` as the home folder."""
    return Path(os.path.abspath(os.path.expanduser(path)))


def _is_file_name(path: Path) -> bool:
    return path.suffix.lower() == ".md"
