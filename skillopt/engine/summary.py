"""``summary.json``: what came of a run, with the proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skillopt.engine.commit import score_of
from skillopt.engine.context import Context
from skillopt.engine.evaluate import means
from skillopt.engine.state import ItemScores, RunState
from skillopt.gate.stats import paired_lift
from skillopt.models.pricing import total
from skillopt.run.costs import RoleCost
from skillopt.version import __version__


@dataclass(frozen=True)
class Tests:
    """Item scores of the first, the best and the last skill on the test split."""

    initial: ItemScores
    best: ItemScores
    final: ItemScores


def summarise(
    context: Context, state: RunState, tests: Tests | None, final_scores: ItemScores | None, *, stop_reason: str
) -> dict[str, Any]:
    """The published fields, and ``stop_reason``, ``no_improvement_reason``, ``test_lift``, ``requests``,
    ``cost_summary``."""
    journal = context.folder.journal
    rows = journal.fields("step_", "row")
    baseline = (journal.record("baseline") or {}).get("scores")
    final_hard, final_soft = means(final_scores or {})
    return {
        "version": f"skillopt-{__version__}",
        "stop_reason": stop_reason,
        "no_improvement_reason": no_improvement(rows, state, stop_reason),
        "baseline_selection_hard": means(baseline or {})[0],
        "best_selection_hard": score_of(context.config, state.best_scores),
        "final_selection_hard": final_hard,
        "final_selection_soft": final_soft,
        "best_step": state.best_step,
        "current_origin": state.current_origin,
        "best_origin": state.best_origin,
        "total_steps": len(rows),
        "total_accepts": sum("accept" in row["action"] for row in rows),
        "total_rejects": sum(row["action"] == "reject" for row in rows),
        "total_skips": sum(row["action"].startswith("skip") for row in rows),
        "epoch_stats": epoch_stats(rows),
        **test_fields(context, tests),
        "selection_n": len(context.selection_items),
        "test_n": len(context.test_items),
        "total_wall_time_s": round(context.meter.seconds(), 1),
        "token_summary": token_summary(context),
        "requests": journal.requests_by_kind(),
        "cost_summary": cost_summary(journal.role_costs()),
        "config": dict(context.told),
    }


def test_fields(context: Context, tests: Tests | None) -> dict[str, Any]:
    """Test scores of the first, best and last skill, and the paired lift of best over first with its interval."""
    none: ItemScores = {}
    initial, best, final = (tests.initial, tests.best, tests.final) if tests else (none, none, none)
    fields: dict[str, Any] = {}
    for name, scores in (("baseline_test", initial), ("test", best), ("final_test", final)):
        fields[f"{name}_hard"], fields[f"{name}_soft"] = means(scores)
    lift, final_lift = (
        paired_lift(_hard(initial), _hard(scores), context.config.train.seed) for scores in (best, final)
    )
    fields["test_delta_hard"] = lift.lift if lift else None
    fields["final_test_delta_hard"] = final_lift.lift if final_lift else None
    fields["test_lift"] = asdict(lift) if lift else None
    fields["test_errors"] = sum(score is None for scores in (initial, best) for score in scores.values())
    return fields


def no_improvement(rows: Sequence[Mapping[str, Any]], state: RunState, stop_reason: str) -> str | None:
    """Why the best skill is still the first one; None when it is not, or when nothing but an early stop is to blame."""
    if state.best_origin != "initial_skill":
        return None
    if any(not row["action"].startswith("skip") for row in rows):
        return "all_rejected"
    if stop_reason == "budget":
        return "budget_before_first_candidate"
    if not rows:
        return None
    return "no_edit_applied" if any(row["n_patches"] for row in rows) else "no_edits_proposed"


def epoch_stats(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for epoch in sorted({row["epoch"] for row in rows}):
        of_epoch = [row for row in rows if row["epoch"] == epoch]
        found.append(
            {
                "epoch": epoch,
                "steps": len(of_epoch),
                "accepts": sum("accept" in row["action"] for row in of_epoch),
                "rejects": sum(row["action"] == "reject" for row in of_epoch),
                "skips": sum(row["action"].startswith("skip") for row in of_epoch),
                "best_score_at_epoch_end": of_epoch[-1]["best_score"],
                "current_score_at_epoch_end": of_epoch[-1]["current_score"],
            }
        )
    return found


def token_summary(context: Context) -> dict[str, dict[str, int]]:
    """Replies and tokens by stage over all processes of the run, each reply counted once; ``_total`` is the sum."""
    totals: dict[str, dict[str, int]] = {}
    for stage, tokens in context.folder.journal.stage_totals().items():
        totals[stage] = {**tokens.row(), "total_tokens": tokens.prompt_tokens + tokens.completion_tokens}
    keys = ("calls", "prompt_tokens", "completion_tokens", "total_tokens")
    return totals | {"_total": {key: sum(stage[key] for stage in totals.values()) for key in keys}}


def cost_summary(roles: Mapping[str, RoleCost]) -> dict[str, dict[str, Any]]:
    """Requests and US dollars by role over all processes of the run, failed requests included; ``_total`` is the sum.

    ``cost_usd`` is null where the cost of one of the requests is not known; ``unknown_requests`` says of how many, and
    ``known_usd`` what the others cost.
    """
    everything = RoleCost(
        sum(role.requests for role in roles.values()),
        total(role.known_usd for role in roles.values()) or 0.0,
        sum(role.unknown for role in roles.values()),
    )
    return {
        name: {
            "requests": role.requests,
            "cost_usd": None if role.unknown else role.known_usd,
            "known_usd": role.known_usd,
            "unknown_requests": role.unknown,
        }
        for name, role in {**roles, "_total": everything}.items()
    }


def _hard(scores: ItemScores) -> dict[str, float]:
    return {id_: score[0] for id_, score in scores.items() if score is not None}
