"""From a template to an answer: everything escaped, cut to size, and without the secrets of the environment."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from skillopt.config import Redactor
from skillopt.report.filters import FILTERS
from skillopt.report.svg import tidy
from skillopt.version import __version__
from skillopt.web.security import Keys, form_cookie
from skillopt.web.state import result_words

LINE = 240
"""Characters of a text in a cell."""
LONGEST_ID = 2000
"""Characters of an item's id in an address; one that has more is found by its place."""
PAGE_TEXT = 150_000
"""Characters of long texts in one page: with everything escaped it stays below 1 MB."""


def fits_address(id_: str) -> bool:
    """Whether an address can hold an id: half a character, which JSON may hold, is in none."""
    return 0 < len(id_) <= LONGEST_ID and not any("\ud800" <= char <= "\udfff" for char in id_)


class Allowance:
    """The characters of long texts that a page may still hold. ``mask`` hides secrets, before a cut could part one."""

    def __init__(self, left: int = PAGE_TEXT, mask: Callable[[str], str] = str) -> None:
        self._left, self.mask = left, mask

    def take(self, text: str, most: int = 20_000) -> str:
        """``text``, cut to ``most`` characters and to what is left, with a word about what was cut."""
        text = self.mask(text)
        size = max(0, min(most, self._left))
        self._left -= min(size, len(text))
        if len(text) <= size:
            return text
        return f"{text[:size]}\n… {len(text) - size:,} more characters"

    def ids(self, ids: Sequence[str], most: int) -> list[str]:
        """Those of the first ``most`` ids that an address and the page can hold."""
        kept = []
        for id_ in ids[:most]:
            if fits_address(id_) and 2 * len(id_) <= self._left:
                self._left -= 2 * len(id_)
                kept.append(id_)
        return kept


class Renderer:
    """The templates of the dashboard."""

    def __init__(self, keys: Keys, redactor: Redactor) -> None:
        self._keys, self._redactor = keys, redactor
        self._jinja = Environment(
            loader=ChoiceLoader(
                [PackageLoader("skillopt.web"), PrefixLoader({"report": PackageLoader("skillopt.report")})]
            ),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=lambda value: "" if value is None else value,
        )
        self._jinja.filters.update(FILTERS)
        self._jinja.filters.update(line=line, ago=ago, moment=moment, result=result_words, urlencode=quoted)
        self._jinja.globals.update(version=__version__, svg=Markup)

    def warm(self) -> None:
        """Compiles the templates, so that the first visitor need not wait for it."""
        for name in self._jinja.list_templates():
            self._jinja.get_template(name)

    def mask(self, text: str) -> str:
        """``text`` without the secrets that the dashboard knows."""
        return self._redactor.mask(text)

    def allowance(self) -> Allowance:
        """The long texts that a new page may hold."""
        return Allowance(mask=self.mask)

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """A page of the dashboard."""
        return HTMLResponse(self.html(request, template, **values), status)

    def html(self, request: Request | None, template: str, **values: Any) -> str:
        """The HTML of a template, for a page or a part of one."""
        if request is not None:
            values = {"csrf": self._keys.form_word(form_cookie(request.scope)), "path": request.url.path, **values}
        text = self._jinja.get_template(template).render(**values)
        return self.mask(tidy(text))


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


def quoted(value: Any) -> str:
    """A value for an address. JSON may hold half a character, which no address can."""
    return quote(str(value), safe="/", errors="replace")


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
