"""Commands that were started here: their output, stopping them, and going on with a run."""

from __future__ import annotations

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from skillopt.web.jobs import JobError
from skillopt.web.site import Form, Problem, entry_of, goto, site_of, view_of


def page(request: Request) -> Response:
    """What a command printed, and where its run is."""
    site = site_of(request)
    job = site.jobs.get(request.path_params["job"])
    if job is None:
        raise Problem(404, "There is no such command.")
    site.catalog.forget_scan()
    run = next((entry for entry in site.catalog.entries() if str(entry.root) == job.folder), None)
    output = site_of(request).renderer.allowance().take("\n".join(site.jobs.log(job)), 100_000)
    alive = site.jobs.alive(job)
    name = Path(job.folder).name
    return site.renderer.page(request, "job.html", job=job, alive=alive, output=output, run=run, name=name)


async def stop(request: Request, form: Form) -> Response:
    """Interrupts the process that works in a run."""
    site, entry = site_of(request), await run_in_threadpool(entry_of, request)
    job = await run_in_threadpool(site.jobs.at_work, entry.root)
    if job is None:
        message = "No process that this dashboard started works in this run: press Ctrl-C where it was started."
        raise Problem(409, message)
    await run_in_threadpool(_interrupted, request, job.id)
    return goto(f"/run/{entry.id}")


async def stop_job(request: Request, form: Form) -> Response:
    """Interrupts a command that has no run folder yet."""
    await run_in_threadpool(_interrupted, request, request.path_params["job"])
    return goto(f"/job/{request.path_params['job']}")


async def resume(request: Request, form: Form) -> Response:
    """Goes on with a run, by ``skillopt resume``."""
    site = site_of(request)
    entry, view = await run_in_threadpool(view_of, request)
    if view.status == "running":
        raise Problem(409, "A process works in this run already.")
    if view.kind != "training" or not view.has_journal:
        raise Problem(409, "Only a training run of this version can be resumed.")
    if view.status == "finished":
        raise Problem(409, "This run is finished: there is nothing to go on with.")
    words = ("resume", str(entry.root), "--plain")
    try:
        job = await run_in_threadpool(site.jobs.start, "resume", words, entry.root)
    except JobError as error:
        raise Problem(409, f"The run cannot be resumed: {error}.") from error
    return goto(f"/job/{job.id}")


def _interrupted(request: Request, id_: str) -> None:
    site = site_of(request)
    job = site.jobs.get(id_)
    if job is None:
        raise Problem(404, "There is no such command.")
    try:
        site.jobs.stop(job)
    except JobError as error:
        raise Problem(409, f"It cannot be stopped: {error}.") from error
