"""What the dashboard was started with."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7860
SHORTEST_TOKEN = 16
STATE = ".dashboard"
"""Folder below the first root for process logs. Hidden, so that it is no run."""


class SettingsError(Exception):
    """The dashboard cannot be started like this; the message says what to do."""


@dataclass(frozen=True)
class Settings:
    """``roots`` are absolute folders with run folders, the first one takes new runs; ``folder`` is where commands run.
    ``environ`` is what they get; no part of it is shown. ``token`` is '' when none is asked for."""

    roots: tuple[Path, ...]
    folder: Path
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str = field(default="", repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def state(self) -> Path:
        return self.roots[0] / STATE


def is_loopback(host: str) -> bool:
    """Whether a host name or address is that of this machine only."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def make_settings(
    roots: Sequence[str],
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    token: str = "",
    folder: Path,
    environ: Mapping[str, str],
) -> Settings:
    """The settings that the flags ask for. Raises ``SettingsError``."""
    token = token.strip()
    if not is_loopback(host) and not token:
        raise SettingsError(
            f"--host {host} can be reached from other machines, and who reaches the dashboard can start runs: choose a "
            f"secret of {SHORTEST_TOKEN} characters or more and give it with --token (or SKILLOPT_UI_TOKEN in the "
            "environment), or leave --host out and open an ssh tunnel"
        )
    if token and len(token) < SHORTEST_TOKEN:
        raise SettingsError(f"--token is too short to keep anyone out: use {SHORTEST_TOKEN} characters or more")
    if not 0 <= port <= 65535:
        raise SettingsError(f"--port {port}: a port is a number from 1 to 65535")
    found = tuple(dict.fromkeys((folder / Path(root).expanduser()).resolve() for root in roots or ("outputs",)))
    files = [root for root in found if root.exists() and not root.is_dir()]
    if files:
        raise SettingsError(f"--root {files[0]} is a file: name the folder that the run folders lie in")
    return Settings(found, folder.resolve(), host, port, token, dict(environ))
