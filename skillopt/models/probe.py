"""One short call that shows whether a role's endpoint answers, before anything is spent."""

from __future__ import annotations

from dataclasses import replace

from skillopt.models.errors import ModelError
from skillopt.models.http import HttpChat
from skillopt.models.profile import PATIENCE
from skillopt.models.retries import Retries
from skillopt.models.types import ChatModel, Message, Request

PROBE_STAGE = "probe"

# A cut or empty reply proves as well that key, URL and model name are right: reasoning models spend so few tokens on
# thinking. The deadline lets a dead endpoint be named after about ten seconds; a slow model still has its timeout.
_ONCE = Retries(deadline=6.0, connect=5.0, final=frozenset({"truncated", "empty"}))


def probe_request(timeout: float = PATIENCE) -> Request:
    """The probe: no item in it, well under 100 tokens. ``timeout`` in seconds has to suffice to load a model."""
    ask = Message("user", "Reply with the single word OK.")
    return Request((ask,), max_tokens=16, stage=PROBE_STAGE, timeout=timeout)


async def probe(model: ChatModel, timeout: float = PATIENCE) -> None:
    """Returns when ``model`` answers. Raises the ``ModelError`` that a run would meet, or ``StopRequested``.

    Ask the client itself, not a journal around it: a stored answer would prove nothing.
    """
    request = probe_request(timeout)
    once = replace(_ONCE, timeout=timeout)
    try:
        await (model.complete(request, once) if isinstance(model, HttpChat) else model.complete(request))
    except ModelError as error:
        if error.kind not in ("truncated", "empty"):
            raise
