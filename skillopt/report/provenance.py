"""Where a skill comes from, in a sentence."""

from __future__ import annotations

from datetime import datetime, timezone

from skillopt.report.nouns import Measured
from skillopt.report.run import RunView
from skillopt.values import fraction


def provenance_of(run: RunView) -> str:
    """The run of a best skill, its step, its hard scores beside those of the first skill, its date: what is known."""
    version = str(run.summary.get("version") or "").removeprefix("skillopt-")
    step = run.pointers.get("best_step", run.summary.get("best_step"))
    validation, test = (_change(run.measured("seed", split), run.measured("best", split)) for split in ("val", "test"))
    parts = [f"run {run.name}"]
    if isinstance(step, int):
        parts.append(f"step {step}" if step else "the first skill")
    parts += [f"trained on {run.config['env']}"] if run.config.get("env") else []
    parts += [f"validation {validation}"] if validation else []
    parts += [f"test {test}"] if test else []
    parts += filter(None, [last_day(run)])
    return f"Trained with SkillOpt{' ' + version if version else ''}: {', '.join(parts)}."


def last_day(run: RunView) -> str:
    """The day on which ``run`` did something last, in UTC; '' when nobody knows."""
    events = run.events(1)
    at = fraction(events[-1].get("at")) if events else None
    try:
        moment = (run.root / "best_skill.md").stat().st_mtime if at is None else at
        return datetime.fromtimestamp(moment, timezone.utc).date().isoformat()
    except (OverflowError, OSError, ValueError):
        return ""


def _change(before: Measured, after: Measured) -> str:
    known = before.hard is not None and after.hard is not None
    return f"{before.hard:.4f} to {after.hard:.4f}" if known else ""
