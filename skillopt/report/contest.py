"""Runs and skills side by side: what each measured, on which items, at what cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.files import inside
from skillopt.report.answers import Answers
from skillopt.report.comparison import Arm, ArmResult, Metric, compare, scores
from skillopt.report.curves import Curves
from skillopt.report.files import read_text
from skillopt.report.final import WHICH, curves_of, seed_of
from skillopt.report.folder import run_of_skill
from skillopt.report.run import RunView, Split, read_run, selection_pass
from skillopt.run.folder import FolderError
from skillopt.types import SPLIT_ALIASES
from skillopt.values import text

SPLITS = ("test", "val", "train", "all")
"""The items on which skills may be compared, in the order in which common ones are looked for. Training keeps rows of
its skills on ``test`` and ``val``; an evaluation can be of any."""
_OF_RUNS: tuple[Split, ...] = ("test", "val")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill to be compared: its name, the items that it was measured on, its answers, what its run spent, and the
    model that worked with it ('' where nobody says)."""

    name: str
    split: str
    answers: Answers
    tokens: int | None
    usd: float | None
    seed: int
    target: str = ""


@dataclass(frozen=True, slots=True)
class Entrant:
    """A skill in a comparison. ``tokens`` and ``usd`` are what its whole run spent (None where nobody knows)."""

    name: str
    split: str
    result: ArmResult
    tokens: int | None
    usd: float | None


@dataclass(frozen=True, slots=True)
class Contest:
    """Skills side by side; each but the first is compared with the first. ``notes`` say what to mind."""

    metric: Metric
    entrants: tuple[Entrant, ...]
    notes: tuple[str, ...]


def entrants_of(
    paths: Sequence[Path], split: str | None = None, read: Callable[[Path], RunView] = read_run
) -> list[Candidate]:
    """The skills that ``paths`` name: the best one of a run folder, the one of an evaluation, a skill file in a run.
    One run alone means its seed, its best and its last skill, on all items where they were measured. ``split`` None:
    the first of ``SPLITS`` that all have. ``read`` gives the view of a run folder.

    Raises ``FolderError`` when a path names none, or one that was measured on no such items.
    """
    wanted = [split] if split else SPLITS
    if len(paths) == 1 and paths[0].is_dir():
        view = read(paths[0])
        if view.kind == "training":
            return _of_one_run(view, wanted)
    found: list[Candidate | None] = []
    for each in wanted:
        found = [_candidate(path, each, read) for path in paths]
        if all(found):
            return [candidate for candidate in found if candidate is not None]
    told = [path for path, candidate in zip(paths, found, strict=True) if candidate is None]
    where = f"the {split} items" if split else "items that all of them have"
    what = f"{told[0]} was" if split else "the skills were"
    raise FolderError(
        f"{what} not measured on {where}; score each skill on the same split with skillopt eval, and compare the "
        "folders that it writes"
    )


def curves_of_runs(paths: Sequence[Path]) -> list[tuple[str, Curves]]:
    """The names and the charts' series of those ``paths`` that are runs with steps."""
    views = [read_run(path) for path in dict.fromkeys(paths) if path.is_dir()]
    return [(view.name, curves_of(view)) for view in views if view.rows]


def contest(candidates: Sequence[Candidate], metric: Metric = "hard") -> Contest:
    """The candidates compared item by item, each with the first one on the same split. Pure."""
    entrants: list[Entrant] = []
    notes: list[str] = []
    for split in dict.fromkeys(candidate.split for candidate in candidates):
        group = [candidate for candidate in candidates if candidate.split == split]
        results = compare([Arm(candidate.name, candidate.answers) for candidate in group], group[0].seed, metric)
        entered = [
            Entrant(candidate.name, split, result, candidate.tokens, candidate.usd)
            for candidate, result in zip(group, results, strict=True)
        ]
        entrants += entered
        notes += _notes(group, entered, metric)
    return Contest(metric, tuple(entrants), tuple(dict.fromkeys(notes)))


def _notes(candidates: Sequence[Candidate], entrants: Sequence[Entrant], metric: Metric) -> list[str]:
    first = candidates[0]
    own = scores(first.answers, metric)
    asked = dict(zip(first.answers.ids, first.answers.asked, strict=True))
    notes = [
        f"{each.name} has more than {len(each.answers.ids):,} rows: the rest is left out"
        for each in candidates
        if not each.answers.whole
    ]
    for other, entrant in zip(candidates[1:], entrants[1:], strict=True):
        theirs = scores(other.answers, metric)
        common = len(own.keys() & theirs.keys())
        if common < len(own.keys() | theirs.keys()):
            share = f"{first.name} and {other.name} share {common} of {len(own)} and {len(theirs)} items"
            notes.append(f"{share}: the difference is that on these {common}")
        if first.target and other.target and first.target != other.target:
            targets = f"{first.target} of {first.name}, {other.target} of {other.name}"
            notes.append(f"the target models differ ({targets}): the difference is not of the skills alone")
        pairs = zip(other.answers.ids, other.answers.asked, strict=True)
        changed = sum(asked.get(id_, question) != question for id_, question in pairs if id_)
        if changed:
            notes.append(f"{changed} items of {other.name} have the id of another item: their data differ")
        lift = entrant.result.lift
        if lift is not None and lift.shown is None:
            which = f"the interval of {other.name} on the {other.split} items"
            notes.append(f"{which} holds 0: no difference from {first.name} has been shown")
    if first.split == "val":
        notes.append(
            "best skills were chosen on the val items, which flatters them there; the test items are the proof"
        )
    return notes


def _of_one_run(view: RunView, splits: Sequence[str]) -> list[Candidate]:
    passes = [(which, split, view.pass_of(which, split)) for split in _OF_RUNS if split in splits for which in WHICH]
    found = [_made(view, which, split, name) for which, split, name in passes if name is not None]
    if not found:
        where = f" on the {splits[0]} items" if len(splits) == 1 else ""
        raise FolderError(f"{view.root} has measured nothing{where} yet")
    return found


def _candidate(path: Path, split: str, read: Callable[[Path], RunView]) -> Candidate | None:
    """The skill that ``path`` names, with its answers on a split; None when it was not measured there."""
    if path.is_dir():
        view = read(path)
        if view.kind == "evaluation":
            return _of_evaluation(view, split)
        names = [view.pass_of("best", each) for each in _OF_RUNS if each == split]
        return next((_made(view, f"{view.name}: best", split, name) for name in names if name is not None), None)
    path = path.absolute()
    root = run_of_skill(path)
    if root is None or not path.is_file():
        raise FolderError(f"{path} is neither a run folder nor a skill file in one")
    view = read(root)
    names = [_pass_of_skill(view, path, each) for each in _OF_RUNS if each == split]
    title = f"{view.name}: {path.relative_to(view.root).as_posix()}"
    return next((_made(view, title, split, name) for name in names if name is not None), None)


def _of_evaluation(view: RunView, split: str) -> Candidate | None:
    """An evaluation is of the items of its split; which of ``all`` lie in which split, it does not tell."""
    measured = text(view.evaluation.get("split"))
    skill = Path(text(view.evaluation.get("skill"))).name
    if SPLIT_ALIASES.get(measured.lower(), measured) != split:
        return None
    return _made(view, f"{view.name}: {skill}" if skill else view.name, split, "")


def _pass_of_skill(view: RunView, path: Path, split: Split) -> str | None:
    """The pass in which the skill of a file was measured: as the seed, the best or the last one, or by its step."""
    content = read_text(view.root, path.relative_to(view.root).as_posix())
    for which in WHICH:
        if content is not None and content == {"seed": view.seed, "best": view.best, "final": view.final}[which]:
            name = view.pass_of(which, split)
            if name is not None:
                return name
    if split == "test":
        return None
    beside = f"{path.parent.relative_to(view.root).as_posix()}/selection_eval"
    versions = {f"skill_v{number:04d}.md": number for number in view.versions}
    if path.name in versions:
        row = view.row(versions[path.name])
        beside = selection_pass(text(row.get("current_origin")) or "initial_skill", view.rows)
    return beside if inside(view.root, f"{beside}/results.jsonl") else None


def _made(view: RunView, name: str, split: str, passed: str) -> Candidate:
    spent = view.spending()
    tokens, usd = (spent.tokens, spent.usd) if spent else (None, None)
    target = text(view.config.get("target_model")).removeprefix("local/")  # its name here, too, for the same model
    return Candidate(name, split, view.answers(passed), tokens, usd, seed_of(view), target)
