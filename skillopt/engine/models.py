"""The models of a run, opened for as long as it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from skillopt.concurrency import gather_all
from skillopt.config import Config
from skillopt.models.errors import ModelError
from skillopt.models.limiter import Limiter
from skillopt.models.openai import OpenAIChat, open_session
from skillopt.models.probe import probe
from skillopt.models.providers import ResolvedRole
from skillopt.models.types import ModelSpec
from skillopt.run.folder import RunFolder
from skillopt.run.journaled import JournaledModel
from skillopt.run.spend import SpendMeter
from skillopt.types import Role

Models = Mapping[Role, JournaledModel]


class RoleError(Exception):
    """A role whose model cannot be used, before any work was sent: the role, the model, the cause."""

    def __init__(self, role: Role, spec: ModelSpec, error: ModelError) -> None:
        super().__init__(f"{role}: {spec.model} at {spec.base_url}: {error}")
        self.error = error


@asynccontextmanager
async def open_models(
    config: Config,
    roles: Mapping[Role, ResolvedRole],
    folder: RunFolder,
    meter: SpendMeter,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> AsyncIterator[Models]:
    """The models by role, each behind the journal; an embedded server runs as long as the context.

    Requests in flight when the context ends are waited for and kept: they are paid.
    """
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        urls = await _serve_locally(stack, roles, environ, say)
        caps: Mapping[Role, int] = {"target": config.env.workers, "optimizer": config.gradient.analyst_workers}
        limiters: dict[str, Limiter] = {}
        models: dict[Role, JournaledModel] = {}
        for role, resolved in roles.items():
            url = urls.get(resolved.spec.model, resolved.spec.base_url)
            limiter = limiters.setdefault(url, Limiter(caps))
            client = OpenAIChat.of(resolved, session, limiter, meter, base_url=url)
            models[role] = JournaledModel(client, folder.journal)
        try:
            yield models
        finally:
            grace = min(config.model.timeout_seconds, 30.0)
            await asyncio.gather(*(model.drain(grace) for model in models.values()))


async def check_models(models: Models) -> None:
    """One short call a role, all at once. Raises ``RoleError`` for the first that does not answer."""

    async def check(role: Role, model: JournaledModel) -> None:
        try:
            await probe(model.inner)
        except ModelError as error:
            raise RoleError(role, model.spec, error) from error

    await gather_all(check(role, model) for role, model in models.items())


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
        path = await asyncio.to_thread(ensure_weights, name, environ, say)
        say(f"loading {path.name} on this machine")
        server = await stack.enter_async_context(LocalServer(path))
        urls[name] = server.base_url
    return urls
