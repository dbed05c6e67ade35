"""The models of a run, opened for as long as it lasts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from skillopt.concurrency import cancel_all, gather_all
from skillopt.config import Config
from skillopt.engine.errors import RoleError
from skillopt.models.azure import AzureToken
from skillopt.models.errors import ModelError
from skillopt.models.http import HttpChat, open_session
from skillopt.models.limiter import Limiter
from skillopt.models.pricing import Price
from skillopt.models.probe import probe
from skillopt.models.profile import ResolvedRole
from skillopt.models.providers import patience_with
from skillopt.models.types import ChatModel, Meter
from skillopt.run.folder import RunFolder
from skillopt.run.journaled import JournaledModel
from skillopt.types import Role

Clients = Mapping[Role, ChatModel]
Models = Mapping[Role, JournaledModel]


class OpenClients(Protocol):
    """A way to reach the models of a run: gives a client for each role that is open as long as the context lasts.

    Every request that a client sends has to be admitted by the meter and booked with it.
    """

    def __call__(
        self,
        config: Config,
        roles: Mapping[Role, ResolvedRole],
        meter: Meter,
        environ: Mapping[str, str],
        say: Callable[[str], None],
    ) -> AbstractAsyncContextManager[Clients]: ...


@asynccontextmanager
async def open_clients(
    config: Config,
    roles: Mapping[Role, ResolvedRole],
    meter: Meter,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    *,
    extra_environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Clients]:
    """The clients over HTTP and over programs; an embedded server runs as long as the context.

    Raises ``RoleError`` for a program that is not there or is not what it is called as. ``extra_environment`` is handed
    to the programs as it is.
    """
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        urls = await _serve_locally(stack, roles, environ, say)
        caps: Mapping[Role, int] = {"target": config.env.workers, "optimizer": config.gradient.analyst_workers}
        limiters: dict[str, Limiter] = {}
        clients: dict[Role, ChatModel] = {}
        programs = {role: resolved for role, resolved in roles.items() if resolved.profile.protocol == "cli"}
        if programs:
            from skillopt.engine.programs import open_programs  # most runs have none

            clients |= await open_programs(config, programs, caps, meter, environ, say, extra_environment)
        for role, resolved in roles.items():
            if role in programs:
                continue
            local = resolved.spec.provider == "local"
            url = urls[resolved.spec.model] if local else resolved.spec.base_url
            limiter = limiters.setdefault(url, Limiter(caps))
            token = AzureToken.of(resolved, environ) if resolved.credential != "key" else None
            clients[role] = HttpChat.of(resolved, session, limiter, meter, base_url=url, credential=token)
        yield clients


@asynccontextmanager
async def journaled(
    clients: AbstractAsyncContextManager[Clients],
    folder: RunFolder,
    grace: float,
    prices: Mapping[Role, Price | None] | None = None,
    *,
    probe_now: bool = False,
) -> AsyncIterator[Models]:
    """The models by role, each behind the journal of the run, which books what a reply costs by ``prices``.

    Before the first request of either, every role is probed: as soon as it can be (``probe_now``, for work that is
    sure to ask), or when there is a request to send, so that nothing is sent where the journal has all answers.
    Requests in flight when the context ends are waited for and kept, up to ``grace`` seconds: they are paid.
    """
    async with clients as opened:
        check = RoleCheck(opened)
        if probe_now:
            check.start()
        costs = prices or {}
        models = {
            role: JournaledModel(client, folder.journal, check, costs.get(role)) for role, client in opened.items()
        }
        try:
            yield models
        finally:
            await check.close()
            await asyncio.gather(*(model.drain(grace) for model in models.values()))


class RoleCheck:
    """One short call a role, all at once, when it is started or first awaited. Raises ``RoleError`` when one fails."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._done: asyncio.Future[list[None]] | None = None

    def start(self) -> asyncio.Future[list[None]]:
        if self._done is None:
            self._done = asyncio.ensure_future(gather_all(_check(*each) for each in self._clients.items()))
        return self._done

    async def __call__(self) -> None:
        await asyncio.shield(self.start())

    async def close(self) -> None:
        """Ends what nobody waits for any more."""
        await cancel_all([self._done] if self._done is not None else [])


async def _check(role: Role, client: ChatModel) -> None:
    try:
        await probe(client, patience_with(client.spec.provider))
    except ModelError as error:
        raise RoleError(role, error) from error


async def _serve_locally(
    stack: AsyncExitStack,
    roles: Mapping[Role, ResolvedRole],
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> dict[str, str]:
    """Base URL by model, for the models that run on this machine: one server each, for both roles if they share it."""
    names = sorted({role.spec.model for role in roles.values() if role.spec.provider == "local"})
    if not names:
        return {}
    from skillopt.local.server import LocalServer  # the extra `local`, only where it is asked for
    from skillopt.local.weights import ensure_weights

    urls = {}
    for name in names:
        stop = threading.Event()
        try:
            path = await asyncio.to_thread(ensure_weights, name, environ, say, stop=stop)
        except asyncio.CancelledError:
            stop.set()  # a thread cannot be cancelled: the download ends itself
            raise
        say(f"loading {path.name} on this machine")
        server = await stack.enter_async_context(LocalServer(path))
        urls[name] = server.base_url
    return urls
