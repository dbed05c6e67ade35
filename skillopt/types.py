"""The nouns that every part of the house shares. Frozen values only; no I/O, no project imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
SPLIT_ALIASES: Mapping[str, Split] = {
    "train": "train",
    "val": "val",
    "valid_seen": "val",
    "selection": "val",
    "test": "test",
    "valid_unseen": "test",
}
"""The names that a split goes by."""
Role = Literal["target", "optimizer"]
ScoredStatus = Literal["ok", "wrong_format", "agent_error"]
FailedStatus = Literal["infra_error", "timeout"]
SourceType = Literal["failure", "success"]
Action = Literal[
    "accept_new_best", "accept", "reject", "force_accept", "skip_no_patches", "skip_no_rewrite", "skip_no_change"
]
Fate = Literal["accepted", "rejected", "skipped"]


def fate_of(action: str) -> Fate:
    """Whether an action, as a run folder tells it, took its candidate, refused it, or had none."""
    if "accept" in action:
        return "accepted"
    return "rejected" if action == "reject" else "skipped"


@dataclass(frozen=True, slots=True)
class Item:
    """One task of a dataset: a unique ``id`` and the row it was read from."""

    id: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that belongs to a task. A chat target is shown pictures; an agent finds all of them in its workspace."""

    name: str
    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Task:
    """What a target is asked for one item, before the skill is added.

    ``system`` is the role, the task format and the answer format: the same for every item of an environment, so that
    a shared prompt prefix is computed once. ``user`` is the item itself. ``answer_tag`` names the XML-like tag that
    holds the answer (None: the whole reply is the answer). ``grammar`` (GBNF) is sent where the provider can use it.
    """

    system: str
    user: str
    answer_tag: str | None = "answer"
    grammar: str | None = None
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A target's answer: the extracted ``text``, the whole ``reply``, and which extraction rule fired."""

    text: str
    reply: str
    rule: Literal["tag", "open_tag", "last_line", "whole"] = "tag"


@dataclass(frozen=True, slots=True)
class Score:
    """A measured outcome. ``hard`` is pass or fail, ``soft`` partial credit; both in [0, 1].

    ``reason`` says in one line why it is not a pass; ``feedback`` is the verifier's text (it may hold the gold answer)
    that only the optimizer sees; ``detail`` becomes further keys of the item's row in ``results.jsonl``.
    """

    hard: float
    soft: float
    status: ScoredStatus = "ok"
    reason: str = ""
    feedback: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """An outcome that could not be measured: never a score of zero. ``kind`` is the model error's kind."""

    kind: str
    message: str
    status: FailedStatus = "infra_error"


Outcome = Score | Failure


@dataclass(frozen=True, slots=True)
class Rollout:
    """A target's work on one item with one skill: its outcome and the trajectory that the optimizer may read.

    ``trajectory`` is the list of events of ``conversation.json`` (``{"role", "content"}`` for chat targets). ``call``
    is the journal key of the reply ('' without a reply, or without a journal).
    """

    item: Item
    skill_hash: str
    outcome: Outcome
    answer: str = ""
    trajectory: Sequence[Mapping[str, Any]] = ()
    system_prompt: str = ""
    user_prompt: str = ""
    call: str = ""

    @property
    def score(self) -> Score | None:
        """The score, or None when the outcome is a failure."""
        return self.outcome if isinstance(self.outcome, Score) else None
