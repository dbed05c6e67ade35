"""The one way from an item to its task and from a reply to its score, for every environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from skillopt.envs.base import Env
from skillopt.envs.extract import extract
from skillopt.types import Answer, Item, Score, Task

T = TypeVar("T")


class EnvError(RuntimeError):
    """An environment's own code failed: a bug in it, never an outcome of a target. Ends the run."""


def make_task(env: Env, item: Item) -> Task:
    """What the target is asked for ``item``. Raises ``EnvError`` naming the item when the environment fails."""
    return guarded(env.name, "prompt", item, lambda: env.prompt(item))


def score_reply(env: Env, item: Item, task: Task, reply: str) -> tuple[Answer, Score]:
    """The answer in ``reply`` and its score.

    An answer without its tag is scored all the same, with the status ``wrong_format``. The rule that found the answer
    is the score's detail ``answer_rule``. Raises ``EnvError`` when the scorer fails or returns no score in [0, 1].
    """
    answer = extract(reply, task.answer_tag)
    score = guarded(env.name, "score", item, lambda: env.score(item, answer))
    check_score(env.name, item, score)
    score = replace(score, detail={**score.detail, "answer_rule": answer.rule})
    if task.answer_tag is None or answer.rule in ("tag", "open_tag") or score.status != "ok":
        return answer, score
    note = f"Format: the reply has no <{task.answer_tag}> tag; its last line was taken as the answer."
    return answer, replace(score, status="wrong_format", feedback=f"{score.feedback}\n{note}".strip())


def check_score(env_name: str, item: Item, score: Score) -> None:
    """Refuse what is no score: anything but two numbers in [0, 1]. Raises ``EnvError`` naming the item."""
    if not isinstance(score, Score):
        raise EnvError(f"environment {env_name!r}: score of item {item.id!r} returned {score!r}, which is no Score")
    for name, value in (("hard", score.hard), ("soft", score.soft)):
        # The comparison is also false for NaN.
        if not (isinstance(value, int | float) and 0 <= value <= 1):
            raise EnvError(
                f"environment {env_name!r}: score of item {item.id!r} has {name}={value!r}; it must be in [0, 1]"
            )


def guarded(env_name: str, what: str, item: Item, call: Callable[[], T]) -> T:
    """``call()``, with a failure turned into an ``EnvError`` that names the environment, the function and the item."""
    try:
        return call()
    except EnvError:
        raise
    except Exception as error:  # an outermost edge: environments are other people's code and may raise anything
        cause = f"{type(error).__name__}: {error}"
        raise EnvError(f"environment {env_name!r}: {what} failed on item {item.id!r}: {cause}") from error
