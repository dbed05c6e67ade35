"""The models that an endpoint says it has."""

from __future__ import annotations

import asyncio
import json

import aiohttp

from skillopt.models.http import WIRES, key_header, open_session
from skillopt.models.profile import ResolvedRole
from skillopt.models.urls import operation_url

_MOST_BYTES = 4 << 20


async def list_models(resolved: ResolvedRole, timeout: float = 5.0) -> tuple[str, ...]:
    """The names at ``GET /models`` of a role's endpoint, in its order; none where it has no such list, has not answered
    in ``timeout`` seconds, or asks for more than a key."""
    if resolved.profile.protocol == "cli" or not resolved.spec.base_url or resolved.credential != "key":
        return ()
    row = resolved.profile
    headers = {**WIRES[row.protocol].headers, **key_header(row.auth, resolved.api_key)}
    limit = aiohttp.ClientTimeout(total=timeout)
    try:
        async with (
            open_session() as session,
            session.get(
                operation_url(resolved.spec.base_url, "/models"),
                headers=headers,
                proxy=resolved.proxy,
                timeout=limit,
                allow_redirects=False,  # the key is for this host only
            ) as response,
        ):
            raw = await response.content.read(_MOST_BYTES) if response.status == 200 else b""
            while raw and not response.content.at_eof() and len(raw) < _MOST_BYTES:
                raw += await response.content.read(_MOST_BYTES - len(raw))
    except (aiohttp.ClientError, OSError, asyncio.TimeoutError):
        return ()
    return names_in(raw)


def names_in(raw: bytes) -> tuple[str, ...]:
    """The names in a list of models: ``{"data": [{"id": NAME}, …]}``, or ``models`` for ``data``."""
    try:
        body = json.loads(raw or b"null")
    except (ValueError, RecursionError):
        return ()
    rows = (body.get("data") or body.get("models")) if isinstance(body, dict) else None
    ids = [row.get("id") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return tuple(name.removeprefix("models/") for name in ids if isinstance(name, str) and name)
