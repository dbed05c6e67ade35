"""The one error of everything that reads a dataset."""

from __future__ import annotations

from collections.abc import Sequence


class DataError(ValueError):
    """Data that cannot be used. The message says which file and row, what is wrong, and what to do.

    ``setting`` is the configuration key (``section.key``) that it comes from, where one is to be changed, ``choices``
    what it can be given, the likeliest first (none: they cannot be listed); ``command`` is the command that makes what
    is missing.
    """

    def __init__(self, message: str, *, setting: str = "", choices: Sequence[str] = (), command: str = "") -> None:
        super().__init__(message)
        self.setting = setting
        self.choices = tuple(choices)
        self.command = command
