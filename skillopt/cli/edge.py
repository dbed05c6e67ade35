"""The outermost edge of every command: its streams, its secrets, and errors that end in plain words."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from skillopt.config import Config, Redactor

REFUSED = 2
FAILED = 1
INTERRUPTED = 130

# By name, so that a refused configuration does not wait for the import of the engine. A refusal comes before any work.
_EXPECTED: Mapping[str, int] = {
    "skillopt.config.errors.ConfigError": REFUSED,
    "skillopt.data.errors.DataError": REFUSED,
    "skillopt.models.errors.ProviderError": REFUSED,
    "skillopt.envs.registry.EnvImportError": REFUSED,
    "skillopt.run.folder.FolderError": REFUSED,
    "skillopt.run.journal.JournalError": REFUSED,
    "skillopt.engine.resume.ResumeError": REFUSED,
    "skillopt.local.errors.UnknownModelError": REFUSED,
    "skillopt.local.errors.LocalError": FAILED,
    "skillopt.engine.errors.RoleError": FAILED,
    "skillopt.envs.scoring.EnvError": FAILED,
    "skillopt.models.errors.ModelError": FAILED,
    "builtins.OSError": FAILED,
}
_STOP = "skillopt.models.errors.StopRequested"
_STOPS: Mapping[str, int] = {"budget": 0, "interrupted": INTERRUPTED}


class Shell:
    """The two output streams of a command. No secret that it knows reaches them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.redactor = Redactor.collect(environ)

    def know(self, environ: Mapping[str, str], config: Config | None = None) -> None:
        """Learns the secrets of the full environment and of the configuration."""
        self.redactor = Redactor.collect(environ, config)

    def say(self, line: str) -> None:
        """Prints a line on the standard output."""
        self._print(line, "stdout")

    def complain(self, line: str) -> None:
        """Prints a line on the standard error."""
        self._print(line, "stderr")

    def _print(self, line: str, name: str) -> None:
        try:
            print(self.redactor.mask(line), file=getattr(sys, name), flush=True)
        except BrokenPipeError:
            # Who read the output is gone (``| head``). The work goes on: it is paid, and its result is in files.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def guarded(command: Callable[[Shell], int]) -> int:
    """Runs a command and returns its exit status; whatever it raises ends in a message."""
    for stream in (sys.stdout, sys.stderr):
        force_utf8(stream)
    shell = Shell(os.environ)
    with warnings.catch_warnings():
        warnings.showwarning = _warner(shell)
        try:
            return command(shell)
        except SystemExit as done:  # argparse has printed its message
            return done.code if isinstance(done.code, int) else REFUSED
        except KeyboardInterrupt:
            shell.complain("interrupted")
            return INTERRUPTED
        except Exception as error:  # the outermost edge: what nobody expected is shown whole, without secrets
            return failed(shell, error)


def failed(shell: Shell, error: Exception) -> int:
    """Says what went wrong; the exit status for it."""
    for name in (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__):
        if name == _STOP:
            reason = str(getattr(error, "reason", ""))
            shell.complain(f"stopped ({reason}): {error}")
            return status_of_stop(reason)
        if name in _EXPECTED:
            shell.complain(f"error: {error}")
            return _EXPECTED[name]
    shell.complain("".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip())
    shell.complain("This is a fault in SkillOpt. What was finished is kept; the same command goes on from there.")
    return FAILED


def status_of_stop(reason: str) -> int:
    """The exit status of a run that stopped early: 0 when it did as it was told."""
    return _STOPS.get(reason, FAILED)


def force_utf8(stream: TextIO) -> None:
    """UTF-8 whatever the locale, and each line at once, so that a reader of a pipe is not kept waiting."""
    reconfigure: Any = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _warner(shell: Shell) -> Callable[..., None]:
    def show(message: Warning | str, *_: object, **__: object) -> None:
        shell.complain(f"warning: {message}")

    return show
