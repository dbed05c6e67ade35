"""What a call costs, and what each model costs. Pure: the price files are read by ``price_file``.

A cost that nobody knows is None and stays None in every sum; it is never 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skillopt.models.profile import ANY_VENDOR
from skillopt.models.providers import PROVIDERS
from skillopt.models.types import ModelSpec, Usage
from skillopt.models.urls import LOOPBACK, host_of

_MILLION = 1_000_000
_REVISION = re.compile(r"(?:[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|\d{3,4}|latest|v\d+(?::\d+)?))+")
ANY = "*"
DIGITS = 10
"""Decimal places of a dollar that are kept: one token of the cheapest model is above the last."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens.

    ``cached`` and ``cache_write`` are for the tokens of a prompt that were read from and written to the provider's
    cache, None where they cost as all others. Reasoning tokens cost as ``output``.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    @property
    def free(self) -> bool:
        return not any((self.input, self.output, self.cached, self.cache_write))


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by section (a provider or a vendor) and by name in lower case. ``source`` is the file, for people."""

    sections: Mapping[str, Mapping[str, Price]]
    source: str = ""


def cost(usage: Usage, price: Price) -> float:
    """What ``usage`` costs, in US dollars."""
    amount = usage.prompt_tokens * price.input + usage.completion_tokens * price.output
    if usage.cached_tokens or usage.cache_write_tokens:
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        written = min(usage.cache_write_tokens, usage.prompt_tokens - cached)
        amount += cached * ((price.input if price.cached is None else price.cached) - price.input)
        amount += written * ((price.input if price.cache_write is None else price.cache_write) - price.input)
    return round(amount / _MILLION, DIGITS)


def cost_of_call(told: float | None, usage: Usage, price: Price | None, *, answered: bool = True) -> float | None:
    """What one request cost: what the provider ``told``, else its tokens by ``price``; None when that is not known.

    An answer whose tokens nobody counted has no known cost, but at a price of nothing. A failure without tokens cost
    nothing that is known of.
    """
    if told is not None:
        return told
    if price is None:
        return None
    if answered and not usage.total_tokens and not price.free:
        return None
    return cost(usage, price)


def total(costs: Iterable[float | None]) -> float | None:
    """The sum of ``costs``; None when one of them is not known. The order does not change a digit."""
    known = list(costs)
    return None if None in known else round(math.fsum(each for each in known if each is not None), DIGITS)


def dollars(amount: float) -> str:
    """An amount for people: ``$1,234.50``, ``$0.0123``, ``<$0.0001``."""
    if 0 < amount < 0.0001:
        return "<$0.0001"
    return f"${amount:,.2f}" if amount >= 1 or not amount else f"${amount:.4f}"


def at_least(known: float) -> str:
    """What is known of a cost that is not known in all; '' where nothing is."""
    return f"at least {dollars(known)}" if known else ""


def money(amount: float | None, known: float = 0.0) -> str:
    """An amount for people; ``unknown`` where nobody knows it, which is not $0, and then what of it is ``known``."""
    if amount is not None:
        return dollars(amount)
    return f"unknown ({at_least(known)})" if known else "unknown"


def price_of(spec: ModelSpec, tables: Iterable[PriceTable]) -> Price | None:
    """The price of a model by the first of ``tables`` that has one; None when none has.

    In a table the section of the model's provider counts first, then those of the vendors whose models it sells at
    their prices: where these may be all vendors, first the one that the name says (``deepseek/deepseek-chat``).
    """
    vendors = _vendors(spec)
    found = (_in_table(spec.provider, vendors, spec.model, table) for table in tables)
    return next((price for price in found if price is not None), None)


def _vendors(spec: ModelSpec) -> tuple[str, ...] | None:
    """The sections beside a provider's own that hold its prices; None for all."""
    row = PROVIDERS.get(spec.provider)
    if row is None or not row.vendor:
        return ()
    if row.vendor == ANY_VENDOR:
        return None
    if row.vendor == "local" and host_of(spec.base_url) not in LOOPBACK:
        return ()
    return (row.vendor,)


def folded(name: str) -> str:
    """A model name in the form in which names are compared."""
    return name.strip().lower().replace(".", "-")


def _in_table(provider: str, vendors: tuple[str, ...] | None, model: str, table: PriceTable) -> Price | None:
    parts = [part for part in folded(model).split("/") if part]
    names = ["/".join(parts[start:]) for start in range(len(parts))] or [""]
    sections = [table.sections.get(name, {}) for name in (provider, *(vendors or ()))]
    if vendors is None:
        named = {name: {key: rows[key] for key in rows if key != ANY} for name, rows in table.sections.items()}
        sections += [named.get(parts[0], {}) if len(parts) > 1 else {}]
        sections += [{key: price for rows in named.values() for key, price in rows.items()}]
    found = (_longest(rows, names) for rows in sections)
    return next((price for price in found if price is not None), None)


def _longest(rows: Mapping[str, Price], names: Iterable[str]) -> Price | None:
    """The price under the longest name that covers one of ``names``, the whole name before its ends."""
    for name in names:
        fitting = [key for key in rows if _covers(folded(key), name)]
        if fitting:
            return rows[max(fitting, key=len)]
    return None


def _covers(pattern: str, name: str) -> bool:
    if pattern.endswith(ANY):
        return name.startswith(pattern[:-1])
    rest = name.removeprefix(pattern)
    return name.startswith(pattern) and (not rest or _REVISION.fullmatch(rest) is not None)
