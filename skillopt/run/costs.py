"""What a run has spent, as its journal has booked it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from skillopt.models.pricing import DIGITS
from skillopt.models.types import Usage

_BY_ROLE = (
    "SELECT role, COUNT(*), TOTAL(cost_usd), COUNT(*) - COUNT(cost_usd) FROM requests GROUP BY role ORDER BY role"
)
_UNPRICED = (
    "SELECT role, COUNT(*), SUM(kind = 'ok'), SUM(kind = 'ok' AND prompt_tokens + completion_tokens = 0), "
    "SUM(prompt_tokens), SUM(completion_tokens) FROM requests WHERE cost_usd IS NULL GROUP BY role ORDER BY role"
)


@dataclass(frozen=True, slots=True)
class Spent:
    """What all processes of a run have sent so far: requests (probes and retries too), tokens, seconds, and US dollars
    as far as they are known."""

    requests: int
    tokens: int
    seconds: float
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class RoleCost:
    """Finished requests of a role, what the known ones of them cost (US dollars), and of how many nobody knows it."""

    requests: int
    known_usd: float
    unknown: int


@dataclass(frozen=True, slots=True)
class Unpriced:
    """The requests of a role whose cost is not known: how many, how many of them were ``answered``, how many of those
    came without tokens (``blank``), and the tokens of all."""

    role: Any
    requests: int
    answered: int
    blank: int
    usage: Usage


def role_costs(db: sqlite3.Connection) -> dict[str, RoleCost]:
    """Costs by role."""
    rows = db.execute(_BY_ROLE)
    return {role: RoleCost(requests, round(usd, DIGITS), unknown) for role, requests, usd, unknown in rows}


def unpriced(db: sqlite3.Connection) -> tuple[Unpriced, ...]:
    """The requests of unknown cost, by role."""
    return tuple(
        Unpriced(role, requests, answered, blank, Usage(prompt, completion))
        for role, requests, answered, blank, prompt, completion in db.execute(_UNPRICED)
    )
