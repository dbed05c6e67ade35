"""What there is to know about one agent program. A program that is not here yet is one more of these values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillopt.agents.notes import Note
from skillopt.models.types import Usage

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """What a program is asked in one run, as far as its arguments are concerned.

    ``agent``: it may use its tools in ``work``; otherwise it only answers. ``effort`` is '' for its own default,
    ``base_url`` for its own service. ``prompt`` is None when it goes by stdin. ``system`` is a file with the system
    text (None: it stands in the prompt), ``schema`` one with the JSON schema of the answer, ``answer`` the file where
    it may leave its last message, ``usage`` one for what it used.
    """

    agent: bool
    work: Path
    model: str = ""
    effort: str = ""
    base_url: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    prompt: str | None = None
    system: Path | None = None
    schema: Path | None = None
    schema_text: str = ""
    images: tuple[Path, ...] = ()
    answer: Path = Path("answer.txt")
    usage: Path = Path("usage.json")


@dataclass(frozen=True, slots=True)
class LoginFile:
    """A file of the program's configuration directory that holds a login. ``keys``: the only keys of it, where it is
    JSON that holds settings too. A file with ``keys`` is never written back."""

    path: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cli:
    """One agent program.

    ``login`` says how it is logged in, ``log_in`` is the command for that. ``secrets`` are the variables that can do
    it, the first that is set wins; ``weak_secrets`` count only where no login is stored; ``settings`` are further
    variables of it (such as the URL of its service). ``switches`` map a variable to those that it needs when it is on.
    ``also_as`` gives a secret a second name in the child. ``fixed`` is set for every run. ``config`` is its
    configuration directory below HOME, which ``config_variable`` can name.

    ``arguments`` builds its argument list (without the program), ``read`` takes one event of its output apart.
    ``needs`` is what its ``help`` must mention. ``prompt_in_argv``: a prompt is an argument as long as it is short.
    ``system_in_chat`` and ``system_in_agent``: the system text goes by a file of its own, not in the prompt.
    ``read_usage`` reads the file where it says what it used.
    """

    name: str
    title: str
    program: str
    install: str
    login: str
    log_in: str
    secrets: tuple[str, ...]
    config: str
    login_files: tuple[LoginFile, ...]
    arguments: Callable[[Job], list[str]]
    read: Callable[[Event], Iterable[Note]]
    needs: tuple[str, ...]
    help: tuple[str, ...] = ("--help",)
    weak_secrets: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    also_as: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    config_variable: str = ""
    profile_files: Callable[[str], tuple[str, ...]] = lambda profile: ()
    system_in_chat: bool = False
    system_in_agent: bool = False
    read_usage: Callable[[Event], Usage | None] | None = None
    json_schema: bool = False
    strict_schema: bool = False
    images: bool = False
    images_in_stdin: bool = False
    prompt_in_argv: bool = False

    def missing(self, program: str) -> str:
        """What to say where ``program`` is not there."""
        return (
            f"{self.title} is not installed: there is no program {program!r} in PATH; install it ({self.install}) or "
            "give its path"
        )
