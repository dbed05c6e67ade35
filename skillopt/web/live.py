"""Server-sent events: what changed since a page was made. One question a second for a run that is watched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from threading import Event
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from skillopt.run.folder import in_use
from skillopt.web.site import Problem, entry_of, site_of

RUN_EVERY_S = 1.0
RUNS_EVERY_S = 3.0
_IDLE_EVERY = 5
_BEAT_S = 15.0
_NOTICE_S = 0.25
"""How soon an open stream notices that the dashboard ends."""
Told = dict[str, Any]


async def run_stream(request: Request) -> Response:
    """What a run does: the strip of stages, and a ``version`` that changes when the page should be renewed."""
    site, entry = site_of(request), await run_in_threadpool(entry_of, request)

    def look() -> tuple[Told, bool]:
        state = site.catalog.live(entry)
        html = site.renderer.html(None, "pulse.html", progress=state.progress, running=state.running)
        return {"html": html, "version": state.version}, state.running

    return _streaming(request, look, RUN_EVERY_S)


async def runs_stream(request: Request) -> Response:
    """A ``version`` that changes with the list of runs."""
    site = site_of(request)
    return _streaming(request, lambda: ({"version": site.catalog.signature()}, True), RUNS_EVERY_S)


async def job_stream(request: Request) -> Response:
    """A ``version`` that changes with what a command prints, and where to go once its run has a folder."""
    site = site_of(request)
    job = await run_in_threadpool(site.jobs.get, request.path_params["job"])
    if job is None:
        raise Problem(404, "There is no such command.")

    def look() -> tuple[Told, bool]:
        site.catalog.forget_scan()
        run = next((entry for entry in site.catalog.entries() if str(entry.root) == job.folder), None)
        alive = site.jobs.alive(job)
        told: Told = {"version": f"{site.jobs.log_size(job)}-{alive:d}"}
        at_work = alive and run is not None and in_use(run.root)
        return ({**told, "goto": f"/run/{run.id}"} if run is not None and at_work else told), alive

    return _streaming(request, look, RUN_EVERY_S)


def _streaming(request: Request, look: Callable[[], tuple[Told, bool]], every: float) -> Response:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    if request.method == "HEAD":
        return Response(media_type="text/event-stream", headers=headers)
    told = _changes(look, every, site_of(request).closing)
    return StreamingResponse(told, media_type="text/event-stream", headers=headers)


async def _changes(look: Callable[[], tuple[Told, bool]], every: float, closing: Event) -> AsyncIterator[str]:
    """What ``look`` tells, whenever it tells something else, until the dashboard is ``closing``. It is asked less often
    while nothing is at work."""
    before: Told | None = None
    silent = 0.0
    while not closing.is_set():
        told, busy = await run_in_threadpool(look)
        if told != before:
            before, silent = told, 0.0
            yield f"data: {json.dumps(told, ensure_ascii=False)}\n\n"
        elif silent >= _BEAT_S:
            silent = 0.0
            yield ": still here\n\n"
        pause = every if busy else every * _IDLE_EVERY
        for _ in range(round(pause / _NOTICE_S)):
            if not closing.is_set():
                await asyncio.sleep(_NOTICE_S)
        silent += pause
