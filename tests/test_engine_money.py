"""Money in whole runs: refused without a price, capped, resumed, and told in every record."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.folders import read_json, rows, tree
from fakes.world import ENVIRON, Call, World, prepared, run

from skillopt.api import load_run
from skillopt.cli.status import status_lines, status_of
from skillopt.config import ConfigError
from skillopt.engine.estimate import estimate
from skillopt.models.pricing import Price
from skillopt.report.run import read_run
from skillopt.run.events import Listener
from skillopt.run.journal import Journal

TARGET, OPTIMIZER = Price(1.0, 2.0), Price(100.0, 200.0)
BOTH = "prices: {openai: {small-target: {input: 1, output: 2}, big-optimizer: {input: 100, output: 200}}}\n"
ONE = "prices: {openai: {small-target: {input: 1, output: 2}}}\n"


def priced(folder: Path, text: str = BOTH) -> dict[str, Any]:
    path = folder / "prices.yaml"
    path.write_text(text, encoding="utf-8")
    return {"budget.prices": str(path)}


def spent(root: Path) -> float:
    journal = Journal(root / "journal.sqlite")
    try:
        assert not journal.unpriced()
        return journal.spent().usd
    finally:
        journal.close()


def dearest(calls: list[Call], slots: int) -> float:
    """The most that so many calls at once can cost."""
    return slots * 200 * max(len(call.system + call.user) for call in calls) / 1e6


# the cap


@pytest.mark.parametrize("cap", [0.02, 0.2, 0.6])
def test_a_cap_on_money_stops_within_the_calls_in_flight_and_a_larger_one_ends_the_run(
    tmp_path: Path, cap: float
) -> None:
    prices = priced(tmp_path)
    world, root = World(latency=lambda call: 1.0), tmp_path / "run"
    ending = run(world, root, {**prices, "budget.max_usd": cap})
    assert ending.reason == "budget"
    assert ending.detail.startswith(f"budget.max_usd={cap:g} is reached (")
    assert cap <= spent(root) <= cap + dearest(world.work(), 8)
    assert ending.summary["cost_summary"]["_total"]["cost_usd"] == pytest.approx(spent(root))
    whole = World(latency=lambda call: 1.0)
    assert run(whole, tmp_path / "whole", prices).reason == "completed"
    before = {call.key for call in world.work()}
    assert run(world, root, {**prices, "budget.max_usd": 100}).reason == "completed"
    keys = [call.key for call in world.work()]
    assert len(keys) == len(set(keys)), "nothing is paid twice"
    assert before < set(keys)
    assert [row["cost_usd"] for row in rows(root)] == [row["cost_usd"] for row in rows(tmp_path / "whole")]


def test_a_cap_that_is_not_reached_changes_nothing(tmp_path: Path) -> None:
    prices = priced(tmp_path)
    assert run(World(), tmp_path / "a" / "run", {**prices, "budget.max_usd": 50}).reason == "completed"
    assert run(World(), tmp_path / "b" / "run", {**prices, "budget.max_usd": 60}).reason == "completed"
    capped, other = tree(tmp_path / "a" / "run"), tree(tmp_path / "b" / "run")
    assert capped.pop("config.json") != other.pop("config.json")
    assert capped.pop("summary.json") != other.pop("summary.json")
    assert capped == other


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("prices: {}\n", "small-target (target, openai)"),
        (ONE, "big-optimizer (optimizer, openai)"),
    ],
)
def test_a_cap_on_money_is_refused_before_any_call_when_a_price_is_missing(
    tmp_path: Path, text: str, missing: str
) -> None:
    world = World()
    with pytest.raises(ConfigError) as refused:
        run(world, tmp_path / "run", {**priced(tmp_path, text), "budget.max_usd": 5})
    message = str(refused.value)
    assert message.startswith("budget.max_usd: the price of ")
    assert missing in message
    assert "budget.prices" in message
    assert "{input: USD, output: USD}" in message
    assert ("big-optimizer" in message) == (text != BOTH)
    assert ("small-target" in message) == (text != ONE)
    assert world.calls == []
    assert not (tmp_path / "run").exists()


def test_the_price_that_a_refusal_asks_for_can_be_pasted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        prepared(World(), tmp_path / "run", {**priced(tmp_path, ONE), "budget.max_usd": 5})
    shape = str(refused.value).partition(": {prices")[2].partition(", in US dollars")[0]
    text = "{prices" + shape.replace("USD", "3")
    ready = prepared(World(), tmp_path / "run", priced(tmp_path, text + "\n"))
    assert ready.prices == {"optimizer": Price(3.0, 3.0), "target": None}


def test_the_users_own_prices_hold_without_a_key(tmp_path: Path) -> None:
    (tmp_path / "skillopt").mkdir()
    (tmp_path / "skillopt" / "prices.yaml").write_text(BOTH, encoding="utf-8")
    ready = prepared(World(), tmp_path / "run", environ={**ENVIRON, "XDG_CONFIG_HOME": str(tmp_path)})
    assert ready.prices == {"optimizer": OPTIMIZER, "target": TARGET}


def test_a_price_file_that_is_wrong_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"prices\.yaml:1: openai\.m needs output"):
        prepared(World(), tmp_path / "run", priced(tmp_path, "prices: {openai: {m: {input: 1}}}\n"))


# the records


def by_price(calls: list[Call], price: Price) -> float:
    """What calls cost that were answered as the world answers, but for the completions."""
    return sum(price.input * (len(call.system + call.user) // 4 + 1) for call in calls) / 1e6


def test_every_record_tells_the_cost(tmp_path: Path) -> None:
    told: list[tuple[str, Mapping[str, Any]]] = []
    listener: Listener = lambda kind, fields: told.append((kind, fields))  # noqa: E731
    world, root = World(), tmp_path / "run"
    ending = run(world, root, priced(tmp_path), listeners=[listener])
    steps = [row["cost_usd"] for row in rows(root)]
    assert all(isinstance(cost, float) and cost > 0 for cost in steps)
    for row in rows(root):
        used = row["tokens"].items()
        prices = {stage: TARGET if stage == "rollout" else OPTIMIZER for stage, _ in used}
        expected = math.fsum(
            each["prompt_tokens"] * prices[stage].input + each["completion_tokens"] * prices[stage].output
            for stage, each in used
        )
        assert row["cost_usd"] == pytest.approx(expected / 1e6)
    costs = ending.summary["cost_summary"]
    assert set(costs) == {"optimizer", "target", "_total"}
    assert costs["_total"]["cost_usd"] == pytest.approx(costs["target"]["cost_usd"] + costs["optimizer"]["cost_usd"])
    assert costs["target"]["cost_usd"] > by_price([call for call in world.calls if call.role == "target"], TARGET)
    assert costs["_total"]["cost_usd"] > math.fsum(steps), "baseline, tests and probes too"
    assert all(each["unknown_requests"] == 0 for each in costs.values())
    assert load_run(root).cost_usd == costs["_total"]["cost_usd"]
    assert f"cost: ${costs['_total']['cost_usd']:.2f}"[:9] in "\n".join(status_lines(status_of(read_run(root))))
    seen = [fields["cost_usd"] for kind, fields in told if kind in ("run_started", "item_done", "step_done")]
    assert seen[0] == 0.0
    assert seen == sorted(seen)
    assert seen[-1] <= costs["_total"]["cost_usd"]


def test_a_cost_of_which_a_part_is_unknown_is_unknown_and_never_0(tmp_path: Path) -> None:
    told: list[Any] = []
    listener: Listener = lambda kind, fields: told.append(fields.get("cost_usd", 1))  # noqa: E731
    root = tmp_path / "run"
    ending = run(World(), root, priced(tmp_path, ONE), listeners=[listener])
    assert 0 not in told
    assert all(row["cost_usd"] is None for row in rows(root) if set(row["tokens"]) != {"rollout"})
    costs = ending.summary["cost_summary"]
    assert costs["target"]["cost_usd"] > 0
    assert costs["optimizer"]["cost_usd"] is None
    assert costs["optimizer"]["unknown_requests"] == costs["optimizer"]["requests"] > 0
    assert costs["_total"]["cost_usd"] is None
    assert costs["_total"]["known_usd"] == costs["target"]["cost_usd"]
    assert load_run(root).cost_usd is None
    status = status_of(read_run(root))
    assert status.cost_usd is None
    assert status.cost_known_usd == costs["target"]["cost_usd"]
    assert any(line.startswith("cost: unknown (at least ") for line in status_lines(status))


def test_without_any_price_every_cost_is_null(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(World(), root)
    assert [row["cost_usd"] for row in rows(root)] == [None] * len(rows(root))
    costs = read_json(root / "summary.json")["cost_summary"]
    assert [each["cost_usd"] for each in costs.values()] == [None] * 3
    assert "cost: unknown" in status_lines(status_of(read_run(root)))
    assert "$" not in json.dumps(status_lines(status_of(read_run(root))))


def test_a_dry_run_bounds_the_money_of_the_run(tmp_path: Path) -> None:
    ready = prepared(World(), tmp_path / "run", priced(tmp_path))
    told = estimate(ready.config, ready.env, ready.items, ready.skill.text, "full", ready.prices)
    ending = run(World(), tmp_path / "run", priced(tmp_path))
    for part in told:
        assert part.cost_usd is not None
        assert 0 < ending.summary["cost_summary"][part.role]["cost_usd"] <= part.cost_usd
