"""``skillopt calls``: the list, the words, and the conversation of an item."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fakes import published
from fakes.world import World, run

from skillopt.cli.main import main
from skillopt.report.run import RunView, read_run
from skillopt.run.calls import stored_calls

Say = Callable[..., str]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    root = tmp_path_factory.mktemp("ours") / "run"
    run(World(), root)
    return read_run(root)


@pytest.fixture
def calls(capsys: pytest.CaptureFixture[str]) -> Say:
    def said(root: Path, *words: str) -> str:
        assert main(["calls", str(root), *words]) == 0
        return capsys.readouterr().out

    return said


def parsed(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


def test_each_call_is_a_line_with_stage_part_tokens_and_item(ours: RunView, calls: Say) -> None:
    found = list(stored_calls(ours.root))
    lines = calls(ours.root).splitlines()
    assert len(lines) == len(found)
    for line, call in zip(lines, found, strict=True):
        stage, part, *tokens = line.split(maxsplit=6)
        assert [stage, part] == [call["stage"], call["part"]]
        assert tokens[:4] == [f"{call['prompt_tokens']:,}", "+", f"{call['completion_tokens']:,}", "tokens"]
        assert tokens[4:] == ([call["item"]] if call["stage"] == "rollout" else [])


def test_as_json_each_call_is_all_of_it_in_the_order_of_time(ours: RunView, calls: Say) -> None:
    assert parsed(calls(ours.root, "--json")) == list(stored_calls(ours.root))
    times = [call["at"] for call in parsed(calls(ours.root, "--json"))]
    assert times == sorted(times)
    analysts = parsed(calls(ours.root, "--json", "--stage", "analyst", "--part", "step_0001"))
    assert analysts
    assert {(call["stage"], call["part"]) for call in analysts} == {("analyst", "step_0001")}


def test_full_has_every_word(ours: RunView, calls: Say) -> None:
    printed = calls(ours.root, "--full", "--stage", "analyst")
    for call in stored_calls(ours.root, "analyst"):
        for text in (*(message["content"] for message in call["messages"]), call["reply"]):
            assert "\n".join(text.splitlines()) in printed


def test_the_conversation_of_an_item_is_found_in_every_pass(ours: RunView, calls: Say) -> None:
    assert {"test_eval", "selection_eval_baseline", "steps/step_0001/selection_eval"} <= set(ours.passes)
    for name in ours.passes:
        for row in ours.results(name, 0, None).rows:
            printed = calls(ours.root, "--item", row["id"], "--pass", name)
            assert re.match(rf"rollout +\w+ .* tokens +{row['id']}\n--- system\n", printed)
            assert printed.index(f"Item {row['id']} wants") < printed.index(f"--- assistant\n{row['response']}\n")
            assert printed.count("--- user\n") == 1


def test_an_item_is_found_in_all_passes_that_asked_about_it(ours: RunView, calls: Say) -> None:
    found = parsed(calls(ours.root, "--item", "TE-000", "--json"))
    rows = [row for name in ours.passes if (row := ours.result(name, "TE-000"))]
    assert {call["key"] for call in found} == {row["call_key"] for row in rows}
    assert len(found) == len({call["key"] for call in found}) > 1
    assert {call["item"] for call in found} == {"TE-000"}


def test_a_call_that_was_made_for_an_equal_item_is_found_by_either(ours: RunView, tmp_path: Path, calls: Say) -> None:
    root = Path(shutil.copytree(ours.root, tmp_path / "run"))
    key = (ours.result("test_eval", "TE-000") or {})["call_key"]
    with closing(sqlite3.connect(root / "journal.sqlite")) as db, db:
        db.execute("UPDATE replies SET item = 'TE-001' WHERE key = ?", (key,))
    for words in (("--item", "TE-000"), ("--item", "TE-000", "--pass", "test_eval")):
        found = parsed(calls(root, *words, "--json"))
        assert [(call["key"], call["item"]) for call in found if call["key"] == key] == [(key, "TE-000")]


def test_a_pass_has_a_call_for_each_of_its_items(ours: RunView, calls: Say) -> None:
    found = parsed(calls(ours.root, "--pass", "test_eval", "--json"))
    rows = ours.results("test_eval", 0, None).rows
    assert [(call["item"], call["reply"]) for call in found] == [(row["id"], row["response"]) for row in rows]
    assert calls(ours.root, "--pass", "test_eval", "--stage", "merge") == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--item", "nobody"], "no call about an item 'nobody'"),
        (["--pass", "nowhere"], "has no pass 'nowhere'; it has selection_"),
        (["--item", "TE-000", "--pass", "steps/step_0001/rollout"], "has no item 'TE-000'"),
    ],
)
def test_what_is_not_there_is_said(
    ours: RunView, words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calls", str(ours.root), *words]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"hard": None, "fail_reason": "timeout: 30 s"}, "no reply came (timeout: 30 s)"),
        ({"hard": 0}, "the run does not say which it was"),
        ({"hard": 0, "call_key": "gone"}, "the run does not say which it was"),
        ({"hard": 0, "call_key": ["x"]}, "the run does not say which it was"),
    ],
)
def test_an_item_without_a_call_says_why(
    tmp_path: Path, ours: RunView, row: dict[str, object], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(shutil.copytree(ours.root, tmp_path / "run"))
    (root / "test_eval" / "results.jsonl").write_text(json.dumps({"id": "i", **row}) + "\n", encoding="utf-8")
    assert main(["calls", str(root), "--item", "i", "--pass", "test_eval"]) == 2
    assert why in capsys.readouterr().err


def test_a_run_without_a_journal_has_no_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = published.published_run(tmp_path / "run")
    for words in ([], ["--item", "train1"]):
        assert main(["calls", str(root), *words]) == 2
        assert "no journal" in capsys.readouterr().err
