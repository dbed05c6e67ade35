"""The application: its routes, its errors, and the server that runs it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skillopt.config import Redactor, read_environment
from skillopt.web.catalog import Catalog
from skillopt.web.jobs import Jobs
from skillopt.web.live import job_stream, run_stream, runs_stream
from skillopt.web.pages import compare, evaluate, items, jobs, launch, run, runs, share, skills, steps
from skillopt.web.render import Renderer, stylesheet
from skillopt.web.security import Guard, Keys
from skillopt.web.settings import Settings, SettingsError
from skillopt.web.site import Problem, Site, posted, reader, site_of


def make_app(settings: Settings) -> Starlette:
    """The dashboard for ``settings``."""
    environ = read_environment(settings.folder, settings.environ)
    keys = Keys(settings.token)
    secrets = Redactor.collect({**environ, **({"DASHBOARD_API_KEY": settings.token} if settings.token else {})})
    site = Site(
        settings,
        keys,
        Catalog(settings.roots),
        Jobs(settings.state, settings.folder, settings.environ),
        Renderer(keys, secrets),
    )
    app = Starlette(
        routes=_routes(),
        middleware=[Middleware(Guard, settings=settings, keys=keys)],
        exception_handlers={Problem: _problem, HTTPException: _http, Exception: _fault},
    )
    app.state.site = site
    return app


def warm(app: Starlette) -> threading.Thread:
    """Reads all runs in the background, so that the first page need not."""
    site: Site = app.state.site

    def read() -> None:
        site.renderer.warm()
        for entry in site.catalog.entries():
            site.catalog.brief(entry)

    thread = threading.Thread(target=read, name="warm", daemon=True)
    thread.start()
    return thread


def listen(settings: Settings) -> tuple[Settings, socket.socket]:
    """Takes the port; with port 0 any free one, which the settings then have. Raises ``SettingsError``."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        taken = socket.create_server((settings.host.strip("[]"), settings.port), family=family, backlog=128)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}; choose another with --port"
        ) from error
    return replace(settings, port=taken.getsockname()[1]), taken


def serve(settings: Settings, taken: socket.socket) -> None:
    """Runs the dashboard on a port until it is interrupted. What it started goes on."""
    app = make_app(settings)
    warm(app)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # an address may hold the token
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=1,
        limit_concurrency=1000,  # open pages with their streams count, too
    )
    with suppress(KeyboardInterrupt):
        _Server(config, app.state.site.closing).run(sockets=[taken])


class _Server(uvicorn.Server):
    """A server that tells open streams to end before it waits for them."""

    def __init__(self, config: uvicorn.Config, closing: threading.Event) -> None:
        super().__init__(config)
        self._closing = closing

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._closing.set()
        super().handle_exit(sig, frame)


def _routes() -> list[Route]:
    read = [
        ("/", runs.index),
        ("/compare", compare.page),
        ("/comparison.html", share.comparison),
        ("/job/{job}", jobs.page),
        ("/run/{run}", run.overview),
        ("/run/{run}/report.html", share.report),
        ("/run/{run}/steps", steps.table),
        ("/run/{run}/steps/{step}", steps.one),
        ("/run/{run}/skill", skills.skill),
        ("/run/{run}/blame", skills.blame),
        ("/run/{run}/items", items.table),
        ("/run/{run}/item", items.one),
        ("/run/{run}/calls", run.calls),
        ("/run/{run}/events", run.events),
        ("/run/{run}/log", run.log),
        ("/run/{run}/config", run.config),
    ]
    written = [
        ("/run/{run}/stop", jobs.stop),
        ("/run/{run}/resume", jobs.resume),
        ("/job/{job}/stop", jobs.stop_job),
        ("/new", launch.submit),
        ("/evaluate", evaluate.submit),
    ]
    return [
        *(Route(path, reader(page)) for path, page in read),
        Route("/new", reader(launch.page), methods=["GET"]),
        Route("/evaluate", reader(evaluate.page), methods=["GET"]),
        *(Route(path, posted(handle), methods=["POST"]) for path, handle in written),
        Route("/stream", runs_stream),
        Route("/run/{run}/stream", run_stream),
        Route("/job/{job}/stream", job_stream),
        Route("/static/app.css", reader(_style)),
        Route("/static/app.js", reader(_script)),
        Route("/static/icon.svg", reader(_icon)),
        Route("/favicon.ico", reader(_icon)),
    ]


def _style(request: Request) -> Response:
    return _static(stylesheet(), "text/css")


def _script(request: Request) -> Response:
    return _static(_packaged("app.js"), "text/javascript")


def _icon(request: Request) -> Response:
    return _static(_packaged("icon.svg"), "image/svg+xml")


def _packaged(name: str) -> str:
    return (files("skillopt.web") / "static" / name).read_text(encoding="utf-8")


def _static(text: str, kind: str) -> Response:
    return Response(text, media_type=kind, headers={"cache-control": "private, max-age=600"})


def _problem(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, Problem) else 500
    return site_of(request).renderer.page(request, "problem.html", status, message=str(error), code=status)


def _http(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    message = {404: "There is no such page.", 405: "This page does not take that."}.get(
        code, "That cannot be answered."
    )
    return site_of(request).renderer.page(request, "problem.html", code, message=message, code=code)


def _fault(request: Request, error: Exception) -> Response:
    # The outermost edge: the traceback goes to the terminal of the dashboard, not to the browser.
    message = f"This is a fault in SkillOpt ({type(error).__name__}); the dashboard's terminal says more."
    return site_of(request).renderer.page(request, "problem.html", 500, message=message, code=500)
