"""What a run has spent, by role and by part: from its journal, else from what its files say."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.models.pricing import DIGITS, money, total
from skillopt.run.costs import Booked, replies_booked, requests_booked
from skillopt.run.folder import FolderError, reading
from skillopt.values import fraction, label, mapping, whole

TARGET, OPTIMIZER = "target", "optimizer"
_MOST_ROLES = 10


@dataclass(frozen=True, slots=True)
class RoleSpending:
    """The requests of a role (probes and retries too), their tokens and US dollars.

    ``requests`` is None where nobody counted them. ``usd`` is None where the cost of one of them is not known;
    ``known_usd`` is what the others cost.
    """

    role: str
    requests: int | None
    prompt_tokens: int
    completion_tokens: int
    usd: float | None
    known_usd: float

    @property
    def tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Spending:
    """What a run has spent by role, over all its processes."""

    roles: tuple[RoleSpending, ...]

    @property
    def requests(self) -> int | None:
        """All requests; None where nobody counted those of a role."""
        counts = [role.requests for role in self.roles]
        return sum(count for count in counts if count is not None) if None not in counts else None

    @property
    def tokens(self) -> int:
        """Tokens of all roles."""
        return sum(role.tokens for role in self.roles)

    @property
    def usd(self) -> float | None:
        """US dollars; None where a part is not known."""
        return total(role.usd for role in self.roles) if self.roles else None

    @property
    def known_usd(self) -> float:
        """US dollars of all requests whose cost is known."""
        return round(math.fsum(role.known_usd for role in self.roles), DIGITS)

    @property
    def cost_words(self) -> str:
        """The cost for people, with what is known of it where that is not all."""
        return money(self.usd, self.known_usd)


@dataclass(frozen=True, slots=True)
class Charge:
    """The calls of a stage that a part of the run is charged with: ``part`` is ``baseline``, ``step_0001``,
    ``epoch_01`` or ``test`` ('' for all parts together). Each call counts once, with the first part that needs it;
    ``usd`` is None where the cost of one of them is not known."""

    part: str
    role: str
    stage: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    usd: float | None

    @property
    def tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


def role_of(stage: str) -> str:
    """Which role works in a stage. Pure."""
    return TARGET if stage == "rollout" else OPTIMIZER


def read_spending(root: Path, summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Spending | None:
    """The spending of the run in ``root``: from its journal, else from its summary, else from its rows. None where
    nobody counted."""
    found = tuple(
        RoleSpending(each.role, each.calls, each.prompt_tokens, each.completion_tokens, each.usd, each.known_usd)
        for each in _booked(root, requests_booked)
    )
    return Spending(found) if found else spending_told(summary, rows)


def spending_told(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Spending | None:
    """The spending that a run without a journal tells: tokens by stage, from the summary or else from the rows, and
    requests and costs by role, from the summary, where it has them. Pure."""
    stages = _without_total(summary.get("token_summary"))
    counted = [*stages.items()] or [pair for row in rows for pair in mapping(row.get("tokens")).items()]
    costs = _without_total(summary.get("cost_summary"))
    sums: dict[str, tuple[int, int]] = dict.fromkeys(costs, (0, 0))
    for stage, row in counted:
        prompt, completion = sums.get(role_of(stage), (0, 0))
        prompt += whole(mapping(row).get("prompt_tokens"))
        sums[role_of(stage)] = prompt, completion + whole(mapping(row).get("completion_tokens"))
    known = sorted(sums.items())[:_MOST_ROLES]
    roles = tuple(_role_told(label(role), *tokens, mapping(costs.get(role))) for role, tokens in known)
    return Spending(roles) if roles else None


def read_charges(root: Path) -> tuple[Charge, ...]:
    """What the journal in ``root`` has charged to each part; nothing without one."""
    return tuple(
        Charge(each.part, each.role, each.stage, each.calls, each.prompt_tokens, each.completion_tokens, each.usd)
        for each in _booked(root, replies_booked)
    )


def charges_of_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[Charge, ...]:
    """What the rows of the steps say. Pure."""
    return tuple(
        Charge(
            f"step_{whole(row.get('step')):04d}",
            role_of(stage),
            stage,
            whole(mapping(counts).get("calls")),
            whole(mapping(counts).get("prompt_tokens")),
            whole(mapping(counts).get("completion_tokens")),
            fraction(mapping(counts).get("cost_usd")),
        )
        for row in rows
        for stage, counts in mapping(row.get("tokens")).items()
    )


def by_stage(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Charges by role and stage, over all parts. Pure."""
    groups: dict[tuple[str, str], list[Charge]] = {}
    for charge in charges:
        groups.setdefault((charge.role, charge.stage), []).append(charge)
    return tuple(
        Charge(
            "",
            role,
            stage,
            sum(charge.calls for charge in group),
            sum(charge.prompt_tokens for charge in group),
            sum(charge.completion_tokens for charge in group),
            total(charge.usd for charge in group),
        )
        for (role, stage), group in sorted(groups.items())
    )


def _without_total(table: Any) -> dict[str, Any]:
    return {name: row for name, row in mapping(table).items() if name != "_total"}


def _role_told(role: str, prompt: int, completion: int, cost: Mapping[str, Any]) -> RoleSpending:
    usd, requests = fraction(cost.get("cost_usd")), whole(cost.get("requests")) if "requests" in cost else None
    known = usd if usd is not None else fraction(cost.get("known_usd")) or 0.0
    return RoleSpending(role, requests, prompt, completion, usd, known)


def _booked(root: Path, ask: Callable[[sqlite3.Connection], tuple[Booked, ...]]) -> tuple[Booked, ...]:
    """What the journal answers; nothing where there is none, or none that can be read."""
    try:
        with reading(root) as db:
            found = ask(db) if db is not None else ()
    except (sqlite3.Error, FolderError):
        return ()
    roles = [*dict.fromkeys(each.role for each in found)][:_MOST_ROLES]
    return tuple(each for each in found if each.role in roles)
