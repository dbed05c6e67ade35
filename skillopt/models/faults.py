"""What a response that is no reply means. Pure: no clock, no I/O."""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timezone
from typing import Any, Literal

from skillopt.models.errors import About, ErrorKind, ModelError
from skillopt.models.streams import whole
from skillopt.models.types import ModelSpec, Request
from skillopt.models.wire import Answered, Fault

LONGEST_MESSAGE = 500

_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum context|too many (?:input |prompt )?tokens"
    r"|(?:prompt|input) (?:is|was) too (?:long|large)|reduce the length of",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[ _](?:filter|policy)|content management policy|safety system|data_?inspection_?failed"
    r"|responsibleaipolicyviolation",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(
    r"insufficient[_ ](?:quota|balance|funds|credits?)|billing_(?:hard_limit|not_active|error)|arrearage"
    r"|credit balance is too low",
    re.IGNORECASE,
)
_CUT_THINKING = re.compile(r"could not finish the message because max_tokens", re.IGNORECASE)

_STATUSES: Mapping[str, int] = {
    # what OpenAI's and Anthropic's protocols call an error, where the status does not tell: inside a 200
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "content_filter": 400,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
    # MiniMax's numbers
    "1001": 504,
    "1002": 429,
    "1004": 401,
    "1008": 402,
    "1026": 451,
    "1027": 451,
    "1039": 429,
    "1041": 429,
    "2013": 400,
    "2045": 429,
    "2049": 401,
    "2056": 429,
}


@dataclass(frozen=True, slots=True)
class _Case:
    """A row of the classification. It fits a failure whose status is among ``statuses`` (empty: any), whose code is
    among ``codes`` or whose words match ``said`` (neither: any), and which says when to come again if ``told``."""

    kind: ErrorKind
    then: Literal["stop", "count", "wait", "rewrite"]
    statuses: frozenset[int] | range = frozenset()
    codes: frozenset[str] = frozenset()
    said: re.Pattern[str] | None = None
    told: bool = False
    about: About = ""

    def fits(self, status: int, error: ServerError, pause: float | None) -> bool:
        if (self.statuses and status not in self.statuses) or (self.told and pause is None):
            return False
        if error.code in self.codes:
            return True
        if self.said is None:
            return not self.codes
        return bool(self.said.search(error.code) or self.said.search(error.message))


_WRITTEN_BADLY = frozenset({400, 422})
_BILL = "the account has no credit left; check its plan and billing: "
_CASES = (  # the first that fits
    _Case("rate_limited", "stop", frozenset({402}), about="credit"),
    _Case("rate_limited", "stop", frozenset({400, 403, 429}), said=_NO_MONEY, about="credit"),
    _Case("rate_limited", "wait", frozenset({429})),
    _Case("auth", "stop", frozenset({401, 403})),
    _Case(
        "context_overflow",
        "rewrite",
        codes=frozenset(
            {"context_length_exceeded", "exceed_context_size_error", "string_above_max_length", "request_too_large"}
        ),
    ),
    _Case("context_overflow", "rewrite", frozenset({400, 413, 422, 500}), said=_OVERFLOW),
    _Case("truncated", "count", frozenset({400}), said=_CUT_THINKING),
    _Case("refused", "stop", frozenset({451})),
    _Case("refused", "stop", _WRITTEN_BADLY, said=_FILTERED),
    _Case("provider", "rewrite", _WRITTEN_BADLY),
    _Case("rate_limited", "wait", frozenset({503, 529}), told=True),
    _Case("timeout", "count", frozenset({408, 504})),
    _Case("provider", "count", frozenset({409, 425})),
    _Case("provider", "count", range(500, 1000)),
    _Case("provider", "stop"),
)


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error body in whichever shape: ``message`` (everything it says), ``code`` and ``param`` in lower case."""

    message: str
    code: str = ""
    param: str = ""


def read_response(
    status: int,
    headers: Mapping[str, str],
    raw: bytes,
    request: Request,
    now: float,
    read: Callable[[Any, Request], Answered | Fault],
) -> Answered | Fault:
    """Reads a whole HTTP response to ``request``; ``read`` reads the body of a reply. ``now`` is in seconds since the
    epoch."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        if status != 200:
            return read_failure(status, headers, _decoded(raw), now)
        body = whole(raw)
        if body is None:
            page = raw.lstrip()[:1] == b"<"
            said = "the response is a web page, not JSON" if page else "the response is not valid JSON"
            return Fault("provider", said, "count", status, raw=_decoded(raw), about="url" if page else "")
    if status == 200 and not _reports_error(body):
        return read(body, request)
    if status == 200:  # gateways report an upstream's error inside a 200
        status = _status_within(body)
    return read_failure(status, headers, body, now)


def _reports_error(body: Any) -> bool:
    if not isinstance(body, dict) or body.get("choices"):
        return False
    return bool(body.get("error")) or bool(_base_resp(body).get("status_code"))


def _base_resp(body: dict[str, Any]) -> dict[str, Any]:
    """MiniMax's own verdict on a request: ``{"status_code": 1002, "status_msg": "…"}``, 0 when all is well."""
    told = body.get("base_resp")
    return told if isinstance(told, dict) else {}


def _status_within(body: dict[str, Any]) -> int:
    """The HTTP status that an error inside a 200 stands for."""
    error = body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return _STATUSES.get(server_error(body).code, 502)


def _decoded(raw: bytes) -> str:
    return raw[:4000].decode("utf-8", "replace")


def server_error(body: Any) -> ServerError:
    """Reads ``{"error": {"message", "code", "param"}}``, ``{"error": "…"}``, ``{"detail": …}``, ``{"message": …}``,
    ``{"base_resp": {"status_msg", "status_code"}}``, any of these in a list, or plain text."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, dict):
        return ServerError(_plain(str(body)))
    error = body.get("error") or _base_resp(body) or body
    if not isinstance(error, dict):
        return ServerError(_plain(str(error)))
    message = error.get("message") or error.get("detail") or error.get("msg") or error.get("status_msg") or error
    code = error.get("code") if isinstance(error.get("code"), str) else error.get("type") or error.get("status_code")
    return ServerError(_plain(str(message)), str(code or "").lower(), str(error.get("param") or "").lower())


def _plain(text: str) -> str:
    """Error pages of proxies are HTML; only their words are of use."""
    if "<html" in text[:500].lower():
        text = re.sub(r"<(?:style|script).*?</(?:style|script)>|<[^>]*>", " ", text, flags=re.DOTALL | re.IGNORECASE)
    return " ".join(text.split())


def read_failure(status: int, headers: Mapping[str, str], body: Any, now: float) -> Fault:
    """The fault behind a response that is not 200. ``body`` is parsed JSON or text, ``now`` seconds since the epoch."""
    error, pause = server_error(body), retry_after(headers, now)
    case = next(case for case in _CASES if case.fits(status, error, pause))
    pause = pause if case.then == "wait" else None
    if 300 <= status < 400:
        said = f"the server redirects to {headers.get('Location', 'nowhere')}; set the base URL to where it leads"
        return Fault(case.kind, said, case.then, status, pause, about="url")
    said = f"{_BILL if case.about == 'credit' else ''}{error.message}"
    return Fault(case.kind, said, case.then, status, pause, param=error.param, about=case.about)


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


_VERSIONED = re.compile(r"/v\d|/openai/")
_SECRETS = re.compile(r"\bsk-[\w*.-]{4,}|(?<=Bearer )\S{6,}")


def without_secrets(text: str, api_key: str | None) -> str:
    """``text`` cut to a message's length, without the key and whatever looks like one."""
    if api_key and len(api_key) >= 4:
        text = text.replace(api_key, "***")
    text = _SECRETS.sub("***", text)
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"


def model_error(fault: Fault, spec: ModelSpec, url: str, key: str | None, key_source: str, requests: int) -> ModelError:
    """What the caller of a call gets that ends in ``fault`` after ``requests`` requests."""
    said, about = without_secrets(fault.message, key) or "no reason was given", fault.about
    if fault.kind == "auth":
        source = f"the key from {key_source}" if key and key_source else "the key" if key else key_source
        source = source or "a request without a key"
        said = f"the server refused {source}: {said}"
    elif fault.status == 404 or (about == "url" and fault.status == 200):
        about = "url" if _VERSIONED.search(url) else "version"
        hint = " (does it lack /v1?)" if about == "version" else ""
        model = "no such model, or " if fault.status == 404 else ""
        said = f"{model}the base URL is wrong{hint}: {said}"
    status = f"HTTP {fault.status}: " if fault.status not in (None, 200) else ""
    often = f" ({requests} requests)" if requests > 1 else ""
    message = f"{spec.role} model {spec.model!r} at {url}: {status}{said}{often}"
    return ModelError(fault.kind, message, raw=fault.raw, status=fault.status, about=about)
