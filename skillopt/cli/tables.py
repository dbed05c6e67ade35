"""How the commands that read a run print: tables, short lines, colours, JSON. What a run holds is untrusted text."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from skillopt.gate.stats import Lift

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SPACE = re.compile(r"\s+")
RED, GREEN, DIM, BOLD, CYAN = "31", "32", "2", "1", "36"


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option to print JSON."""
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def add_color(parser: argparse.ArgumentParser) -> None:
    """The option that decides about colours (``wants_color``)."""
    choices = ("auto", "always", "never")
    parser.add_argument("--color", choices=choices, default="auto", help="colours: on a terminal, always or never")


def wants_color(choice: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to print colours: as told, else on a terminal that has some (``NO_COLOR`` says no)."""
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """The columns of the terminal that is printed on; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def paint(text: str, *codes: str, on: bool) -> str:
    """``text`` in a colour, where colours are ``on``."""
    return f"\033[{';'.join(codes)}m{text}\033[0m" if on and text else text


def clean(text: str) -> str:
    """``text`` without characters that move the cursor of a terminal or turn its direction; tabs and line breaks stay.

    A skill and an answer are untrusted: printed as they are, they could rewrite what stands above them.
    """
    return _CONTROL.sub("\ufffd", text)


def shorten(text: str, width: int) -> str:
    """``text`` on one line of at most ``width`` characters."""
    line = _SPACE.sub(" ", clean(text)).strip()
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """A table in aligned columns; those in ``right`` (numbers from 0) are aligned at the right."""
    lines = [[*head], *([*row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return ["  ".join(_cell(line, widths, column, right) for column in range(len(head))).rstrip() for line in lines]


def _cell(line: Sequence[str], widths: Sequence[int], column: int, right: Sequence[int]) -> str:
    text, width = line[column], widths[column]
    return text.rjust(width) if column in right else text.ljust(width)


def interval(lift: Lift | None) -> str:
    """A paired difference with its 95 % interval."""
    return "" if lift is None else f"{lift.lift:+.4f} [{lift.low:+.4f}, {lift.high:+.4f}]"


def lift_cells(lift: Lift | None) -> tuple[str, str, str, str]:
    """The cells beside an interval: p-value, pairs, how many of them rose, and fell."""
    return ("", "", "", "") if lift is None else (f"{lift.p_value:.2g}", str(lift.n), str(lift.wins), str(lift.losses))


def items_named(ids: Sequence[str], most: int = 3) -> str:
    """The first of some item ids, and how many more there are."""
    more = f" +{len(ids) - most}" if len(ids) > most else ""
    return ", ".join(shorten(id_, 40) for id_ in ids[:most]) + more


def json_text(value: Any, indent: int | None = 2) -> str:
    """A value as JSON, on one line where ``indent`` is None; dataclasses are objects, and a number that JSON has no
    word for is null."""
    text = json.dumps(_plain(value), ensure_ascii=False, indent=indent, default=str)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
