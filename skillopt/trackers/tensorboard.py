"""TensorBoard: scalars and texts in ``tensorboard/`` of the run folder."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from skillopt.trackers.base import Entry, Open, Outcome, Start

FOLDER = "tensorboard"
_NUMBER = re.compile(r"_v?\d{4,}\w*(?=\.\w+$)")
_TEXT_LIMIT = 1 << 20


def find(environ: Mapping[str, str]) -> Open:
    """Raises ``ImportError``."""
    import tensorboardX  # noqa: F401

    return TensorBoardTracker


class TensorBoardTracker:
    """Writes event files; a later process of the same training adds one to them."""

    def __init__(self, start: Start) -> None:
        from tensorboardX import SummaryWriter

        folder = start.root / FOLDER
        going_on = bool(start.run) and folder.is_dir() and any(folder.iterdir())
        self.run = start.run if going_on else uuid.uuid4().hex
        # Named by the second otherwise: a process that goes on at once would write over the last one's file.
        self._writer: Any = SummaryWriter(logdir=str(folder), filename_suffix=f".{uuid.uuid4().hex[:8]}")
        if not going_on:
            rows = "\n".join(f"| {key} | {_cell(value)} |" for key, value in start.parameters.items())
            self._writer.add_text(f"{start.prefix}config", f"| key | value |\n|---|---|\n{rows}", 0)

    def log(self, entry: Entry) -> None:
        for name, value in entry.metrics.items():
            self._writer.add_scalar(name, value, entry.step)
        for name, text in entry.texts.items():
            shown = text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}\n… (cut)"
            # One tag for all versions, so that the page has a slider of steps and not a card for each.
            tag = _NUMBER.sub("", name)
            self._writer.add_text(tag, shown if name.endswith(".md") else _fenced(name, shown), entry.step)
        self._writer.flush()

    def close(self, outcome: Outcome) -> None:
        self._writer.close()


def _cell(value: str) -> str:
    return " ".join(value.replace("|", "\\|").split())


def _fenced(name: str, text: str) -> str:
    """As code: the page shows texts as Markdown."""
    fence = "`" * 3
    while fence in text:
        fence += "`"
    return f"{fence}{name.rpartition('.')[2]}\n{text}\n{fence}"
