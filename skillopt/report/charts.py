"""The charts of a run as accessible SVG: pure functions over ``Curves`` that give HTML.

Each gives a whole ``<figure class="chart">``, or '' where there is nothing to draw. There is no style and no script in
them: ``templates/style.css`` has their colours. ``key`` is the id of the figure and must be unique on a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import accumulate

from skillopt.gate.stats import Lift
from skillopt.models.pricing import dollars
from skillopt.report.comparison import ArmResult
from skillopt.report.curves import Curves, Mark, Point, thinned
from skillopt.report.numbers import compact, lift_words, percent, plain, seconds
from skillopt.report.spending import OPTIMIZER, TARGET
from skillopt.report.svg import (
    Frame,
    Pair,
    axes,
    bar,
    dot,
    figure,
    floor,
    hits,
    line,
    mark,
    path,
    stairs,
    ticks,
    tidy,
    whole_ticks,
    words,
)
from skillopt.run.progress import STAGES

ROLES = (TARGET, OPTIMIZER)
_Say = Callable[[float], str]
_SHORT_NAME, _LONG_NAME = 14, 60
"""Characters of a name beside its whisker, and above it."""
MOST_STEPS = 250
"""How many steps a chart can tell apart, and a page can hold."""
MOST_RUNS = 6
"""How many runs ``runs_chart`` can tell apart."""


def score_chart(curves: Curves, key: str = "scores", total: int | None = None) -> str:
    """Scores over steps, all in the gate's metric: train, each candidate with its 95 % interval and fate, the best so
    far, and the baseline. ``total`` is the number of planned steps, so that the axis of a run at work stays."""
    values = [point.value for series in (curves.train, curves.gate, curves.best) for point in series]
    values += [end for point in curves.gate for end in (point.low, point.high) if end is not None]
    values += [curves.baseline] if curves.baseline is not None else []
    if not values:
        return ""
    drawn = thinned(curves, MOST_STEPS)
    sizes = ((1120, 400), (480, 330))
    frames = [_frame(curves, total, min(values), max(values), share=True, size=size) for size in sizes]
    entries = [
        ("best", "best so far (gate)"),
        ("gate", "candidate (gate, 95% interval)"),
        ("accepted", "accepted"),
        ("rejected", "rejected"),
        *([("skipped", "no candidate")] if any(each.kind == "skipped" for each in curves.marks) else []),
        ("train", "train rollouts"),
        *([("baseline", "baseline")] if curves.baseline is not None else []),
    ]
    drawings = [(frame, _score_shapes(drawn, frame)) for frame in frames]
    return figure(key, f"{curves.metric.words} by step", _score_summary(curves), drawings, entries)


def budget_chart(curves: Curves, key: str = "budget", total: int | None = None) -> str:
    """The schedule of the edit budget, and how many edits changed the skill in each step."""
    values = [point.value for series in (curves.edit_budget, curves.edits_applied) for point in series]
    if not values:
        return ""
    frame = _frame(curves, total, 0, max(values))
    half = _half(frame, curves, total)
    budget = _at(curves.edit_budget)
    applied = _at(curves.edits_applied)
    drawn = thinned(curves, MOST_STEPS)
    titles = [
        (step, f"Step {step}: budget {plain(budget.get(step))}, applied {plain(applied.get(step))}")
        for step in drawn.steps
    ]
    shapes = [
        axes(frame, _steps(frame), [(value, f"{value:g}") for value in ticks(frame.y0, frame.y1, 5)], "step"),
        *(bar("bar edits", frame, point.step, 0, point.value, half) for point in drawn.edits_applied),
        floor(frame),
        stairs("line budget", frame, [(p.step - 0.5, p.value) for p in drawn.edit_budget], max(curves.steps) + 0.5),
        hits(frame, titles),
    ]
    summary = f"The edit budget goes from {plain(_first(curves.edit_budget))} to {plain(_last(curves.edit_budget))}; "
    summary += f"{sum(applied.values()):g} edits were applied in all."
    entries = [("budget", "budget (learning rate)"), ("edits", "edits applied")]
    return figure(key, "Edit budget", summary, [(frame, "".join(shapes))], entries)


def tokens_chart(curves: Curves, key: str = "tokens", total: int | None = None) -> str:
    """Tokens spent so far, by role."""
    curves = thinned(curves, MOST_STEPS)
    series = [(point.step, point.part, dict(point.tokens)) for point in curves.spend]
    return _spent(curves, series, key, "Tokens so far", compact, compact, total)


def cost_chart(curves: Curves, key: str = "cost", total: int | None = None) -> str:
    """US dollars spent so far, by role; '' where a cost is not known, or all is free."""
    curves = thinned(curves, MOST_STEPS)
    series = []
    for point in curves.spend:
        known = {role: usd for role, usd in point.usd.items() if usd is not None}
        if len(known) < len(point.usd):
            return ""
        series.append((point.step, point.part, known))
    if not any(sum(spent.values()) for _, _, spent in series):
        return ""
    return _spent(curves, series, key, "Cost so far (US dollars)", dollars, _tick_of_dollars, total)


def time_chart(curves: Curves, key: str = "time", total: int | None = None) -> str:
    """Seconds of each step by stage. Stages of neighbouring steps may overlap, so the sum can be more than the run
    took."""
    times = {stage: _at(points) for stage, points in curves.time.items()}
    sums = {step: sum(of_stage.get(step, 0.0) for of_stage in times.values()) for step in curves.steps}
    highest = max(sums.values(), default=0.0)
    if highest <= 0:
        return ""
    frame = _frame(curves, total, 0, highest)
    half = _half(frame, curves, total)
    bars, drawn = [], thinned(curves, MOST_STEPS).steps
    for step in drawn:
        ends = [0.0, *accumulate(times[stage].get(step, 0.0) for stage in STAGES)]
        stacked = zip(STAGES, ends, ends[1:], strict=False)
        bars += [bar(f"bar {stage}", frame, step, low, high, half) for stage, low, high in stacked if high > low]
    titles = [(step, f"Step {step}: {_stage_times(times, step)}") for step in drawn]
    shapes = [
        axes(frame, _steps(frame), [(value, seconds(value)) for value in _time_ticks(frame.y1)], "step"),
        *bars,
        floor(frame),
        hits(frame, titles),
    ]
    shares = {stage: sum(of_stage.values()) for stage, of_stage in times.items()}
    summary = "Time in all: " + ", ".join(f"{stage} {seconds(spent)}" for stage, spent in shares.items() if spent) + "."
    entries = [(stage, stage) for stage in STAGES if shares.get(stage)]
    return figure(key, "Time by stage", summary, [(frame, "".join(shapes))], entries)


def _time_ticks(highest: float) -> list[float]:
    """Round times: of seconds, minutes or hours."""
    unit = next((unit for unit in (3600, 60) if highest >= 2 * unit), 1)
    return [value * unit for value in ticks(0, highest / unit, 5)]


def lift_chart(arms: Sequence[ArmResult], key: str = "lift", title: str = "Difference from the first") -> str:
    """The paired difference of each arm from the first one with its 95 % interval, beside the line of no difference."""
    found: list[tuple[str, Lift]] = [(arm.name, arm.lift) for arm in arms if arm.lift is not None]
    if not found:
        return ""
    ends = [0.0, *(end for _, lift in found for end in (lift.low, lift.high))]
    marks = ticks(min(ends), max(ends), 7)
    step = marks[1] - marks[0] if len(marks) > 1 else 0.1
    beside = max(len(name) for name, _ in found) <= _SHORT_NAME
    row, left = (34, 92) if beside else (50, 20)  # long names stand above their whiskers
    frame = Frame(480, 52 + row * len(found), min(ends) - step / 2, max(ends) + step / 2, len(found), 0, left=left)
    shapes: list[str] = []
    for value in ticks(frame.x0, frame.x1, 7):
        x = frame.x(value)
        shapes.append(line("axis" if value == 0 else "grid", x, frame.top, x, frame.height - frame.bottom))
        shapes.append(words("tick", x, frame.height - frame.bottom + 18, f"{value * 100:+g}" if value else "0"))
    for index, (name, lift) in enumerate(found):
        y = frame.y(index + (0.5 if beside else 0.7))
        at = (frame.left - 10, y + 4, "end") if beside else (frame.left, y - 13, "start")
        label = words("tick", at[0], at[1], name if len(name) <= _LONG_NAME else f"{name[: _LONG_NAME - 1]}…", at[2])
        shapes += [label, *_lift_row(frame, y, name, lift)]
    shapes.append(words("axis-name", (frame.left + frame.width) / 2, frame.height - 6, "percentage points"))
    summary = " ".join(("With 95% intervals.", *(f"{name}: {lift_words(lift)}." for name, lift in found)))
    return figure(key, title, summary, [(frame, "".join(shapes))])


def runs_chart(runs: Sequence[tuple[str, Curves]], key: str = "runs") -> str:
    """The best gate score so far of up to ``MOST_RUNS`` runs, by step; the first one is drawn as the reference."""
    shown = [(name, _best_so_far(thinned(curves, MOST_STEPS))) for name, curves in runs[:MOST_RUNS]]
    values = [value for _, series in shown for _, value in series]
    if not values:
        return ""
    last = max((curves.steps[-1] for _, curves in runs[:MOST_RUNS] if curves.steps), default=1)
    low, high = _share_range(min(values), max(values))
    frame = Frame(480, 270, 0, max(last, 1), low, high)
    shapes = [axes(frame, _steps(frame), _shares(frame), "step")]
    shapes += [stairs(f"line run-{index}", frame, series) for index, (_, series) in enumerate(shown)]
    summary = " ".join(f"{name} ends at {percent(series[-1][1])}." for name, series in shown if series)
    entries = [(f"run-{index}", name) for index, (name, _) in enumerate(shown)]
    metrics = dict.fromkeys(curves.metric.name for _, curves in runs[:MOST_RUNS])
    return figure(key, f"Best gate score by step ({', '.join(metrics)})", summary, [(frame, "".join(shapes))], entries)


def _frame(
    curves: Curves, total: int | None, low: float, high: float, share: bool = False, size: tuple[int, int] = (480, 270)
) -> Frame:
    last = max([*curves.steps, total or 0, 1])
    if share:
        low, high = _share_range(low, high)
        return Frame(*size, 0, last, low, high)
    marks = ticks(0, high, 5)
    step = marks[1] if len(marks) > 1 else high
    top = marks[-1] if marks[-1] >= high * (1 - 1e-9) else marks[-1] + step
    return Frame(*size, 0.4, last + 0.6, 0, top or 1)


def _share_range(low: float, high: float) -> Pair:
    """Whole tenths around two shares, at least three of them; from 0 on up to a score that is no share."""
    if not 0 <= low <= high <= 1:
        return min(0.0, low), max(1.0, high)
    down, up = max(0, int(low * 10 - 1e-9)), min(10, int(high * 10 - 1e-9) + 1)
    while up - down < 3:
        down, up = max(0, down - 1), min(10, up + 1)
    return down / 10, up / 10


def _steps(frame: Frame) -> list[tuple[float, str]]:
    low = 0 if frame.x0 <= 0 else 1
    return [(step, str(step)) for step in whole_ticks(low, int(frame.x1))]


def _shares(frame: Frame) -> list[tuple[float, str]]:
    return [(value, f"{value * 100:.0f}%") for value in ticks(frame.y0, frame.y1, 7)]


def _score_shapes(curves: Curves, frame: Frame) -> str:
    shapes = [
        axes(frame, _steps(frame), _shares(frame), "step"),
        _epoch_lines(curves, frame),
        _baseline(curves, frame),
        path("line train", frame, _pairs(curves.train)),
        *(dot("train", frame, point.step, point.value) for point in curves.train),
        path("line gate", frame, _pairs(curves.gate)),
        stairs("line best", frame, _best_so_far(curves), max(curves.steps, default=0)),
        *(_whisker(frame, point) for point in curves.gate),
        *(_fate(frame, each) for each in curves.marks),
        hits(frame, _score_titles(curves)),
    ]
    return "".join(shapes)


def _epoch_lines(curves: Curves, frame: Frame) -> str:
    ends = list(curves.epochs.values())[:-1] if len(curves.epochs) < 30 else []
    places = [frame.x(step + 0.5) for step in ends]
    return "".join(line("epoch", x, frame.top, x, frame.height - frame.bottom) for x in places)


def _baseline(curves: Curves, frame: Frame) -> str:
    if curves.baseline is None:
        return ""
    y = frame.y(curves.baseline)
    return line("line baseline", frame.left, y, frame.width - frame.right, y)


def _whisker(frame: Frame, point: Point) -> str:
    if point.low is None or point.high is None:
        return ""
    x = frame.x(point.step)
    return line("whisker", x, frame.y(point.low), x, frame.y(point.high))


def _fate(frame: Frame, each: Mark) -> str:
    y = frame.y(each.value) if each.value is not None else frame.height - frame.bottom - 8
    return mark(each.kind, frame.x(each.step), y)


def _half(frame: Frame, curves: Curves, total: int | None) -> float:
    steps = max([*curves.steps, total or 0, 1])
    return max(1.0, min(22.0, 0.34 * (frame.width - frame.left - frame.right) / (steps + 0.2)))


def _score_titles(curves: Curves) -> list[tuple[int, str]]:
    """What is to be said of each step, and of the baseline as step 0."""
    told: dict[int, list[str]] = {step: [] for step in sorted(set(curves.steps))}
    for name, points in (("train", curves.train), ("gate", curves.gate)):
        for point in points:
            told[point.step].append(f"{name} {_scored(point)}")
    for each in curves.marks:
        told[each.step] += [each.action] if each.action else []
    for point in curves.best:
        told[point.step].append(f"best {percent(point.value)}")
    start = f"Baseline: {percent(curves.baseline)} on the selection items"
    titles = [(step, f"Step {step}: {', '.join(parts)}") for step, parts in told.items()]
    return titles if curves.baseline is None else [(0, start), *titles]


def _scored(point: Point) -> str:
    if point.low is None or point.high is None:
        return percent(point.value)
    return f"{percent(point.value)} [{percent(point.low)}, {percent(point.high)}] n={point.n}"


def _score_summary(curves: Curves) -> str:
    counts = {kind: sum(each.kind == kind for each in curves.marks) for kind in ("accepted", "rejected", "skipped")}
    parts = [f"{len(curves.steps)} steps", *(f"{count} {kind}" for kind, count in counts.items() if count)]
    start = f" The baseline is {percent(curves.baseline)}." if curves.baseline is not None else ""
    best = f" The best gate score is {percent(max(p.value for p in curves.best))}." if curves.best else ""
    few = f" {MOST_STEPS} of them are drawn." if len(curves.steps) > MOST_STEPS else ""
    return f"{', '.join(parts)}.{few}{start}{best} The table of steps has all values."


def _spent(
    curves: Curves,
    series: Sequence[tuple[int, str, Mapping[str, float]]],
    key: str,
    title: str,
    say: _Say,
    say_tick: _Say,
    total: int | None,
) -> str:
    known = (*ROLES, *sorted({role for _, _, spent in series for role in spent} - {*ROLES}))
    roles = [role for role in known if any(spent.get(role) for _, _, spent in series)]
    if not roles:
        return ""
    highest = max(value for _, _, spent in series for value in spent.values())
    frame = _frame(curves, total, 0, highest)
    frame = Frame(frame.width, frame.height, 0, frame.x1 - 0.6, frame.y0, frame.y1)
    lines = [
        path(
            f"line {_role_class(role)}",
            frame,
            [(0.0, 0.0), *((step, spent.get(role, 0.0)) for step, _, spent in series)],
        )
        for role in roles
    ]
    last = {step: (part, spent) for step, part, spent in series}
    titles = [
        (step, f"{part.replace('_', ' ')}: " + ", ".join(f"{role} {say(spent.get(role, 0.0))}" for role in roles))
        for step, (part, spent) in sorted(last.items())
    ]
    values = [(value, say_tick(value)) for value in ticks(frame.y0, frame.y1, 5)]
    shapes = [axes(frame, _steps(frame), values, "step"), *lines, hits(frame, titles)]
    final = series[-1][2]
    summary = "In all: " + ", ".join(f"{role} {say(final.get(role, 0.0))}" for role in roles) + "."
    return figure(key, title, summary, [(frame, "".join(shapes))], [(_role_class(role), role) for role in roles])


def _tick_of_dollars(value: float) -> str:
    """All digits of an amount on an axis, whose title has the unit: neighbouring ones must not look the same."""
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def _role_class(role: str) -> str:
    return role if role in ROLES else "other"


def _stage_times(times: Mapping[str, Mapping[int, float]], step: int) -> str:
    found = ((stage, times.get(stage, {}).get(step)) for stage in STAGES)
    return ", ".join(f"{stage} {seconds(spent)}" for stage, spent in found if spent is not None)


def _lift_row(frame: Frame, y: float, name: str, lift: Lift) -> list[str]:
    kind = "sure" if lift.shown else "unsure"
    return [
        f'<g class="lift {kind}"><title>{escape(tidy(f"{name}: {lift_words(lift)}"))}</title>',
        line("whisker", frame.x(lift.low), y, frame.x(lift.high), y),
        mark("point", frame.x(lift.lift), y),
        "</g>",
    ]


def _best_so_far(curves: Curves) -> list[Pair]:
    start = [(0.0, curves.baseline)] if curves.baseline is not None else []
    return [*start, *_pairs(curves.best)]


def _pairs(points: Sequence[Point]) -> list[Pair]:
    return [(float(point.step), point.value) for point in points]


def _at(points: Sequence[Point]) -> dict[int, float]:
    return {point.step: point.value for point in points}


def _first(points: Sequence[Point]) -> float | None:
    return points[0].value if points else None


def _last(points: Sequence[Point]) -> float | None:
    return points[-1].value if points else None
