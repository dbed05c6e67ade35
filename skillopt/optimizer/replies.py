"""What analysts and merges reply: the published JSON contracts, lenient only where no meaning is lost.

Accepted: items beside instead of inside ``patch``, a null where a list or a patch belongs, one object instead of a list
of one. Entries that are no objects are dropped and counted (``dropped``). A reply without any items key is invalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from skillopt.optimizer.items import (
    ITEMS_KEY,
    Candidate,
    Count,
    EditItem,
    Lines,
    Model,
    Proposed,
    ProposedCandidate,
    ProposedEdit,
    ProposedSuggestion,
    Suggestion,
    Text,
    UpdateItem,
    UpdateMode,
)
from skillopt.types import SourceType

_DROPPED: Any = Field(default=0, exclude=True)
_FOREIGN_KEYS = tuple(ITEMS_KEY.values())


def _object_list(value: object) -> tuple[object, int]:
    """The objects of a list and how many other entries it had; what is neither list, object nor null stays as it is."""
    if value is None:
        return [], 0
    if isinstance(value, dict):
        return [value], 0
    if isinstance(value, list):
        objects = [entry for entry in value if isinstance(entry, dict)]
        return objects, len(value) - len(objects)
    return value, 0


def _as_suggestion(edit: Mapping[str, Any]) -> dict[str, Any]:
    """An edit where a suggestion belongs: the same change, told in words."""
    op, target, content = (str(edit.get(key) or "").strip() for key in ("op", "target", "content"))
    parts = [op or "change", f"at: {target}" if target else "", f"text: {content}" if content else ""]
    return {"title": (content or target)[:60], "instruction": "\n".join(part for part in parts if part)}


def _clean_items(data: dict[str, Any], key: str) -> dict[str, Any]:
    """``data`` with a list of objects under ``key``. Items under the key of another mode are converted or dropped."""
    data = dict(data)
    dropped = 0
    if key not in data:
        for foreign in _FOREIGN_KEYS:
            entries, count = _object_list(data.get(foreign))
            if foreign == key or not isinstance(entries, list):
                continue
            if key == "revise_suggestions" and foreign == "edits":
                data[key], dropped = [_as_suggestion(entry) for entry in entries], dropped + count
            else:
                dropped += count + len(entries)
    data[key], others = _object_list(data.get(key))
    data["dropped"] = dropped + others
    return data


class ItemsBox(Model):
    """A reply, or a part of one, that holds items under ``items_key``."""

    items_key: ClassVar[str]
    dropped: SkipJsonSchema[int] = _DROPPED

    @model_validator(mode="before")
    @classmethod
    def _clean(cls, data: object) -> object:
        if data is None:
            data = {}
        if isinstance(data, list):
            data = {cls.items_key: data}
        return _clean_items(data, cls.items_key) if isinstance(data, dict) else data


class EditPatch(ItemsBox):
    items_key: ClassVar[str] = "edits"
    reasoning: Text = ""
    edits: list[ProposedEdit]


class SuggestionPatch(ItemsBox):
    items_key: ClassVar[str] = "revise_suggestions"
    reasoning: Text = ""
    revise_suggestions: list[ProposedSuggestion]


class CandidatePatch(ItemsBox):
    items_key: ClassVar[str] = "skill_candidates"
    reasoning: Text = ""
    skill_candidates: list[ProposedCandidate]


AnyPatch = EditPatch | SuggestionPatch | CandidatePatch


class FailurePattern(Model):
    """One cause of failure as an analyst saw it: a short type, how many trajectories show it, one sentence."""

    failure_type: Text = ""
    count: Count = 1
    description: Text = ""


def _as_patterns(value: object) -> object:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list):
        value = [{"description": entry} if isinstance(entry, str) else entry for entry in value]
    return _object_list(value)[0]


class AnalystReply(Model):
    """What both kinds of analyst reply. Subclasses fix the patch of their mode."""

    batch_size: Count = 1

    @model_validator(mode="before")
    @classmethod
    def _find_patch(cls, data: object) -> object:
        if not isinstance(data, dict) or "patch" in data:
            return data
        bare = {key: data[key] for key in _FOREIGN_KEYS if key in data}
        return {**data, "patch": {"reasoning": data.get("reasoning"), **bare}} if bare else data


class FailureReply(AnalystReply):
    failure_summary: Annotated[list[FailurePattern], BeforeValidator(_as_patterns)] = Field(default_factory=list)


class SuccessReply(AnalystReply):
    success_patterns: Lines = Field(default_factory=list)


class FailureEdits(FailureReply):
    patch: EditPatch


class FailureSuggestions(FailureReply):
    patch: SuggestionPatch


class FailureCandidates(FailureReply):
    patch: CandidatePatch


class SuccessEdits(SuccessReply):
    patch: EditPatch


class SuccessSuggestions(SuccessReply):
    patch: SuggestionPatch


class SuccessCandidates(SuccessReply):
    patch: CandidatePatch


AnyAnalystReply = (
    FailureEdits | FailureSuggestions | FailureCandidates | SuccessEdits | SuccessSuggestions | SuccessCandidates
)

ANALYST_REPLY: Mapping[tuple[SourceType, UpdateMode], type[AnyAnalystReply]] = MappingProxyType(
    {
        ("failure", "patch"): FailureEdits,
        ("failure", "rewrite_from_suggestions"): FailureSuggestions,
        ("failure", "full_rewrite_minibatch"): FailureCandidates,
        ("success", "patch"): SuccessEdits,
        ("success", "rewrite_from_suggestions"): SuccessSuggestions,
        ("success", "full_rewrite_minibatch"): SuccessCandidates,
    }
)


def proposals(patch: AnyPatch) -> tuple[Proposed, ...]:
    """The items of an analyst's patch, whatever their form."""
    return tuple(getattr(patch, patch.items_key))


class MergedItems(ItemsBox):
    """A merge's reply. Unlike an analyst's, it must hold the items key: a lost list would lose the inputs."""

    @model_validator(mode="before")
    @classmethod
    def _must_hold_items(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        inner = data.get("patch")
        if cls.items_key not in data and isinstance(inner, dict):
            data = {"reasoning": data.get("reasoning"), **inner}
        if cls.items_key not in data:
            raise ValueError(f'the reply has no "{cls.items_key}"')
        return data


class MergedEdits(MergedItems):
    items_key: ClassVar[str] = "edits"
    reasoning: Text = ""
    edits: list[EditItem]


class MergedSuggestions(MergedItems):
    items_key: ClassVar[str] = "revise_suggestions"
    reasoning: Text = ""
    revise_suggestions: list[Suggestion]


class MergedCandidates(MergedItems):
    items_key: ClassVar[str] = "skill_candidates"
    reasoning: Text = ""
    skill_candidates: list[Candidate]

    @model_validator(mode="before")
    @classmethod
    def _one_bare_candidate(cls, data: object) -> object:
        """A merge of candidates into one may come as that one candidate, without the list around it."""
        if isinstance(data, dict) and cls.items_key not in data and isinstance(data.get("new_skill"), str):
            return {"reasoning": data.get("reasoning"), cls.items_key: [data]}
        return data


AnyMerge = MergedEdits | MergedSuggestions | MergedCandidates

MERGE_REPLY: Mapping[UpdateMode, type[AnyMerge]] = MappingProxyType(
    {
        "patch": MergedEdits,
        "rewrite_from_suggestions": MergedSuggestions,
        "full_rewrite_minibatch": MergedCandidates,
    }
)


def merged_items(reply: AnyMerge) -> tuple[UpdateItem, ...]:
    """The items of a merge's reply, whatever their form."""
    return tuple(getattr(reply, reply.items_key))
