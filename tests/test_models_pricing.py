"""Prices: which one a model has, what tokens cost by it, and that what nobody knows is never nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillopt.config import ConfigError
from skillopt.models.price_file import SHIPPED, parse_prices, read_price_file, read_price_tables, user_price_file
from skillopt.models.pricing import Price, PriceTable, at_least, cost, cost_of_call, dollars, money, price_of, total
from skillopt.models.profile import ANY_VENDOR
from skillopt.models.providers import PROVIDERS
from skillopt.models.types import ModelSpec, Usage

TABLE = parse_prices(
    """
prices:
  openai:
    gpt-5.5: {input: 5, output: 50}
    gpt-5.5-mini: {input: 1, output: 10}
    gpt-5: {input: 2, output: 20}
    house-*: {input: 3, output: 30}
    house-big-*: {input: 4, output: 40}
  anthropic:
    claude-sonnet-4: {input: 6, output: 60}
    claude-sonnet-4-5: {input: 7, output: 70}
  openai_compatible:
    gpt-5: {input: 8, output: 80}
  local:
    "*": {input: 0, output: 0}
""",
    "here",
)


def rate(provider: str, model: str, *tables: PriceTable) -> float | None:
    """The input price of a model; None when it has none."""
    price = price_of(ModelSpec("target", provider, model, ""), tables or (TABLE,))
    return None if price is None else price.input


MATCHES = [
    ("openai", "gpt-5.5", 5),
    ("openai", "GPT-5.5", 5),
    ("openai", "gpt-5.5-2026-04-01", 5),
    ("openai", "gpt-5.5-mini", 1),
    ("openai", "gpt-5.5-mini-2026-01-01", 1),
    ("openai", "gpt-5.5-mini-latest", 1),
    ("openai", "openai/gpt-5.5-mini-2026-01-01", 1),
    ("openai_compatible", "openai/gpt-5.5", 5),
    ("openai_compatible", "router/openai/gpt-5.5", 5),
    ("openai", "gpt-5", 2),
    ("openai", "gpt-5.1", None),
    ("openai", "gpt-5-mini", None),
    ("openai", "gpt-5.5-nano", None),
    ("openai", "gpt-5.55", None),
    ("openai", "my-gpt-5.5", None),
    ("openai", "ft:gpt-5.5:org::x", None),
    ("openai", "", None),
    ("openai", "house-small", 3),
    ("openai", "house-big-2", 4),
    ("anthropic", "claude-sonnet-4-20250514", 6),
    ("anthropic", "claude-sonnet-4-5-20250929", 7),
    ("anthropic", "claude-sonnet-4-6", None),
    ("openai_compatible", "anthropic/claude-sonnet-4.5", 7),
    ("claude_code_exec", "claude-sonnet-4-5@20250929", 7),
    ("openai_compatible", "gpt-5", 8),
    ("openai_compatible", "openai/gpt-5", 8),
    ("azure_openai", "gpt-5.5", 5),
    ("azure_openai", "our-deployment", None),
    ("local", "gpt-5.5", 0),
    ("local", "qwen2.5-coder-1.5b", 0),
    ("local", "", 0),
    ("qwen_chat", "qwen2.5-coder-1.5b", None),
    ("openrouter", "anthropic/claude-sonnet-4.5", 7),
    ("openrouter", "local/anything", None),
    ("codex_exec", "gpt-5.5", 5),
    ("codex_exec", "claude-sonnet-4", None),
    ("copilot_chat", "gpt-5.5", None),
    ("cursor_exec", "gpt-5.5", None),
    ("groq", "gpt-5.5", None),
    ("vllm", "gpt-5.5", None),
]


@pytest.mark.parametrize(("provider", "model", "expected"), MATCHES)
def test_the_price_of_a_model(provider: str, model: str, expected: float | None) -> None:
    assert rate(provider, model) == expected


@pytest.mark.parametrize(
    ("provider", "url", "expected"),
    [
        ("ollama", "http://localhost:11434/v1", 0),
        ("lmstudio", "http://127.0.0.1:1234/v1", 0),
        ("llama_server", "http://localhost:8080/v1", 0),
        ("ollama", "https://somewhere.example/v1", None),
        ("vllm", "http://localhost:8000/v1", None),
        ("openai_compatible", "http://localhost:8000/v1", 5),
    ],
)
def test_a_server_on_this_machine_costs_nothing(provider: str, url: str, expected: float | None) -> None:
    price = price_of(ModelSpec("target", provider, "gpt-5.5", url), [TABLE])
    assert (price.input if price else None) == expected


def test_every_vendor_that_a_provider_names_has_prices() -> None:
    vendors = {row.vendor for row in PROVIDERS.values()} - {"", ANY_VENDOR}
    assert vendors <= set(read_price_file(SHIPPED).sections)


def test_the_first_table_that_knows_a_model_counts() -> None:
    own = parse_prices("prices: {openai: {gpt-5*: {input: 9, output: 9}}}", "own")
    assert rate("openai", "gpt-5.5-mini", own, TABLE) == 9, "even with a shorter name"
    assert rate("anthropic", "claude-sonnet-4", own, TABLE) == 6


# what tokens cost

SPLIT = Price(input=2.0, output=10.0, cached=0.5, cache_write=2.5)
FLAT = Price(input=2.0, output=10.0)

AMOUNTS = [
    (Usage(1_000_000, 0), SPLIT, 2.0),
    (Usage(0, 1_000_000), SPLIT, 10.0),
    (Usage(1_000_000, 100_000), SPLIT, 3.0),
    (Usage(1_000_000, 0, cached_tokens=400_000), SPLIT, 0.6 * 2 + 0.4 * 0.5),
    (Usage(1_000_000, 0, cached_tokens=1_000_000), SPLIT, 0.5),
    (Usage(1_000_000, 0, cached_tokens=400_000), FLAT, 2.0),
    (Usage(1_000_000, 0, cache_write_tokens=200_000), SPLIT, 0.8 * 2 + 0.2 * 2.5),
    (Usage(1_000_000, 0, 300_000, 0, 200_000), SPLIT, 0.5 * 2 + 0.3 * 0.5 + 0.2 * 2.5),
    (Usage(0, 500_000, reasoning_tokens=400_000), SPLIT, 5.0),
    (Usage(100, 0, cached_tokens=10**9), SPLIT, 100 * 0.5 / 1e6),
    (Usage(1, 0), Price(0.01, 0.0), 1e-8),
    (Usage(), SPLIT, 0.0),
]


@pytest.mark.parametrize(("usage", "price", "expected"), AMOUNTS)
def test_what_tokens_cost(usage: Usage, price: Price, expected: float) -> None:
    assert cost(usage, price) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("told", "usage", "price", "answered", "expected"),
    [
        (None, Usage(1_000_000, 0), FLAT, True, 2.0),
        (0.7, Usage(1_000_000, 0), FLAT, True, 0.7),
        (0.7, Usage(), None, True, 0.7),
        (0.0, Usage(1_000_000, 0), FLAT, True, 0.0),
        (None, Usage(1_000_000, 0), None, True, None),
        (None, Usage(), FLAT, True, None),
        (None, Usage(), Price(0.0, 0.0), True, 0.0),
        (None, Usage(), FLAT, False, 0.0),
        (None, Usage(500_000, 0), FLAT, False, 1.0),
        (None, Usage(), None, False, None),
    ],
)
def test_what_one_request_cost(
    told: float | None, usage: Usage, price: Price | None, answered: bool, expected: float | None
) -> None:
    assert cost_of_call(told, usage, price, answered=answered) == expected


def test_unknown_stays_unknown_through_sums() -> None:
    assert total([0.1, None, 0.2]) is None
    assert total([None]) is None
    assert total([]) == 0.0
    assert total([0.1, 0.2]) == 0.3


@given(st.lists(st.floats(0, 1e6), max_size=30), st.randoms())
def test_the_order_of_a_sum_changes_no_digit(costs: list[float], chance: object) -> None:
    shuffled = sorted(costs, key=lambda _: chance.random())  # type: ignore[attr-defined]
    assert total(costs) == total(shuffled)


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_cost_lies_between_that_of_the_cheapest_and_the_dearest_tokens(
    prompt: int, completion: int, cached: int, written: int
) -> None:
    found = cost(Usage(prompt, completion, cached, 0, written), SPLIT)
    most = (prompt * 2.5 + completion * 10) / 1e6
    least = (prompt * 0.5 + completion * 10) / 1e6
    assert least - 1e-9 <= found <= most + 1e-9


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "$0.00"), (0.00001, "<$0.0001"), (0.0123, "$0.0123"), (1.5, "$1.50"), (12345.678, "$12,345.68")],
)
def test_an_amount_for_people(amount: float, text: str) -> None:
    assert dollars(amount) == money(amount) == money(amount, 3.0) == text


def test_an_unknown_amount_is_never_0() -> None:
    assert (money(None), money(None, 0.0), money(None, 1.5)) == ("unknown", "unknown", "unknown (at least $1.50)")
    assert (at_least(0.0), at_least(0.00001)) == ("", "at least <$0.0001")


# the files


def test_the_shipped_table_says_when_and_where_it_is_from() -> None:
    document = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    assert isinstance(document["date"], date)
    assert len(document["source"]) > 20


def test_the_shipped_table_is_in_order() -> None:
    table = read_price_file(SHIPPED)
    assert {"openai", "anthropic", "deepseek", "google", "mistral", "minimax", "local"} == set(table.sections)
    for section, rows in table.sections.items():
        for name, price in rows.items():
            assert rate(section, name, table) == price.input, name
            assert section == "local" or 0 < price.input <= price.output, name
            assert price.cached is None or price.cached <= price.input, name
            assert price.cache_write is None or price.cache_write >= price.input, name


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("openai", "gpt-4o-mini-2024-07-18", Price(0.15, 0.6, 0.075)),
        ("openai", "gpt-4.1", Price(2, 8, 0.5)),
        ("openai", "o4-mini", Price(1.1, 4.4, 0.275)),
        ("claude_chat", "claude-sonnet-4-6", Price(3, 15, 0.3, 3.75)),
        ("openai_compatible", "deepseek/deepseek-chat", Price(0.28, 0.42, 0.028)),
        ("local", "any.gguf", Price(0, 0)),
        ("openai", "gpt-5.5", None),
        ("openai", "gpt-5.4", None),
        ("openai_compatible", "any.gguf", None),
        ("minimax_chat", "MiniMax-M3", None),
    ],
)
def test_the_shipped_prices(provider: str, model: str, expected: Price | None) -> None:
    assert price_of(ModelSpec("target", provider, model, ""), [read_price_file(SHIPPED)]) == expected


FAULTS = [
    ("prices: {openai: {m: {input: 1}}}", "p.yaml:1: openai.m needs output, in US dollars per million tokens"),
    ("prices:\n  openai:\n    m: {input: 1, ouput: 2}\n", "p.yaml:3: openai.m.ouput is no price; did you mean output?"),
    (
        "prices:\n  openai:\n    m:\n      input: cheap\n      output: 2\n",
        "p.yaml:4: openai.m.input must be a number of US dollars, 0 or more, got 'cheap'",
    ),
    ("prices: {openai: {m: {input: -1, output: 2}}}", "0 or more, got '-1'"),
    ("prices: {openai: {m: {input: .nan, output: 2}}}", "must be a number"),
    ("prices: {openai: {m: {input: nan, output: 2}}}", "must be a number"),
    ("prices: {openai: {m: {input: 1, output: 1e308}}}", "per million tokens, 1000000 at most, got '1e308'"),
    ("prices: {openai: {m: {input: [1], output: 2}}}", "must be a number"),
    ("prices:\n  openai:\n    m: 3\n", "p.yaml:3: openai.m must hold a mapping"),
    ("prices:\n  - openai\n", "p.yaml:2: prices must hold a mapping"),
    ("prices: {openai: {m: {input: 1, output: 2}, M: {input: 1, output: 2}}}", "openai.M is given twice"),
    ("prices: {}\nprices: {}\n", "p.yaml:2: prices is given twice"),
    ("price: {}", "price is no key of a price file; did you mean prices?"),
    ("openai: {m: {input: 1, output: 2}}", "prices is missing"),
    ("- 1", "p.yaml:1: a price file must hold a mapping"),
    ("prices: {openai: {m: {input: 1", "p.yaml:"),
    ("prices: {\n a: 'x\n", "p.yaml:"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_a_fault_in_a_price_file_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_prices(text, "p.yaml")
    assert message in str(refused.value)


def test_all_faults_of_a_price_file_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_prices("prices:\n  a: {m: {input: x, output: 1}}\n  b: {m: {input: 1}}\n", "p.yaml")
    assert len(refused.value.problems) == 2


def test_a_file_that_is_empty_or_has_a_bom_is_a_price_file(tmp_path: Path) -> None:
    assert parse_prices("# nothing yet\n", "p.yaml").sections == {}
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbfprices: {openai: {m: {input: 1, output: '2.5'}}}\n")
    assert read_price_file(path).sections == {"openai": {"m": Price(1.0, 2.5)}}
    path.write_bytes(b"prices: \xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_price_file(path)


def write_prices(path: Path, rate: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"prices: {{openai: {{gpt-4o: {{input: {rate}, output: 1}}}}}}\n", encoding="utf-8")
    return path


def test_the_file_of_the_configuration_counts_before_the_users_own_and_that_before_the_shipped(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    def found(given: str, environ: Mapping[str, str]) -> float | None:
        return rate("openai", "gpt-4o", *read_price_tables(given, environ))

    assert found("", environ) == 2.5
    own = write_prices(tmp_path / "config" / "skillopt" / "prices.yaml", 7)
    assert user_price_file(environ) == own
    assert (found("", environ), found("", {})) == (7, 2.5)
    given = write_prices(tmp_path / "mine.yaml", 8)
    assert found(str(given), environ) == 8
    with pytest.raises(ConfigError, match=r"budget\.prices: there is no price file 'nowhere\.yaml'"):
        read_price_tables("nowhere.yaml", environ)


def test_without_a_home_there_is_no_file_of_the_user() -> None:
    assert user_price_file({}) is None
    found = user_price_file({"HOME": "/home/somebody"})
    assert found is not None
    assert found.name == "prices.yaml"
    assert "skillopt" in found.parts
