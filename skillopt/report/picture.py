"""The curves of a run as one picture, ``training_dashboard.png``. Needs the extra ``report`` (matplotlib)."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter

from skillopt.models.pricing import dollars
from skillopt.report.charts import ROLES
from skillopt.report.content import Report, verdict
from skillopt.report.curves import Curves, Point
from skillopt.report.numbers import lift_words, percent
from skillopt.report.svg import tidy
from skillopt.run.progress import STAGES

_TEXT, _MUTED, _RULE = "#1a1d23", "#59626f", "#e8ebef"
_ACCENT, _GOOD, _BAD, _SECOND = "#2456c8", "#14713f", "#ac2f27", "#6b7482"
_TIMES = ("#2456c8", "#3a4351", "#5d6776", "#747e8d", "#8b95a4", "#6f97ea")
_INCHES, _DPI = (13.0, 8.4), 110
_MARGINS = {"left": 0.045, "right": 0.985, "top": 0.845, "bottom": 0.065, "hspace": 0.44, "wspace": 0.16}


def dashboard_png(report: Report) -> bytes:
    """The picture as PNG: scores over steps, edit budget, tokens and cost by role, time by stage."""
    figure = Figure(figsize=_INCHES, dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    rows = figure.add_gridspec(2, 3, height_ratios=(1.35, 1), **_MARGINS)
    _scores(_axes(figure, rows[0, :], f"{report.curves.metric.words} by step"), report.curves)
    _budget(_axes(figure, rows[1, 0], "Edit budget"), report.curves)
    _spending(_axes(figure, rows[1, 1], "Tokens so far"), report.curves)
    _times(_axes(figure, rows[1, 2], "Time by stage (seconds)"), report.curves)
    figure.suptitle(
        _title(report), x=0.012, y=0.975, ha="left", fontsize=12, color=_TEXT, parse_math=False, linespacing=1.5
    )
    out = io.BytesIO()
    with warnings.catch_warnings():  # a name may have letters that the font of the picture lacks
        warnings.simplefilter("ignore")
        figure.savefig(out, format="png")
    return out.getvalue()


def _title(report: Report) -> str:
    lines = [tidy(report.name)[:100]]
    for final in report.finals[:1]:
        arms = {result.name: result for result in final.arms}
        line = verdict(final)
        if "seed" in arms and "best" in arms and (lift := arms["best"].lift) is not None:
            line += f" {percent(arms['seed'].hard)} to {percent(arms['best'].hard)}, {lift_words(lift)}"
        lines.append(line)
    return "\n".join(lines)


def _axes(figure: Figure, place: Any, title: str) -> Axes:
    axes = figure.add_subplot(place)
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=_TEXT, pad=24)
    axes.grid(axis="y", color=_RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(_MUTED)
    axes.tick_params(colors=_MUTED, labelsize=8.5, left=False)
    axes.set_xlabel("step", fontsize=8.5, color=_MUTED)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=9))
    return axes


def _scores(axes: Axes, curves: Curves) -> None:
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.plot(*_xy(curves.train), color=_SECOND, linewidth=1, marker="o", markersize=2.5, alpha=0.8, label="train")
    spans = [(each.step, each.low, each.high) for each in curves.gate if each.low is not None and each.high is not None]
    if spans:
        axes.vlines(*zip(*spans, strict=True), color=_TEXT, linewidth=1, alpha=0.6, zorder=2.5)
    axes.plot(*_xy(curves.gate), color=_ACCENT, linewidth=0.8, linestyle=":", label="candidate (gate, 95% interval)")
    steps, best = _xy(curves.best)
    if curves.baseline is not None:
        steps, best = [0, *steps], [curves.baseline, *best]
        axes.axhline(curves.baseline, color=_TEXT, linewidth=1, linestyle=(0, (6, 4)), label="baseline")
    if steps:
        axes.step(steps, best, where="post", color=_ACCENT, linewidth=2, label="best so far (gate)")
    looks: tuple[tuple[str, dict[str, Any]], ...] = (
        ("accepted", {"marker": "o", "color": _GOOD, "s": 42, "edgecolors": "white"}),
        ("rejected", {"marker": "x", "color": _BAD, "s": 34, "linewidths": 1.8}),
    )
    for kind, look in looks:
        marks = [(mark.step, mark.value) for mark in curves.marks if mark.kind == kind and mark.value is not None]
        if marks:
            axes.scatter([x for x, _ in marks], [y for _, y in marks], zorder=3, label=kind, **look)
    _legend(axes)


def _budget(axes: Axes, curves: Curves) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.bar(*_xy(curves.edits_applied), color=_SECOND, alpha=0.45, width=0.7, label="edits applied")
    steps, budget = _xy(curves.edit_budget)
    if steps:
        edges = [*(step - 0.5 for step in steps), steps[-1] + 0.5]
        axes.step(edges, [*budget, budget[-1]], where="post", color=_ACCENT, linewidth=2, label="budget")
    axes.set_ylim(bottom=0)
    _legend(axes)


def _spending(axes: Axes, curves: Curves) -> None:
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    last = curves.spend[-1] if curves.spend else None
    for role, color, style in zip(ROLES, (_ACCENT, _SECOND), ("-", "--"), strict=True):
        if last is None or not last.tokens.get(role):
            continue
        usd = last.usd.get(role)
        told = f"{role} ({dollars(usd)})" if usd else role
        xs, ys = (
            [0, *(point.step for point in curves.spend)],
            [0, *(point.tokens.get(role, 0) for point in curves.spend)],
        )
        axes.plot(xs, ys, color=color, linestyle=style, linewidth=2, label=told.replace("$", r"\$"))
    axes.set_ylim(bottom=0)
    _legend(axes)


def _times(axes: Axes, curves: Curves) -> None:
    stages = [stage for stage in STAGES if any(point.value for point in curves.time.get(stage, ()))]
    by_step = [{point.step: point.value for point in curves.time[stage]} for stage in stages]
    floors = [list(accumulate((of.get(step, 0.0) for of in by_step), initial=0.0)) for step in curves.steps]
    for index, stage in enumerate(stages):
        heights = [by_step[index].get(step, 0.0) for step in curves.steps]
        low = [floor[index] for floor in floors]
        axes.bar(curves.steps, heights, bottom=low, width=0.7, color=_TIMES[STAGES.index(stage)], label=stage)
    _legend(axes)


def _legend(axes: Axes) -> None:
    """The names of the series between the title and the curves, where they cover nothing."""
    count = len(axes.get_legend_handles_labels()[0])
    if count:
        spacing = {"borderaxespad": 0.2, "handlelength": 1.4, "columnspacing": 1.1, "handletextpad": 0.5}
        look = {"frameon": False, "fontsize": 8, "labelcolor": _MUTED}
        axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.99), ncols=count, **look, **spacing)


def _xy(series: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [point.step for point in series], [point.value for point in series]
