"""A program's stored login: copied into a private HOME, and given back when the program has renewed it there."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillopt.agents.description import Cli, LoginFile
from skillopt.agents.workspace import write_private


def config_directory(cli: Cli, home: str, environ: Mapping[str, str]) -> Path:
    """Where the user's own ``cli`` keeps its configuration: ``home`` when given, else what its variable names, else
    its usual place."""
    named = home or (environ.get(cli.config_variable, "").strip() if cli.config_variable else "")
    if named:
        return Path(named).expanduser()
    user = environ.get("HOME") or environ.get("USERPROFILE") or ""
    return (Path(user) if user else Path.home()) / cli.config


def has_login(cli: Cli, config: Path) -> bool:
    """Whether a login is stored in ``config``."""
    return any(_content(config / file.path, file) for file in cli.login_files)


@dataclass(frozen=True, slots=True)
class Copy:
    """A file that was copied into a private HOME, with its content at that time."""

    original: Path
    private: Path
    content: bytes = field(repr=False)


def copy_login(cli: Cli, config: Path, private: Path, *, stored: bool, profile: str) -> tuple[Copy, ...]:
    """Puts into ``private`` what the program needs: its ``stored`` login, and the files of a ``profile`` that the user
    named; nothing else, but the directory is there. Returns the files that may have to be given back."""
    copies = []
    private.mkdir(mode=0o700, parents=True, exist_ok=True)  # Codex does not make it
    for file in cli.login_files if stored else ():
        content = _content(config / file.path, file)
        if content:
            write_private(private / file.path, content)
            if not file.keys:
                copies.append(Copy(config / file.path, private / file.path, content))
    for name in cli.profile_files(profile) if profile else ():
        with contextlib.suppress(OSError):
            write_private(private / name, (config / name).read_bytes())
    return tuple(copies)


def give_back(copies: tuple[Copy, ...]) -> None:
    """Stores a login that was renewed during the run where it came from.

    Renewing makes the old one invalid: without this the user would be logged out. It is done only when the original is
    as it was, and when the new one has the very same fields: what a run leaves behind is not trusted further.
    """
    for copy in copies:
        with contextlib.suppress(OSError, ValueError):
            if copy.private.is_symlink():
                continue
            renewed = copy.private.read_bytes()
            if renewed == copy.content or copy.original.read_bytes() != copy.content:
                continue
            if _shape(json.loads(renewed)) == _shape(json.loads(copy.content)):
                _replace(copy.original.resolve(), renewed)


def _content(path: Path, file: LoginFile) -> bytes:
    try:
        content = path.read_bytes()
        if not file.keys:
            return content
        whole = json.loads(content)
        login = {key: whole[key] for key in file.keys if whole.get(key)} if isinstance(whole, dict) else {}
        return json.dumps(login).encode() if login else b""
    except (OSError, ValueError):
        return b""


def _shape(value: Any) -> Any:
    """The names in a JSON value, and the kinds of what they hold."""
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items()}
    return type(value).__name__


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        write_private(beside, content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
