"""Skills side by side on the same items."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import published
from fakes.world import World, run

from skillopt.gate.stats import paired_lift
from skillopt.report.answers import Answers, answers_of, expected, question
from skillopt.report.comparison import Arm, compare, flips
from skillopt.report.contest import contest, entrants_of
from skillopt.report.final import read_final, read_flips
from skillopt.report.run import read_run
from skillopt.run.folder import FolderError


def rows(**hard: float | None) -> Answers:
    return answers_of(
        {"id": id_, "hard": score, "soft": score, "predicted_answer": f"{id_}={score}"} for id_, score in hard.items()
    )


def test_arms_are_compared_on_the_items_that_both_measured() -> None:
    before, after = rows(a=0, b=0, c=1, d=None), rows(a=1, b=None, c=1, d=1)
    first, second = compare([Arm("seed", before), Arm("best", after)], seed=7)
    assert (first.n, first.errors, first.hard, first.lift) == (3, 1, pytest.approx(1 / 3), None)
    assert (second.n, second.errors, second.hard) == (3, 1, 1.0)
    assert second.lift == paired_lift({"a": 0, "c": 1}, {"a": 1, "c": 1}, 7)
    assert compare([Arm("a", rows(a=1)), Arm("b", rows(b=1))])[1].lift is None
    assert compare([Arm("nothing", rows())])[0].hard is None


def test_the_metric_may_be_the_partial_credit() -> None:
    before, after = (answers_of([{"id": 1, "hard": 0, "soft": soft}]) for soft in (0.25, 0.75))
    lifts = [compare([Arm("", before), Arm("", after)], metric=metric)[1].lift for metric in ("hard", "soft")]  # type: ignore[arg-type]
    assert [lift.lift if lift else None for lift in lifts] == [0, 0.5]


def test_items_that_changed() -> None:
    before = rows(fixed=0, broken=1, failing=0, passing=1, lost=1, gone=1, up=0.2, down=0.4)
    after = rows(fixed=1, broken=0.5, failing=0, passing=1, lost=None, new=1, up=0.4, down=0.2)
    found = flips(before, after)
    assert [flip.id for flip in found.fixed] == ["fixed"]
    assert [flip.id for flip in found.broken] == ["broken"]
    assert [flip.id for flip in found.failing] == ["failing", "up", "down"]
    assert (found.passing, found.unmeasured, found.raised, found.lowered) == (1, 1, 1, 1)
    assert (found.fixed[0].before.answer, found.fixed[0].after.answer) == ("fixed=0", "fixed=1")


def test_what_an_item_asks_and_expects() -> None:
    row = {"question": "q?", "gold_answers": ["a", 2], "task": "t"}
    assert (question(row), expected(row)) == ("q?", "a; 2")
    assert (question({"question": "", "task": "t"}), expected({})) == ("t", "")


def test_the_final_comparison_is_what_the_summary_says(tmp_path: Path) -> None:
    run(World(), tmp_path / "run")
    view = read_run(tmp_path / "run")
    final = read_final(view, "test")
    assert final is not None
    seed, best, last = final.arms
    told = view.summary["test_lift"]
    assert best.lift is not None
    assert {key: getattr(best.lift, key) for key in told} == told
    assert (seed.hard, best.hard, last.hard) == tuple(
        view.summary[f"{key}_hard"] for key in ("baseline_test", "test", "final_test")
    )
    assert read_final(view, "val") is not None
    found = read_flips(view, "test")
    assert found is not None
    assert len(found.fixed) - len(found.broken) == round(told["lift"] * told["n"])


def test_the_final_comparison_without_rows_is_what_was_written_down(tmp_path: Path) -> None:
    root = published.published_run(tmp_path / "run")
    (root / "test_eval" / "results.jsonl").unlink()
    final = read_final(read_run(root), "test")
    assert final is not None
    assert [(arm.name, arm.hard, arm.lift is None) for arm in final.arms] == [
        ("seed", 0.25, True),
        ("best", 0.75, True),
        ("final", 0.5, False),
    ]
    assert read_flips(read_run(root), "test") is None


def test_a_run_that_measured_nothing_has_no_comparison(tmp_path: Path) -> None:
    root = published.published_run(tmp_path / "run", finished=False)
    assert read_final(read_run(root), "test") is None
    final = read_final(read_run(root), "val")
    assert final is not None
    assert [arm.name for arm in final.arms] == ["seed", "best"]  # the last one was let in unmeasured


# contests


@pytest.fixture
def run_a(tmp_path: Path) -> Path:
    return published.published_run(tmp_path / "a")


def names(*paths: Path, split: str | None = None) -> list[tuple[str, str, float | None]]:
    found = contest(entrants_of(paths, split))
    return [(each.name, each.split, each.result.hard) for each in found.entrants]


def test_one_run_is_compared_with_its_seed(run_a: Path) -> None:
    assert names(run_a) == [
        ("seed", "test", 0.25),
        ("best", "test", 0.75),
        ("final", "test", 0.5),
        ("seed", "val", 0.25),
        ("best", "val", 0.75),
    ]
    found = contest(entrants_of([run_a], "val"))
    assert [entrant.result.lift is None for entrant in found.entrants] == [True, False]
    assert any("chosen on the val items" in note for note in found.notes)


def test_runs_and_evaluations_meet_on_the_split_that_all_have(run_a: Path, tmp_path: Path) -> None:
    evaluation = published.published_evaluation(tmp_path / "eval")
    unfinished = published.published_run(tmp_path / "b", finished=False)
    assert names(run_a, evaluation) == [("a: best", "test", 0.75), ("eval: skill.md", "test", 1.0)]
    assert names(run_a, unfinished) == [("a: best", "val", 0.75), ("b: best", "val", 0.75)]
    with pytest.raises(FolderError, match="the skills were not measured on items that all of them have"):
        entrants_of([unfinished, evaluation])
    with pytest.raises(FolderError, match=r"b was not measured on the test items; score each skill .* skillopt eval"):
        entrants_of([run_a, unfinished], "test")


def test_skill_files_are_found_where_they_were_measured(run_a: Path) -> None:
    files = [run_a / name for name in ("skills/skill_v0001.md", "steps/step_0002/candidate_skill.md", "best_skill.md")]
    assert [hard for _, _, hard in names(*files)] == [0.5, 0.25, 0.75]
    tested = names(run_a / "skills" / "skill_v0000.md", run_a / "best_skill.md", run_a / "skills" / "skill_v0003.md")
    assert tested == [
        ("a: skills/skill_v0000.md", "test", 0.25),
        ("a: best_skill.md", "test", 0.75),
        ("a: skills/skill_v0003.md", "test", 0.5),
    ]


def test_a_file_of_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "skill.md").write_text("x", encoding="utf-8")
    for path in (tmp_path / "skill.md", tmp_path / "nowhere.md"):
        with pytest.raises(FolderError, match="neither a run folder nor a skill file in one"):
            entrants_of([path])


def test_notes_say_what_to_mind(run_a: Path, tmp_path: Path) -> None:
    other = published.published_run(tmp_path / "b")
    path = other / "test_eval" / "results.jsonl"
    changed = path.read_text(encoding="utf-8").replace("question 1", "something else").splitlines(keepends=True)
    path.write_text("".join(changed[:3]), encoding="utf-8")
    notes = "\n".join(contest(entrants_of([run_a, other])).notes)
    assert "a: best and b: best share 3 of 4 and 3 items: the difference is that on these 3" in notes
    assert "1 items of b: best have the id of another item" in notes
    assert "the interval of b: best on the test items holds 0" in notes


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("gpt-5-mini", "qwen3", "the target models differ (gpt-5-mini of a: best, qwen3 of b: best)"),
        ("local/qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b", None),
        ("gpt-5-mini", "gpt-5-mini", None),
        ("gpt-5-mini", "", None),
    ],
)
def test_other_target_models_are_named(run_a: Path, tmp_path: Path, first: str, second: str, said: str | None) -> None:
    other = published.published_run(tmp_path / "b")
    for root, model in ((run_a, first), (other, second)):
        path = root / "config.json"
        values = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**values, "target_model": model}), encoding="utf-8")
    notes = "\n".join(contest(entrants_of([run_a, other])).notes)
    assert ("target models differ" in notes, said is None or said in notes) == (said is not None, True)
