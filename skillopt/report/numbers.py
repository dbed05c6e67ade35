"""Numbers in few characters, for charts and pages. Pure."""

from __future__ import annotations

from skillopt.gate.stats import Lift


def percent(value: float | None, digits: int = 1) -> str:
    """A share in [0, 1] in percent."""
    return "–" if value is None else f"{value * 100:.{digits}f}%"


def compact(value: float) -> str:
    """A count in a few characters: 950, 12.5k, 3.4M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def seconds(value: float) -> str:
    """A time in a few characters: 5.2 s, 4 min 10 s, 2 h 5 min."""
    if value < 60:
        return f"{value:.3g} s"
    big, small, unit = (60, 1, ("min", "s")) if value < 3600 else (3600, 60, ("h", "min"))
    whole, rest = divmod(round(value / small), big // small)
    return f"{whole} {unit[0]}" + (f" {rest} {unit[1]}" if rest else "")


def points(value: float | None) -> str:
    """A difference of shares, in percentage points with its sign."""
    return "–" if value is None else f"{value * 100:+.1f}"


def p_text(value: float) -> str:
    """A p-value."""
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}"


def lift_words(lift: Lift) -> str:
    """A paired difference with its 95 % interval, its p-value and the number of pairs."""
    interval = f"[{points(lift.low)}, {points(lift.high)}]"
    return f"{points(lift.lift)} points {interval}, p {p_text(lift.p_value)}, n {lift.n:,}"


def tone(lift: Lift | None) -> str:
    """The class of a difference: good, bad, or '' where none has been shown."""
    return {"better": "good", "worse": "bad"}.get((lift.shown if lift else None) or "", "")


def plain(value: float | None) -> str:
    """A number as it is."""
    return "–" if value is None else f"{value:g}"
