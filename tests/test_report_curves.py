"""The series of a run's charts."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import published
from fakes.world import World, run
from hypothesis import given
from hypothesis import strategies as st

from skillopt.report.curves import Point, curves, thinned, wilson
from skillopt.report.final import curves_of
from skillopt.report.run import read_run
from skillopt.report.scores import GateMetric, metric_of
from skillopt.report.spending import Charge
from skillopt.types import fate_of


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
    ("action", "fate"),
    [
        ("accept_new_best", "accepted"),
        ("force_accept", "accepted"),
        ("reject", "rejected"),
        ("skip_no_change", "skipped"),
    ],
)
def test_the_fate_of_a_step(action: str, fate: str) -> None:
    assert fate_of(action) == fate
    assert [mark.kind for mark in curves([{"step": 1, "action": action}]).marks] == [fate]


@pytest.mark.parametrize(
    ("config", "hard", "soft", "score"),
    [
        ({}, 0.5, 0.9, 0.5),
        ({"gate_metric": "hard"}, 0.5, None, 0.5),
        ({"gate_metric": "soft"}, 0.5, 0.9, 0.9),
        ({"gate_metric": "soft"}, 0.5, None, None),
        ({"gate_metric": "mixed"}, 0.5, 0.9, 0.7),
        ({"gate_metric": "mixed", "gate_mixed_weight": 0.25}, 0.5, 0.9, 0.6),
        ({"gate_metric": "mixed", "gate_mixed_weight": 7}, 0.5, 0.9, None),
        ({"gate_metric": ["odd"]}, 0.5, 0.9, None),
        ({}, None, 0.9, None),
    ],
)
def test_a_score_as_the_gate_sees_it(
    config: dict[str, object], hard: float | None, soft: float | None, score: float | None
) -> None:
    assert metric_of(config).score(hard, soft) == (None if score is None else pytest.approx(score))


def test_all_scores_of_a_soft_run_are_soft() -> None:
    row = {"step": 1, "action": "accept", "train_hard": 0.1, "train_soft": 0.3, "val_hard": 0.2, "val_soft": 0.6}
    found = curves([row], 0.5, (), None, GateMetric("soft"))
    assert [each.value for each in (*found.train, *found.gate, *found.marks)] == [0.3, 0.6, 0.6]
    told = curves([{"step": 1, "val_hard": 0.2, "candidate_gate_score": 0.6}], 0.5, (), None, GateMetric("soft"))
    assert [point.value for point in told.gate] == [0.6]


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


@given(st.lists(st.sampled_from(["accept", "reject"]), max_size=60), st.integers(1, 20))
def test_thinned_curves_keep_the_last_step_and_what_was_accepted(actions: list[str], most: int) -> None:
    rows = [{"step": step, "action": action, "best_score": 0.5} for step, action in enumerate(actions, start=1)]
    whole = curves([*rows, *rows[:3]])
    found = thinned(whole, most)
    assert len(whole.steps) == len(rows)
    assert len(found.steps) <= most + 1
    assert found.steps[-1:] == whole.steps[-1:]
    assert {point.step for point in found.best} == {mark.step for mark in found.marks} == set(found.steps)
    size = max(1, -(-len(rows) // most))
    groups = [whole.marks[start : start + size] for start in range(0, len(rows), size)]
    with_one = sum(any(mark.kind == "accepted" for mark in group) for group in groups)
    assert sum(mark.kind == "accepted" for mark in found.marks) >= with_one
