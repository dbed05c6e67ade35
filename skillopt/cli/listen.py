"""Who listens to a run: the live view on a terminal, lines everywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from skillopt.cli.console import ConsoleLines
from skillopt.cli.edge import Shell
from skillopt.run.events import Listener


@contextmanager
def listening(shell: Shell, *, plain: bool) -> Iterator[Listener]:
    """The listener that shows a run as long as the context lasts."""
    if plain or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield ConsoleLines(shell.say)
        return
    from rich.console import Console

    from skillopt.cli.live import LiveView

    with LiveView(Console(file=sys.stdout), shell.redactor.mask) as view:
        yield view
