"""What a run without an answer means. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from skillopt.agents.description import Cli
from skillopt.agents.process import Finished
from skillopt.agents.trajectory import Told
from skillopt.models.errors import About, ErrorKind
from skillopt.models.faults import without_secrets
from skillopt.models.types import Usage
from skillopt.models.wire import Fault

_MONEY = re.compile(
    r"usage limit|session limit|weekly limit|credit balance|insufficient[_ ](?:quota|credit|balance)|billing"
    r"|premium request|quota (?:exceeded|exhausted)|exceeded your (?:current )?quota",
    re.IGNORECASE,
)
_LIMITED = re.compile(r"\b429\b|rate[ _-]?limit|too many requests|overloaded|\b529\b|\b503\b", re.IGNORECASE)
_AUTH = re.compile(
    r"\b40[13]\b|unauthori[sz]ed|not (?:logged|signed) in|(?:log|sign) ?in\b|/login|authenticat|invalid (?:api|auth)"
    r"|api key|invalid[_ ](?:x-)?api[_-]key|token (?:has )?(?:expired|been revoked)|no auth(?:entication)? ",
    re.IGNORECASE,
)
_LONG = re.compile(
    r"context[ _-]?(?:length|window|size)|(?:prompt|input) (?:is|was) too (?:long|large)|maximum context", re.IGNORECASE
)
_MODEL = re.compile(
    r"model\b.{0,80}(?:not (?:found|available|exist|supported)|does not exist|unknown|invalid|may not)"
    r"|(?:unknown|invalid|unsupported) model",
    re.IGNORECASE | re.DOTALL,
)
_REFUSED = re.compile(r"content[ _](?:filter|policy)|usage policy|safety system", re.IGNORECASE)
_FLAG = re.compile(
    r"(?:unexpected|unrecogni[sz]ed|unknown|invalid) (?:argument|option|flag)|invalid value", re.IGNORECASE
)
_LATER = re.compile(r"(?:retry|again)[ -](?:after|in):? (\d+(?:\.\d+)?) ?(ms|s|sec|seconds?|m|min|minutes?)?\b", re.I)


@dataclass(frozen=True, slots=True)
class _Case:
    """A row of the classification: it fits where ``said`` is in what the program says. ``words`` are for the user."""

    kind: ErrorKind
    said: re.Pattern[str]
    words: str = "{said}"
    then: Literal["stop", "wait"] = "stop"
    about: About = ""


_CASES = (  # the first that fits
    _Case("truncated", re.compile(r"\Amax_tokens")),
    _Case("invalid_output", re.compile("structured_output_retries")),
    _Case("provider", _FLAG, "it does not take its arguments; {title} may be too old ({install}): {said}"),
    _Case("rate_limited", _MONEY, "the account has no allowance left; check its plan: {said}", about="credit"),
    _Case("rate_limited", _LIMITED, then="wait"),
    _Case("context_overflow", _LONG),
    _Case("provider", _MODEL, "no such model here; name another: {said}"),
    _Case("auth", _AUTH, "it is not logged in ({source}): {said}; {login}"),
    _Case("refused", _REFUSED),
)
_UNKNOWN = _Case("provider", re.compile(""), "it failed with {how}: {said}")
_QUIET = _Case("provider", re.compile(""))


@dataclass(frozen=True, slots=True)
class Program:
    """Whose run it was, for messages. ``limit`` is the time it had, in seconds; ``source`` where its login is from."""

    cli: Cli
    path: str
    limit: float
    source: str


def fault_of(run: Finished, told: Told, program: Program, usage: Usage, secrets: Iterable[str]) -> Fault | None:
    """The fault of a run, or None when it gave an answer. A crash after the answer does not take the answer away."""
    if run.timed_out:
        last = f"; the last that it reported: {_tail(told.errors[-1:])}" if told.errors else ""
        said = f"no answer within {program.limit:g} s; it was stopped{last}"
        return Fault("timeout", masked(said, secrets), "stop", usage=usage)
    if run.overflowed:
        most = max(len(run.stdout), len(run.stderr)) >> 20
        said = f"it wrote more than {most} MiB and was stopped"
        return Fault("provider", said, "stop", usage=usage)
    if run.out_of_memory:
        return Fault("provider", "it took more memory than a run may have and was stopped", "stop", usage=usage)
    if told.fatal is None and told.answer and (told.ended or run.returncode == 0):
        return None
    if told.fatal is None and run.returncode == 0:
        said = _tail(told.errors) or "it ended without an answer"
        return Fault("empty", masked(said, secrets), "count", usage=usage)
    said = _said(run, told)
    hint = f"{told.fatal.kind} {said}" if told.fatal is not None else said
    case = next((case for case in _CASES if case.said.search(hint)), _UNKNOWN if run.returncode else _QUIET)
    words = case.words.format(
        said=masked(said, secrets) or ("it said nothing" if case is _UNKNOWN else ""),
        title=program.cli.title,
        install=program.cli.install,
        login=program.cli.login,
        source=program.source or "no login was found",
        how=_how(run.returncode or 0),
    )
    pause = _later(hint) if case.then == "wait" else None
    return Fault(case.kind, words, case.then, retry_after=pause, usage=usage, about=case.about)


def _how(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _said(run: Finished, told: Told) -> str:
    """The best account of a failure: the program's own, else what it reported last, else the end of its output."""
    if told.fatal is not None and told.fatal.message:
        return told.fatal.message
    stderr = run.stderr.decode("utf-8", "replace").strip()
    return _tail(told.errors) or _tail(stderr.splitlines()) or _tail(told.noise) or told.answer


def _tail(lines: Iterable[str], most: int = 400) -> str:
    text = " ".join(" ".join(lines).split())
    return text if len(text) <= most else f"…{text[-most:]}"


def _later(said: str) -> float | None:
    found = _LATER.search(said)
    if found is None:
        return None
    unit = (found[2] or "s").lower()
    return float(found[1]) * (0.001 if unit == "ms" else 60.0 if unit.startswith("m") else 1.0)


def masked(text: str, secrets: Iterable[str]) -> str:
    """``text`` without any of ``secrets`` and whatever else looks like a key, cut to a message's length."""
    for secret in secrets:
        text = hide(text, secret)
    return without_secrets(text, None)


def hide(text: str, secret: str) -> str:
    """``text`` without one secret. What is too short to be one is left: it would take words apart."""
    return text.replace(secret, "***") if len(secret) >= 8 else text
