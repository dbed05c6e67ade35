"""The live view: what it looks like at 80 columns."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest
from fakes.progress import ROW, START, item
from rich.console import Console

from skillopt.cli.live import LiveView, duration


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (754, "12:34"), (3723, "1:02:03")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def drawn(width: int, *events: tuple[str, Mapping[str, Any]], secret: str = "") -> tuple[str, list[str]]:
    """What stands above the view, and the view itself, on a screen of ``width`` columns."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, record=True)
    clock = [0.0]
    mask = (lambda text: text.replace(secret, "***")) if secret else str
    view = LiveView(console, mask, clock=lambda: clock[-1])
    for kind, fields in events:
        view(kind, fields)
    clock.append(30.0)
    above = console.export_text()
    console.print(view.render())
    return above, console.export_text().splitlines()


MIDDLE = (
    ("run_started", START),
    ("baseline_done", {"hard": 0.05, "soft": 0.1, "errors": 0, "n": 20}),
    ("epoch_started", {"epoch": 1, "epochs": 4}),
    ("step_started", {"step": 1, "steps": 4, "epoch": 1}),
    ("step_done", {"row": ROW, "steps": 4}),
    ("step_started", {"step": 2, "steps": 4, "epoch": 2}),
    ("stage_started", {"step": 2, "stage": 1}),
    ("pass_started", {"label": "step 2 rollout", "total": 40}),
    ("pass_started", {"label": "a pass whose name is much longer than its column", "total": 20}),
    *(("item_done", item("step 2 rollout", n, 40, tokens=1234567)) for n in range(1, 25)),
)


def test_the_view_at_80_columns() -> None:
    above, view = drawn(80, *MIDDLE)
    assert "BASELINE — hard=0.0500 soft=0.1000 (n=20)" in above
    assert "[STEP 1 done] epoch=1 action=accept_new_best" in above
    assert "timing:" not in above
    assert len(view) == 5
    assert all(len(line.rstrip()) <= 80 for line in view)
    assert view[0].startswith("epoch 2/4  step 2/4  1/6 ROLLOUT")
    assert view[0].rstrip().endswith("0:30, about 6:35 left")
    assert "24/40  acc 0.625" in view[1]
    assert view[2].startswith("a pass whose name is")
    assert view[3].startswith("current 0.4500  best 0.4500 (step 1)   accept 1  reject 0  skip 0")
    assert view[4].strip() == "tokens 1,234,567   cost unknown"


@pytest.mark.parametrize("width", [40, 60, 120])
def test_the_view_fits_other_widths(width: int) -> None:
    _, view = drawn(width, *MIDDLE)
    assert all(len(line.rstrip()) <= width for line in view)


def test_no_secret_is_shown() -> None:
    above, _ = drawn(80, ("note", {"text": "key sk-123456 refused"}), secret="sk-123456")
    assert above.strip() == "key *** refused"


def test_an_evaluation_shows_no_steps() -> None:
    _, view = drawn(
        80, ("pass_started", {"label": "test split", "total": 10}), ("item_done", item("test split", 1, 10))
    )
    assert view[0].startswith("evaluating")
    assert len(view) == 3


def test_entering_and_leaving_draws_and_clears() -> None:
    stream = io.StringIO()
    with LiveView(Console(file=stream, width=80, force_terminal=True), str) as view:
        for kind, fields in MIDDLE:
            view(kind, fields)
    assert "STEP 1 done" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")


def test_colours_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    view = LiveView(console, str)
    for kind, fields in MIDDLE:
        view(kind, fields)
    console.print(view.render())
    assert "\x1b[3" not in console.file.getvalue()  # type: ignore[attr-defined]
