"""A comparison of skills as one HTML file that needs nothing else. Needs the extra ``report``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skillopt.report.bounds import FLIP_BYTES, changed_items
from skillopt.report.charts import lift_chart, runs_chart
from skillopt.report.comparison import flips
from skillopt.report.contest import Candidate, Contest
from skillopt.report.curves import Curves
from skillopt.report.page import drawn, whole_page


def comparison_page(
    candidates: Sequence[Candidate],
    found: Contest,
    runs: Sequence[tuple[str, Curves]],
    mask: Callable[[str], str] = str,
) -> str:
    """The HTML of ``found``, the contest of ``candidates``: the table, the differences, the curves of the ``runs`` that
    they come from (where there are several), and the items that changed with both answers. ``mask`` hides secrets."""
    pairs = _pairs(candidates)
    room = FLIP_BYTES // max(1, len(pairs))
    page = whole_page(
        "comparison.html",
        contest=found,
        charts=drawn([*_lifts(found), runs_chart(runs) if len(runs) > 1 else ""]),
        changes=[
            changed_items(first.split, first.name, other.name, flips(first.answers, other.answers), room, mask)
            for first, other in pairs
        ],
    )
    return mask(page)


def _pairs(candidates: Sequence[Candidate]) -> list[tuple[Candidate, Candidate]]:
    """Each candidate behind the one that it is compared with: the first on its items."""
    firsts: dict[str, Candidate] = {}
    met = [(firsts.setdefault(candidate.split, candidate), candidate) for candidate in candidates]
    return [(first, other) for first, other in met if first is not other]


def _lifts(found: Contest) -> list[str]:
    splits = dict.fromkeys(entrant.split for entrant in found.entrants)
    arms = {split: [entrant.result for entrant in found.entrants if entrant.split == split] for split in splits}
    return [lift_chart(arms[split], f"lift-{split}", f"Difference from the first, {split} items") for split in splits]
