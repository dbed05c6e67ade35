"""Money in the journal and at the meter: booked, summed, unknown where it is unknown; and journals of before."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from skillopt.models.errors import StopRequested
from skillopt.models.pricing import Price
from skillopt.models.types import Attempt, Message, Reply, Usage
from skillopt.run.calls import count_calls, stored_calls
from skillopt.run.costs import RoleCost
from skillopt.run.journal import Journal, StageTokens
from skillopt.run.schema import MIGRATIONS
from skillopt.run.spend import Caps, Prices, SpendMeter
from skillopt.types import Role

MESSAGES = (Message("user", "hello"),)
ONE = Price(1.0, 10.0)  # a token of a prompt is a millionth of a dollar
PRICES: Prices = {"target": ONE, "optimizer": Price(100.0, 1000.0)}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def spend(
    meter: SpendMeter,
    tokens: int = 1000,
    *,
    role: Role = "target",
    kind: str = "ok",
    told: float | None = None,
    times: int = 1,
) -> None:
    """Requests that end with so many tokens in the prompt."""

    async def work() -> None:
        for _ in range(times):
            meter.admit()
            meter.record(Attempt(role, "rollout", kind, Usage(tokens, 0), 0.1, told))
        await asyncio.sleep(0)

    asyncio.run(work())


def refusal(meter: SpendMeter) -> StopRequested:
    with pytest.raises(StopRequested) as refused:
        meter.admit()
    return refused.value


# the meter


def test_what_is_spent_is_summed_by_role(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps(), prices=PRICES)
    assert meter.cost_usd == 0.0
    spend(meter, 1000)
    spend(meter, 1000, role="optimizer")
    spend(meter, 1000, told=0.5)
    assert meter.cost_usd == pytest.approx(0.001 + 0.1 + 0.5)
    assert journal.role_costs() == {"optimizer": RoleCost(1, 0.1, 0), "target": RoleCost(2, 0.501, 0)}


def test_a_cost_that_is_not_known_makes_the_sum_unknown(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps(), prices={**PRICES, "optimizer": None})
    assert meter.cost_usd is None, "it will not be known"
    spend(meter, 1000)
    assert meter.cost_usd == 0.001, "so far it is"
    spend(meter, 1000, role="optimizer")
    assert meter.cost_usd is None
    assert (meter.usd, meter.unknown) == (0.001, 1)
    assert journal.role_costs()["optimizer"] == RoleCost(1, 0.0, 1)


def test_without_prices_nothing_is_known(journal: Journal) -> None:
    assert SpendMeter(journal, Caps()).cost_usd is None
    meter = SpendMeter(journal, Caps(), prices={"target": None})
    spend(meter)
    assert meter.cost_usd is None


def test_a_model_of_this_machine_costs_nothing_even_without_tokens(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps(), prices={"target": Price(0.0, 0.0)})
    spend(meter, 0, times=3)
    assert (meter.cost_usd, meter.unknown) == (0.0, 0)


def test_an_answer_without_tokens_has_no_known_cost(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps(), prices=PRICES)
    spend(meter, 0)
    assert meter.cost_usd is None


@pytest.mark.parametrize("kind", ["truncated", "empty", "invalid_output"])
def test_a_failure_that_was_billed_counts(journal: Journal, kind: str) -> None:
    meter = SpendMeter(journal, Caps(usd=0.002), prices=PRICES)
    spend(meter, 1000, kind=kind, times=2)
    assert refusal(meter).detail == "budget.max_usd=0.002 is reached (0.002 spent)"


def test_a_failure_without_tokens_costs_nothing(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps(usd=1.0), prices=PRICES)
    spend(meter, 0, kind="timeout", times=3)
    assert meter.cost_usd == 0.0


def test_sums_do_not_drift_past_a_cap(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps(usd=0.1), prices=PRICES)
    spend(meter, 10_000, times=10)  # ten times 0.01 are less than 0.1 in binary
    assert refusal(meter).reason == "budget"


def test_a_cap_on_money_holds_over_processes_and_a_larger_one_lets_the_run_go_on(tmp_path: Path) -> None:
    for number in range(3):
        journal = Journal(tmp_path / "journal.sqlite")
        meter = SpendMeter(journal, Caps(usd=0.003), prices=PRICES)
        assert meter.cost_usd == pytest.approx(0.001 * number)
        spend(meter)
        journal.close()
    journal = Journal(tmp_path / "journal.sqlite")
    assert refusal(SpendMeter(journal, Caps(usd=0.003), prices=PRICES)).reason == "budget"
    spend(SpendMeter(journal, Caps(usd=0.004), prices=PRICES))
    journal.close()


def test_a_cap_of_no_dollars_admits_nothing(journal: Journal) -> None:
    assert refusal(SpendMeter(journal, Caps(usd=0.0), prices=PRICES)).reason == "budget"


def test_a_cap_that_cannot_be_held_ends_the_run_after_what_is_in_flight(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps(usd=5.0), prices=PRICES)
    spend(meter, 0)
    stop = refusal(meter)
    assert stop.reason == "error"
    assert stop.detail.startswith("budget.max_usd cannot be held: the cost of 1 answered requests is not known")


def test_what_an_earlier_process_could_not_price_counts_by_todays_price(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    spend(SpendMeter(journal, Caps(), prices={"target": None}), 1000, times=2)
    priced = SpendMeter(journal, Caps(usd=0.0025), prices=PRICES)
    assert priced.cost_usd is None, "what it was is not known for that"
    spend(priced, 1000)
    assert refusal(priced).detail == "budget.max_usd=0.0025 is reached (0.003 spent)"
    unpriced = SpendMeter(journal, Caps(usd=5.0), prices={"target": None})
    assert "2 answered requests" in refusal(unpriced).detail
    journal.close()


# the journal


async def put(journal: Journal, key: str, cost: float | None, stage: str = "rollout") -> Reply:
    return await journal.put(key, "target", stage, MESSAGES, Reply("hi", Usage(10, 1), cost_usd=cost))


def test_the_cost_of_a_stage_is_unknown_as_soon_as_that_of_one_reply_is(journal: Journal) -> None:
    async def check() -> None:
        for number in range(10):
            await put(journal, f"r{number}", 0.1)
        await put(journal, "a", 0.5, "analyst")
        await put(journal, "b", None, "analyst")

    asyncio.run(check())
    keys = [f"r{number}" for number in range(10)]
    assert journal.charge("step_0001", [*keys, "a"]) == {
        "analyst": StageTokens(1, 10, 1, 0.5),
        "rollout": StageTokens(10, 100, 10, 1.0),
    }
    assert journal.charge("step_0001", ["a", "b"]) == {"analyst": StageTokens(2, 20, 2, None)}
    journal.commit("step_0001", {}, {}, [*keys, "a", "b"])
    assert journal.stage_totals()["rollout"].cost_usd == 1.0
    assert journal.stage_totals()["analyst"].cost_usd is None


_V1 = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE texts(hash TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE replies(
  key TEXT PRIMARY KEY, role TEXT NOT NULL, stage TEXT NOT NULL, messages TEXT NOT NULL, text TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
  cached_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL, owner TEXT) WITHOUT ROWID;
CREATE INDEX replies_owner ON replies(owner);
CREATE TABLE requests(
  id INTEGER PRIMARY KEY, role TEXT NOT NULL, stage TEXT NOT NULL, kind TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, seconds REAL NOT NULL, ended_at REAL NOT NULL);
CREATE TABLE commits(name TEXT PRIMARY KEY, sequence INTEGER NOT NULL, record TEXT NOT NULL);
CREATE TABLE files(path TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES('version', '1'), ('wall_seconds', '3.5');
INSERT INTO texts VALUES('h', 'hello');
INSERT INTO replies VALUES('k', 'target', 'rollout', '[["user", "h"]]', 'hi', 10, 1, 2, 0, 'step_0001');
INSERT INTO requests VALUES(NULL, 'target', 'rollout', 'ok', 10, 1, 0.5, 1.0);
INSERT INTO commits VALUES('step_0001', 1, '{"row": 1}');
"""


def first_version(path: Path) -> Path:
    """A journal as version 1 left it."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_V1)
    return path


def test_a_journal_of_version_1_goes_on_as_one_of_today(tmp_path: Path) -> None:
    path = first_version(tmp_path / "journal.sqlite")
    for _ in range(2):
        journal = Journal(path)
        assert journal.meta("version") == "3"
        assert journal.get("k") == Reply("hi", Usage(10, 1, 2, 0), "k")
        assert journal.record("step_0001") == {"row": 1}
        assert journal.stage_totals() == {"rollout": StageTokens(1, 10, 1, None)}
        assert journal.role_costs() == {"target": RoleCost(1, 0.0, 1)}, "not known is not nothing"
        assert SpendMeter(journal, Caps(), prices=PRICES).cost_usd is None
        journal.close()
    journal = Journal(path)
    asyncio.run(put(journal, "new", 0.25))
    assert journal.get("new") == Reply("hi", Usage(10, 1), "new", cost_usd=0.25)
    journal.close()


def test_a_journal_of_version_2_goes_on_and_tells_the_items_of_new_calls(tmp_path: Path) -> None:
    path = first_version(tmp_path / "journal.sqlite")
    with closing(sqlite3.connect(path)) as db, db:
        for statement in MIGRATIONS["1"]:
            db.execute(statement)
        db.execute("UPDATE replies SET cost_usd = 0.5")
    assert [(call["item"], call["at"], call["cost_usd"]) for call in stored_calls(tmp_path)] == [(None, None, 0.5)]
    assert (count_calls(tmp_path), count_calls(tmp_path, item="TR-1")) == (1, 0)
    journal = Journal(path)
    assert journal.meta("version") == "3"
    asyncio.run(journal.put("new", "target", "rollout", MESSAGES, Reply("hi", Usage(10, 1)), item="TR-1"))
    journal.close()
    assert [(call["key"], call["item"]) for call in stored_calls(tmp_path)] == [("k", None), ("new", "TR-1")]


def test_a_migration_that_breaks_off_leaves_the_old_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = first_version(tmp_path / "journal.sqlite")
    statements = ("ALTER TABLE replies ADD COLUMN cost_usd REAL", "ALTER TABLE nowhere ADD COLUMN x REAL")
    with monkeypatch.context() as patch:
        patch.setattr("skillopt.run.journal.MIGRATIONS", {"1": statements})
        with pytest.raises(OSError, match="cannot be written"):
            Journal(path)
    journal = Journal(path)
    assert (journal.meta("version"), journal.get("k")) == ("3", Reply("hi", Usage(10, 1, 2, 0), "k"))
    journal.close()


def test_a_journal_of_version_1_can_be_read_and_adopted_as_it_is(tmp_path: Path) -> None:
    path = first_version(tmp_path / "journal.sqlite")
    (call,) = stored_calls(tmp_path)
    assert (call["messages"], call["reply"], call["cost_usd"]) == ([{"role": "user", "content": "hello"}], "hi", None)
    (tmp_path / "new").mkdir()
    new = Journal(tmp_path / "new" / "journal.sqlite")
    assert new.adopt_replies(path) == 1
    assert new.get("k") == Reply("hi", Usage(10, 1, 2, 0), "k")
    new.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT value FROM meta WHERE key='version'").fetchone() == ("1",)


def test_an_adopted_reply_keeps_its_cost_and_all_that_belongs_to_it(tmp_path: Path) -> None:
    old, new = Journal(tmp_path / "old.sqlite"), Journal(tmp_path / "new.sqlite")
    reply = Reply("hi", Usage(1, 1), events=({"role": "assistant", "content": "x"},), cost_usd=0.5)
    stored = asyncio.run(old.put("k", "target", "rollout", MESSAGES, reply, item="TR-1"))
    new.adopt_replies(tmp_path / "old.sqlite")
    assert new.get("k") == stored
    told = [journal._db.execute("SELECT item, stored_at FROM replies").fetchone() for journal in (old, new)]
    assert told[0] == told[1]
    assert told[0][0] == "TR-1"
    old.close()
    new.close()
