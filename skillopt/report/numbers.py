"""Numbers in few characters, for charts and pages. Pure."""

from __future__ import annotations


def percent(value: float | None, digits: int = 1) -> str:
    """A share in [0, 1] in percent."""
    return "–" if value is None else f"{value * 100:.{digits}f}%"


def compact(value: float) -> str:
    """A count in a few characters: 950, 12.5k, 3.4M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def usd_text(value: float) -> str:
    """US dollars with as many digits as a small amount needs."""
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.3g}"


def seconds(value: float) -> str:
    """A time in a few characters."""
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"


def points(value: float | None) -> str:
    """A difference of shares, in percentage points with its sign."""
    return "–" if value is None else f"{value * 100:+.1f}"


def p_text(value: float) -> str:
    """A p-value."""
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}"


def plain(value: float | None) -> str:
    """A number as it is."""
    return "–" if value is None else f"{value:g}"
