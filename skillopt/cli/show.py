"""``skillopt show``: a step of a run, from its rollouts to the gate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt.cli.console import number
from skillopt.cli.diff import colored
from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.cli.tables import BOLD, add_color, add_json, clean, items_named, json_text, paint, shorten, table
from skillopt.cli.tables import wants_color as in_color
from skillopt.models.pricing import money
from skillopt.report.evolution import Diff, diff, masked, unified
from skillopt.report.lineage import proposal_named
from skillopt.report.run import RunView, read_run
from skillopt.report.steps import Reflection, StepView, patch_items
from skillopt.run.folder import FolderError
from skillopt.values import fraction, mapping, mappings, text, texts, whole

_STEP = re.compile(r"(?:step[_ ]?)?0*(\d+)")
_ITEMS = 10
_WIDE, _NARROW = 100, 60
_COUNTS = (("wins", "better"), ("losses", "worse"), ("ties", "equal"), ("excluded", "left out"))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a step of a run."""
    return guarded(lambda shell: _show(shell, argv))


def _show(shell: Shell, argv: Sequence[str] | None) -> int:
    about = "Shows a step: rollouts, reflections, merged and ranked edits, what was applied, the gate. It only reads."
    parser = make_parser("skillopt show", about)
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("step", metavar="STEP", help="number of a step, or: last, best")
    parser.add_argument("--all", action="store_true", help=f"all rollouts, not only {_ITEMS} that failed")
    add_color(parser)
    add_json(parser)
    args = parser.parse_args(argv)
    view = read_run(Path(args.run))
    step = step_named(view, args.step)
    if args.json:
        shell.say(json_text(step_json(view, step)))
        return 0
    color = in_color(args.color)
    for line in step_lines(view, step, everything=args.all, color=color, mask=shell.redactor.mask):
        shell.say(line)
    return 0


def step_named(view: RunView, word: str) -> StepView:
    """The step that a word means. Raises ``FolderError`` when there is none."""
    name, steps = word.strip().lower(), view.steps
    match = _STEP.fullmatch(name)
    if name == "best":
        last = view.rows[-1] if view.rows else {}
        wanted = whole(view.pointers.get("best_step", last.get("best_step")))
    elif name == "last":
        wanted = steps[-1] if steps else 0
    elif match:
        wanted = int(match[1])
    else:
        raise FolderError(f"{word!r} names no step; use a number, last or best")
    step = view.step(wanted)
    if step is None:
        if not steps:
            raise FolderError(f"{view.root} has no finished step yet")
        raise FolderError(f"{view.root} has no step {wanted}; it has {steps[0]} to {steps[-1]}")
    return step


def step_json(view: RunView, step: StepView) -> dict[str, Any]:
    """Everything that a step left behind, as ``--json`` has it."""
    found = _proposal(view, step)
    return {
        "step": step.number,
        "epoch": step.row.get("epoch"),
        "action": step.action or None,
        "row": step.row,
        "rollouts": {name: view.results(name, 0, None).rows for name in step.rollout_passes},
        "reflections": list(step.reflections),
        "merged": step.merged,
        "ranked": step.ranked,
        "edits": step.edits,
        "lr_decision": step.lr_decision,
        "rewrite": step.rewrite,
        "candidate": step.candidate,
        "diff": unified(found) if found else [],
        "gate": step.gate,
        "selection": view.results(step.selection_pass, 0, None).rows if step.selection_pass else [],
    }


def step_lines(
    view: RunView, step: StepView, *, everything: bool = False, color: bool = False, mask: Callable[[str], str] = str
) -> Iterator[str]:
    """A step for a person. ``mask`` hides secrets."""
    epoch = f" (epoch {number_of})" if (number_of := whole(step.row.get("epoch"))) else ""
    yield paint(f"step {step.number}{epoch}: {shorten(step.action or 'not finished', 40)}", BOLD, on=color)
    yield from _facts(step)
    sections = (
        ("rollouts", list(_rollouts(view, step, everything))),
        ("reflections", [line for reflection in step.reflections for line in _reflection(reflection)]),
        ("merged", _patch(" after merging", step.merged)),
        ("ranked", _patch(" kept", step.ranked)),
        ("edits", list(_edits(step))),
        ("candidate", _candidate(view, step, color, mask)),
        ("gate", list(_gate(step))),
    )
    for title, lines in sections:
        if lines:
            yield from ("", paint(title, BOLD, on=color), *(f"  {line}" for line in lines))


def _facts(step: StepView) -> Iterator[str]:
    row = step.row
    hard = fraction(row.get("train_hard", row.get("rollout_hard")))
    if hard is not None:
        soft = fraction(row.get("train_soft", row.get("rollout_soft")))
        yield f"train: hard={number(hard)} soft={number(soft)} (n={whole(row.get('rollout_n'))})"
    if step.tokens is not None:
        yield f"tokens: {step.tokens:,}   cost: {money(fraction(row.get('cost_usd')))}"
    times = {name: fraction(value) for name, value in mapping(row.get("timing")).items()}
    spent = [f"{shorten(name.removesuffix('_s'), 20)} {seconds:.1f}s" for name, seconds in times.items() if seconds]
    if spent:
        yield f"time: {', '.join(spent)}"
    errors = mapping(row.get("errors"))
    if errors:
        lost = ", ".join(f"{shorten(name, 20)} {whole(count)}" for name, count in errors.items())
        yield f"not measured or lost: {lost}"


def _rollouts(view: RunView, step: StepView, everything: bool) -> Iterator[str]:
    for name in step.rollout_passes:
        counts = {only: view.results(name, 0, 0, only).total for only in ("passed", "failed", "unmeasured")}
        yield f"{name}: " + ", ".join(f"{count} {only}" for only, count in counts.items())
        page = view.results(name, 0, None) if everything else view.results(name, 0, _ITEMS, "failed")
        rows = [
            (
                shorten(text(row.get("id")), 40),
                _score(row.get("hard")),
                _score(row.get("soft")),
                shorten(text(row.get("predicted_answer")), _NARROW),
                shorten(text(row.get("fail_reason")), _WIDE),
            )
            for row in page.rows
        ]
        if rows:
            yield from table(("id", "hard", "soft", "answer", "why"), rows, right=(1, 2))
        if not everything and page.total > len(rows):
            yield f"… {page.total - len(rows)} more that failed; --all shows every item"


def _score(value: Any) -> str:
    score = fraction(value)
    return "n/a" if score is None else f"{score:.2f}"


def _reflection(reflection: Reflection) -> Iterator[str]:
    items = f" from {items_named(reflection.item_ids)}" if reflection.item_ids else ""
    batch = "" if reflection.batch is None else f"batch {reflection.batch}, "
    count = (
        f"failed: {shorten(reflection.error, _WIDE)}" if reflection.error else _counted(len(reflection.edits), "edit")
    )
    yield f"{batch}{shorten(reflection.name, 40)} ({shorten(reflection.kind, 10)}): {count}{items}"
    for pattern in mappings(reflection.patch.get("failure_summary")):
        kind, what = text(pattern.get("failure_type")), text(pattern.get("description"))
        yield f"  {whole(pattern.get('count'))} x {shorten(f'{kind}: {what}', _WIDE)}"
    for pattern_text in texts(reflection.patch.get("success_patterns")):
        yield f"  works: {shorten(pattern_text, _WIDE)}"
    if reflection.reasoning:
        yield f"  why: {shorten(reflection.reasoning, _WIDE)}"


def _patch(what: str, patch: Mapping[str, Any]) -> list[str]:
    if not patch:
        return []
    reasoning = text(patch.get("reasoning"))
    details = text(mapping(patch.get("ranking_details")).get("reasoning"))
    reasons = [f"why: {shorten(reason, _WIDE)}" for reason in dict.fromkeys((reasoning, details)) if reason]
    return [_counted(len(patch_items(patch)), "edit") + what, *reasons]


def _counted(number_of: int, noun: str) -> str:
    return f"{number_of} {noun}" if number_of == 1 else f"{number_of} {noun}s"


def _edits(step: StepView) -> Iterator[str]:
    for edit in step.edits:
        support = f"  rests on {edit.support}" if edit.support else ""
        source = f"  {shorten(edit.source_type, 10)}" if edit.source_type else ""
        yield f"{edit.index}. {shorten(edit.op, 20)}: {shorten(edit.status, 60)}{support}{source}"
        if edit.target:
            yield f"   at: {shorten(edit.target, _WIDE)}"
        for line in clean(edit.content).splitlines():
            yield f"   | {line}"
        if edit.source_items:
            yield f"   from: {edit.among}{items_named(edit.source_items, 8)}"


def _candidate(view: RunView, step: StepView, color: bool, mask: Callable[[str], str]) -> list[str]:
    found = _proposal(view, step)
    if found is None:
        return []
    found = masked(found, mask)
    return (colored(found) if color else [clean(line) for line in unified(found)]) or ["the same text"]


def _proposal(view: RunView, step: StepView) -> Diff | None:
    """What the step proposed; None where there is no candidate, or no skill before it."""
    if step.candidate is None or view.skill(step.number - 1) is None:
        return None
    proposal = proposal_named(view, f"step_{step.number}")
    return diff(proposal[0].text, proposal[1].text, proposal[0].name, proposal[1].name) if proposal else None


def _gate(step: StepView) -> Iterator[str]:
    gate = step.gate
    if not gate:
        return
    score, current = fraction(gate.get("candidate_score")), fraction(gate.get("current_score"))
    best = fraction(gate.get("best_score"))
    yield f"{shorten(step.action, 40)}: candidate={number(score)} current={number(current)} best={number(best)}"
    if whole(gate.get("pairs")):
        estimate = fraction(gate.get("estimate"))
        change = "" if estimate is None else f"difference {estimate:+.4f} on "
        counts = ((f"{whole(gate.get(key))} {word}") for key, word in _COUNTS)
        yield f"{change}{whole(gate['pairs'])} items: {', '.join(counts)}"
    rule, metric = text(gate.get("rule")), text(gate.get("metric"))
    if rule or metric:
        yield f"rule: {shorten(rule or 'not told', 20)}, metric: {shorten(metric, 20)}"
