"""The meter: caps hold over all processes of a run, and the first reason to stop stands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillopt.models.errors import StopRequested
from skillopt.models.types import Attempt, Usage
from skillopt.run.journal import Journal
from skillopt.run.spend import Caps, SpendMeter


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def spend(meter: SpendMeter, requests: int, tokens: int = 0) -> None:
    """So many requests that end well, with so many tokens each."""

    async def work() -> None:
        for _ in range(requests):
            meter.admit()
            meter.record(Attempt("target", "rollout", "ok", Usage(tokens, 0), 0.1))
        await asyncio.sleep(0)

    asyncio.run(work())


def refusal(meter: SpendMeter) -> StopRequested:
    with pytest.raises(StopRequested) as refused:
        meter.admit()
    return refused.value


def test_without_caps_everything_is_admitted(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps())
    spend(meter, 100, 1000)
    assert (meter.requests, meter.tokens, meter.in_flight, meter.stopped) == (100, 100_000, 0, None)


@pytest.mark.parametrize("cap", [0, 1, 5])
def test_a_cap_on_requests_admits_exactly_so_many(journal: Journal, cap: int) -> None:
    meter = SpendMeter(journal, Caps(requests=cap))
    spend(meter, cap)
    stop = refusal(meter)
    assert (stop.reason, stop.detail) == ("budget", f"budget.max_calls={cap} is reached ({cap} spent)")
    assert meter.requests == cap, "what was refused was not sent"
    assert meter.stopped is not None
    assert meter.stopped.detail == stop.detail


def test_a_cap_on_tokens_admits_until_it_is_reached(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps(tokens=100))
    spend(meter, 2, 49)
    spend(meter, 1, 49)
    assert refusal(meter).detail == "budget.max_tokens=100 is reached (147 spent)"


def test_a_cap_on_seconds_counts_the_wall_clock(journal: Journal) -> None:
    clock = Clock()
    meter = SpendMeter(journal, Caps(seconds=10.0), clock)
    clock.now += 9.9
    spend(meter, 1)
    clock.now += 0.1
    assert refusal(meter).detail.startswith("budget.max_seconds=10 is reached (10 spent)")


def test_a_cap_of_no_seconds_admits_nothing(journal: Journal) -> None:
    assert refusal(SpendMeter(journal, Caps(seconds=0.0), Clock())).reason == "budget"


def test_requests_in_flight_count_at_once(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps(requests=2))
    meter.admit()
    meter.admit()
    assert meter.in_flight == 2
    refusal(meter)


def test_the_first_reason_stands(journal: Journal) -> None:
    meter = SpendMeter(journal, Caps(requests=0))
    first = StopRequested("interrupted", "interrupted")
    meter.stop(first)
    meter.stop(StopRequested("error_rate", "too many"))
    assert refusal(meter).reason == "interrupted"
    assert meter.stopped is first


def test_a_later_process_goes_on_counting(tmp_path: Path) -> None:
    clock = Clock()
    for number in range(3):
        journal = Journal(tmp_path / "journal.sqlite")
        meter = SpendMeter(journal, Caps(requests=6, seconds=100.0), clock)
        assert (meter.requests, meter.tokens) == (2 * number, 20 * number)
        assert meter.seconds() == pytest.approx(5.0 * number)
        spend(meter, 2, 10)
        clock.now += 5.0
        meter.save()
        journal.close()
        clock.now += 1000.0  # between two processes no time is spent
    journal = Journal(tmp_path / "journal.sqlite")
    assert refusal(SpendMeter(journal, Caps(requests=6), clock)).detail.endswith("(6 spent)")
    spend(SpendMeter(journal, Caps(requests=7), clock), 1)
    journal.close()
