"""Charts: what they draw, in which classes, and that nothing of a run can get out of its text."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.gate.stats import Lift
from skillopt.report.charts import (
    budget_chart,
    cost_chart,
    lift_chart,
    runs_chart,
    score_chart,
    time_chart,
    tokens_chart,
)
from skillopt.report.comparison import ArmResult
from skillopt.report.curves import curves
from skillopt.report.numbers import compact, p_text, percent, points, seconds, tone
from skillopt.report.scores import GateMetric
from skillopt.report.spending import Charge
from skillopt.report.svg import Frame, ticks, tidy, whole_ticks

EVIL = "</title><script>alert(1)</script>\" onload='x' \u202e\x00"
SVG = "{http://www.w3.org/2000/svg}"


def row(step: int, action: str, score: float | None, **more: object) -> dict[str, object]:
    gate = {"candidate_score": score, "current_score": 0.5, "pairs": 40} if score is not None else {}
    return {
        "step": step,
        "epoch": (step + 1) // 2,
        "action": action,
        "train_hard": 0.4,
        "rollout_n": 16,
        "val_hard": score,
        "gate": gate,
        "edit_budget": 4,
        "edit_apply_summary": {"applied": 2},
        "best_score": 0.5 if score is None else max(0.5, score),
        "timing": {"rollout_s": 3.0, "evaluate_s": 5.0},
        **more,
    }


def charge(part: str, role: str, tokens: int, usd: float | None = 0.5) -> Charge:
    return Charge(part, role, "rollout" if role == "target" else "analyst", 1, tokens, 0, usd)


ROWS = (row(1, "accept_new_best", 0.6), row(2, "reject", 0.45), row(3, "skip_no_patches", None))
CHARGES = (charge("baseline", "target", 500), charge("step_0001", "target", 900), charge("step_0002", "optimizer", 70))
CURVES = curves(ROWS, 0.5, CHARGES, 40)
LIFT = Lift(80, 0.5, 0.6, 0.1, 0.02, 0.18, 0.013, 10, 2)
ALL = {
    "scores": score_chart,
    "budget": budget_chart,
    "tokens": tokens_chart,
    "cost": cost_chart,
    "time": time_chart,
}


def drawings(chart: str) -> list[ElementTree.Element]:
    """The SVG elements of a chart: they must be well-formed."""
    found = re.findall(r"<svg.*?</svg>", chart, re.DOTALL)
    return [ElementTree.fromstring(each) for each in found]


@pytest.mark.parametrize("name", ALL)
def test_a_chart_is_named_for_those_who_do_not_see_it(name: str) -> None:
    chart = ALL[name](CURVES, key=name)
    assert chart.startswith(f'<figure class="chart" id="{name}">')
    for drawing in drawings(chart):
        assert drawing.get("role") == "img"
        assert drawing.get("aria-labelledby") == f"{name}-title"
        assert drawing.get("aria-describedby") == f"{name}-desc"
    assert f'<figcaption id="{name}-title">' in chart
    assert re.search(rf'id="{name}-desc">[^<]+', chart)


@pytest.mark.parametrize("name", ALL)
def test_a_chart_has_no_style_and_no_script(name: str) -> None:
    chart = ALL[name](CURVES)
    assert not re.search(r"\sstyle=|<style|<script|\son\w+=|href|url\(", chart)


@pytest.mark.parametrize("draw", ALL.values())
def test_nothing_measured_is_no_chart(draw: object) -> None:
    assert callable(draw)
    assert draw(curves((), None)) == ""


def test_the_marks_tell_what_became_of_each_candidate() -> None:
    (wide, narrow) = drawings(score_chart(CURVES))
    for drawing in (wide, narrow):
        kinds = [each.get("class") for each in drawing.iter() if (each.get("class") or "").startswith("mark")]
        assert kinds == ["mark accepted", "mark rejected", "mark skipped"]
    titles = [each.text or "" for each in wide.iter("title")]
    assert titles[0] == "Baseline: 50.0% on the selection items"
    assert titles[1].startswith("Step 1: train 40.0% [")
    assert re.search(r"gate 60\.0% \[44\.\d%, 73\.\d%\] n=40, accept_new_best, best 60\.0%", titles[1])
    assert "gate" not in titles[3]


def test_an_interval_stands_around_its_score() -> None:
    wide = drawings(score_chart(CURVES))[0]
    whiskers = [each for each in wide.iter("line") if each.get("class") == "whisker"]
    marks = [each for each in wide.iter("circle") if each.get("class") == "mark accepted"]
    assert len(whiskers) == 2
    ends = [float(whiskers[0].get(name) or "nan") for name in ("y1", "y2")]
    assert min(ends) < float(marks[0].get("cy") or "nan") < max(ends)


def test_the_axis_of_a_run_at_work_reaches_to_its_end() -> None:
    labels = [each.text for each in drawings(score_chart(CURVES, total=40))[0].iter("text")]
    assert "40" in labels
    assert "40" not in [each.text for each in drawings(score_chart(CURVES))[0].iter("text")]


def test_scores_are_drawn_in_one_metric_whose_name_they_have() -> None:
    rows = [row(1, "accept_new_best", 0.5, val_soft=0.625, train_soft=0.6, best_score=0.5625)]
    found = curves(rows, 0.4, (), 40, GateMetric("mixed", 0.5))
    chart = score_chart(found)
    assert ">Mixed score by step</figcaption>" in chart
    title = next(each.text or "" for each in drawings(chart)[0].iter("title") if "Step 1" in (each.text or ""))
    assert "train 50.0%" in title
    assert re.search(r"gate 56\.2% .*best 56\.2%", title)
    assert ">Accuracy (hard score) by step</figcaption>" in score_chart(CURVES)
    assert ">Best gate score by step (hard, mixed)</figcaption>" in runs_chart([("a", CURVES), ("b", found)])


def test_small_costs_have_ticks_that_differ() -> None:
    charges = [charge("step_0001", "target", 10, 0.00004)]
    labels = [each.text for each in drawings(cost_chart(curves(ROWS, 0.5, charges)))[0].iter("text")]
    amounts = [label for label in labels if label and label.startswith("0.0000")]
    assert len(amounts) == len(set(amounts)) > 1


def test_tokens_add_up_by_role() -> None:
    chart = tokens_chart(CURVES)
    assert "In all: target 1.4k, optimizer 70." in chart
    assert "step 0001: target 1.4k" in chart


def test_an_unknown_cost_is_not_drawn_as_nothing() -> None:
    charges = (*CHARGES, charge("step_0003", "target", 10, None))
    assert "US dollars" in cost_chart(CURVES)
    assert cost_chart(curves(ROWS, 0.5, charges)) == ""
    assert tokens_chart(curves(ROWS, 0.5, charges)) != ""


def test_the_bars_of_a_step_are_as_high_as_its_stages() -> None:
    drawing = drawings(time_chart(CURVES))[0]
    heights = {
        stage: [float(each.get("height") or 0) for each in drawing.iter("rect") if each.get("class") == f"bar {stage}"]
        for stage in ("rollout", "evaluate")
    }
    assert [len(each) for each in heights.values()] == [3, 3]
    assert heights["rollout"][0] / heights["evaluate"][0] == pytest.approx(3 / 5, abs=0.01)


def test_a_difference_that_is_not_shown_looks_so() -> None:
    unsure = Lift(80, 0.5, 0.52, 0.02, -0.05, 0.09, 0.6, 5, 3)
    arms = [ArmResult("seed", 80, 0, 0.5, 0.5, None), ArmResult("best", 80, 0, 0.6, 0.6, LIFT)]
    chart = lift_chart([*arms, ArmResult("final", 80, 0, 0.52, 0.52, unsure)])
    assert chart.count('class="lift sure"') == chart.count('class="lift unsure"') == 1
    assert "With 95% intervals. best: +10.0 points [+2.0, +18.0], p 0.013, n 80." in chart
    assert lift_chart(arms[:1]) == ""


def test_hostile_names_stay_text() -> None:
    arms = [ArmResult("seed", 8, 0, 0.5, 0.5, None), ArmResult(EVIL, 8, 0, 0.6, 0.6, LIFT)]
    evil = curves((row(1, EVIL, 0.6),), 0.5, (charge("step_0001", EVIL, 9), charge(EVIL, "target", 9)))
    made = [lift_chart(arms, EVIL, EVIL), runs_chart([(EVIL, CURVES)]), score_chart(evil), tokens_chart(evil)]
    for chart in made:
        assert "<script" not in chart
        assert not re.search(r"<[^>]*\sonload", chart)
        assert "\u202e" not in chart
        assert "\x00" not in chart
        assert "&lt;script" in chart
        assert drawings(chart)


def test_runs_side_by_side() -> None:
    chart = runs_chart([("first", CURVES), ("second", curves(ROWS[:1], 0.3)), ("nothing yet", curves((), None))])
    drawing = drawings(chart)[0]
    assert [each.get("class") for each in drawing.iter("path")] == ["line run-0", "line run-1"]
    assert "first ends at 50.0%. second ends at 60.0%." in chart
    assert runs_chart([]) == ""


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(2, 9))
def test_ticks_are_few_and_within(one: float, other: float, most: int) -> None:
    low, high = sorted((one, other))
    found = ticks(low, high, most)
    assert len(found) <= most + 1
    span = high - low
    assert all(low - span * 1e-6 - 1e-9 <= value <= high + span * 1e-6 + 1e-9 for value in found)


@given(st.integers(0, 10), st.integers(0, 5_000))
def test_steps_on_an_axis_are_whole_and_few(low: int, more: int) -> None:
    found = whole_ticks(low, low + more)
    assert 1 <= len(found) <= 10 or more < 1
    assert all(low <= value <= low + more for value in found)


scores = st.one_of(st.none(), st.floats(0, 1))


steps_measured = st.lists(
    st.tuples(scores, scores, st.sampled_from(["accept", "reject", "skip_no_items"])), max_size=12
)


@given(steps_measured, scores)
def test_what_was_measured_is_drawn_within_the_frame(
    found: list[tuple[float | None, float | None, str]], base: float | None
) -> None:
    rows = [row(index, action, gate, train_hard=train) for index, (train, gate, action) in enumerate(found, start=1)]
    drawn = score_chart(curves(rows, base), total=len(rows))
    for drawing in drawings(drawn):
        _, _, width, height = (float(part) for part in (drawing.get("viewBox") or "").split())
        for each in drawing.iter():
            for name, end in (
                ("cx", width),
                ("cy", height),
                ("x1", width),
                ("y1", height),
                ("x", width),
                ("y", height),
            ):
                value = float(each.get(name, "0"))
                assert math.isfinite(value)
                assert -1 <= value <= end + 1


def test_a_frame_of_one_value_is_no_division_by_zero() -> None:
    frame = Frame(100, 100, 3, 3, 0.5, 0.5)
    assert (frame.x(3), frame.y(0.5)) == (frame.left, 100 - frame.bottom)


def test_control_characters_do_not_reach_a_page() -> None:
    assert tidy("a\u202eb\x07c\nd\te\ud800") == "a\ufffdb\ufffdc\nd\te\ufffd"


@pytest.mark.parametrize(("low", "high", "word"), [(0.1, 0.3, "good"), (-0.3, -0.1, "bad"), (-0.1, 0.1, "")])
def test_the_tone_of_a_difference(low: float, high: float, word: str) -> None:
    assert tone(Lift(9, 0.5, 0.5, 0.0, low, high, 0.5, 1, 1)) == word
    assert tone(None) == ""


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (percent(0.1234), "12.3%"),
        (percent(None), "–"),
        (points(-0.055), "-5.5"),
        (p_text(0.00001), "< 0.0001"),
        (p_text(0.0234), "0.023"),
        (compact(950), "950"),
        (compact(12_500), "12.5k"),
        (compact(3_400_000), "3.4M"),
        (seconds(3.21), "3.21 s"),
        (seconds(600), "10 min"),
        (seconds(250), "4 min 10 s"),
        (seconds(59.99), "60 s"),
        (seconds(3_599.9), "60 min"),
        (seconds(8_000), "2 h 13 min"),
    ],
)
def test_numbers_in_few_characters(said: str, text: str) -> None:
    assert said == text
