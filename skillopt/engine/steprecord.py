"""What a step leaves behind: its row of history and its files, from what its stages made. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from skillopt.config import Config
from skillopt.engine.commit import score_of
from skillopt.engine.evaluate import rollout_files
from skillopt.engine.proposal import BatchResult, Judgement, Proposal
from skillopt.engine.state import RunState
from skillopt.models.pricing import total
from skillopt.optimizer.items import UpdateMode
from skillopt.optimizer.reflect import Reflection, patches_of
from skillopt.optimizer.rejected import StepEntry, make_entry
from skillopt.run.folder import dump_json
from skillopt.run.journal import StageTokens


def rounded(value: float | None, digits: int = 6) -> float | None:
    return None if value is None else round(value, digits)


def history_row(config: Config, proposal: Proposal, judgement: Judgement) -> dict[str, Any]:
    """The fields of a history row that the step itself knows; scores and tokens come with the commit."""
    plan, rollouts, evaluation, verdict = proposal.plan, proposal.evaluation, judgement.evaluation, judgement.verdict
    row: dict[str, Any] = {
        "step": plan.step,
        "epoch": plan.epoch,
        "step_in_epoch": plan.step_in_epoch,
        "train_hard": rounded(rollouts.hard),
        "train_soft": rounded(rollouts.soft),
        "val_hard": evaluation.hard if evaluation else None,
        "val_soft": evaluation.soft if evaluation else None,
        "rollout_hard": rounded(rollouts.hard),
        "rollout_soft": rounded(rollouts.soft),
        "rollout_n": len(rollouts.scores),
        "accumulation_batches": [_batch_row(batch) for batch in proposal.batches],
        "n_patches": sum(len(patches_of(proposal.reflections, kind)) for kind in ("failure", "success")),
        "n_failure_patches": len(patches_of(proposal.reflections, "failure")),
        "n_success_patches": len(patches_of(proposal.reflections, "success")),
    }
    row |= _update_fields(config, proposal)
    row["action"] = judgement.action
    if evaluation is not None and verdict is not None:
        row |= {
            "selection_hard": evaluation.hard,
            "selection_soft": evaluation.soft,
            "gate_metric": config.evaluation.gate_metric,
            "candidate_gate_score": verdict.candidate_score,
            "gate": asdict(verdict),
        }
    return row | {
        "errors": step_errors(proposal, judgement),
        "trimmed": _trimmed(proposal.reflections),
        "dropped": _dropped(proposal),
    }


def score_fields(config: Config, state: RunState) -> dict[str, Any]:
    return {
        "current_score": score_of(config, state.current_scores),
        "best_score": score_of(config, state.best_scores),
        "best_step": state.best_step,
        "skill_len": len(state.current),
        "current_origin": state.current_origin,
        "best_origin": state.best_origin,
    }


def buffer_entry(config: Config, proposal: Proposal, judgement: Judgement) -> StepEntry | None:
    """The step's entry of the step buffer; none when no analyst proposed anything."""
    if proposal.selection is None or proposal.update is None:
        return None
    verdict = judgement.verdict
    return make_entry(
        step=proposal.plan.step,
        action=judgement.action,
        rollouts=proposal.evaluation.rollouts,
        reflections=proposal.reflections,
        selected=proposal.selection.patch,
        unapplied=proposal.update.unapplied,
        score_before=verdict.current_score if verdict else None,
        score_after=verdict.candidate_score if verdict else None,
    )


def _batch_row(batch: BatchResult) -> dict[str, Any]:
    return {
        "batch_idx": batch.plan.index,
        "batch_seed": batch.plan.seed,
        "n_envs": len(batch.plan.items),
        "hard": rounded(batch.evaluation.hard),
        "soft": rounded(batch.evaluation.soft),
        "n_failure_patches": len(patches_of(batch.reflections, "failure")),
        "n_success_patches": len(patches_of(batch.reflections, "success")),
    }


def _update_fields(config: Config, proposal: Proposal) -> dict[str, Any]:
    merged, selection, update = proposal.merged, proposal.selection, proposal.update
    if merged is None or selection is None or update is None:
        return {}
    fields: dict[str, Any] = {
        "n_edits_merged": len(merged.patch.items),
        "n_edits_ranked": len(selection.patch.items),
        "edit_budget": proposal.budget,
        "lr_control_mode": config.optimizer.lr_control_mode,
        "support_counts": [item.support_count for item in selection.patch.items],
    }
    if proposal.lr_decision is not None:
        fields["lr_decision"] = proposal.lr_decision.to_dict()
    if update.candidate is not None:
        fields |= {
            "candidate_hash": update.candidate.hash,
            "candidate_skill_len": len(update.candidate.text),
        }
    if update.summary is not None:
        fields["edit_apply_summary"] = dict(update.summary)
    if update.change_summary:
        fields["rewrite_change_summary"] = list(update.change_summary)
    return fields


def step_errors(proposal: Proposal, judgement: Judgement) -> dict[str, int]:
    """How many calls of each stage gave nothing usable; what fell back is counted, never hidden."""
    failed = [
        ("rollout", proposal.evaluation.errors),
        ("analyst", sum(reflection.error is not None for reflection in proposal.reflections)),
        ("merge", len(proposal.merged.fallbacks) if proposal.merged else 0),
        ("ranking", int(bool(proposal.selection and proposal.selection.fallback))),
        ("lr", int(bool(proposal.lr_decision and proposal.lr_decision.error))),
        ("rewrite", int(bool(proposal.update and proposal.update.error))),
        ("selection", judgement.evaluation.errors if judgement.evaluation else 0),
    ]
    return {stage: count for stage, count in failed if count}


def _trimmed(reflections: Sequence[Reflection]) -> dict[str, int]:
    return {
        "trajectories": sum(reflection.trimmed for reflection in reflections),
        "left_out": sum(reflection.tokens_left_out for reflection in reflections),
    }


def _dropped(proposal: Proposal) -> dict[str, int]:
    """What optimizer replies held beyond the budget, and entries that were no update items."""
    return {
        "over_budget": sum(reflection.over_budget for reflection in proposal.reflections),
        "no_items": sum(reflection.dropped for reflection in proposal.reflections)
        + (proposal.merged.dropped if proposal.merged else 0),
    }


def step_files(config: Config, proposal: Proposal, judgement: Judgement, digest: StepEntry | None) -> dict[str, bytes]:
    """The files below ``steps/step_NNNN/``, but for the record."""
    root = f"steps/step_{proposal.plan.step:04d}"
    several = len(proposal.batches) > 1
    files: dict[str, bytes] = {}
    for batch in proposal.batches:
        below = f"{root}/batch_{batch.plan.index % len(proposal.batches)}" if several else root
        predictions = config.logging.predictions != "none"
        files |= rollout_files(f"{below}/rollout", batch.evaluation.rollouts, predictions=predictions)
        files |= _reflection_files(below, batch.reflections)
    mode: UpdateMode = config.optimizer.skill_update_mode
    if proposal.merged is not None and proposal.selection is not None and proposal.update is not None:
        files[f"{root}/merged_patch.json"] = dump_json(proposal.merged.patch.to_dict(mode))
        files[f"{root}/ranked_edits.json"] = dump_json(proposal.selection.to_dict(mode))
        for name, content in proposal.update.artifacts.items():
            files[f"{root}/{name}"] = dump_json(content)
        if proposal.update.candidate is not None:
            files[f"{root}/candidate_skill.md"] = proposal.update.candidate.to_bytes()
    if proposal.lr_decision is not None:
        files[f"{root}/lr_decision.json"] = dump_json(proposal.lr_decision.to_dict())
    if judgement.evaluation is not None:
        everything = config.logging.predictions == "all"
        files |= rollout_files(f"{root}/selection_eval", judgement.evaluation.rollouts, predictions=everything)
    if digest is not None:
        files[f"{root}/trajectory_digest.json"] = dump_json(digest.digest())
    return files


def _reflection_files(below: str, reflections: Sequence[Reflection]) -> dict[str, bytes]:
    """``patches/`` as published, and ``analysis/``: each analyst's reply as it came, or why there is none."""
    files = {}
    for reflection in reflections:
        if reflection.raw is not None:
            files[f"{below}/patches/{reflection.name}.json"] = dump_json(dict(reflection.raw))
        analysis = {
            "source_type": reflection.kind,
            "item_ids": list(reflection.item_ids),
            "reply": reflection.raw_text,
            "error": asdict(reflection.error) if reflection.error else None,
            "reasked": reflection.reasked,
            "repaired": reflection.repaired,
        }
        files[f"{below}/analysis/{reflection.name}.json"] = dump_json(analysis)
    return files


def lr_history(rows: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """``lr_history.jsonl``: one decision a step of the autonomous learning rate."""
    lines = [
        json.dumps({**row["lr_decision"], "step": row["step"], "epoch": row["epoch"]}, ensure_ascii=False) + "\n"
        for row in rows
        if "lr_decision" in row
    ]
    return {"lr_history.jsonl": "".join(lines).encode()} if lines else {}


def token_fields(charged: Mapping[str, StageTokens]) -> dict[str, Any]:
    """``tokens_total`` of the step alone, then ``tokens`` by stage, and what it cost: null where it is not known."""
    tokens_total = sum(tokens.prompt_tokens + tokens.completion_tokens for tokens in charged.values())
    return {
        "tokens_total": tokens_total,
        "tokens": {stage: tokens.row() for stage, tokens in charged.items()},
        "cost_usd": total(tokens.cost_usd for tokens in charged.values()),
    }
