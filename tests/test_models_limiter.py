"""The limiter: caps, priorities, the window, and that it never deadlocks. All in virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest
from fakes.virtual_time import run_virtual
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt.models.limiter import LONGEST_REST, Limiter, Window
from skillopt.types import Role


def test_caps_hold_for_each_role_and_all_get_their_turn() -> None:
    async def main() -> None:
        limiter = Limiter({"target": 3, "optimizer": 1})
        busy: dict[Role, int] = {"target": 0, "optimizer": 0}
        peak = dict(busy)

        async def call(role: Role) -> None:
            async with limiter.slot(role):
                busy[role] += 1
                peak[role] = max(peak[role], busy[role])
                await asyncio.sleep(1)
                busy[role] -= 1

        await asyncio.gather(*[call("target") for _ in range(9)], *[call("optimizer") for _ in range(3)])
        assert peak == {"target": 3, "optimizer": 1}
        assert asyncio.get_running_loop().time() == 3

    run_virtual(main())


def test_lower_priority_first_then_first_come() -> None:
    order: list[str] = []

    async def main() -> None:
        limiter = Limiter({"target": 1})

        async def call(name: str, priority: int) -> None:
            async with limiter.slot("target", priority):
                order.append(name)
                await asyncio.sleep(1)

        first = asyncio.create_task(call("running", 9))
        await asyncio.sleep(0)
        await asyncio.gather(call("b5", 5), call("a1", 1), call("c5", 5), call("d0", 0), first)

    run_virtual(main())
    assert order == ["running", "d0", "a1", "b5", "c5"]


def test_a_full_role_does_not_hold_up_the_other() -> None:
    async def main() -> None:
        limiter = Limiter({"target": 1, "optimizer": 1})
        async with limiter.slot("target"):
            waiting = asyncio.create_task(limiter.slot("target", -5).__aenter__())
            await asyncio.sleep(0)
            async with limiter.slot("optimizer"):
                pass
            assert limiter.state().waiting == 1
        await waiting

    run_virtual(main())


def test_cancelled_waiters_leave_no_trace() -> None:
    async def main() -> None:
        limiter = Limiter({"target": 1})
        async with limiter.slot("target"):
            tasks = [asyncio.create_task(limiter.slot("target").__aenter__()) for _ in range(3)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            tasks[1].cancel()
            await asyncio.sleep(0)
            assert limiter.state().waiting == 1
        await tasks[2]
        assert limiter.state().in_flight == 1

    run_virtual(main())


def test_a_place_granted_to_a_cancelled_waiter_goes_to_the_next() -> None:
    async def main() -> None:
        limiter = Limiter({"target": 1})
        slot = limiter.slot("target")
        await slot.__aenter__()
        tasks = [asyncio.create_task(limiter.slot("target").__aenter__()) for _ in range(2)]
        await asyncio.sleep(0)
        await slot.__aexit__(None, None, None)  # grants the first waiter ...
        tasks[0].cancel()  # ... which is cancelled before it runs again
        await tasks[1]
        assert limiter.state().in_flight == 1

    run_virtual(main())


def test_an_error_inside_gives_the_place_back() -> None:
    async def main() -> None:
        limiter = Limiter({"target": 1})
        with pytest.raises(KeyError):
            async with limiter.slot("target"):
                raise KeyError
        assert limiter.state().in_flight == 0

    run_virtual(main())


def test_refused_places_rest_so_that_callers_do_not_take_their_turn() -> None:
    sent: list[float] = []

    async def main() -> None:
        limiter = Limiter({"target": 4})
        clock = asyncio.get_running_loop().time

        async def call() -> None:
            while True:
                async with limiter.slot("target") as slot:
                    sent.append(clock())
                    await asyncio.sleep(0.01)
                    if clock() > 30:  # the storm is over
                        slot.succeeded()
                        return
                    slot.refused(2.0)
                await asyncio.sleep(2.0)

        await asyncio.gather(*[call() for _ in range(50)])

    run_virtual(main())
    during = [at for at in sent if at < 30]
    assert sum(at < 1.9 for at in during) == 4  # one request a place, none of the 46 others
    assert len(during) < 4 + 2 + 1 * 16  # then ever fewer, down to one at a time
    assert sum(at >= 30 for at in sent) == 50


def test_after_a_storm_from_the_start_the_window_opens_by_doubling() -> None:
    window = Window(64)
    while window.size > 1:
        window.refused(window.round, 64)
    for _ in range(63):
        window.succeeded(window.round)
    assert window.size == 64


def test_window_shrinks_once_a_round_trip() -> None:
    window = Window(32)
    sent_in = window.round
    for _ in range(32):  # all 32 of one round are refused
        window.refused(sent_in, 32)
    assert window.size == 16


def test_window_follows_a_server_that_bears_less() -> None:
    window = Window(32)
    sizes = []
    for _ in range(200):  # a server that bears 4 at once
        load = int(window.size)
        round_ = window.round
        for place in range(load):
            if place < 4:
                window.succeeded(round_)
            else:
                window.refused(round_, load)
        sizes.append(load)
    assert 2 <= sum(sizes[50:]) / 150 <= 8


def test_window_hardly_minds_refusals_by_chance() -> None:
    window, rng = Window(32), random.Random(3)
    sizes = []
    for _ in range(300):
        load, round_ = int(window.size), window.round
        for _ in range(load):
            if rng.random() < 0.2:
                window.refused(round_, load)
            else:
                window.succeeded(round_)
        sizes.append(load)
    assert sum(sizes) / 300 > 16


def test_rest_is_bounded() -> None:
    async def main() -> None:
        limiter = Limiter({"target": 1})
        async with limiter.slot("target") as slot:
            slot.refused(1e6)
        async with limiter.slot("target"):
            assert asyncio.get_running_loop().time() == LONGEST_REST

    run_virtual(main())


def test_wrong_caps_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Limiter({"target": 0})
    with pytest.raises(ValueError, match="optimizer"):
        Limiter({"target": 1}).slot("optimizer")


CALL = st.tuples(
    st.sampled_from(["target", "optimizer"]),
    st.integers(0, 2),  # priority
    st.integers(0, 5),  # arrival
    st.integers(1, 4),  # seconds in flight
    st.sampled_from(["ok", "refused", "error", "cancel", "impatient"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(CALL, max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_never_more_than_allowed_and_never_stuck(calls: list[tuple[str, int, int, int, str]], a: int, b: int) -> None:
    async def main() -> None:
        limiter = Limiter({"target": a, "optimizer": b})
        caps = {"target": a, "optimizer": b}
        busy = {"target": 0, "optimizer": 0}

        async def call(role: Role, priority: int, arrival: int, seconds: int, fate: str) -> None:
            await asyncio.sleep(arrival)
            async with limiter.slot(role, priority) as slot:
                busy[role] += 1
                assert busy[role] <= caps[role]
                assert 1 <= limiter.state().window <= a + b
                try:
                    await asyncio.sleep(seconds)
                finally:
                    busy[role] -= 1
                if fate == "ok":
                    slot.succeeded()
                elif fate == "refused":
                    slot.refused(seconds)
                elif fate == "error":
                    raise OSError

        tasks = [asyncio.create_task(call(*spec)) for spec in calls]  # type: ignore[arg-type]
        await asyncio.sleep(2.5)
        for task, spec in zip(tasks, calls, strict=True):
            if spec[4] == "cancel" or (spec[4] == "impatient" and not task.done()):
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task, spec in zip(tasks, calls, strict=True):
            assert task.cancelled() or spec[4] != "ok" or task.exception() is None
        await asyncio.sleep(100)
        state = limiter.state()
        assert (state.in_flight, state.waiting, state.resting) == (0, 0, 0)
        async with limiter.slot("target"):
            pass

    run_virtual(main())
