"""What a response that is no reply means, and what to try next. Pure: no clock, no I/O."""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timezone
from typing import Any

from skillopt.models.errors import ErrorKind, ModelError
from skillopt.models.providers import MaxTokensField
from skillopt.models.types import ModelSpec, Request
from skillopt.models.wire import Answered, Dialect, Fault, read_completion

LONGEST_MESSAGE = 500

_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|too many (?:input |prompt )?tokens"
    r"|(?:prompt|input) (?:is|was) too (?:long|large)|reduce the length of",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content[ _]filter|content[ _]policy|content management policy|safety system", re.IGNORECASE)
_NO_MONEY = re.compile(
    r"insufficient[_ ](?:quota|balance|funds|credits?)|billing_(?:hard_limit|not_active)", re.IGNORECASE
)
_CUT_THINKING = re.compile(r"could not finish the message because max_tokens", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error body in whichever shape: ``message`` (everything it says), ``code`` and ``param`` in lower case."""

    message: str
    code: str = ""
    param: str = ""


def read_response(
    status: int, headers: Mapping[str, str], raw: bytes, request: Request, now: float
) -> Answered | Fault:
    """Reads a whole HTTP response to ``request``. ``now`` is in seconds since the epoch."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        if status == 200:
            return Fault("provider", "the response is not valid JSON", "count", status, raw=_decoded(raw))
        return read_failure(status, headers, _decoded(raw), now)
    if status == 200 and not (isinstance(body, dict) and body.get("error") and not body.get("choices")):
        return read_completion(body, request)
    if status == 200:  # gateways report an upstream's error inside a 200
        error = body["error"]
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
    return read_failure(status, headers, body, now)


def _decoded(raw: bytes) -> str:
    return raw[:4000].decode("utf-8", "replace")


def server_error(body: Any) -> ServerError:
    """Reads ``{"error": {"message", "code", "param"}}``, ``{"error": "…"}``, ``{"detail": …}``, ``{"message": …}`` or
    plain text."""
    if not isinstance(body, dict):
        return ServerError(_plain(str(body)))
    error = body.get("error", body)
    if not isinstance(error, dict):
        return ServerError(_plain(str(error)))
    detail = error.get("detail")
    message = error.get("message") or detail or error.get("msg") or error
    code = error.get("code") if isinstance(error.get("code"), str) else error.get("type")
    return ServerError(_plain(str(message)), str(code or "").lower(), str(error.get("param") or "").lower())


def _plain(text: str) -> str:
    """Error pages of proxies are HTML; only their words are of use."""
    if "<html" in text[:500].lower():
        text = re.sub(r"<(?:style|script).*?</(?:style|script)>|<[^>]*>", " ", text, flags=re.DOTALL | re.IGNORECASE)
    return " ".join(text.split())


def read_failure(status: int, headers: Mapping[str, str], body: Any, now: float) -> Fault:
    """The fault behind a response that is not 200. ``body`` is parsed JSON or text, ``now`` seconds since the epoch."""
    error = server_error(body)
    said = error.message
    if status == 402 or (status == 429 and (_NO_MONEY.search(error.code) or _NO_MONEY.search(said))):
        return Fault(
            "rate_limited", f"the account has no credit left; check its plan and billing: {said}", "stop", status
        )
    if status == 429:
        return Fault("rate_limited", said, "wait", status, retry_after(headers, now))
    if status in (401, 403):
        return Fault("auth", said, "stop", status)
    if error.code in _OVERFLOW_CODES or (status in (400, 413, 422, 500) and _OVERFLOW.search(said)):
        return Fault("context_overflow", said, "rewrite", status, param=error.param)
    if status == 400 and _CUT_THINKING.search(said):
        return Fault("truncated", said, "count", status)
    if status in (400, 422) and (_FILTERED.search(error.code) or _FILTERED.search(said)):
        return Fault("refused", said, "stop", status)
    if status in (400, 422):
        return Fault("provider", said, "rewrite", status, param=error.param)
    if status == 503 and (seconds := retry_after(headers, now)) is not None:
        return Fault("rate_limited", said, "wait", status, seconds)
    if status >= 500 or status in (408, 409, 425):
        return Fault("timeout" if status in (408, 504) else "provider", said, "count", status)
    if 300 <= status < 400:
        said = f"the server redirects to {headers.get('Location', 'nowhere')}; set the base URL to where it leads"
    return Fault("provider", said, "stop", status)


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by ``retry-after-ms``, ``Retry-After`` (seconds or a date) or ``x-ratelimit-reset-requests`` and
    ``-tokens`` (as ``1m30s``) of the budget that is spent. None when the server does not say."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000.0
    text = headers.get("Retry-After")
    if text is not None:
        seconds = _number(text)
        return seconds if seconds is not None else _until(text, now)
    resets = [
        _duration(headers.get(f"x-ratelimit-reset-{what}", ""))
        for what in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{what}", "").strip() == "0"
    ]
    return max((seconds for seconds in resets if seconds is not None), default=None)


def _number(text: str | None) -> float | None:
    text = (text or "").strip()
    return float(text) if re.fullmatch(r"\d{1,9}(?:\.\d+)?", text) else None


def _duration(text: str) -> float | None:
    text = text.strip()
    if not re.fullmatch(rf"(?:{_DURATION.pattern})+", text):
        return _number(text)
    return sum(float(amount) * _UNITS[unit] for amount, unit in _DURATION.findall(text))


def _until(text: str, now: float) -> float | None:
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0.0, moment.timestamp() - now)


_TOO_MUCH = re.compile(
    r"(?:at most|less than or equal to|must be <=|maximum (?:value )?(?:of|is|for \S+ is)|\[\s*\d+\s*,)[\s`']*(\d+)",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"support|unrecogni[sz]ed|unknown|unexpected|unavailable|extra|not (?:permitted|allowed)|invalid|must contain"
    r"|does not|refused",
    re.IGNORECASE,
)


def learn(dialect: Dialect, sent: bytes, fault: Fault) -> Dialect | None:
    """The dialect that a fault of a request in ``dialect`` suggests, or None when it is about something else.

    ``sent`` is the refused body: only what it holds can be at fault.
    """
    said = f"{fault.param} {fault.message}"
    if re.search(r"max_(?:completion_)?tokens|completion tokens", said) and (bound := _TOO_MUCH.search(said)):
        limit = int(bound[1])
        return replace(dialect, max_completion=limit) if 0 < limit < (dialect.max_completion or 1 << 60) else None
    if fault.kind == "context_overflow" or not (_REFUSAL.search(said) or fault.param):
        return None
    current = dialect.max_tokens_field
    other: MaxTokensField = "max_completion_tokens" if current == "max_tokens" else "max_tokens"
    if _names(current, said) and _holds(current, sent):
        return replace(dialect, max_tokens_field=other)
    if "temperature" in said and _holds("temperature", sent):
        return replace(dialect, temperature=False)
    if re.search(r"reasoning[_. ]?effort", said) and _holds("reasoning_effort", sent):
        return replace(dialect, reasoning_effort=False)
    if re.search(r"response_format|json_schema|json_object|guided|grammar", said) and _holds("response_format", sent):
        return replace(dialect, json_mode="json_object" if dialect.json_mode == "json_schema" else "none")
    return None


def _names(parameter: str, said: str) -> bool:
    return re.search(rf"(?<![a-z_]){parameter}(?![a-z_])", said) is not None


def _holds(parameter: str, sent: bytes) -> bool:
    return f'"{parameter}":'.encode() in sent


_WINDOW = re.compile(r"context (?:length|window|size)\D{0,40}?(\d+)", re.IGNORECASE)
_INPUT = re.compile(
    r"(\d+) (?:tokens )?(?:in|from) the (?:messages|input|prompt)|(\d+) (?:input|prompt) tokens", re.IGNORECASE
)


def completion_room(said: str, least: int = 64) -> int | None:
    """How many completion tokens a context window still has room for, where an error about its length tells: then a
    smaller ``max_tokens`` helps. None when it does not tell, or when fewer than ``least`` are left."""
    window, prompt = _WINDOW.search(said), _INPUT.search(said)
    if not window or not prompt:
        return None
    room = int(window[1]) - int(prompt[1] or prompt[2])
    return room if room >= least else None


@dataclass(frozen=True, slots=True)
class Retries:
    """What one call may cost. ``attempts`` requests that fail by something that can pass; ``patience`` seconds without
    any answer from a rate-limited endpoint; no counted request starts ``deadline`` seconds after the call's start.
    ``connect`` (seconds) bounds opening a connection. Kinds in ``final`` are never tried again."""

    attempts: int = 4
    first_pause: float = 0.25
    longest_pause: float = 8.0
    patience: float = 600.0
    deadline: float = float("inf")
    connect: float = 15.0
    final: frozenset[ErrorKind] = field(default_factory=frozenset)


@dataclass(slots=True)
class Tries:
    """What one call has cost so far. Times are of the event loop's clock."""

    started: float
    requests: int = 0
    counted: int = 0
    limited: int = 0
    limited_since: float | None = None

    def book(self, fault: Fault, now: float) -> None:
        """Count one more faulty request."""
        self.requests += 1
        if fault.then == "wait":
            self.limited += 1
            self.limited_since = now if self.limited_since is None else self.limited_since
        elif fault.then == "count":
            self.counted += 1


def next_pause(
    fault: Fault, tries: Tries, retries: Retries, now: float, last_success: float | None, draw: float
) -> float | None:
    """Seconds to wait before the next request of a call whose last one (booked in ``tries``) was ``fault``; None: no
    more. ``draw`` is uniform in [0, 1); ``last_success`` is when the endpoint last answered any call."""
    if fault.kind in retries.final or fault.then in ("stop", "rewrite"):
        return None
    if fault.then == "count":
        if tries.counted >= retries.attempts:
            return None
        pause = draw * min(retries.longest_pause, retries.first_pause * 2.0 ** (tries.counted - 1))
        return pause if now + pause - tries.started < retries.deadline else None
    backoff = min(30.0, 2.0 ** min(tries.limited - 1, 5)) * (0.5 + 0.5 * draw)
    # A server that says "at once" again and again must not be asked at the speed of the network.
    pause = backoff if fault.retry_after is None else fault.retry_after or 0.1 * backoff
    since: float = max(tries.limited_since or now, last_success or 0.0)
    return pause if now + pause - since < retries.patience else None


_SECRETS = re.compile(r"\bsk-[\w*.-]{4,}|(?<=Bearer )\S{6,}")


def without_secrets(text: str, api_key: str | None) -> str:
    """``text`` cut to a message's length, without the key and whatever looks like one."""
    if api_key and len(api_key) >= 4:
        text = text.replace(api_key, "***")
    text = _SECRETS.sub("***", text)
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"


def model_error(fault: Fault, spec: ModelSpec, url: str, key: str | None, key_source: str, requests: int) -> ModelError:
    """What the caller of a call gets that ends in ``fault`` after ``requests`` requests."""
    said = without_secrets(fault.message, key) or "no reason was given"
    if fault.kind == "auth":
        source = f"the key from {key_source}" if key_source else "the key" if key else "a request without a key"
        said = f"the server refused {source}: {said}"
    elif fault.status == 404:
        said = f"no such model, or the base URL is wrong{'' if '/v1' in url else ' (does it lack /v1?)'}: {said}"
    status = f"HTTP {fault.status}: " if fault.status not in (None, 200) else ""
    often = f" ({requests} requests)" if requests > 1 else ""
    message = f"{spec.role} model {spec.model!r} at {url}: {status}{said}{often}"
    return ModelError(fault.kind, message, raw=fault.raw, status=fault.status)
