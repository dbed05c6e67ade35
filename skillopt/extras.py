"""How to install what a feature needs beyond the core."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def install_hint(*extras: str, package: Path = PACKAGE) -> str:
    """The command that installs ``extras`` of this very package: of the checkout that it runs from, where it does. The
    name alone would get whatever an index holds under it."""
    checkout, names = package.parent, ",".join(extras)
    if (checkout / "pyproject.toml").is_file():
        return f"pip install -e '{checkout}[{names}]'"
    return f"pip install '{package.name}[{names}]'"
