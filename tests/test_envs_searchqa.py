from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.data import DataError, Splits, SplitSettings
from skillopt.envs.base import Env
from skillopt.envs.extract import extract
from skillopt.envs.searchqa import SearchQA, make
from skillopt.envs.searchqa.env import ANSWER_GRAMMAR, CUT_MARK, cut_context
from skillopt.envs.searchqa.scorer import exact_match, f1, normalize, sub_em
from skillopt.types import Item

WORDS = st.lists(st.sampled_from(["a", "the", "The", "Paris", "paris!", "new-york", "York", "U.S.", "é", "7", ""])).map(
    " ".join
)
TEXT = st.one_of(WORDS, st.text(max_size=20))
GOLDS = st.lists(TEXT, min_size=1, max_size=3)


def item(**more: Any) -> Item:
    data = {"id": "x", "question": "Capital of France?", "context": "[DOC] Paris.", "answers": ["Paris", "the city"]}
    return Item("x", {**data, **more})


ENV = SearchQA(lambda: Splits((item(),)))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Beatles!", "beatles"),
        ("U.S.A.", "usa"),
        ("rock-n-roll", "rocknroll"),
        ("an apple a day", "apple day"),
        ("theatre", "theatre"),
        ("  ", ""),
        ("A", ""),
        ("a.n", "an"[:0]),
        ("Ünder", "ünder"),
        ("x\n\ty", "x y"),
        ("don’t", "don’t"),
    ],
)
def test_normalize(text: str, normal: str) -> None:
    assert normalize(text) == normal


@pytest.mark.parametrize(
    ("prediction", "golds", "em", "token_f1", "contained"),
    [
        ("the Eiffel Tower", ["Eiffel tower"], 1, 1.0, 1),
        ("Tower", ["Eiffel Tower"], 0, 2 / 3, 1),
        ("Eiffel Tower in Paris", ["Eiffel Tower"], 0, 2 / 3, 1),
        ("b x b", ["b b c"], 0, 2 / 3, 0),
        ("b a b", ["b b c"], 0, 0.8, 1),
        ("London", ["Paris"], 0, 0.0, 0),
        ("London", ["Paris", "London town", "LONDON"], 1, 1.0, 1),
        ("", ["Paris"], 0, 0.0, 0),
        ("", ["the"], 1, 1.0, 1),
        ("!", ["Paris", "a"], 1, 1.0, 1),
        ("x", [], 0, 0.0, 0),
    ],
)
def test_scores(prediction: str, golds: list[str], em: int, token_f1: float, contained: int) -> None:
    assert exact_match(prediction, golds) == em
    assert f1(prediction, golds) == pytest.approx(token_f1)
    assert sub_em(prediction, golds) == contained


@given(TEXT, GOLDS)
def test_scores_are_bounded_and_an_exact_match_is_all(prediction: str, golds: list[str]) -> None:
    value, em = f1(prediction, golds), exact_match(prediction, golds)
    assert 0.0 <= value <= 1.0
    assert em in (0, 1)
    assert sub_em(prediction, golds) in (0, 1)
    if em:
        assert value == 1.0
        assert sub_em(prediction, golds) == 1
    assert exact_match(golds[0], golds) == 1


@given(TEXT, TEXT)
def test_scores_of_one_gold_are_symmetric(left: str, right: str) -> None:
    for score in (exact_match, f1, sub_em):
        assert score(left, [right]) == score(right, [left])


@given(TEXT, GOLDS, TEXT)
def test_another_gold_never_lowers_a_score(prediction: str, golds: list[str], more: str) -> None:
    for score in (exact_match, f1, sub_em):
        assert score(prediction, [*golds, more]) >= score(prediction, golds)
        assert score(prediction, golds) == score(prediction, golds[::-1])


@given(TEXT)
def test_normalizing_leaves_words_only(text: str) -> None:
    normal = normalize(text)
    assert normal == " ".join(normal.split())
    assert not re.search(r"\b(a|an|the)\b", normal)
    assert not set(normal) & set("""!"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~""")


def test_it_is_an_environment() -> None:
    assert isinstance(ENV, Env)
    assert (ENV.name, ENV.version) == ("searchqa", "1")


def test_the_system_message_is_the_same_for_every_item() -> None:
    one, two = ENV.prompt(item()), ENV.prompt(item(question="Other?", context="", id="y"))
    assert one.system == two.system
    assert re.findall(r"<answer>.+</answer>", one.system)
    assert one.user == "## Context\n[DOC] Paris.\n\n## Question\nCapital of France?"
    assert one.answer_tag == "answer"
    assert one.grammar is None


def gbnf_as_regex(grammar: str) -> re.Pattern[str]:
    """Enough of GBNF for a grammar of literals, character classes and repetitions."""
    rules = dict(line.split(" ::= ", 1) for line in grammar.splitlines() if line)
    parts = re.findall(r'"[^"]*"|\[[^\]]*\]|\{\d+,\d+\}|\w+', rules["root"])
    return re.compile("".join(re.escape(p[1:-1]) if p[0] == '"' else rules.get(p, p) for p in parts))


def test_the_grammar_admits_short_tagged_answers_only() -> None:
    env = SearchQA(Splits, force_answer_tag=True)
    grammar = env.prompt(item()).grammar
    assert grammar == ANSWER_GRAMMAR
    pattern = gbnf_as_regex(grammar)
    for good in ("Paris", "7", "J. R. R. Tolkien's “The Hobbit”", "Çelik é 東京", "x" * 160):
        assert pattern.fullmatch(f"<answer>{good}</answer>"), good
    for bad in ("", " Paris", "a\nb", "a<b", "\x7f", "\x85", "x" * 161):
        assert not pattern.fullmatch(f"<answer>{bad}</answer>"), bad
    assert not pattern.fullmatch("I think <answer>Paris</answer>")


def test_a_long_context_keeps_whole_documents_from_the_front() -> None:
    documents = [f"[DOC] [TLE] {n} [PAR] {'x' * 1900}\n" for n in range(5)]
    assert cut_context("".join(documents)) == "".join(documents[:3]).rstrip()
    assert cut_context("".join(documents[:3])) == "".join(documents[:3])
    assert cut_context("intro " + "".join(documents)).startswith("intro [DOC] [TLE] 0")


@pytest.mark.parametrize("prefix", ["", "[DOC] ", "  [DOC] ", "intro [DOC] "])
def test_a_single_long_document_is_cut_with_a_mark(prefix: str) -> None:
    cut = cut_context(prefix + "y" * 7000 + "[DOC] short")
    assert len(cut) == 6000
    assert cut.startswith(prefix + "yyy")
    assert cut.endswith(CUT_MARK)


@given(st.lists(st.sampled_from(["[DOC]", "x", " ", "yyyyyyy", "\n"]), max_size=40).map("".join), st.integers(30, 80))
def test_a_cut_context_is_a_bounded_prefix(context: str, limit: int) -> None:
    cut = cut_context(context, limit)
    assert len(cut) <= limit
    assert context.startswith(cut.removesuffix(CUT_MARK))
    assert (cut == context) or len(context) > limit


def test_a_wrong_answer() -> None:
    score = ENV.score(item(task_type="geo"), extract("Thinking.\n<answer>Paris Texas</answer>"))
    assert (score.hard, score.status) == (0.0, "ok")
    assert score.soft == pytest.approx(2 / 3)
    assert score.reason == "wrong answer: predicted 'Paris Texas' but expected 'Paris' or 'the city'"
    assert score.detail == {
        "question": "Capital of France?",
        "em": 0,
        "f1": score.soft,
        "sub_em": 1,
        "predicted_answer": "Paris Texas",
        "gold_answers": ["Paris", "the city"],
        "response": "Thinking.\n<answer>Paris Texas</answer>",
        "fail_reason": score.reason,
        "agent_ok": True,
        "n_turns": 1,
        "task_type": "geo",
    }
    for part in ("Capital of France?", "Paris Texas", "Paris | the city", "exact match 0", "F1 0.667"):
        assert part in score.feedback


def test_a_right_answer_has_no_reason() -> None:
    score = ENV.score(item(), extract("<answer>paris</answer>"))
    assert (score.hard, score.soft, score.reason, score.detail["fail_reason"]) == (1.0, 1.0, "", "")
    assert "task_type" not in score.detail


def test_a_reason_is_one_bounded_line() -> None:
    score = ENV.score(item(), extract(f"<answer>{'x' * 500}\nmore</answer>"))
    assert "\n" not in score.reason
    assert len(score.reason) < 300


# data


def folder(root: Path, *rows: dict[str, Any]) -> SplitSettings:
    for split in ("train", "val", "test"):
        (root / split).mkdir(parents=True)
        (root / split / "items.json").write_text(json.dumps(rows if split == "train" else []))
    return SplitSettings("split_dir", split_dir=root)


ROW = {"id": "a", "question": "q", "context": "", "answers": ["x"]}


@pytest.mark.parametrize(
    ("given_answers", "answers"), [(["x", "y"], ["x", "y"]), ("x", ["x"]), ([1984], ["1984"]), ([""], [""])]
)
def test_answers_become_a_list(tmp_path: Path, given_answers: Any, answers: list[str]) -> None:
    env = make(folder(tmp_path / "s", {**ROW, "answers": given_answers}), tmp_path)
    assert env.load("train")[0].data == {**ROW, "answers": answers}
    assert env.load("val") == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": None}, "row 1: lacks answers; searchqa rows hold id, question, context, answers"),
        ({"answers": []}, r"row 1: has answers '\[\]'; needs a text or a list"),
        ({"answers": " "}, "row 1: has answers"),
        ({"answers": [True]}, "row 1: has answers"),
        ({"answers": {"x": 1}}, "row 1: has answers"),
        ({"question": " "}, "row 1: has no text in 'question'"),
        ({"question": 3}, "row 1: has no text in 'question'"),
        ({"context": ["a"]}, "row 1: has a 'context' that is no text"),
        ({"context": None}, "row 1: lacks context"),
    ],
)
def test_rows_that_are_no_question(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make(folder(tmp_path / "s", {**ROW, **change}), tmp_path).load("train")


def test_a_csv_with_plain_answers(tmp_path: Path) -> None:
    settings = folder(tmp_path / "s")
    (tmp_path / "s/train/items.json").unlink()
    text = '\ufeffid,question,context,answers\r\n1,q?,"[DOC] a, b",Paris\r\n2,r?,,"[""A"", ""B""]"\r\n'
    (tmp_path / "s/train/data.csv").write_bytes(text.encode())
    assert [entry.data["answers"] for entry in make(settings, tmp_path).load("train")] == [["Paris"], ["A", "B"]]


def test_an_id_manifest_names_the_command(tmp_path: Path) -> None:
    root = tmp_path / "ids"
    settings = folder(root, {"id": "a"})
    command = f"python scripts/materialize_searchqa.py --manifest-dir {root} --output-dir data/searchqa_split"
    with pytest.raises(DataError, match=re.escape(command)):
        make(settings, tmp_path).load("train")


def test_the_data_is_read_once_and_not_before_it_is_asked_for(tmp_path: Path) -> None:
    broken = make(SplitSettings("split_dir", split_dir=tmp_path / "none"), tmp_path)
    with pytest.raises(DataError):
        broken.load("train")
    settings = folder(tmp_path / "s", ROW)
    env = make(settings, tmp_path)
    assert len(env.load("train")) == 1
    (tmp_path / "s/train/items.json").unlink()
    assert len(env.load("train")) == 1


def test_the_option_of_the_env_section_reaches_the_task(tmp_path: Path) -> None:
    settings = folder(tmp_path / "s", ROW)
    options = SimpleNamespace(**{name: getattr(settings, name) for name in settings.__dataclass_fields__})
    options.force_answer_tag = True
    assert make(options, tmp_path).prompt(item()).grammar == ANSWER_GRAMMAR
    assert make(replace(settings, limit=1), tmp_path).prompt(item()).grammar is None


def test_the_seed_skill_is_a_short_text() -> None:
    import skillopt.envs.searchqa as package

    text = (Path(package.__file__).parent / "skills/initial.md").read_text("utf-8")
    assert 10 <= len(text.splitlines()) <= 25
    assert text.startswith("# ")
    assert text.endswith("\n")
