from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.data import DataError
from skillopt.envs.base import Env
from skillopt.envs.custom import SimpleEnv, make_env
from skillopt.envs.extract import extract
from skillopt.envs.scoring import EnvError, make_task, score_reply
from skillopt.types import Item, Score

ITEMS: dict[str, list[dict[str, Any]]] = {
    "train": [{"id": "t1", "text": "2+2", "answer": "4"}, {"id": 2, "text": "3+3", "answer": "6"}],
    "val": [{"id": "v1", "text": "1+1", "answer": "2"}],
    "test": [{"id": "e1", "text": "5+5", "answer": "10"}],
}
ITEM = Item("t1", ITEMS["train"][0])


def env_with(score: Any, **more: Any) -> SimpleEnv:
    return make_env(ITEMS, lambda item: item["text"], score, **more)


def test_an_environment_in_a_few_lines() -> None:
    env = make_env(
        ITEMS,
        prompt=lambda item: f"What is {item['text']}?",
        score=lambda item, answer: answer == item["answer"],
        name="sums",
        system="You add numbers.",
    )
    assert isinstance(env, Env)
    assert (env.name, env.version) == ("sums", "1")
    assert [item.id for item in env.load("train")] == ["t1", "2"]
    assert [item.id for item in env.load("test")] == ["e1"]
    task = make_task(env, env.load("train")[0])
    assert task.system.startswith("You add numbers.\n\n")
    assert "<answer></answer>" in task.system
    assert task.user == "What is 2+2?"
    _, right = score_reply(env, ITEM, task, "<answer> 4 </answer>")
    assert (right.hard, right.soft, right.status, right.reason) == (1.0, 1.0, "ok", "")
    _, wrong = score_reply(env, ITEM, task, "<answer>5</answer>")
    assert (wrong.hard, wrong.soft) == (0.0, 0.0)
    assert wrong.reason == "wrong answer: predicted '5'"
    assert "Expected: 4" in wrong.feedback
    assert wrong.detail["predicted_answer"] == "5"


@pytest.mark.parametrize(
    ("value", "hard", "soft"),
    [
        (True, 1.0, 1.0),
        (False, 0.0, 0.0),
        (1, 1.0, 1.0),
        (0.25, 0.0, 0.25),
        (1.0, 1.0, 1.0),
        (0.999999, 0.0, 0.999999),
        ((1, 0.5), 1.0, 0.5),
        ((False, 0.5), 0.0, 0.5),
        (Score(0.5, 0.75, reason="mine"), 0.5, 0.75),
    ],
)
def test_what_a_score_function_may_return(value: Any, hard: float, soft: float) -> None:
    score = env_with(lambda item, answer: value).score(ITEM, extract("<answer>x</answer>"))
    assert (score.hard, score.soft) == (hard, soft)
    if isinstance(value, Score):
        assert score is value


@pytest.mark.parametrize(
    "value",
    [1.5, -0.1, float("nan"), float("inf"), None, "1", (1, 2, 3), (), (0.5, "x"), (0.5, 2.0), Score(2.0, 0.0), [0.5]],
)
def test_no_score_is_an_error_that_names_the_item(value: Any) -> None:
    env = env_with(lambda item, answer: value, name="mine")
    for call in (
        lambda: env.score(ITEM, extract("<answer>x</answer>")),
        lambda: score_reply(env, ITEM, env.prompt(ITEM), "<answer>x</answer>"),
    ):
        with pytest.raises(EnvError, match=r"environment 'mine': score of item 't1' (returned|has) "):
            call()


def test_an_exception_of_the_user_names_the_item_and_is_never_a_zero() -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("gold")

    env = env_with(broken, name="mine")
    with pytest.raises(EnvError, match="environment 'mine': score failed on item 't1': KeyError: 'gold'") as caught:
        score_reply(env, ITEM, env.prompt(ITEM), "<answer>x</answer>")
    assert isinstance(caught.value.__cause__, KeyError)
    env = make_env(ITEMS, broken, lambda item, answer: True, name="mine")
    with pytest.raises(EnvError, match="environment 'mine': prompt failed on item 't1': KeyError: 'gold'"):
        make_task(env, ITEM)
    env = make_env(ITEMS, lambda item: item, lambda item, answer: True)  # type: ignore[arg-type,return-value]
    with pytest.raises(EnvError, match=r"prompt of item 't1' returned .* which is no text"):
        make_task(env, ITEM)


def test_an_environment_class_of_somebody_is_guarded_too() -> None:
    class Broken:
        name = "theirs"
        version = "1"
        load = prompt = SimpleEnv.load

        def score(self, item: Item, answer: Any) -> Any:
            return {"hard": 1}

    task = env_with(lambda item, answer: True).prompt(ITEM)
    with pytest.raises(EnvError, match=r"environment 'theirs': score of item 't1' returned .* which is no Score"):
        score_reply(Broken(), ITEM, task, "x")  # type: ignore[arg-type]


def test_an_answer_without_its_tag_is_scored_with_its_own_status() -> None:
    env = env_with(lambda item, answer: answer == "4")
    task = env.prompt(ITEM)
    answer, score = score_reply(env, ITEM, task, "So it is\n4\n")
    assert (answer.text, score.hard, score.status) == ("4", 1.0, "wrong_format")
    assert score.detail["answer_rule"] == "last_line"
    assert "no <answer> tag" in score.feedback
    _, opened = score_reply(env, ITEM, task, "<answer>4")
    assert (opened.hard, opened.status, opened.detail["answer_rule"]) == (1.0, "ok", "open_tag")
    given_status = env_with(lambda item, answer: Score(0.0, 0.0, "agent_error"))
    assert score_reply(given_status, ITEM, task, "4")[1].status == "agent_error"


def test_the_whole_reply_can_be_the_answer() -> None:
    env = env_with(lambda item, answer: answer == "two\nlines", answer_tag=None, system="S")
    task = env.prompt(ITEM)
    assert (task.system, task.answer_tag) == ("S", None)
    assert score_reply(env, ITEM, task, " two\nlines \n")[1] == Score(
        1.0,
        1.0,
        feedback="Predicted answer: two\nlines\nExpected: 4\nScore: hard 1, soft 1",
        detail={
            "predicted_answer": "two\nlines",
            "response": " two\nlines \n",
            "fail_reason": "",
            "answer_rule": "whole",
        },
    )


def test_functions_get_a_copy_of_the_item() -> None:
    def spoil(item: dict[str, Any], answer: str) -> bool:
        item.clear()
        return True

    env = env_with(spoil)
    item = env.load("train")[0]
    env.score(item, extract("x"))
    assert item.data["answer"] == "4"


def test_a_list_is_cut_by_the_ratio() -> None:
    items = [{"id": f"i{n}"} for n in range(10)]
    env = make_env(items, lambda item: "", lambda item, answer: True, split_ratio="5:2:3", split_seed=0)
    expected = [f"i{n}" for n in range(10)]
    random.Random(0).shuffle(expected)
    parts = [[item.id for item in env.load(split)] for split in ("train", "val", "test")]
    assert parts == [expected[:5], expected[5:7], expected[7:]]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{"id": "a"}, {"text": "b"}], "items row 2: has no 'id'"),
        ([{"id": "a"}, {"id": "b"}, {"id": "a"}], "id 'a' stands twice: items row 1 and items row 3"),
        ({"train": [{"id": "a"}], "val": [{"id": "a"}]}, "id 'a' is in two splits, train and val"),
        ({"train": [], "dev": []}, "unknown split 'dev'"),
        ({"val": [], "selection": []}, "the val split is given twice, the second time as 'selection'"),
        ({"train": ["a"]}, "train row 1: is str, but an item is a dict"),
    ],
)
def test_items_that_cannot_be_used(items: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_env(items, lambda item: "", lambda item, answer: True)


def test_a_split_that_is_not_given_is_empty() -> None:
    env = make_env({"train": [{"id": "a"}], "selection": [{"id": "b"}]}, str, lambda item, answer: True)
    assert [len(env.load(split)) for split in ("train", "val", "test")] == [1, 1, 0]


@given(st.one_of(st.floats(), st.booleans(), st.tuples(st.floats(), st.floats()), st.none(), st.text()))
def test_a_score_is_in_bounds_or_an_error(value: Any) -> None:
    scorer: Callable[..., Any] = lambda item, answer: value  # noqa: E731
    try:
        score = env_with(scorer).score(ITEM, extract("x"))
    except EnvError:
        return
    assert 0.0 <= score.hard <= 1.0
    assert 0.0 <= score.soft <= 1.0
