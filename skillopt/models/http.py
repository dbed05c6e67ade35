"""The one client for every endpoint that is spoken to over HTTP, whichever its protocol."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

import aiohttp
from yarl import URL

from skillopt.models import anthropic, chat, responses
from skillopt.models.errors import ModelError
from skillopt.models.faults import model_error, read_response
from skillopt.models.limiter import Limiter
from skillopt.models.profile import Auth, Provider, ResolvedRole
from skillopt.models.profile import Protocol as ProtocolName
from skillopt.models.retries import Retries, Tries, next_pause
from skillopt.models.types import Attempt, Meter, ModelSpec, Reply, Request
from skillopt.models.urls import operation_url
from skillopt.models.wire import NO_USAGE, Answered, Dialect, Fault, adaptations

RETRIES = Retries()
MOST_BYTES = 64 << 20
"""What a response may hold, unpacked. No reply is as long: a server that sends more would fill the memory."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A protocol: the path of its operation below a base URL, its functions, and headers of its own."""

    path: str
    request_body: Callable[[Request, ModelSpec, Dialect, int | None], bytes]
    read_completion: Callable[[Any, Request], Answered | Fault]
    headers: Mapping[str, str] = field(default_factory=dict)


WIRES: Mapping[ProtocolName, Wire] = {
    "chat": Wire("/chat/completions", chat.request_body, chat.read_completion),
    "responses": Wire("/responses", responses.request_body, responses.read_completion),
    "messages": Wire(
        "/messages",
        anthropic.request_body,
        anthropic.read_completion,
        {"anthropic-version": anthropic.VERSION},
    ),
}
_KEY_HEADERS: Mapping[Auth, tuple[str, str]] = {
    "bearer": ("Authorization", "Bearer "),
    "api-key": ("api-key", ""),
    "x-api-key": ("x-api-key", ""),
}


def key_header(auth: Auth, api_key: str | None) -> dict[str, str]:
    """The header that carries a key; none without one."""
    if not api_key:
        return {}
    name, before = _KEY_HEADERS[auth]
    return {name: f"{before}{api_key}"}


class Credential(Protocol):
    """What authorises requests in place of a key."""

    async def headers(self) -> Mapping[str, str]:
        """The headers to send now. Raises ``ModelError`` (``auth``) when there are none to be had."""

    def secrets(self) -> tuple[str, ...]:
        """What has to be kept out of messages."""


def open_session() -> aiohttp.ClientSession:
    """A session for all models of a process; call it inside the event loop and close it at the end.

    The limiter alone decides how many connections there are. The session reads no environment: that costs 0.4 ms a
    request, so the proxy is worked out once a model (``urls.proxy_for``).
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "SkillOpt", "Accept": "application/json"},
        trust_env=False,
    )


class HttpChat:
    """A ``ChatModel`` over HTTP. Share one instance between all callers of a role: it learns its server's dialect.

    ``base_url`` is where requests really go when that is not what identifies the model (a server on a port of the day).
    ``max_tokens`` caps the completion tokens of every request, ``timeout`` (seconds) replaces that of every request.
    """

    def __init__(
        self,
        spec: ModelSpec,
        profile: Provider,
        api_key: str | None,
        session: aiohttp.ClientSession,
        limiter: Limiter,
        meter: Meter,
        *,
        key_source: str = "",
        proxy: str | None = None,
        base_url: str | None = None,
        max_tokens: int | None = None,
        timeout: float | None = None,
        credential: Credential | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: random.Random | None = None,
    ) -> None:
        self.spec = spec
        self._wire = WIRES[profile.protocol]
        self._api_key = api_key
        self._key_source = key_source
        self._credential = credential
        self._session = session
        self._limiter = limiter
        self._meter = meter
        self._sleep = sleep
        self._draw = (jitter or random.Random()).random
        self._url = URL(operation_url(base_url or spec.base_url, self._wire.path))
        self._shown_url = str(self._url.with_query(None))
        self._proxy = proxy
        self._timeout = timeout
        self._headers = {
            "Content-Type": "application/json",
            **self._wire.headers,
            **key_header(profile.auth, api_key),
        }
        self._asked = self._dialect = Dialect.of(profile, max_tokens)
        self._refused: set[Dialect] = set()

    @classmethod
    def of(
        cls,
        role: ResolvedRole,
        session: aiohttp.ClientSession,
        limiter: Limiter,
        meter: Meter,
        *,
        base_url: str | None = None,
        credential: Credential | None = None,
    ) -> HttpChat:
        """The client of a resolved role. ``credential`` is due when the role has no key but tokens."""
        return cls(
            role.spec,
            role.profile,
            role.api_key,
            session,
            limiter,
            meter,
            key_source=role.key_source,
            proxy=role.proxy,
            base_url=base_url,
            max_tokens=role.max_tokens,
            timeout=role.timeout,
            credential=credential,
        )

    @property
    def adaptations(self) -> tuple[str, ...]:
        """What the server made the client do otherwise than asked, in words; empty when nothing."""
        return adaptations(self._asked, self._dialect)

    async def complete(self, request: Request, retries: Retries = RETRIES) -> Reply:
        """One complete reply, after at most as many requests as ``retries`` allows.

        Requests that only taught the dialect are not counted among them. Raises ``ModelError`` and ``StopRequested``.
        """
        clock = asyncio.get_running_loop().time
        seconds = retries.timeout or self._timeout or request.timeout
        timeout = aiohttp.ClientTimeout(total=seconds, connect=min(retries.connect, seconds))
        tries = Tries(started=clock())
        room: int | None = None
        while True:
            result, dialect, body = await self._send(request, room, timeout)
            if isinstance(result, Answered):
                return Reply(result.text, result.usage, tool_calls=result.tool_calls)
            tries.book(result, clock())
            if result.then == "rewrite":
                from skillopt.models.lessons import completion_room, learn  # few runs meet a refusal

                if self._learns(dialect, learn(dialect, body, result)):
                    continue
                if room is None and (room := completion_room(result.message)) is not None:
                    continue
            pause = next_pause(result, tries, retries, clock(), self._limiter.last_success, self._draw())
            if pause is None:
                raise self._error(result, tries.requests)
            await self._sleep(pause)

    async def _send(self, request: Request, room: int | None, timeout: aiohttp.ClientTimeout) -> _Sent:
        """One HTTP request, admitted before it starts and booked when it has ended in whatever way."""
        role = self.spec.role
        headers = self._headers if self._credential is None else await self._authorised(self._credential)
        async with self._limiter.slot(role, request.priority) as slot:
            self._meter.admit()
            dialect = self._dialect  # as it is now: while this call waited for its place, another may have learnt
            kind, usage = "cancelled", NO_USAGE
            started = time.perf_counter()
            try:
                body = self._wire.request_body(request, self.spec, dialect, room)
                result = await self._post(request, body, headers, timeout)
                kind, usage = ("ok" if isinstance(result, Answered) else result.kind), result.usage
                if isinstance(result, Answered) or result.status == 200:
                    slot.succeeded()
                elif result.then == "wait":
                    slot.refused(1.0 if result.retry_after is None else result.retry_after)
                return _Sent(result, dialect, body)
            finally:
                self._meter.record(Attempt(role, request.stage, kind, usage, time.perf_counter() - started))

    async def _authorised(self, credential: Credential) -> Mapping[str, str]:
        try:
            return {**self._headers, **await credential.headers()}
        except ModelError as error:
            where = f"{self.spec.role} model {self.spec.model!r} at {self._shown_url}"
            raise ModelError(error.kind, f"{where}: {error.args[0]}") from None

    async def _post(
        self, request: Request, body: bytes, headers: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> Answered | Fault:
        try:
            async with self._session.post(
                self._url,
                data=body,
                headers=headers,
                timeout=timeout,
                proxy=self._proxy,
                allow_redirects=False,  # the key is for this host only
            ) as response:
                raw = await _whole_body(response.content)
                if raw is None:
                    said = f"the response has more than {MOST_BYTES >> 20} MiB"
                    return Fault("provider", said, "stop", response.status)
                read = self._wire.read_completion
                return read_response(response.status, response.headers, raw, request, time.time(), read)
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            return _transport_fault(error, timeout)

    def _learns(self, dialect: Dialect, learnt: Dialect | None) -> bool:
        """Whether to send again in another dialect than ``dialect``, whose refusal suggests ``learnt``.

        What is learnt holds for all later requests, and no dialect is tried again once it was refused.
        """
        if self._dialect != dialect:  # learnt by another call while this one was on its way
            return True
        if learnt is None or learnt in self._refused:
            return False
        self._refused.add(dialect)
        self._dialect = learnt
        return True

    def _error(self, fault: Fault, requests: int) -> ModelError:
        source = self._key_source
        if self._credential is not None:
            source = "the sign-in at Azure"
            for secret in self._credential.secrets():
                fault = replace(fault, message=fault.message.replace(secret, "***"))
        return model_error(fault, self.spec, self._shown_url, self._api_key, source, requests)


async def _whole_body(content: aiohttp.StreamReader) -> bytes | None:
    """The body of a response; None when it is longer than ``MOST_BYTES``, of which no more is read."""
    parts: list[bytes] = []
    size = 0
    while part := await content.readany():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            return None
    return b"".join(parts)


class _Sent(NamedTuple):
    """What came of one request, and how it was written."""

    result: Answered | Fault
    dialect: Dialect
    body: bytes


def _transport_fault(error: Exception, timeout: aiohttp.ClientTimeout) -> Fault:
    """The fault behind a request that brought no whole response."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Fault("timeout", f"no connection within {timeout.connect:g} s", "count")
    if isinstance(error, asyncio.TimeoutError):
        return Fault("timeout", f"no complete reply within {timeout.total:g} s", "count")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Fault("provider", f"its certificate cannot be verified: {error.certificate_error}", "stop")
    if isinstance(error, aiohttp.InvalidURL):
        return Fault("provider", f"the URL cannot be used: {error}", "stop")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        then: Literal["count", "stop"] = "count" if error.status >= 500 else "stop"
        return Fault("provider", f"the proxy refused the connection: {error.status} {error.message}", then)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        said = f"cannot connect to the proxy {error.host}:{error.port}: {error.strerror or error.os_error}"
        return Fault("provider", said, "count")
    if isinstance(error, aiohttp.ClientConnectorError):
        return Fault("provider", f"cannot connect: {error.strerror or error.os_error}", "count")
    if isinstance(error, aiohttp.ClientPayloadError):
        return Fault("provider", "the response body was cut", "count")
    if isinstance(error, aiohttp.ClientResponseError):
        return Fault("provider", f"the response is not valid HTTP: {error.message}", "count")
    return Fault("provider", f"the connection was lost: {error or type(error).__name__}", "count")
