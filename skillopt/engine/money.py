"""What the models of a run cost, and the refusal of a cap on money that could not be held."""

from __future__ import annotations

from collections.abc import Mapping

from skillopt.config import Config, ConfigError
from skillopt.config.errors import Problem, Source
from skillopt.models.price_file import read_price_tables, user_price_file
from skillopt.models.pricing import Price, price_of
from skillopt.models.providers import PROVIDERS
from skillopt.models.types import ModelSpec
from skillopt.types import Role


def role_prices(
    config: Config, specs: Mapping[Role, ModelSpec], environ: Mapping[str, str]
) -> dict[Role, Price | None]:
    """The price of each role's model, None where it is not known. Reads the price files.

    Raises ``ConfigError`` when one of them is wrong, and when ``budget.max_usd`` is set and a price is missing.
    """
    tables = read_price_tables(config.budget.prices, environ)
    prices = {role: price_of(spec, tables) for role, spec in specs.items()}
    if config.budget.max_usd is not None:
        unpriced = (spec for role, spec in specs.items() if prices[role] is None)
        missing = [spec for spec in unpriced if not PROVIDERS[spec.provider].tells_cost]
        if missing:
            raise ConfigError(Problem(_no_price(missing, environ), Source.key("budget.max_usd"), "null"))
    return prices


def _no_price(missing: list[ModelSpec], environ: Mapping[str, str]) -> str:
    models = " and ".join(f"{spec.model or 'the default model'} ({spec.role}, {spec.provider})" for spec in missing)
    spec, own = missing[0], user_price_file(environ)
    name = spec.model or "*"
    places = "a file that budget.prices names" + (f", or in {own}" if own else "")
    return (
        f"budget.max_usd: the price of {models} is not known, so the cap could not be held. Give it in {places}: "
        f'{{prices: {{{spec.provider}: {{"{name}": {{input: USD, output: USD}}}}}}}}, in US dollars per million '
        "tokens; or cap budget.max_calls or budget.max_tokens instead"
    )
