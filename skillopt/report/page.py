"""Pages as one HTML file that needs nothing else, the report first: styles, script and charts are in it. Pure, but for
reading the templates of the package.

Needs the extra ``report`` (jinja2). All that a run holds is untrusted text: it is escaped by the templates, and a
content security policy lets nothing run but the one script that came with the page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from skillopt.models.pricing import at_least, money
from skillopt.report.charts import budget_chart, cost_chart, lift_chart, score_chart, time_chart, tokens_chart
from skillopt.report.content import Report, arm
from skillopt.report.filters import FILTERS, count
from skillopt.report.numbers import lift_words, percent, seconds
from skillopt.report.spending import Spending
from skillopt.report.svg import tidy
from skillopt.version import __version__

Tile = tuple[str, str, str]


def report_page(report: Report) -> str:
    """The HTML of a report."""
    return whole_page(
        "report.html",
        report=report,
        state=_state(report),
        tiles=tiles(report),
        charts=drawn(_charts(report)),
        lifts=drawn(_lifts(report)),
    )


def whole_page(template: str, **values: Any) -> str:
    """The HTML of a page that extends ``frame.html``, with its style and its script in it."""
    style, script = asset("style.css"), asset("report.js")
    return (
        environment()
        .get_template(template)
        .render(
            style=Markup(style),
            script=Markup(script),
            style_hash=_hash(style),
            script_hash=_hash(script),
            made_by=__version__,
            **values,
        )
    )


def drawn(charts: Sequence[str]) -> list[Markup]:
    """Charts as HTML that is not escaped again; those that are '' are left out."""
    return [Markup(chart) for chart in charts if chart]


def environment() -> Environment:
    """Templates of the package: what they print is escaped, and has no characters that turn the direction of text."""
    made = Environment(
        loader=PackageLoader("skillopt.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: tidy(value) if type(value) is str else "" if value is None else value,
    )
    made.filters.update(FILTERS)
    return made


def asset(name: str) -> str:
    """A file of the package's templates as text."""
    return (files("skillopt.report") / "templates" / name).read_text(encoding="utf-8")


def tiles(report: Report) -> list[Tile]:
    """The numbers that stand first: a name, a value, and what it rests on."""
    found: list[Tile] = []
    for final in report.finals:
        seed, best = arm(final, "seed"), arm(final, "best")
        name = "Test accuracy" if final.split == "test" else "Gate accuracy (val)"
        if best is None or seed is None:
            known = best or seed
            found += [(name, percent(known.hard), known.name)] if known else []
            continue
        lift = best.lift
        told = f"no pairs, n {best.n}" if lift is None else lift_words(lift)
        found.append((name, f"{percent(seed.hard)} → {percent(best.hard)}", told))
    if report.steps_done:
        planned = f" of {report.total_steps}" if report.total_steps and report.total_steps != report.steps_done else ""
        found.append(("Steps", f"{report.steps_done}{planned}", report.fates))
    if report.spending is not None:
        requests = report.spending.requests
        told = f"{requests:,} requests" if requests is not None else ""
        found.append(("Tokens", count(report.spending.tokens), told))
        found.append(("Cost", money(report.spending.usd), _cost_note(report.spending)))
    if report.seconds is not None:
        found.append(("Time", seconds(report.seconds), "wall clock"))
    return found


def _charts(report: Report) -> list[str]:
    total = report.total_steps if report.status == "running" else None
    first = score_chart(report.curves, "chart-scores", total)
    others = {"budget": budget_chart, "tokens": tokens_chart, "cost": cost_chart, "time": time_chart}
    found = [draw(report.curves, f"chart-{name}", total) for name, draw in others.items()]
    return [chart for chart in (first, *found) if chart]


def _lifts(report: Report) -> list[str]:
    names = {"test": "Difference from the seed, test items", "val": "Difference from the seed, selection items"}
    return [lift_chart(final.arms, f"lift-{final.split}", names[final.split]) for final in report.finals]


def _state(report: Report) -> str:
    odd = report.stop_reason and report.stop_reason != "completed" and report.status != "running"
    return f"{report.status}: {report.stop_reason}" if odd else report.status


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _cost_note(spending: Spending) -> str:
    if spending.usd is not None:
        return "US dollars"
    return at_least(spending.known_usd) or "no price known"
