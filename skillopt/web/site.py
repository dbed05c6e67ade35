"""What the pages share: the runs, the commands, the templates, and how a form is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from threading import Event
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from skillopt.report.run import RunView
from skillopt.run.folder import FolderError
from skillopt.web.catalog import Catalog, Entry
from skillopt.web.jobs import Jobs
from skillopt.web.render import Renderer
from skillopt.web.security import Keys, form_cookie, same
from skillopt.web.settings import Settings

_FORM_BYTES = 1 << 18
PAGE = 100


@dataclass(frozen=True)
class Site:
    """One dashboard. ``closing`` is set when it is about to end, so that open streams end first."""

    settings: Settings
    keys: Keys
    catalog: Catalog
    jobs: Jobs
    renderer: Renderer
    closing: Event = field(default_factory=Event)


class Problem(Exception):
    """A request that cannot be answered: ``status`` of HTTP, and what to tell the visitor."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Form:
    """A submitted form: its fields in order."""

    fields: tuple[tuple[str, str], ...]

    def get(self, name: str, default: str = "") -> str:
        return next((value for key, value in reversed(self.fields) if key == name), default)


@dataclass(frozen=True, slots=True)
class Pager:
    """Which part of a list a page shows. ``page`` counts from 1."""

    page: int
    total: int
    size: int = PAGE

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // self.size))

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.size

    @property
    def first(self) -> int:
        return min(self.offset + 1, self.total)

    @property
    def last(self) -> int:
        return min(self.offset + self.size, self.total)


def site_of(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def page_number(request: Request, name: str = "page") -> int:
    """The page that an address asks for; 1 for what is none."""
    word = request.query_params.get(name, "1")
    return min(max(int(word), 1), 10**7) if word.isascii() and word.isdigit() and len(word) < 9 else 1


def entry_of(request: Request) -> Entry:
    """The run that an address names. Raises ``Problem``."""
    entry = site_of(request).catalog.find(request.path_params["run"])
    if entry is None:
        raise Problem(404, "There is no such run below the roots of this dashboard (any more).")
    return entry


def view_of(request: Request) -> tuple[Entry, RunView]:
    """The run that an address names, read. Raises ``Problem``."""
    entry = entry_of(request)
    try:
        return entry, site_of(request).catalog.view(entry)
    except (FolderError, OSError) as error:
        raise Problem(404, f"The folder of this run cannot be read: {error}") from error


def link(path: str, **values: Any) -> str:
    """An address with a query, without the values that say nothing."""
    given = {name: value for name, value in values.items() if value not in (None, "", [])}
    return f"{path}?{urlencode(given, doseq=True, errors='replace')}" if given else path


def goto(path: str) -> Response:
    """The answer to a form that was taken: a look at ``path``."""
    return RedirectResponse(path, 303)


def reader(page: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """A page that reads files: in a thread, so that nobody else waits."""

    @wraps(page)
    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(page, request)

    return endpoint


def posted(handle: Callable[[Request, Form], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """A form that changes something: refused without the word that our own pages put in."""

    @wraps(handle)
    async def endpoint(request: Request) -> Response:
        try:
            form = await _read(request)
        except ClientDisconnect:  # nobody is there to answer
            return Response(status_code=400)
        wanted = site_of(request).keys.form_word(form_cookie(request.scope))
        if not same(form.get("csrf"), wanted):
            message = (
                "This form is too old, or not from this dashboard: go back, load the page again, and send it again."
            )
            raise Problem(403, message)
        return await handle(request, form)

    return endpoint


async def _read(request: Request) -> Form:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem(415, "A form is sent as application/x-www-form-urlencoded.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _FORM_BYTES:
            raise Problem(413, "The form is too large.")
    try:
        fields = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=1000, errors="replace")
    except ValueError as error:
        raise Problem(400, "The form cannot be read.") from error
    return Form(tuple(fields))


def tabs(entry: Entry, kind: str) -> Sequence[tuple[str, str]]:
    """The parts of a run's pages: name and address."""
    base = f"/run/{entry.id}"
    if kind == "evaluation":
        names: Sequence[str] = ("Overview", "Items", "Calls", "Events", "Log", "Config")
    else:
        names = ("Overview", "Steps", "Skill", "Blame", "Items", "Calls", "Events", "Log", "Config")
    return [(name, base if name == "Overview" else f"{base}/{name.lower()}") for name in names]
