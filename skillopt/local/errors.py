"""What a user has to hear about a model that runs on this machine."""

from __future__ import annotations


class LocalError(RuntimeError):
    """A model on this machine cannot be fetched, stored or served; the message says what to do, and ``command`` is the
    command for it, where there is one."""

    def __init__(self, message: str, *, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class UnknownModelError(LocalError):
    """A name that is neither in the catalogue nor a file."""
