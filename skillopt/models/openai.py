"""The one client for every endpoint that speaks OpenAI's chat protocol."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

import aiohttp
from yarl import URL

from skillopt.models.faults import Retries, Tries, completion_room, learn, model_error, next_pause, read_response
from skillopt.models.limiter import Limiter
from skillopt.models.providers import Provider, ResolvedRole, chat_url
from skillopt.models.types import Attempt, Meter, ModelSpec, Reply, Request
from skillopt.models.wire import NO_USAGE, Answered, Dialect, Fault, adaptations, request_body

RETRIES = Retries()


def open_session() -> aiohttp.ClientSession:
    """A session for all models of a process; call it inside the event loop and close it at the end.

    The limiter alone decides how many connections there are. The session reads no environment: that costs 0.4 ms a
    request, so the proxy is worked out once a model (``providers.proxy_for``).
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "SkillOpt", "Accept": "application/json"},
        trust_env=False,
    )


class OpenAIChat:
    """A ``ChatModel`` over HTTP. Share one instance between all callers of a role: it learns its server's dialect.

    ``base_url`` is where requests really go when that is not what identifies the model (a server on a port of the day).
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
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: random.Random | None = None,
    ) -> None:
        self.spec = spec
        self._profile = profile
        self._api_key = api_key
        self._key_source = key_source
        self._session = session
        self._limiter = limiter
        self._meter = meter
        self._sleep = sleep
        self._draw = (jitter or random.Random()).random
        self._url = URL(chat_url(base_url or spec.base_url))
        self._shown_url = str(self._url.with_query(None))
        self._proxy = proxy
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._dialect = Dialect.of(profile)
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
    ) -> OpenAIChat:
        """The client of a resolved role."""
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
        )

    @property
    def adaptations(self) -> tuple[str, ...]:
        """What the server made the client do otherwise than asked, in words; empty when nothing."""
        return adaptations(Dialect.of(self._profile), self._dialect)

    async def complete(self, request: Request, retries: Retries = RETRIES) -> Reply:
        """One complete reply, after at most as many requests as ``retries`` allows.

        Requests that only taught the dialect are not counted among them. Raises ``ModelError`` and ``StopRequested``.
        """
        clock = asyncio.get_running_loop().time
        timeout = aiohttp.ClientTimeout(total=request.timeout, connect=min(retries.connect, request.timeout))
        tries = Tries(started=clock())
        room: int | None = None
        while True:
            result, dialect, body = await self._send(request, room, timeout)
            if isinstance(result, Answered):
                return Reply(result.text, result.usage)
            tries.book(result, clock())
            if result.then == "rewrite":
                if self._learns(dialect, body, result):
                    continue
                if room is None and (room := completion_room(result.message)) is not None:
                    continue
            pause = next_pause(result, tries, retries, clock(), self._limiter.last_success, self._draw())
            if pause is None:
                raise model_error(result, self.spec, self._shown_url, self._api_key, self._key_source, tries.requests)
            await self._sleep(pause)

    async def _send(self, request: Request, room: int | None, timeout: aiohttp.ClientTimeout) -> _Sent:
        """One HTTP request, admitted before it starts and booked when it has ended in whatever way."""
        role = self.spec.role
        async with self._limiter.slot(role, request.priority) as slot:
            self._meter.admit()
            dialect = self._dialect  # as it is now: while this call waited for its place, another may have learnt
            kind, usage = "cancelled", NO_USAGE
            started = time.perf_counter()
            try:
                body = request_body(request, self.spec, self._profile, dialect, room)
                result = await self._post(request, body, timeout)
                kind, usage = ("ok" if isinstance(result, Answered) else result.kind), result.usage
                if isinstance(result, Answered) or result.status == 200:
                    slot.succeeded()
                elif result.then == "wait":
                    slot.refused(1.0 if result.retry_after is None else result.retry_after)
                return _Sent(result, dialect, body)
            finally:
                self._meter.record(Attempt(role, request.stage, kind, usage, time.perf_counter() - started))

    async def _post(self, request: Request, body: bytes, timeout: aiohttp.ClientTimeout) -> Answered | Fault:
        try:
            async with self._session.post(
                self._url,
                data=body,
                headers=self._headers,
                timeout=timeout,
                proxy=self._proxy,
                allow_redirects=False,  # the key is for this host only
            ) as response:
                raw = await response.read()
                return read_response(response.status, response.headers, raw, request, time.time())
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            return _transport_fault(error, timeout)

    def _learns(self, dialect: Dialect, body: bytes, fault: Fault) -> bool:
        """Whether to send again in another dialect than the one that met ``fault``.

        What is learnt holds for all later requests, and no dialect is tried again once it was refused.
        """
        if self._dialect != dialect:  # learnt by another call while this one was on its way
            return True
        learnt = learn(dialect, body, fault)
        if learnt is None or learnt in self._refused:
            return False
        self._refused.add(dialect)
        self._dialect = learnt
        return True


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
    if isinstance(error, aiohttp.ClientConnectorError):
        return Fault("provider", f"cannot connect: {error.strerror or error.os_error}", "count")
    if isinstance(error, aiohttp.ClientPayloadError):
        return Fault("provider", "the response body was cut", "count")
    if isinstance(error, aiohttp.ClientResponseError):
        return Fault("provider", f"the response is not valid HTTP: {error.message}", "count")
    return Fault("provider", f"the connection was lost: {error or type(error).__name__}", "count")
