"""What a run folder tells, whoever made it and whatever state it is in."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fakes import published
from fakes.folders import rows as history
from fakes.world import SEED_SKILL, World, run
from filelock import FileLock

from skillopt.gate.stats import paired_lift
from skillopt.report import answers, conversation, files
from skillopt.report import run as report_run
from skillopt.report.final import WHICH, read_final
from skillopt.report.folder import find_runs, without_secrets
from skillopt.report.run import Measured, RunView, read_run, selection_pass, stamp
from skillopt.run.folder import FolderError
from skillopt.run.journal import Journal


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    root = tmp_path_factory.mktemp("ours") / "run"
    run(World(), root)
    return read_run(root)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    return read_run(published.published_run(tmp_path_factory.mktemp("theirs") / "run"))


def write(root: Path, name: str, content: str | bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def link(target: Path, path: Path) -> None:
    try:
        os.symlink(target, path)
    except OSError as error:
        pytest.skip(f"no links can be made here: {error}")


# what it is


def test_a_finished_run(ours: RunView) -> None:
    assert (ours.status, ours.stop_reason, ours.kind, ours.problems) == ("finished", "completed", "training", ())
    assert (ours.total_steps, ours.steps, ours.versions, ours.epochs) == (4, (1, 2, 3, 4), (0, 1, 2, 3, 4), (1, 2))
    assert ours.has_journal
    assert [dict(row) for row in ours.rows] == history(ours.root)
    assert ours.seed == SEED_SKILL
    assert ours.best == (ours.root / "best_skill.md").read_text(encoding="utf-8")
    assert ours.final == ours.skill(4)
    assert ours.skill(5) is None


def test_scores_are_those_of_the_summary(ours: RunView) -> None:
    summary = ours.summary
    for which, key in (("seed", "baseline_test"), ("best", "test"), ("final", "final_test")):
        assert ours.measured(which, "test") == Measured(summary[f"{key}_hard"], summary[f"{key}_soft"], 3)  # type: ignore[arg-type]
    assert ours.measured("seed", "val").hard == summary["baseline_selection_hard"]
    assert ours.measured("best", "val") == Measured(summary["best_selection_hard"], 1.0, 4)
    assert ours.pass_of("best", "val") == f"steps/{summary['best_origin']}/selection_eval"


def test_lists_of_runs_need_the_small_files_only(
    ours: RunView, theirs: RunView, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = {which: (ours.measured(which, "val").hard, ours.measured(which, "test").hard) for which in WHICH}
    monkeypatch.setattr(answers, "read_rows", lambda *_: pytest.fail("rows of items were read"))
    assert {which: (ours.told(which, "val").hard, ours.told(which, "test").hard) for which in WHICH} == exact
    assert ours.told("best", "test").n == 3
    assert (theirs.told("seed", "val").hard, theirs.told("best", "test").hard) == (0.25, 0.75)


def test_a_run_that_was_just_begun_tells_its_baseline_from_its_first_step(tmp_path: Path) -> None:
    write(tmp_path, "config.json", "{}")
    write(tmp_path, "history.json", json.dumps([{"step": 1, "gate": {"current_score": 0.25}}]))
    assert read_run(tmp_path).told("seed", "val").hard == 0.25


@pytest.mark.parametrize(
    ("origin", "expected"),
    [("step_0002", (0.4, 0.6)), ("initial_skill", (0.1, None)), ("slow_update_epoch_02", (None, None))],
)
def test_a_gate_score_is_not_taken_for_a_pass_rate(tmp_path: Path, origin: str, expected: tuple[float, float]) -> None:
    write(tmp_path, "config.json", json.dumps({"gate_metric": "soft"}))
    write(tmp_path, "history.json", json.dumps([{"step": 2, "val_hard": 0.4, "val_soft": 0.6, "best_score": 0.6}]))
    write(tmp_path, "runtime_state.json", json.dumps({"best_score": 0.9, "best_origin": origin}))
    write(tmp_path, "summary.json", json.dumps({"baseline_selection_hard": 0.1}))
    told = read_run(tmp_path).told("best", "val")
    assert (told.hard, told.soft) == expected


def test_an_evaluation_at_work_is_known_by_its_journal(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        journal.set_meta("identity", json.dumps({"kind": "evaluation", "config": {}}))
    assert read_run(tmp_path).kind == "evaluation"


@pytest.mark.parametrize("identity", ['{"kind":"evaluation"}', '{ "kind" :  "evaluation" }'])
def test_however_its_journal_spells_it(tmp_path: Path, identity: str) -> None:
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        journal.set_meta("identity", identity)
    assert read_run(tmp_path).kind == "evaluation"


@pytest.mark.parametrize("identity", ['{"kind": "training", "x": "\\"kind\\": \\"evaluation\\""}', "{torn", "[]"])
def test_what_is_no_evaluation_is_a_training(tmp_path: Path, identity: str) -> None:
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        journal.set_meta("identity", identity)
    assert read_run(tmp_path).kind == "training"


@pytest.mark.parametrize("seed", [0, 1, 42, None])
def test_p_values_draw_from_the_seed_of_the_run(tmp_path: Path, seed: int | None) -> None:
    chance = random.Random(3)
    before, after = ({f"i{n}": round(chance.random(), 3) for n in range(40)} for _ in range(2))
    write(tmp_path, "config.json", json.dumps({"seed": seed}))
    for name, scores in (("test_eval_baseline", before), ("test_eval", after)):
        lines = [json.dumps({"id": id_, "hard": hard}) for id_, hard in scores.items()]
        write(tmp_path, f"{name}/results.jsonl", "\n".join(lines))
    final = read_final(read_run(tmp_path), "test")
    assert final is not None
    assert final.arms[1].lift == paired_lift(before, after, 42 if seed is None else seed)


def test_seeds_that_differ_draw_other_signs() -> None:
    chance = random.Random(3)
    before, after = ({f"i{n}": round(chance.random(), 3) for n in range(40)} for _ in range(2))
    assert paired_lift(before, after, 0) != paired_lift(before, after, 42)


def test_a_run_of_the_published_implementation(theirs: RunView) -> None:
    assert (theirs.status, theirs.stop_reason, theirs.kind) == ("finished", "completed", "training")
    assert (theirs.has_journal, theirs.steps, theirs.total_steps) == (False, (1, 2, 3), 4)
    assert (theirs.seed, theirs.best, theirs.final) == (published.SEED, published.CANDIDATE_3, published.V3)
    assert theirs.measured("seed", "val") == Measured(0.25, 0.25, 4)
    assert theirs.measured("best", "val") == Measured(0.75, 0.75, 4)
    assert theirs.measured("best", "test") == Measured(0.75, 0.75, 4)
    assert theirs.measured("final", "val").hard is None  # its guidance was let in unmeasured
    assert theirs.epoch(2).slow["action"] == "force_accept"
    assert theirs.epoch(2).pairs[0]["id"] == "train1"


def test_no_secret_of_a_published_run_is_read(theirs: RunView) -> None:
    assert published.KEY not in repr(theirs)
    assert theirs.config["env"] == "searchqa"


def test_masking_leaves_the_rest_alone() -> None:
    config = {
        "x_api_key": "k",
        "a": [{"token": "t"}],
        "max_tokens": 5,
        "url": "http://u:p@h/v1",
        "query": "https://h/v1?api_key=sk-1&x=1&key=2",
        "headers": {"Authorization": "Bearer sk-0123456789"},
        "words": "Basic understanding, token=5",
        "model.secret": "s",
        "b": None,
    }
    masked = {
        "x_api_key": "***",
        "a": [{"token": "***"}],
        "max_tokens": 5,
        "url": "http://***@h/v1",
        "query": "https://h/v1?api_key=***&x=1&key=***",
        "headers": {"Authorization": "Bearer ***"},
        "words": "Basic understanding, token=5",
        "model.secret": "***",
        "b": None,
    }
    assert without_secrets(config) == masked


def test_an_evaluation(tmp_path: Path) -> None:
    view = read_run(published.published_evaluation(tmp_path / "eval"))
    assert (view.kind, view.status, view.evaluation["hard"], view.passes) == ("evaluation", "finished", 1.0, ("",))
    assert list(view.item_scores("")) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("events", "summary", "expected"),
    [
        ([{"event": "run_started"}, {"event": "run_stopped", "reason": "budget"}], None, ("stopped", "budget")),
        ([{"event": "run_started"}], None, ("stopped", "killed")),
        ([], {"stop_reason": "interrupted"}, ("stopped", "interrupted")),
        (
            [{"event": "run_stopped"}, {"event": "run_finished"}],
            {"stop_reason": "completed"},
            ("finished", "completed"),
        ),
        ([], None, ("new", None)),
    ],
)
def test_the_status(tmp_path: Path, events: list[Any], summary: Any, expected: tuple[str, str | None]) -> None:
    write(tmp_path, "config.json", "{}")
    write(tmp_path, "journal.sqlite", b"")
    write(tmp_path, "events.jsonl", "".join(json.dumps(event) + "\n" for event in events))
    if summary:
        write(tmp_path, "summary.json", json.dumps(summary))
    view = read_run(tmp_path)
    assert (view.status, view.stop_reason) == expected
    with FileLock(tmp_path / ".lock"):
        running = read_run(tmp_path)
        assert (running.status, running.stop_reason, running.detail) == ("running", None, "")


def test_the_folder_of_no_run_is_refused(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FolderError, match="is not a run folder"):
            read_run(root)


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ("initial_skill", "selection_eval_baseline"),
        ("step_0003", "steps/step_0003/selection_eval"),
        ("slow_update_epoch_02", "slow_update/epoch_02/selection_eval"),
        ("slow_update_placeholder_epoch_01", "steps/step_0002/selection_eval"),
        ("../../etc", "selection_eval_baseline"),
    ],
)
def test_where_a_skill_was_measured(origin: str, name: str) -> None:
    rows = ({"step": 1, "action": "reject"}, {"step": 2, "action": "accept"})
    assert selection_pass(origin, rows) == name


# steps


def test_a_step_holds_what_its_stages_left(ours: RunView) -> None:
    step = ours.step(1)
    assert step is not None
    assert step.accepted
    assert step.rollout_passes == ("steps/step_0001/rollout",)
    assert step.selection_pass == "steps/step_0001/selection_eval"
    assert step.gate["pairs"] == 4
    assert step.candidate == ours.skill(1)
    rolled = set(ours.item_scores(step.rollout_passes[0]))
    assert {id_ for found in step.reflections for id_ in found.item_ids} == rolled
    for edit in step.edits:
        assert edit.applied
        assert edit.source_items
        assert set(edit.source_items) <= rolled
        assert edit.source_certain == (len(edit.source_items) == 1)
        assert 1 <= (edit.support_count or 0) <= len(edit.source_items)
    assert ours.step(9) is None


def test_micro_batches_are_parts_of_one_step(tmp_path: Path) -> None:
    run(World(), tmp_path / "run", {"train.accumulation": 2, "train.num_epochs": 1})
    step = read_run(tmp_path / "run").step(1)
    assert step is not None
    assert step.rollout_passes == ("steps/step_0001/batch_0/rollout", "steps/step_0001/batch_1/rollout")
    assert {reflection.batch for reflection in step.reflections} == {0, 1}


def test_a_published_step(theirs: RunView) -> None:
    step = theirs.step(1)
    assert step is not None
    assert step.edits[0].support_count == 2
    assert (step.edits[0].source_items, step.reflections[0].item_ids) == ((), ())
    assert (step.reflections[0].kind, step.reflections[0].reasoning) == ("failure", "what was missing")
    assert dict(step.gate) == {"action": "accept_new_best", "metric": "hard", "candidate_score": 0.5}
    assert step.tokens == 990


def test_rewrites_are_steps_too(tmp_path: Path) -> None:
    mode = {"optimizer.skill_update_mode": "rewrite_from_suggestions", "train.num_epochs": 1}
    run(World(), tmp_path / "run", mode)
    step = read_run(tmp_path / "run").step(1)
    assert step is not None
    assert step.rewrite["new_skill"]
    assert step.edits
    assert all(edit.status == "suggested" and not edit.applied and edit.content for edit in step.edits)


def test_a_step_without_a_row_is_read_from_its_own_record(tmp_path: Path) -> None:
    root = published.published_run(tmp_path / "run", finished=False)
    (root / "history.json").unlink()
    view = read_run(root)
    step = view.step(2)
    assert step is not None
    assert (view.rows, view.steps, step.action) == ((), (1, 2, 3), "reject")


# items


def test_results_come_in_pages(tmp_path: Path) -> None:
    outcomes = [1, 0, None, 1, 0]
    lines = [json.dumps({"id": f"i{n}", "hard": hard}) + "\n" for n, hard in enumerate(outcomes)]
    write(tmp_path, "config.json", "{}")
    write(tmp_path, "p/results.jsonl", "".join([*lines[:2], "\n", *lines[2:]]))
    view = read_run(tmp_path)

    def ids(**how: Any) -> tuple[list[str], int]:
        page = view.results("p", **how)
        return [row["id"] for row in page.rows], page.total

    assert ids() == (["i0", "i1", "i2", "i3", "i4"], 5)
    assert ids(offset=1, limit=2) == (["i1", "i2"], 5)
    assert ids(offset=4, limit=None) == (["i4"], 5)
    assert ids(only="passed") == (["i0", "i3"], 2)
    assert ids(only="failed", offset=1) == (["i4"], 2)
    assert ids(only="unmeasured") == (["i2"], 1)
    assert view.result("p", "i3") == {"id": "i3", "hard": 1}
    assert view.result("p", "none") is None
    assert view.results("q").total == 0
    assert [score.hard for score in view.item_scores("p").values()] == outcomes


def test_conversations_are_found_by_item(ours: RunView, theirs: RunView) -> None:
    item = next(iter(ours.item_scores("steps/step_0001/rollout")))
    talk = ours.conversation("steps/step_0001/rollout", item)
    assert [message["role"] for message in talk.messages][:2] == ["user", "assistant"]
    for name in ours.passes:  # those of other passes stand in the journal
        for row in ours.results(name, 0, None).rows:
            words = [str(message["content"]) for message in ours.conversation(name, str(row["id"])).messages]
            assert any(f"Item {row['id']} wants" in said for said in words), (name, row["id"])
            assert any(str(row["response"]) in said for said in words), (name, row["id"])
    assert theirs.conversation("steps/step_0001/rollout", "train1").messages == (
        {"role": "user", "content": "question"},
    )


# cost and events


def test_spending_is_that_of_the_journal(ours: RunView) -> None:
    spending = ours.spending()
    assert spending is not None
    total = ours.summary["token_summary"]["_total"]
    assert sum(charge.tokens for charge in ours.charges()) == total["total_tokens"]
    assert sum(charge.calls for charge in ours.charges()) == total["calls"]
    assert spending.requests == ours.summary["cost_summary"]["_total"]["requests"]
    assert {role.role for role in spending.roles} == {"target", "optimizer"}
    assert spending.usd is None  # no price is known for these models
    by_step = sum(charge.tokens for charge in ours.charges() if charge.part == "step_0001")
    assert by_step == ours.row(1)["tokens_total"]


def test_a_published_run_tells_tokens_and_no_cost(theirs: RunView, tmp_path: Path) -> None:
    spending = theirs.spending()
    assert spending is not None
    assert (spending.tokens, spending.requests, spending.usd) == (3960, None, None)
    assert [(charge.part, charge.role) for charge in theirs.charges()][:2] == [
        ("step_0001", "target"),
        ("step_0001", "optimizer"),
    ]
    unfinished = read_run(published.published_run(tmp_path / "run", finished=False)).spending()
    assert unfinished is not None
    assert unfinished.tokens == 3 * 990


def test_a_journal_of_an_earlier_version_has_no_costs(tmp_path: Path) -> None:
    write(tmp_path, "config.json", "{}")
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db:
        db.execute("CREATE TABLE requests(role TEXT, prompt_tokens INTEGER, completion_tokens INTEGER)")
        db.execute("INSERT INTO requests VALUES('target', 3, 4)")
        db.commit()
    spending = read_run(tmp_path).spending()
    assert spending is not None
    assert (spending.requests, spending.tokens, spending.usd) == (1, 7, None)


def test_an_event_of_an_odd_kind_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path, "config.json", "{}")
    write(tmp_path, "events.jsonl", '{"event": ["a"]}\n{"event": "b"}\n')
    assert [event["event"] for event in read_run(tmp_path).events()] == [["a"], "b"]


def test_the_last_events_are_told_without_torn_ones(tmp_path: Path) -> None:
    write(tmp_path, "config.json", "{}")
    write(tmp_path, "events.jsonl", '{"event": "a"}\n{"event": "item_done"}\n{"torn\n{"event": "b"}\n{"event": "c"')
    view = read_run(tmp_path)
    assert [event["event"] for event in view.events()] == ["a", "b"]
    assert [event["event"] for event in view.events(1, frozenset())] == ["b"]


# hostile folders


def test_nothing_outside_is_read(tmp_path: Path) -> None:
    root, secret = tmp_path / "run", write(tmp_path, "secret.md", "secret")
    write(root, "config.json", "{}")
    write(root, "history.json", json.dumps([{"step": 1, "action": "accept"}]))
    write(root, "runtime_state.json", json.dumps({"best_skill_path": "../secret.md", "best_origin": "../../x"}))
    outside = write(tmp_path, "elsewhere/results.jsonl", '{"id": "secret", "hard": 1}\n').parent
    write(tmp_path, "elsewhere/patches/minibatch_fail_000.json", '{"edits": [{"op": "secret"}]}')
    (root / "skills").mkdir()
    link(secret, root / "skills" / "skill_v0000.md")
    link(outside, root / "test_eval")
    link(secret, root / "best_skill.md")
    (root / "steps").mkdir()
    link(outside, root / "steps" / "step_0001")
    view = read_run(root)
    assert (view.seed, view.best) == (None, None)
    assert view.results("test_eval").total == view.results("../elsewhere").total == 0
    assert view.passes == ()
    assert view.conversation("..", "secret").messages == ()
    step = view.step(1)
    assert step is not None
    assert (step.reflections, step.rollout_passes) == ((), ())


def test_links_within_the_folder_are_fine(tmp_path: Path) -> None:
    root = published.published_run(tmp_path / "run")
    link(root, tmp_path / "link")
    assert read_run(tmp_path / "link").best == published.CANDIDATE_3


def test_large_and_torn_files_are_said_and_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = published.published_run(tmp_path / "run")
    write(root, "summary.json", '{"stop_')
    write(root, "history.json", "[" * 100_000)
    monkeypatch.setattr(conversation, "_LIMIT", 10)
    monkeypatch.setattr(files, "LINE_LIMIT", 1000)
    big = json.dumps({"id": "big", "hard": 1, "response": "x" * 5000})
    write(root, "test_eval/results.jsonl", f'{big}\n{{"id": "small", "hard": 0}}\n{{"id": "to')
    view = read_run(root)
    assert view.problems == ("summary.json is torn", "history.json is torn")
    assert (view.summary, view.rows) == ({}, ())
    talk = view.conversation("steps/step_0001/rollout", "train1")
    assert (talk.messages, "too large" in talk.problem) == ((), True)
    page = view.results("test_eval")
    assert [(row["id"], row["hard"]) for row in page.rows] == [("", None), ("small", 0), ("", None)]
    assert list(view.item_scores("test_eval")) == ["small"]


@pytest.mark.parametrize(
    "value", ["[]", "3", '"text"', "null", '{"step": NaN}', '[{"step": "one", "action": 3}]', "[[]]"]
)
def test_files_of_another_shape_are_tolerated(tmp_path: Path, value: str) -> None:
    root = published.published_run(tmp_path / "run")
    for path in sorted(root.rglob("*.json*")):
        path.write_text(value, encoding="utf-8")
    write(root, "journal.sqlite", b"no database " * 100)
    view = read_run(root)
    for number in view.steps:
        view.step(number)
    for number in view.epochs:
        view.epoch(number)
    view.measured("best", "val"), view.measured("final", "test"), view.spending(), view.charges(), view.events()
    for name in view.passes:
        view.results(name, only="failed")


@pytest.mark.parametrize("made", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes among files")
def test_only_plain_files_are_read(tmp_path: Path, made: Callable[[Path], object]) -> None:
    made(tmp_path / "x")
    assert files.read_json(tmp_path, "x").value is None
    assert files.read_text(tmp_path, "x") is None
    assert list(files.read_rows(tmp_path, "x")) == files.tail_lines(tmp_path, "x", 10) == []
    assert files.new_lines(tmp_path, "x", 0, 10) == ([], 0)


def test_an_item_is_found_by_its_place_too(tmp_path: Path) -> None:
    write(tmp_path, "config.json", "{}")
    path = write(tmp_path, "p/results.jsonl", '{"id": "a", "hard": 0}\n{"torn\n{"id": "b", "hard": 1}\n')
    view = read_run(tmp_path)
    assert (view.result_at("p", 2), view.result("p", "b")) == ({"id": "b", "hard": 1},) * 2
    assert (view.result_at("p", 3), view.result_at("p", -1)) == (None, None)
    assert (view.result_at("p", 1) or {})["status"] == "torn"
    assert view.results("p", only="passed").places == (2,)
    path.write_text('{"id": "c", "hard": 1}\n', encoding="utf-8")
    assert list(view.item_scores("p")) == ["c"], "a file that changed is read again"


def test_what_is_beyond_a_bound_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "config.json", "{}")
    write(tmp_path, "history.json", json.dumps([{"step": number} for number in range(1, 6)]))
    write(tmp_path, "summary.json", "[" + "[]," * 300_000 + "[]]")
    write(tmp_path, "p/results.jsonl", '{"id": "a", "hard": 0}\n{"id": "b", "hard": 1}\n')
    monkeypatch.setattr(report_run, "MOST_ROWS", 3)
    monkeypatch.setattr(files, "MOST_ROWS", 1)
    view = read_run(tmp_path)
    assert [row["step"] for row in view.rows] == [3, 4, 5]
    assert view.problems == (
        "summary.json has more than 300,000 parts",
        "history.json has 5 rows, of which the last 3 are shown",
    )
    page = view.results("p")
    assert (page.total, page.whole) == (1, False)


def test_reading_changes_nothing(ours: RunView) -> None:
    before = {path: path.stat().st_mtime_ns for path in ours.root.rglob("*")}
    seen = stamp(ours.root)
    view = read_run(ours.root)
    view.spending(), view.charges(), view.passes, view.step(1), view.events()
    assert {path: path.stat().st_mtime_ns for path in ours.root.rglob("*")} == before
    assert stamp(ours.root) == seen


def test_the_stamp_tells_a_change(tmp_path: Path) -> None:
    root = published.published_run(tmp_path / "run")
    seen = stamp(root)
    write(root, "events.jsonl", "{}\n")
    assert stamp(root) != seen


def test_runs_are_found_below_a_folder(tmp_path: Path) -> None:
    for name in ("a", "deep/b", "deep/deeper/c", "deep/deeper/deepest/d", ".hidden/e"):
        published.published_run(tmp_path / name)
    published.published_run(tmp_path / "a" / "inner")
    link(tmp_path / "a", tmp_path / "link")
    assert [path.name for path in find_runs([tmp_path, tmp_path / "deep"], 2)] == ["a", "b", "c"]
    assert [path.name for path in find_runs([tmp_path], 2)] == ["a", "b"]
    assert find_runs([tmp_path / "nowhere"]) == []
