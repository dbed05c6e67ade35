"""SearchQA as an environment: rows of question, context and gold answers; one turn, one short answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from skillopt.data.errors import DataError
from skillopt.data.items import Schema
from skillopt.data.splits import SplitOptions, Splits, load_splits
from skillopt.envs.searchqa import scorer
from skillopt.types import Answer, Item, Score, Split, Task

MAX_CONTEXT_CHARS = 6000
CUT_MARK = "\n[... context cut here]"

SYSTEM = """You answer trivia questions from text that a web search returned.

## Task
The user message has two sections. "Context" holds search results, one after another, each opened by [DOC] where there \
are several; they may be noisy, repeat each other or have nothing to do with the question. "Question" holds the \
question or clue. Work out the one answer that the context supports best.

## Answer format
You may think briefly first. Then give the answer, and nothing but the answer, inside one pair of answer tags, as the \
last thing you write. For the question "This gas giant is the largest planet of the solar system" that is:
<answer>Jupiter</answer>"""

# For small models that are held to the tag by a grammar: the skill is the last thing they read, and it is short.
FORCED_SYSTEM = """You answer questions about a text. The skill below says how answers are written; follow it in every \
answer.

The user sends a context and a question. Reply with the final answer, written as the skill says, and nothing else, \
like this: <answer>final answer</answer>"""

# Short, on one line, printable, and without "<", so that nothing but the closing tag can follow it.
ANSWER_GRAMMAR = r"""root ::= "<answer>" first rest{0,159} "</answer>"
first ::= [^\x00-\x20<\x7F-\x9F]
rest ::= [^\x00-\x1F<\x7F-\x9F]
"""

MATERIALIZE = "python scripts/materialize_searchqa.py --manifest-dir {manifest_dir} --output-dir data/searchqa_split"


class SearchQA:
    """The SearchQA benchmark. ``splits`` is called once, when the first split is asked for.

    ``force_answer_tag`` makes every task carry a grammar that admits nothing but a tagged short answer.
    """

    name = "searchqa"
    version = "1"

    def __init__(self, splits: Callable[[], Splits], *, force_answer_tag: bool = False) -> None:
        self._read = splits
        self._grammar = ANSWER_GRAMMAR if force_answer_tag else None

    @cached_property
    def _splits(self) -> Splits:
        return self._read()

    def load(self, split: Split) -> Sequence[Item]:
        """All items of a split, in file order. Raises ``DataError``."""
        return self._splits.of(split)

    def write_splits(self, out_root: Path) -> None:
        """Keeps the splits that were cut from one file, if they were."""
        if self._splits.cut is not None:
            self._splits.cut.write(out_root)

    def prompt(self, item: Item) -> Task:
        """The context, cut to 6,000 characters, and the question."""
        context = cut_context(item.data["context"])
        system = FORCED_SYSTEM if self._grammar else SYSTEM
        return Task(system, f"## Context\n{context}\n\n## Question\n{item.data['question']}", grammar=self._grammar)

    def score(self, item: Item, answer: Answer) -> Score:
        """Exact match is ``hard``, token F1 is ``soft``."""
        golds: Sequence[str] = item.data["answers"]
        em, f1 = scorer.exact_match(answer.text, golds), scorer.f1(answer.text, golds)
        reason = "" if em else f"wrong answer: predicted {_short(answer.text)} but expected {_expected(golds)}"
        detail = {
            "question": item.data["question"],
            "em": em,
            "f1": f1,
            "sub_em": scorer.sub_em(answer.text, golds),
            "predicted_answer": answer.text,
            "gold_answers": list(golds),
            "response": answer.reply,
            "fail_reason": reason,
            "agent_ok": True,
            "n_turns": 1,
        }
        if item.data.get("task_type"):
            detail["task_type"] = item.data["task_type"]
        feedback = (
            f"Question: {item.data['question']}\nPredicted answer: {answer.text}\n"
            f"Gold answers: {' | '.join(golds)}\nScore: exact match {em}, token F1 {f1:.3f}"
        )
        return Score(float(em), f1, reason=reason, feedback=feedback, detail=detail)


def make(options: SplitOptions, out_root: Path) -> SearchQA:
    """SearchQA on the data that the ``env`` section names."""
    # An option of this environment alone, which options of the common shape need not have.
    force = bool(getattr(options, "force_answer_tag", False))
    return SearchQA(lambda: load_splits(options, SCHEMA), force_answer_tag=force)


def cut_context(context: str, limit: int = MAX_CONTEXT_CHARS) -> str:
    """At most ``limit`` characters: whole documents from the front, or the first one cut with a visible mark."""
    if len(context) <= limit:
        return context
    kept = ""
    for document in re.split(r"(?=\[DOC\])", context):
        if len(kept) + len(document) > limit:
            break
        kept += document
    if "[DOC]" in kept:
        return kept.rstrip()
    return context[: limit - len(CUT_MARK)] + CUT_MARK


def parse_row(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row with its ``answers`` as a list. Raises ``DataError`` with the reason."""
    if not isinstance(data["question"], str) or not data["question"].strip():
        raise DataError("has no text in 'question'")
    if not isinstance(data["context"], str):
        raise DataError("has a 'context' that is no text")
    return {**data, "answers": _answers(data["answers"])}


SCHEMA = Schema("searchqa", ("question", "context", "answers"), parse_row, MATERIALIZE)


def _answers(value: Any) -> list[str]:
    if isinstance(value, str):
        value = [value] if value.strip() else []
    if isinstance(value, list) and value and all(_is_answer(v) for v in value):
        return [str(v) for v in value]
    raise DataError(f"has answers {_short(str(value))}; needs a text or a list of at least one text")


def _is_answer(value: object) -> bool:
    # A number in a JSON list is a gold answer too; true and null are none.
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _short(text: str, limit: int = 200) -> str:
    """``text`` in quotes, on one line, of bounded length."""
    return repr(text if len(text) <= limit else f"{text[:limit]}...")


def _expected(golds: Sequence[str]) -> str:
    return " or ".join(_short(gold) for gold in golds[:3])
