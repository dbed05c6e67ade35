"""From a template to an answer: everything escaped, cut to size, and without the secrets of the environment."""

from __future__ import annotations

import json
import time
from importlib.resources import files
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from skillopt.config import Redactor
from skillopt.report.final import arm_title
from skillopt.report.numbers import compact, p_text, percent, points, seconds, usd_text
from skillopt.report.svg import tidy
from skillopt.version import __version__
from skillopt.web.security import Keys, form_cookie

LINE = 240
"""Characters of a text in a cell."""
PAGE_TEXT = 150_000
"""Characters of long texts in one page: with everything escaped it stays below 1 MB."""


class Allowance:
    """The characters of long texts that a page may still hold."""

    def __init__(self, left: int = PAGE_TEXT) -> None:
        self._left = left

    def take(self, text: str, most: int = 20_000) -> str:
        """``text``, cut to ``most`` characters and to what is left, with a word about what was cut."""
        size = max(0, min(most, self._left))
        self._left -= min(size, len(text))
        if len(text) <= size:
            return text
        return f"{text[:size]}\n… {len(text) - size:,} more characters"


class Renderer:
    """The templates of the dashboard."""

    def __init__(self, keys: Keys, redactor: Redactor) -> None:
        self._keys, self._redactor = keys, redactor
        self._jinja = Environment(
            loader=PackageLoader("skillopt.web"),
            autoescape=True,
            undefined=ChainableUndefined,  # a run folder may lack anything
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._jinja.filters.update(
            percent=percent,
            points=points,
            compact=lambda value: "–" if value is None else compact(value),
            usd=lambda value: "–" if value is None else usd_text(value),
            seconds=lambda value: "–" if value is None else seconds(value),
            p=p_text,
            arm_title=arm_title,
            line=line,
            words=words,
            ago=ago,
            moment=moment,
            json=lambda value: json.dumps(value, ensure_ascii=False, indent=2, default=str),
        )
        self._jinja.globals.update(version=__version__, svg=Markup)

    def warm(self) -> None:
        """Compiles the templates, so that the first visitor need not wait for it."""
        for name in self._jinja.list_templates():
            self._jinja.get_template(name)

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """A page of the dashboard."""
        return HTMLResponse(self.html(request, template, **values), status)

    def html(self, request: Request | None, template: str, **values: Any) -> str:
        """The HTML of a template, for a page or a part of one."""
        if request is not None:
            values = {"csrf": self._keys.form_word(form_cookie(request.scope)), "path": request.url.path, **values}
        text = self._jinja.get_template(template).render(**values)
        return self._redactor.mask(tidy(text))


def stylesheet() -> str:
    """The style of the charts and of everything else."""
    charts = files("skillopt.report") / "templates" / "style.css"
    own = files("skillopt.web") / "static" / "app.css"
    parts = [part.read_text(encoding="utf-8") for part in (charts, own) if part.is_file()]
    return "\n".join(parts)


def line(value: Any, most: int = LINE) -> str:
    """A value on one line."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    text = " ".join(text[: 4 * most].split())
    return text if len(text) <= most else text[: most - 1] + "…"


def words(value: Any) -> str:
    """A name with underscores as words."""
    return str(value or "").replace("_", " ")


def ago(at: float | None) -> str:
    """How long ago a moment in unix seconds is."""
    if not at:
        return "–"
    age = max(0.0, time.time() - at)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if age >= size:
            return f"{age / size:.0f} {unit} ago"
    return "just now" if age < 10 else f"{age:.0f} s ago"


def moment(at: Any) -> str:
    """A moment in unix seconds in this machine's time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(at)))
    except (TypeError, ValueError, OverflowError, OSError):
        return "–"
