"""Typed failures of a model call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

ErrorKind = Literal[
    "auth",
    "rate_limited",
    "timeout",
    "context_overflow",
    "refused",
    "invalid_output",
    "truncated",
    "empty",
    "provider",
]


About = Literal["", "url", "version", "credit"]
"""What a failed call is about, where that is known: the base URL, its path that may lack ``/v1``, the balance of the
account."""


class ModelError(Exception):
    """A model call that gave no usable reply, after whatever retries its kind deserves.

    ``kind`` says what happened, ``about`` what is to be looked at; ``raw`` keeps the reply that could not be used, when
    there was one; ``status`` is the HTTP status, when there was one. The message never holds a secret.
    """

    def __init__(
        self, kind: ErrorKind, message: str, *, raw: str = "", status: int | None = None, about: About = ""
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.raw = raw
        self.status = status
        self.about: About = about

    def __str__(self) -> str:
        return f"{self.kind}: {super().__str__()}"


class StopRequested(Exception):
    """No further request may start: a budget is spent or the user asked to stop. Not an error of the call."""

    def __init__(self, reason: Literal["budget", "interrupted", "error_rate", "error"], detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason
        self.detail = detail


ProviderTrouble = Literal["setting", "superfluous", "unset", "ability", "install"]


class ProviderError(ValueError):
    """No provider can serve a role as it was asked. The message says what is missing and what to set.

    ``kind`` says what mends it: ``setting`` is to be given one of ``choices``, the likeliest first (none: they cannot
    be listed); ``superfluous``: ``setting`` is to be taken away; ``unset``: no provider is set at all (``setting`` is
    all that one of them lacks, if anything is); ``ability``: ``choices`` are the providers that can do what is asked,
    possibly none; ``install``: ``command`` installs what is missing. ``setting`` is a variable or a configuration key
    (``section.key``).
    """

    def __init__(
        self,
        message: str,
        *,
        setting: str = "",
        choices: Sequence[str] = (),
        kind: ProviderTrouble = "setting",
        command: str = "",
    ) -> None:
        super().__init__(message)
        self.kind: ProviderTrouble = kind
        self.setting = setting
        self.choices = tuple(choices)
        self.command = command
