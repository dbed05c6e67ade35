"""The series of a run's charts."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import published
from fakes.world import World, run
from hypothesis import given
from hypothesis import strategies as st

from skillopt.report.curves import Point, curves, kind_of, wilson
from skillopt.report.final import curves_of
from skillopt.report.run import read_run
from skillopt.report.spending import Charge


def test_the_series_of_a_run(tmp_path: Path) -> None:
    run(World(), tmp_path / "run")
    view = read_run(tmp_path / "run")
    found = curves_of(view)
    assert found.steps == (1, 2, 3, 4)
    assert [point.value for point in found.train] == [row["train_hard"] for row in view.rows]
    gated = [row for row in view.rows if row["val_hard"] is not None]
    assert [(point.step, point.value, point.n) for point in found.gate] == [
        (row["step"], row["val_hard"], 4) for row in gated
    ]
    assert [point.value for point in found.best] == [row["best_score"] for row in view.rows]
    assert [mark.action for mark in found.marks] == [row["action"] for row in view.rows]
    assert found.baseline == view.summary["baseline_selection_hard"]
    assert found.epochs == {1: 2, 2: 4}
    assert [point.part for point in found.spend] == [
        "baseline",
        "step_0001",
        "step_0002",
        "step_0003",
        "step_0004",
        "epoch_02",
        "test",
    ]
    assert sum(found.spend[-1].tokens.values()) == view.summary["token_summary"]["_total"]["total_tokens"]
    assert set(found.time) == {"rollout", "reflect", "aggregate", "select", "update", "evaluate"}


def test_the_series_of_a_published_run(tmp_path: Path) -> None:
    found = curves_of(read_run(published.published_run(tmp_path / "run")))
    assert [point.value for point in found.edit_budget] == [3, 2, 1]
    assert [point.n for point in found.gate] == [4, 4, 4]
    assert [point.value for point in found.edits_applied] == [1, 1, 1]
    assert found.time["reflect"] == (Point(1, 1.5), Point(2, 1.5), Point(3, 1.5))
    assert found.time["select"] == ()
    assert [dict(point.tokens) for point in found.spend][-1] == {"target": 3 * 770, "optimizer": 3 * 220}


def test_costs_add_up_until_one_is_not_known() -> None:
    def charge(part: str, role: str, usd: float | None) -> Charge:
        return Charge(part, role, "rollout", 1, 10, 1, usd)

    rows = [{"step": 1, "epoch": 1}, {"step": 2, "epoch": 1}]
    charges = [
        charge("test", "target", 4.0),
        charge("epoch_01", "optimizer", 3.0),
        charge("step_0002", "target", None),
        charge("step_0001", "target", 0.25),
        charge("step_0001", "target", 0.25),
        charge("baseline", "target", 0.5),
    ]
    found = curves(rows, None, charges).spend
    assert [(point.step, point.part) for point in found] == [
        (0, "baseline"),
        (1, "step_0001"),
        (2, "step_0002"),
        (2, "epoch_01"),
        (2, "test"),
    ]
    assert [point.usd["target"] for point in found] == [0.5, 1.0, None, None, None]
    assert [point.usd["optimizer"] for point in found] == [0.0, 0.0, 0.0, 3.0, 3.0]
    assert [point.tokens["target"] for point in found] == [11, 33, 44, 44, 55]


def test_rows_of_another_shape_give_no_points() -> None:
    rows = [{}, {"step": "1"}, {"step": 2, "train_hard": "high", "val_hard": float("nan"), "timing": [], "gate": 3}]
    found = curves(rows)
    assert (found.steps, found.train, found.gate, found.spend) == ((2,), (), (), ())
    assert [mark.kind for mark in found.marks] == ["skipped"]


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        ("accept_new_best", "accepted"),
        ("force_accept", "accepted"),
        ("reject", "rejected"),
        ("skip_no_change", "skipped"),
    ],
)
def test_marks(action: str, kind: str) -> None:
    assert kind_of(action) == kind


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_its_share_and_stays_within_bounds(drawn: tuple[int, int]) -> None:
    passed, n = drawn
    low, high = wilson(passed / n, n)
    assert 0 <= low <= passed / n + 1e-12
    assert passed / n - 1e-12 <= high <= 1
    assert high - low > 0


def test_the_interval_is_wilsons() -> None:
    assert wilson(0.5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(1.0, 20) == pytest.approx((0.8389, 1.0), abs=1e-4)
