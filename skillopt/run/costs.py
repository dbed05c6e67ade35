"""What a run has spent, as its journal has booked it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from skillopt.models.pricing import DIGITS
from skillopt.models.types import Usage
from skillopt.values import fraction, label, whole

_BY_ROLE = (
    "SELECT role, COUNT(*), TOTAL(cost_usd), COUNT(*) - COUNT(cost_usd) FROM requests GROUP BY role ORDER BY role"
)
_UNPRICED = (
    "SELECT role, COUNT(*), SUM(kind = 'ok'), SUM(kind = 'ok' AND prompt_tokens + completion_tokens = 0), "
    "SUM(prompt_tokens), SUM(completion_tokens) FROM requests WHERE cost_usd IS NULL GROUP BY role ORDER BY role"
)
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


@dataclass(frozen=True, slots=True)
class Booked:
    """Requests or replies of a ``role``, the latter of one ``stage`` that one ``part`` of the run is charged with ('':
    all): how many, their tokens, what the known ones cost (US dollars), and of how many nobody knows it."""

    part: str
    role: str
    stage: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    known_usd: float
    unknown: int

    @property
    def usd(self) -> float | None:
        """US dollars; None where a part is not known."""
        return None if self.unknown else self.known_usd


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


def requests_booked(db: sqlite3.Connection) -> tuple[Booked, ...]:
    """All requests by role. A journal of before costs were booked has none that is known."""
    rows = db.execute(_REQUESTS.format(cost=_cost_in(db, "requests")))
    return tuple(_booked("", role, "", *rest) for role, *rest in rows)


def replies_booked(db: sqlite3.Connection) -> tuple[Booked, ...]:
    """The replies that parts of the run are charged with, by part, role and stage."""
    rows = db.execute(_CHARGES.format(cost=_cost_in(db, "replies")))
    return tuple(_booked(part, role, stage, *rest) for part, role, stage, *rest in rows)


def _cost_in(db: sqlite3.Connection, table: str) -> str:
    columns = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
    return _COST if "cost_usd" in columns else _NO_COST


def _booked(
    part: Any, role: Any, stage: Any, calls: int, prompt: Any, completion: Any, known: float, unknown: int
) -> Booked:
    """A journal may come from anyone, and SQLite lets any kind of value stand in any column."""
    names = (label(part), label(role), label(stage))
    usd = fraction(known)
    priced = (0.0, calls) if usd is None else (round(usd, DIGITS), unknown)
    return Booked(*names, calls, whole(prompt), whole(completion), *priced)
