"""What a run has spent, by role and by part: from its journal, else from what its files say."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.report.files import inside
from skillopt.report.values import fraction, mapping, whole
from skillopt.run.folder import JOURNAL, reading

TARGET, OPTIMIZER = "target", "optimizer"
_REQUESTS = (
    "SELECT role, COUNT(*), SUM(prompt_tokens), SUM(completion_tokens), {cost} FROM requests "
    "GROUP BY role ORDER BY role"
)
_CHARGES = (
    "SELECT owner, role, stage, COUNT(*), SUM(prompt_tokens), SUM(completion_tokens), {cost} FROM replies "
    "WHERE owner IS NOT NULL GROUP BY owner, role, stage ORDER BY owner, role, stage"
)
_COST = "TOTAL(cost_usd), COUNT(*) - COUNT(cost_usd)"
_NO_COST = "0.0, COUNT(*)"
_DIGITS = 10


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
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Spending:
    """What a run has spent by role, over all its processes."""

    roles: tuple[RoleSpending, ...]

    @property
    def requests(self) -> int | None:
        counts = [role.requests for role in self.roles]
        return sum(count for count in counts if count is not None) if None not in counts else None

    @property
    def tokens(self) -> int:
        return sum(role.tokens for role in self.roles)

    @property
    def usd(self) -> float | None:
        """US dollars; None where a part is not known."""
        amounts = [role.usd for role in self.roles]
        known = [amount for amount in amounts if amount is not None]
        return math.fsum(known) if amounts and len(known) == len(amounts) else None

    @property
    def known_usd(self) -> float:
        return math.fsum(role.known_usd for role in self.roles)


@dataclass(frozen=True, slots=True)
class Charge:
    """The calls of a stage that a part of the run is charged with: ``part`` is ``baseline``, ``step_0001``,
    ``epoch_01`` or ``test``. Each call counts once, with the first part that needs it; ``usd`` is None where the cost
    of one of them is not known."""

    part: str
    role: str
    stage: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    usd: float | None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def role_of(stage: str) -> str:
    """Which role works in a stage. Pure."""
    return TARGET if stage == "rollout" else OPTIMIZER


def read_spending(root: Path, summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Spending | None:
    """The spending of the run in ``root``: from its journal, else from its summary, else from its rows."""
    found = [
        RoleSpending(role, count, prompt, completion, _usd(known, unknown), round(known, _DIGITS))
        for role, count, prompt, completion, known, unknown in _query(root, "requests", _REQUESTS)
    ]
    return Spending(tuple(found)) if found else spending_told(summary, rows)


def spending_told(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Spending | None:
    """The spending that a run without a journal tells: tokens of its stages, of no known cost. Pure."""
    stages = {stage: row for stage, row in mapping(summary.get("token_summary")).items() if stage != "_total"}
    counted = list(stages.items()) or [pair for row in rows for pair in mapping(row.get("tokens")).items()]
    sums: dict[str, tuple[int, int]] = {}
    for stage, row in counted:
        prompt, completion = sums.get(role_of(stage), (0, 0))
        prompt += whole(mapping(row).get("prompt_tokens"))
        sums[role_of(stage)] = prompt, completion + whole(mapping(row).get("completion_tokens"))
    roles = tuple(
        RoleSpending(role, None, prompt, completion, None, 0.0) for role, (prompt, completion) in sorted(sums.items())
    )
    return Spending(roles) if roles else None


def read_charges(root: Path) -> tuple[Charge, ...]:
    """What the journal in ``root`` has charged to each part; nothing without one."""
    return tuple(
        Charge(part, role, stage, calls, prompt, completion, _usd(known, unknown))
        for part, role, stage, calls, prompt, completion, known, unknown in _query(root, "replies", _CHARGES)
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


def _query(root: Path, table: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query on the journal; nothing where there is none, or none that can be read."""
    if inside(root, JOURNAL) is None:
        return []
    try:
        with reading(root) as db:
            if db is None:
                return []
            columns = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
            return db.execute(sql.format(cost=_COST if "cost_usd" in columns else _NO_COST)).fetchall()
    except sqlite3.Error:
        return []


def _usd(known: float, unknown: int) -> float | None:
    return None if unknown else round(known, _DIGITS)
