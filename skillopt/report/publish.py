"""Writes pages to share: ``report.html`` and ``training_dashboard.png`` of a run, or a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from skillopt.extras import install_hint
from skillopt.files import write_atomic
from skillopt.report.content import Report
from skillopt.report.contest import Candidate, Contest
from skillopt.report.curves import Curves

PAGE, PICTURE = "report.html", "training_dashboard.png"
INSTALL = install_hint("report")


@dataclass(frozen=True, slots=True)
class Published:
    """The files that were written, and sentences about those that were not."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def can_publish() -> bool:
    """Whether what the page needs is installed."""
    return find_spec("jinja2") is not None


def publish(report: Report, folder: Path, *, picture: bool = True, mask: Callable[[str], str] = str) -> Published:
    """Writes the page, and the picture where matplotlib is installed, into ``folder``, which is made when it is not
    there. ``mask`` hides secrets. Raises ``OSError``."""
    if not can_publish():
        return Published((), (f"no page without jinja2: {INSTALL}",))
    from skillopt.report.page import report_page

    folder.mkdir(parents=True, exist_ok=True)
    contents = {PAGE: mask(report_page(report)).encode("utf-8", "replace")}
    notes = []
    if picture and find_spec("matplotlib") is None:
        notes.append(f"no {PICTURE} without matplotlib: {INSTALL}")
    elif picture:
        from skillopt.report.picture import dashboard_png

        contents[PICTURE] = dashboard_png(report)
    for name, content in contents.items():
        write_atomic(folder / name, content)
    return Published(tuple(folder / name for name in contents), tuple(notes))


def publish_comparison(
    candidates: Sequence[Candidate],
    found: Contest,
    runs: Sequence[tuple[str, Curves]],
    path: Path,
    mask: Callable[[str], str] = str,
) -> None:
    """Writes a comparison as one page (see ``comparison_page``; needs what ``can_publish`` asks for). Raises
    ``OSError``."""
    from skillopt.report.comparison_page import comparison_page

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, comparison_page(candidates, found, runs, mask).encode("utf-8", "replace"))
