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

from skillopt.models.pricing import dollars
from skillopt.report.bounds import ChangedItems, cut
from skillopt.report.charts import budget_chart, cost_chart, lift_chart, score_chart, time_chart, tokens_chart
from skillopt.report.content import Report, arm
from skillopt.report.evolution import hunk_header
from skillopt.report.final import arm_title
from skillopt.report.numbers import p_text, percent, points, seconds
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
    made.filters.update(
        percent=percent,
        points=points,
        p_text=p_text,
        seconds=seconds,
        score=_score,
        count=_count,
        money=_money,
        words=_words,
        arm_title=arm_title,
        cut=cut,
        hunk_header=hunk_header,
        item_names=_item_names,
        flip_words=_flip_words,
    )
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
        told = f"no pairs, n {best.n}"
        if lift is not None:
            interval = f"[{points(lift.low)}, {points(lift.high)}]"
            told = f"{points(lift.lift)} points {interval}, p {p_text(lift.p_value)}, n {lift.n:,}"
        found.append((name, f"{percent(seed.hard)} → {percent(best.hard)}", told))
    kinds = [line.kind for line in report.steps]
    if kinds:
        planned = f" of {report.total_steps}" if report.total_steps and report.total_steps != len(kinds) else ""
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds)))
        found.append(("Steps", f"{len(kinds)}{planned}", counts))
    if report.spending is not None:
        requests = report.spending.requests
        told = f"{requests:,} requests" if requests is not None else ""
        found.append(("Tokens", _count(report.spending.tokens), told))
        found.append(("Cost", _money(report.spending.usd), _cost_note(report.spending)))
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


def _score(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"


def _cost_note(spending: Spending) -> str:
    if spending.usd is not None:
        return "US dollars"
    return f"at least {dollars(spending.known_usd)}" if spending.known_usd else "no price known"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _money(value: float | None) -> str:
    return "unknown" if value is None else dollars(value)


def _words(action: str) -> str:
    return action.replace("_", " ") or "unknown"


def _item_names(items: Sequence[str]) -> str:
    more = f" and {len(items) - 4} more" if len(items) > 4 else ""
    return ", ".join(cut(item, 60) for item in items[:4]) + more


def _flip_words(changed: ChangedItems) -> str:
    counts = {group.kind: group.total for group in changed.groups}
    parts = [
        f"{counts.get('fixed', 0)} fixed",
        f"{counts.get('broken', 0)} broken",
        f"{counts.get('failing', 0)} still failing",
        f"{changed.passing} passing under both",
    ]
    if changed.unmeasured:
        parts.append(f"{changed.unmeasured} not measured under one of them")
    partial = f" Of those that still fail, {changed.raised} have a higher and {changed.lowered} a lower soft score."
    return ", ".join(parts) + "." + (partial if changed.raised or changed.lowered else "")
