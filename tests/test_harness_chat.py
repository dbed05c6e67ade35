from __future__ import annotations

import asyncio
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.envs.custom import make_env
from skillopt.envs.scoring import EnvError
from skillopt.harness import ChatHarness, compose, result_row
from skillopt.models.errors import ErrorKind, ModelError, StopRequested
from skillopt.models.types import Message, ModelSpec, Reply, Request
from skillopt.skill import Skill
from skillopt.types import Failure, Item, Rollout, Score, Task

ENV = make_env(
    [{"id": "a", "q": "2+2?", "answer": "4"}],
    prompt=lambda item: item["q"],
    score=lambda item, answer: answer == item["answer"],
    system="You add.",
)
ITEM = ENV.load("test")[0]
SKILL = Skill("# Sums\n- add\n")


class FakeModel:
    spec = ModelSpec("target", "fake", "m", "http://localhost")

    def __init__(self, result: Reply | BaseException) -> None:
        self.result = result
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def run(result: Reply | BaseException, skill: Skill = SKILL, env: Any = ENV, **more: Any) -> tuple[Rollout, Request]:
    model = FakeModel(result)
    rollout = asyncio.run(ChatHarness(model, max_tokens=99, timeout=7, temperature=0.5).run(env, ITEM, skill, **more))
    return rollout, model.requests[0]


@pytest.mark.parametrize(
    ("skill", "system"),
    [
        ("- do it\r\n", "S\n\n## Skill\n- do it\r\n"),
        ("", "S"),
        (" \n", "S"),
    ],
)
def test_the_skill_stands_in_the_system_message(skill: str, system: str) -> None:
    assert compose(Task("S", "U"), skill) == (Message("system", system), Message("user", "U"))


def test_a_scored_rollout() -> None:
    rollout, request = run(Reply("So:\n<answer>5</answer>", key="k"), priority=3, stage="rollout", replicate=2)
    score = rollout.score
    assert score is not None
    assert (score.hard, score.status, rollout.answer, rollout.skill_hash) == (0.0, "ok", "5", SKILL.hash)
    assert rollout.item is ITEM
    assert list(rollout.trajectory) == [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "So:\n<answer>5</answer>"},
        {"role": "system", "content": score.feedback},
    ]
    assert rollout.system_prompt.endswith("\n\n## Skill\n# Sums\n- add\n")
    assert rollout.user_prompt == "2+2?"
    assert request == Request(
        (Message("system", rollout.system_prompt), Message("user", "2+2?")),
        max_tokens=99,
        temperature=0.5,
        replicate=2,
        stage="rollout",
        item=ITEM.id,
        priority=3,
        timeout=7,
    )
    assert rollout.call == "k"


def test_a_grammar_is_sent() -> None:
    class WithGrammar:
        name, version, load, score = ENV.name, ENV.version, ENV.load, ENV.score

        def prompt(self, item: Item) -> Task:
            return Task("S", "U", grammar='root ::= "x"')

    _, request = run(Reply("<answer>4</answer>"), env=WithGrammar())
    assert request.grammar == 'root ::= "x"'


def test_a_reply_without_the_tag_is_scored_as_wrong_format() -> None:
    rollout, _ = run(Reply("4"))
    assert rollout.score is not None
    assert (rollout.score.hard, rollout.score.status) == (1.0, "wrong_format")


STATUS = {
    "timeout": "timeout",
    "refused": "agent_error",
    "context_overflow": "agent_error",
    "rate_limited": "infra_error",
    "empty": "infra_error",
    "truncated": "infra_error",
    "provider": "infra_error",
    "invalid_output": "infra_error",
}


def test_every_kind_of_error_is_decided() -> None:
    assert {*STATUS, "auth"} == set(get_args(ErrorKind))


@pytest.mark.parametrize(("kind", "status"), STATUS.items())
def test_errors_become_outcomes(kind: ErrorKind, status: str) -> None:
    rollout, _ = run(ModelError(kind, "it broke", raw="half a"))
    outcome = rollout.outcome
    assert outcome.status == status
    assert rollout.user_prompt == "2+2?"
    assert rollout.skill_hash == SKILL.hash
    if status == "agent_error":
        assert isinstance(outcome, Score)
        assert (outcome.hard, outcome.soft, outcome.reason) == (0.0, 0.0, f"no answer: {kind}: it broke")
        assert [event["content"] for event in rollout.trajectory][:2] == ["2+2?", "half a"]
        assert result_row(rollout)["agent_ok"] is False
    else:
        assert isinstance(outcome, Failure)
        assert (outcome.kind, outcome.message) == (kind, f"{kind}: it broke")
        assert rollout.trajectory == ()


@pytest.mark.parametrize("error", [ModelError("auth", "no key"), StopRequested("budget"), asyncio.CancelledError()])
def test_what_ends_a_run_passes_through(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        run(error)
    assert isinstance(error, asyncio.CancelledError) or caught.value is error


def test_a_broken_environment_passes_through() -> None:
    env = make_env([{"id": "a"}], prompt=lambda item: "p", score=lambda item, answer: 1 / 0 > 1)
    with pytest.raises(EnvError, match="score failed on item 'a': ZeroDivisionError"):
        run(Reply("x"), env=env)


# rows


def test_a_scored_row() -> None:
    rollout, _ = run(Reply("<answer>4</answer>"))
    row = result_row(rollout)
    assert list(row)[:4] == ["id", "hard", "soft", "status"]
    assert row == {
        "id": "a",
        "hard": 1,
        "soft": 1.0,
        "status": "ok",
        "predicted_answer": "4",
        "fail_reason": "",
        "agent_ok": True,
        "n_turns": 1,
        "response": "<answer>4</answer>",
        "answer_rule": "tag",
    }


def test_a_failed_row() -> None:
    row = result_row(Rollout(ITEM, "h", Failure("rate_limited", "rate_limited: 429")))
    assert row == {
        "id": "a",
        "hard": None,
        "soft": None,
        "status": "infra_error",
        "error": {"kind": "rate_limited", "message": "rate_limited: 429"},
        "fail_reason": "infra_error: rate_limited: 429",
        "agent_ok": False,
    }


def test_no_detail_changes_what_is_measured() -> None:
    detail = {"id": "b", "hard": 1, "soft": 1, "status": "x", "n_turns": 4, "fail_reason": "mine"}
    row = result_row(Rollout(ITEM, "h", Score(0.0, 0.5, reason="r", detail=detail)))
    assert (row["id"], row["hard"], row["soft"], row["status"]) == ("a", 0, 0.5, "ok")
    assert (row["n_turns"], row["fail_reason"]) == (4, "mine")


ODD = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(alphabet=st.characters(exclude_categories=[])),
        st.binary(max_size=4),
        st.frozensets(st.text(max_size=3)),
    ),
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner), st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), ODD), st.text(alphabet=st.characters(exclude_categories=[]), min_size=1))
def test_a_row_is_json_whatever_the_detail(detail: dict[str, Any], item_id: str) -> None:
    row = result_row(Rollout(Item(item_id), "h", Score(0.0, 0.25, detail=detail)))
    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    text.encode()
    assert json.loads(text) == row


def test_values_that_json_has_no_word_for() -> None:
    detail = {"n": float("nan"), "s": {"b", "a"}, "t": (1, 2), 3: {4: None}, "o": SKILL.text}
    row = result_row(Rollout(ITEM, "h", Score(0.0, 0.0, detail=detail)))  # type: ignore[arg-type]
    assert (row["n"], row["s"], row["t"], row["3"]) == (None, ["a", "b"], [1, 2], {"4": None})
