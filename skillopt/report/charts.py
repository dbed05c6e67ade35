"""The charts of a run as accessible SVG: pure functions over ``Curves`` that give HTML.

Each gives a whole ``<figure class="chart">``, or '' where there is nothing to draw. There is no style and no script in
them: ``templates/style.css`` has their colours. ``key`` is the id of the figure and must be unique on a page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import accumulate

from skillopt.gate.stats import Lift
from skillopt.report.comparison import ArmResult
from skillopt.report.curves import STAGES, Curves, Mark, Point
from skillopt.report.numbers import compact, p_text, percent, plain, points, seconds, usd_text
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

ROLES = (TARGET, OPTIMIZER)
_Say = Callable[[float], str]
MOST_RUNS = 6
"""How many runs ``runs_chart`` can tell apart."""


def score_chart(curves: Curves, key: str = "scores", total: int | None = None) -> str:
    """Accuracy over steps: train, the gate's score of each candidate with its 95 % interval and fate, the best score so
    far, and the baseline. ``total`` is the number of planned steps, so that the axis of a run at work stays."""
    values = [point.value for series in (curves.train, curves.gate, curves.best) for point in series]
    values += [end for point in curves.gate for end in (point.low, point.high) if end is not None]
    values += [curves.baseline] if curves.baseline is not None else []
    if not values:
        return ""
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
    drawings = [(frame, _score_shapes(curves, frame)) for frame in frames]
    return figure(key, "Accuracy by step", _score_summary(curves), drawings, entries)


def budget_chart(curves: Curves, key: str = "budget", total: int | None = None) -> str:
    """The schedule of the edit budget, and how many edits changed the skill in each step."""
    values = [point.value for series in (curves.edit_budget, curves.edits_applied) for point in series]
    if not values:
        return ""
    frame = _frame(curves, total, 0, max(values))
    half = _half(frame, curves, total)
    budget = _at(curves.edit_budget)
    applied = _at(curves.edits_applied)
    titles = [
        (step, f"Step {step}: budget {plain(budget.get(step))}, applied {plain(applied.get(step))}")
        for step in curves.steps
    ]
    shapes = [
        axes(frame, _steps(frame), [(value, f"{value:g}") for value in ticks(frame.y0, frame.y1, 5)], "step"),
        *(bar("bar edits", frame, point.step, 0, point.value, half) for point in curves.edits_applied),
        floor(frame),
        stairs("line budget", frame, [(p.step - 0.5, p.value) for p in curves.edit_budget], max(curves.steps) + 0.5),
        hits(frame, titles),
    ]
    summary = f"The edit budget goes from {plain(_first(curves.edit_budget))} to {plain(_last(curves.edit_budget))}; "
    summary += f"{sum(applied.values()):g} edits were applied in all."
    entries = [("budget", "budget (learning rate)"), ("edits", "edits applied")]
    return figure(key, "Edit budget", summary, [(frame, "".join(shapes))], entries)


def tokens_chart(curves: Curves, key: str = "tokens", total: int | None = None) -> str:
    """Tokens spent so far, by role."""
    series = [(point.step, point.part, dict(point.tokens)) for point in curves.spend]
    return _spent(curves, series, key, "Tokens so far", compact, total)


def cost_chart(curves: Curves, key: str = "cost", total: int | None = None) -> str:
    """US dollars spent so far, by role; '' where a cost is not known, or all is free."""
    series = []
    for point in curves.spend:
        known = {role: usd for role, usd in point.usd.items() if usd is not None}
        if len(known) < len(point.usd):
            return ""
        series.append((point.step, point.part, known))
    if not any(sum(spent.values()) for _, _, spent in series):
        return ""
    return _spent(curves, series, key, "Cost so far (US dollars)", usd_text, total)


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
    bars = []
    for step in curves.steps:
        ends = [0.0, *accumulate(times[stage].get(step, 0.0) for stage in STAGES)]
        stacked = zip(STAGES, ends, ends[1:], strict=False)
        bars += [bar(f"bar {stage}", frame, step, low, high, half) for stage, low, high in stacked if high > low]
    titles = [(step, f"Step {step}: {_stage_times(times, step)}") for step in curves.steps]
    shapes = [
        axes(frame, _steps(frame), [(value, seconds(value)) for value in ticks(frame.y0, frame.y1, 5)], "step"),
        *bars,
        floor(frame),
        hits(frame, titles),
    ]
    shares = {stage: sum(of_stage.values()) for stage, of_stage in times.items()}
    summary = "Time in all: " + ", ".join(f"{stage} {seconds(spent)}" for stage, spent in shares.items() if spent) + "."
    entries = [(stage, stage) for stage in STAGES if shares.get(stage)]
    return figure(key, "Time by stage", summary, [(frame, "".join(shapes))], entries)


def lift_chart(arms: Sequence[ArmResult], key: str = "lift", title: str = "Difference from the first") -> str:
    """The paired difference of each arm from the first one with its 95 % interval, beside the line of no difference."""
    found: list[tuple[str, Lift]] = [(arm.name, arm.lift) for arm in arms if arm.lift is not None]
    if not found:
        return ""
    ends = [0.0, *(end for _, lift in found for end in (lift.low, lift.high))]
    marks = ticks(min(ends), max(ends), 7)
    step = marks[1] - marks[0] if len(marks) > 1 else 0.1
    frame = Frame(480, 52 + 34 * len(found), min(ends) - step / 2, max(ends) + step / 2, len(found), 0, left=92)
    shapes: list[str] = []
    for value in ticks(frame.x0, frame.x1, 7):
        x = frame.x(value)
        shapes.append(line("axis" if value == 0 else "grid", x, frame.top, x, frame.height - frame.bottom))
        shapes.append(words("tick", x, frame.height - frame.bottom + 18, f"{value * 100:+g}" if value else "0"))
    for index, (name, lift) in enumerate(found):
        shapes += _lift_row(frame, index, name, lift)
    shapes.append(words("axis-name", (frame.left + frame.width) / 2, frame.height - 6, "percentage points"))
    return figure(key, title, " ".join(_lift_words(*each) for each in found), [(frame, "".join(shapes))])


def runs_chart(runs: Sequence[tuple[str, Curves]], key: str = "runs") -> str:
    """The best gate score so far of up to ``MOST_RUNS`` runs, by step; the first one is drawn as the reference."""
    shown = [(name, _best_so_far(curves)) for name, curves in runs[:MOST_RUNS]]
    values = [value for _, series in shown for _, value in series]
    if not values:
        return ""
    last = max((curves.steps[-1] for _, curves in runs[:MOST_RUNS] if curves.steps), default=1)
    low, high = _share_range(min(values), max(values))
    frame = Frame(680, 320, 0, max(last, 1), low, high)
    shapes = [axes(frame, _steps(frame), _shares(frame), "step")]
    shapes += [stairs(f"line run-{index}", frame, series) for index, (_, series) in enumerate(shown)]
    summary = " ".join(f"{name} ends at {percent(series[-1][1])}." for name, series in shown if series)
    entries = [(f"run-{index}", name) for index, (name, _) in enumerate(shown)]
    return figure(key, "Best gate score by step", summary, [(frame, "".join(shapes))], entries)


def spark(curves: Curves) -> str:
    """The best score so far as a small line without axes, for a cell of a table."""
    series = _best_so_far(curves)
    if len(series) < 2:
        return ""
    values = [value for _, value in series]
    low, high = min(values), max(values)
    frame = Frame(96, 24, 0, series[-1][0], low, high if high > low else low + 1, 2, 4, 3, 3)
    label = f"best gate score, from {percent(values[0])} to {percent(values[-1])}"
    return (
        f'<svg class="spark" viewBox="0 0 96 24" role="img" aria-label="{label}">{stairs("line best", frame, series)}'
        f"{dot('best', frame, *series[-1])}</svg>"
    )


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
    """Whole tenths around two shares, at least three of them."""
    down, up = max(0, int(low * 10 - 1e-9)), min(10, int(high * 10 - 1e-9) + 1)
    while up - down < 3:
        down, up = max(0, down - 1), min(10, up + 1)
    return down / 10, max(up / 10, high)


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
        *(_whisker(frame, point) for point in curves.gate),
        stairs("line best", frame, _best_so_far(curves), max(curves.steps, default=0)),
        *(_fate(frame, each) for each in curves.marks),
        hits(frame, [(step, _score_title(curves, step)) for step in _known(curves)]),
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


def _known(curves: Curves) -> list[int]:
    return [*([0] if curves.baseline is not None else []), *sorted(set(curves.steps))]


def _score_title(curves: Curves, step: int) -> str:
    if step == 0:
        return f"Baseline: {percent(curves.baseline)} on the selection items"
    parts = [f"train {_scored(point)}" for point in curves.train if point.step == step]
    parts += [f"gate {_scored(point)}" for point in curves.gate if point.step == step]
    parts += [each.action for each in curves.marks if each.step == step and each.action]
    parts += [f"best {percent(point.value)}" for point in curves.best if point.step == step]
    return f"Step {step}: {', '.join(parts)}"


def _scored(point: Point) -> str:
    if point.low is None or point.high is None:
        return percent(point.value)
    return f"{percent(point.value)} [{percent(point.low)}, {percent(point.high)}] n={point.n}"


def _score_summary(curves: Curves) -> str:
    counts = {kind: sum(each.kind == kind for each in curves.marks) for kind in ("accepted", "rejected", "skipped")}
    parts = [f"{len(curves.steps)} steps", *(f"{count} {kind}" for kind, count in counts.items() if count)]
    start = f" The baseline is {percent(curves.baseline)}." if curves.baseline is not None else ""
    best = f" The best gate score is {percent(max(p.value for p in curves.best))}." if curves.best else ""
    return f"{', '.join(parts)}.{start}{best} The table of steps has all values."


def _spent(
    curves: Curves,
    series: Sequence[tuple[int, str, Mapping[str, float]]],
    key: str,
    title: str,
    say: _Say,
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
    values = [(value, say(value)) for value in ticks(frame.y0, frame.y1, 5)]
    shapes = [axes(frame, _steps(frame), values, "step"), *lines, hits(frame, titles)]
    final = series[-1][2]
    summary = "In all: " + ", ".join(f"{role} {say(final.get(role, 0.0))}" for role in roles) + "."
    return figure(key, title, summary, [(frame, "".join(shapes))], [(_role_class(role), role) for role in roles])


def _role_class(role: str) -> str:
    return role if role in ROLES else "other"


def _stage_times(times: Mapping[str, Mapping[int, float]], step: int) -> str:
    found = ((stage, times.get(stage, {}).get(step)) for stage in STAGES)
    return ", ".join(f"{stage} {seconds(spent)}" for stage, spent in found if spent is not None)


def _lift_row(frame: Frame, index: int, name: str, lift: Lift) -> list[str]:
    y = frame.y(index + 0.5)
    kind = "sure" if lift.low > 0 or lift.high < 0 else "unsure"
    return [
        words("tick", frame.left - 10, y + 4, name if len(name) < 15 else f"{name[:13]}…", "end"),
        f'<g class="lift {kind}"><title>{escape(tidy(_lift_words(name, lift)))}</title>',
        line("whisker", frame.x(lift.low), y, frame.x(lift.high), y),
        mark("point", frame.x(lift.lift), y),
        "</g>",
    ]


def _lift_words(name: str, lift: Lift) -> str:
    interval = f"95% interval {points(lift.low)} to {points(lift.high)}"
    return f"{name}: {points(lift.lift)} points, {interval}, p {p_text(lift.p_value)}, n {lift.n}."


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
