"""A step as its stages left it: rollouts, reflections, what was merged, ranked and applied, and the gate."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.report.files import inside, read_json, read_mapping, read_text
from skillopt.report.folder import without_secrets
from skillopt.report.sources import sources_of
from skillopt.report.values import fraction, mapping, mappings, text, texts, whole

ITEM_KEYS = ("edits", "revise_suggestions", "skill_candidates")
"""Under which key a patch holds its items, by update mode."""
_BATCH = re.compile(r"batch_(\d+)")
_ORDER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Reflection:
    """What one analyst made of a minibatch.

    ``name`` is that of its files (``minibatch_fail_000``), ``batch`` the micro-batch (None when a step has one),
    ``kind`` is ``failure`` or ``success``. ``item_ids`` are the items that it read (empty in a run of the published
    implementation, which does not say), ``reply`` is its reply word for word ('' when it is not kept), ``error`` why
    there is no patch. ``patch`` is the parsed reply, {} without one; ``reasoning`` and ``edits`` are parts of it.
    """

    name: str
    batch: int | None
    kind: str
    item_ids: tuple[str, ...]
    reply: str
    error: str
    patch: Mapping[str, Any]
    reasoning: str
    edits: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class StepEdit:
    """A ranked edit and what became of it.

    ``index`` counts from 1 in ranked order. In a mode that rewrites, ``op`` is the type of a suggestion (or
    ``candidate``), ``content`` its words, and ``status`` ``suggested``. ``applied`` says that the edit changed the
    text. ``support_count`` is the number of trajectories it rests on (None when not told), ``source_type`` one of
    ``failure``, ``success``, ``mixed`` and ''. ``source_items`` are the items of the reflections that it came from;
    where merging changed its words too much to be sure, ``source_certain`` is False and they are those of all that may
    be.
    """

    index: int
    op: str
    target: str
    content: str
    status: str
    applied: bool
    support_count: int | None
    source_type: str
    source_items: tuple[str, ...]
    source_certain: bool


@dataclass(frozen=True, slots=True)
class StepView:
    """A step; ``number`` counts from 1.

    Mappings are as in the files, {} where there is none: ``row`` (its row of history), ``merged``, ``ranked``,
    ``digest``, ``rewrite`` (what a rewriting mode left), ``lr_decision``, ``gate`` (the verdict; of a run of the
    published implementation only ``action``, ``metric``, ``candidate_score``). ``rollout_passes`` and
    ``selection_pass`` are names for ``RunView.results``; the latter is None when nothing was measured in this step.
    ``candidate`` is the proposed skill, None when none was made.
    """

    number: int
    row: Mapping[str, Any]
    rollout_passes: tuple[str, ...]
    selection_pass: str | None
    reflections: tuple[Reflection, ...]
    merged: Mapping[str, Any]
    ranked: Mapping[str, Any]
    edits: tuple[StepEdit, ...]
    candidate: str | None
    gate: Mapping[str, Any]
    digest: Mapping[str, Any]
    rewrite: Mapping[str, Any]
    lr_decision: Mapping[str, Any]

    @property
    def action(self) -> str:
        return text(self.row.get("action"))

    @property
    def accepted(self) -> bool:
        return "accept" in self.action

    @property
    def tokens(self) -> int | None:
        """What the step alone cost in tokens; None when nobody counted."""
        return tokens_of(self.row)


def read_step(root: Path, number: int, row: Mapping[str, Any]) -> StepView:
    """Step ``number`` of the run in ``root``; ``row`` is its row of history, {} to take its own record."""
    below = f"steps/step_{number:04d}"
    parts = _parts(root, below)
    row = row or without_secrets(read_mapping(root, f"{below}/step_record.json"))
    reflections = tuple(found for part, batch in parts for found in _reflections(root, part, batch))
    ranked = read_mapping(root, f"{below}/ranked_edits.json")
    report = mappings(read_json(root, f"{below}/edit_apply_report.json").value)
    rewrites = (read_mapping(root, f"{below}/{name}_result.json") for name in ("rewrite", "full_rewrite"))
    selection = f"{below}/selection_eval"
    rollouts = (f"{part}/rollout" for part, _ in parts)
    return StepView(
        number=number,
        row=row,
        rollout_passes=tuple(name for name in rollouts if inside(root, f"{name}/results.jsonl")),
        selection_pass=selection if inside(root, f"{selection}/results.jsonl") else None,
        reflections=reflections,
        merged=read_mapping(root, f"{below}/merged_patch.json"),
        ranked=ranked,
        edits=step_edits(ranked, report, reflections),
        candidate=read_text(root, f"{below}/candidate_skill.md"),
        gate=gate_of(row),
        digest=read_mapping(root, f"{below}/trajectory_digest.json"),
        rewrite=next((found for found in rewrites if found), {}),
        lr_decision=read_mapping(root, f"{below}/lr_decision.json"),
    )


def step_edits(
    ranked: Mapping[str, Any], report: tuple[Mapping[str, Any], ...], reflections: tuple[Reflection, ...]
) -> tuple[StepEdit, ...]:
    """The ranked edits beside the report of their application. Pure."""
    statuses = {whole(row.get("index")): text(row.get("status")) for row in report}
    proposals = [(found.kind, found.item_ids, [wording(edit) for edit in found.edits]) for found in reflections]
    found = []
    for index, item in enumerate(patch_items(ranked), start=1):
        is_edit = "op" in item
        status = statuses.get(index, "unknown") if is_edit else "suggested"
        source = text(item.get("source_type"))
        support = _count(item.get("support_count"))
        items, certain = sources_of(wording(item), source, proposals, support)
        edit = StepEdit(
            index=index,
            op=text(item.get("op")) if is_edit else text(item.get("type")) or "candidate",
            target=text(item.get("target")),
            content=wording(item),
            status=status,
            applied=status.startswith("applied"),
            support_count=support,
            source_type=source,
            source_items=items,
            source_certain=certain,
        )
        found.append(edit)
    return tuple(found)


def wording(item: Mapping[str, Any]) -> str:
    """What an edit inserts, a suggestion asks for, or a candidate says. Pure."""
    for key in ("content", "instruction", "new_skill", "title"):
        if item.get(key):
            return text(item[key])
    return ""


def patch_items(patch: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The items of a patch, or of a reply that holds one, in whatever mode. Pure."""
    for holder in (patch, mapping(patch.get("patch"))):
        for key in ITEM_KEYS:
            if isinstance(holder.get(key), list):
                return mappings(holder[key])
    return ()


def gate_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The gate's verdict in a row; {} of a step that had no gate. Pure."""
    verdict = mapping(row.get("gate"))
    if verdict or fraction(row.get("candidate_gate_score")) is None:
        return verdict
    scores = {"metric": row.get("gate_metric"), "candidate_score": row.get("candidate_gate_score")}
    return {"action": row.get("action"), **scores}


def tokens_of(row: Mapping[str, Any]) -> int | None:
    """The tokens of a row of history; None when nobody counted. Pure."""
    if "tokens_total" in row:
        return whole(row["tokens_total"])
    stages = [mapping(stage) for stage in mapping(row.get("tokens")).values()]
    return sum(whole(stage.get(key)) for stage in stages for key in ("prompt_tokens", "completion_tokens")) or None


def _parts(root: Path, below: str) -> list[tuple[str, int | None]]:
    """Where a step has its rollouts and patches: in its folder, or in one for each micro-batch."""
    names = (_BATCH.fullmatch(name) for name in _names(root, below))
    batches = sorted(int(match[1]) for match in names if match)
    return [(f"{below}/batch_{number}", number) for number in batches] or [(below, None)]


def _reflections(root: Path, part: str, batch: int | None) -> list[Reflection]:
    files = {*_names(root, f"{part}/patches"), *_names(root, f"{part}/analysis")}
    names = sorted((name.removesuffix(".json") for name in files if name.endswith(".json")), key=_natural)
    return [_reflection(root, part, batch, name) for name in names]


def _reflection(root: Path, part: str, batch: int | None, name: str) -> Reflection:
    patch = read_mapping(root, f"{part}/patches/{name}.json")
    analysis = read_mapping(root, f"{part}/analysis/{name}.json")
    error = mapping(analysis.get("error"))
    body = mapping(patch.get("patch")) or patch
    return Reflection(
        name=name,
        batch=batch,
        kind=text(
            analysis.get("source_type") or patch.get("source_type") or ("failure" if "fail" in name else "success")
        ),
        item_ids=texts(analysis.get("item_ids")),
        reply=text(analysis.get("reply")),
        error=": ".join(filter(None, (text(error.get("kind")), text(error.get("message"))))),
        patch=patch,
        reasoning=text(body.get("reasoning") or patch.get("reasoning")),
        edits=patch_items(patch),
    )


def _natural(name: str) -> tuple[str, list[int]]:
    return _ORDER.sub("", name), [int(number) for number in _ORDER.findall(name)]


def _names(root: Path, folder: str) -> list[str]:
    path = inside(root, folder)
    try:
        return os.listdir(path) if path is not None else []
    except OSError:
        return []


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
