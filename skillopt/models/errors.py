"""Typed failures of a model call."""

from __future__ import annotations

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


class ModelError(Exception):
    """A model call that gave no usable reply, after whatever retries its kind deserves.

    ``kind`` says what happened; ``raw`` keeps the reply that could not be used, when there was one; ``status`` is the
    HTTP status, when there was one. The message never holds a secret.
    """

    def __init__(self, kind: ErrorKind, message: str, *, raw: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.raw = raw
        self.status = status

    def __str__(self) -> str:
        return f"{self.kind}: {super().__str__()}"


class StopRequested(Exception):
    """No further request may start: a budget is spent or the user asked to stop. Not an error of the call."""

    def __init__(self, reason: Literal["budget", "interrupted", "error_rate", "error"], detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason
        self.detail = detail


class ProviderError(ValueError):
    """No provider can serve a role as it was asked. The message says what is missing and what to set."""
