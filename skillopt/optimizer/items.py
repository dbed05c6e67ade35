"""Update items: the changes to a skill that analysts propose, merges join and ranking selects.

The form of an item depends on the update mode: an edit, a suggestion to a rewriter, or a whole candidate skill.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    WithJsonSchema,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreSchema

from skillopt.types import SourceType

UpdateMode = Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]
Origin = Literal["failure", "success", "mixed"]

ITEMS_KEY: Mapping[UpdateMode, str] = MappingProxyType(
    {
        "patch": "edits",
        "rewrite_from_suggestions": "revise_suggestions",
        "full_rewrite_minibatch": "skill_candidates",
    }
)
"""The key under which a reply or a file holds its items, by mode."""


def _as_text(value: object) -> object:
    """null is an empty text, a list of strings its lines, a number its digits; the rest is left to validation."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value


def _as_lines(value: object) -> object:
    """null is no lines, a string one line; entries that are not text are dropped."""
    if value is None:
        return []
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, list):
        return [line for line in value if isinstance(line, str)]
    return value


def as_count(value: object) -> int:
    """A model's count as an int >= 0; what is not a number counts as 1."""
    if isinstance(value, bool) or value is None:
        return 1
    try:
        number = float(str(value))
    except ValueError:
        return 1
    return max(int(number), 0) if math.isfinite(number) else 1


def _as_origin(value: object) -> object:
    """An origin that is none of the known ones is not known."""
    return value if value in ("failure", "success", "mixed") else None


def _as_level(value: object) -> object:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _as_named(value: object) -> object:
    """Item ids as code sets them. What a reply says here, as a list, is no fact."""
    return value if isinstance(value, tuple) else ()


Text = Annotated[str, BeforeValidator(_as_text)]
_TextOrNull = Annotated[
    str | None,
    BeforeValidator(lambda value: None if value is None else _as_text(value)),
    WithJsonSchema({"type": "string"}),
]
Lines = Annotated[list[str], BeforeValidator(_as_lines)]
Count = Annotated[int, BeforeValidator(as_count)]
_KnownOrigin = Annotated[
    Origin | None,
    BeforeValidator(_as_origin),
    WithJsonSchema({"type": "string", "enum": ["failure", "success", "mixed"]}),
]
_Level = Annotated[int | None, BeforeValidator(_as_level)]
_Named = Annotated[tuple[str, ...], BeforeValidator(_as_named)]

_OPS: list[JsonValue] = ["append", "insert_after", "replace", "delete"]
_SUGGESTION_TYPES: list[JsonValue] = ["add_rule", "remove_rule", "merge_rules", "reorganize", "compress", "clarify"]


class Model(BaseModel):
    """Base of what comes from a model: frozen, further keys are ignored.

    Its JSON schema, which goes out with the request, is bare: all keys due and no others, and none of our titles,
    defaults and docstrings, which would cost tokens and make a journal key depend on them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, JsonValue]:
        schema = handler.resolve_ref_schema(handler(core_schema))
        properties = {
            name: {key: value for key, value in shape.items() if key not in ("title", "default")}
            for name, shape in schema.get("properties", {}).items()
        }
        bare = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
        schema.clear()
        schema.update(bare)
        return schema


class ProposedEdit(Model):
    """An edit as an analyst proposes it.

    An unknown ``op`` and a null ``content`` are kept: replacing by nothing and not saying by what are not the same, and
    the edit engine reports them.
    """

    op: Text = Field(default="", json_schema_extra={"enum": _OPS})
    target: Text = ""
    content: _TextOrNull = None


class ProposedSuggestion(Model):
    """A change described in words, for a rewriter to carry out."""

    type: Text = Field(default="", json_schema_extra={"enum": _SUGGESTION_TYPES})
    title: Text = ""
    motivation: Text = ""
    instruction: Text = ""
    priority_hint: Text = Field(default="medium", json_schema_extra={"enum": ["high", "medium", "low"]})


class ProposedCandidate(Model):
    """A whole new skill."""

    title: Text = ""
    change_summary: Lines = Field(default_factory=list)
    new_skill: Text = ""


class Provenance(Model):
    """How well an item is supported, by which side, and at which merge level it was last joined.

    ``support_count`` is the weight that merging and ranking go by: the sizes of the minibatches of all analysts that
    proposed it, added up, so it may be more than there are trajectories. ``source_items`` are the ids of the items
    that the analysts named for it; () where they do not say.
    """

    support_count: Count = 1
    source_type: _KnownOrigin = None
    merge_level: SkipJsonSchema[_Level] = None
    source_items: SkipJsonSchema[_Named] = ()

    def to_dict(self) -> dict[str, Any]:
        """The item as files and prompts hold it: fields that say nothing are left out."""
        kept = ("op", "content")
        fields = self.model_dump().items()
        return {key: value for key, value in fields if value not in (None, ()) and (value != "" or key in kept)}


class EditItem(Provenance, ProposedEdit):
    """An edit on its way through merge and ranking."""


class Suggestion(Provenance, ProposedSuggestion):
    """A suggestion on its way through merge and ranking."""


class Candidate(Provenance, ProposedCandidate):
    """A candidate skill on its way through the merges."""


Proposed = ProposedEdit | ProposedSuggestion | ProposedCandidate
UpdateItem = EditItem | Suggestion | Candidate


def with_provenance(
    proposed: Proposed, source: SourceType, support: int, source_items: tuple[str, ...] = ()
) -> UpdateItem:
    """The proposal of one analyst as an item: from ``source``, with the weight ``support``, for those items."""
    stamp = {"source_type": source, "support_count": support, "source_items": source_items}
    fields = proposed.model_dump()
    if isinstance(proposed, ProposedEdit):
        return EditItem(**{**fields, **stamp})
    if isinstance(proposed, ProposedSuggestion):
        return Suggestion(**{**fields, **stamp})
    return Candidate(**{**fields, **stamp})


@dataclass(frozen=True, slots=True)
class Patch:
    """A set of items with the reasoning behind it."""

    reasoning: str = ""
    items: tuple[UpdateItem, ...] = ()

    def to_dict(self, mode: UpdateMode) -> dict[str, Any]:
        """The published form: ``{"reasoning": …, "edits": [{…}]}`` with the items key of ``mode``."""
        return {"reasoning": self.reasoning, ITEMS_KEY[mode]: [item.to_dict() for item in self.items]}
