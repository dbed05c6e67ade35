"""A step as its stages left it: rollouts, reflections, what was merged, ranked and applied, and the gate."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from skillopt.files import inside
from skillopt.report.files import read_json, read_mapping, read_text
from skillopt.report.folder import without_secrets
from skillopt.report.sources import Proposal, sources_of, words_of
from skillopt.types import Fate, fate_of
from skillopt.values import count, fraction, label, mapping, mappings, text, texts, whole

ITEM_KEYS = ("edits", "revise_suggestions", "skill_candidates")
"""Under which key a patch holds its items, by update mode."""
MOST_EDITS = 500
"""The most ranked edits of a step that are shown."""
_MOST_REFLECTIONS, _EDITS_OF_ONE, _MOST_PAIRS = 200, 20, 500_000
"""In how many reflections, and edits of each, a ranked edit is looked for; how many pairs of them are compared."""
_PATCH_LIMIT = 1 << 20
_BATCH = re.compile(r"batch_(\d{1,9})")
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
    ``failure``, ``success``, ``mixed`` and ''. ``source_items`` are the items it came from. Where its analyst did not
    name them, ``source_certain`` is False: they are all that its analysts read, and the support is at most so many.
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

    @property
    def support(self) -> str:
        """The trajectories it rests on in words; '' when not told."""
        count = self.support_count
        if not count:
            return ""
        most = "" if self.source_certain or count == 1 else "at most "
        return f"{most}{count} {'trajectory' if count == 1 else 'trajectories'}"

    @property
    def among(self) -> str:
        """What is to stand before its items: ``among `` where it need not come from all of them."""
        return "" if self.source_certain else "among "


@dataclass(frozen=True, slots=True)
class StepView:
    """A step; ``number`` counts from 1.

    Mappings are as in the files, {} where there is none: ``row`` (its row of history), ``merged``, ``ranked``,
    ``digest``, ``rewrite`` (what a rewriting mode left), ``lr_decision``, ``gate`` (the verdict; of a run of the
    published implementation only ``action``, ``metric``, ``candidate_score``). ``rollout_passes`` and
    ``selection_pass`` are names for ``RunView.results``; the latter is None when nothing was measured in this step.
    ``candidate`` is the proposed skill, None when none was made. ``reflections`` are read as they are looked at;
    ``edits`` are the first ``MOST_EDITS``, and ``left_out`` counts the others.
    """

    number: int
    row: Mapping[str, Any]
    rollout_passes: tuple[str, ...]
    selection_pass: str | None
    reflections: Sequence[Reflection]
    merged: Mapping[str, Any]
    ranked: Mapping[str, Any]
    edits: tuple[StepEdit, ...]
    candidate: str | None
    gate: Mapping[str, Any]
    digest: Mapping[str, Any]
    rewrite: Mapping[str, Any]
    lr_decision: Mapping[str, Any]
    left_out: int = 0

    @property
    def action(self) -> str:
        """What became of the candidate, as the run says it; '' when it does not."""
        return label(self.row.get("action"))

    @property
    def fate(self) -> Fate:
        """Whether the candidate was accepted or rejected, or there was none."""
        return fate_of(self.action)

    @property
    def accepted(self) -> bool:
        """Whether training went on from the candidate."""
        return self.fate == "accepted"

    @property
    def tokens(self) -> int | None:
        """What the step alone cost in tokens; None when nobody counted."""
        return tokens_of(self.row)


def read_step(root: Path, number: int, row: Mapping[str, Any]) -> StepView:
    """Step ``number`` of the run in ``root``; ``row`` is its row of history, or its own record (``read_record``)."""
    below = f"steps/step_{number:04d}"
    if inside(root, below) is None:
        return StepView(number, row, (), None, (), {}, {}, (), None, gate_of(row), {}, {}, {})
    parts = _parts(root, below)
    reflections = _reflections(root, parts)
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
        edits=step_edits(ranked, report, reflections, whole(row.get("rollout_n"))),
        candidate=read_text(root, f"{below}/candidate_skill.md"),
        gate=gate_of(row),
        digest=read_mapping(root, f"{below}/trajectory_digest.json"),
        rewrite=next((found for found in rewrites if found), {}),
        lr_decision=read_mapping(root, f"{below}/lr_decision.json"),
        left_out=max(0, len(patch_items(ranked)) - MOST_EDITS),
    )


def read_record(root: Path, number: int) -> Mapping[str, Any]:
    """The row that a step keeps in its own folder; {} when there is none."""
    record: Mapping[str, Any] = without_secrets(read_mapping(root, f"steps/step_{number:04d}/step_record.json"))
    return record


def step_edits(
    ranked: Mapping[str, Any],
    report: tuple[Mapping[str, Any], ...],
    reflections: Sequence[Reflection],
    rollouts: int = 0,
) -> tuple[StepEdit, ...]:
    """The ranked edits beside the report of their application. The weight that ranking went by, which adds up whole
    minibatches, is told as the number of trajectories that it can stand for at most: the items of the edit, or the
    measured ``rollouts`` of the step (0: not known) where no items are recorded."""
    statuses = {whole(row.get("index")): label(row.get("status")) for row in report}
    items_of = patch_items(ranked)[:MOST_EDITS]
    proposals = _proposals(reflections) if items_of else []
    traced = _MOST_PAIRS // max(1, sum(len(proposed) for _, _, proposed in proposals))
    found = []
    for index, item in enumerate(items_of, start=1):
        is_edit = "op" in item
        status = statuses.get(index, "unknown") if is_edit else "suggested"
        source = label(item.get("source_type"))
        weight, named = count(item.get("support_count")), texts(item.get("source_items"))
        known = proposals if index <= traced else ()
        items = named or sources_of(words_of(wording(item)), source, known, weight)
        edit = StepEdit(
            index=index,
            op=label(item.get("op")) if is_edit else label(item.get("type")) or "candidate",
            target=text(item.get("target")),
            content=wording(item),
            status=status,
            applied=status.startswith("applied"),
            support_count=len(named) or _at_most(weight, len(items) or rollouts),
            source_type=source,
            source_items=items,
            source_certain=bool(named) or len(items) == 1,
        )
        found.append(edit)
    return tuple(found)


def _proposals(reflections: Sequence[Reflection]) -> list[Proposal]:
    """What analysts proposed, for the search of where an edit comes from."""
    return [
        (found.kind, found.item_ids, [words_of(wording(edit)) for edit in found.edits[:_EDITS_OF_ONE]])
        for found in reflections[:_MOST_REFLECTIONS]
    ]


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


class _Reflections(Sequence[Reflection]):
    """Reflections by ``(part, batch, name)``, read as they are looked at."""

    def __init__(self, root: Path, found: Sequence[tuple[str, int | None, str]]) -> None:
        self._root, self._found = root, found

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, key: int) -> Reflection: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Reflection]: ...
    def __getitem__(self, key: int | slice) -> Reflection | Sequence[Reflection]:
        if isinstance(key, slice):
            return tuple(_reflection(self._root, *each) for each in self._found[key])
        return _reflection(self._root, *self._found[key])


def _reflections(root: Path, parts: Sequence[tuple[str, int | None]]) -> Sequence[Reflection]:
    found = []
    for part, batch in parts:
        files = {*_names(root, f"{part}/patches"), *_names(root, f"{part}/analysis")}
        names = (name.removesuffix(".json") for name in files if name.endswith(".json"))
        found += [(part, batch, name) for name in sorted(names, key=_natural)]
    return _Reflections(root, found) if found else ()


def _reflection(root: Path, part: str, batch: int | None, name: str) -> Reflection:
    patch = read_mapping(root, f"{part}/patches/{name}.json", _PATCH_LIMIT)
    analysis = read_mapping(root, f"{part}/analysis/{name}.json", _PATCH_LIMIT)
    error = mapping(analysis.get("error"))
    body = mapping(patch.get("patch")) or patch
    return Reflection(
        name=name,
        batch=batch,
        kind=label(
            analysis.get("source_type") or patch.get("source_type") or ("failure" if "fail" in name else "success")
        ),
        item_ids=texts(analysis.get("item_ids")),
        reply=text(analysis.get("reply")),
        error=": ".join(filter(None, (label(error.get("kind")), label(error.get("message"), 2000)))),
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


def _at_most(count: int | None, limit: int) -> int | None:
    """``count``, but no more than ``limit`` (0: no limit)."""
    return min(count, limit) if count is not None and limit else count
