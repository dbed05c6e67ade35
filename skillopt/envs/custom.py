"""Your own environment from Python: items, a prompt function and a score function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsFloat

from skillopt.data.errors import DataError
from skillopt.data.items import Placed, Schema, to_items
from skillopt.data.names import resolve_split
from skillopt.data.ratio import parse_ratio, ratio_split
from skillopt.data.readers import Row
from skillopt.data.splits import DEFAULT_RATIO, DEFAULT_SEED, Splits, to_splits
from skillopt.envs.scoring import EnvError, check_score, guarded
from skillopt.types import SPLITS, Answer, Item, Score, Split, Task

Record = Mapping[str, Any]
Records = Sequence[Record] | Mapping[str, Sequence[Record]]
Scored = bool | float | tuple[float, float] | Score
PromptFunction = Callable[[dict[str, Any]], str]
ScoreFunction = Callable[[dict[str, Any], str], Scored]

DEFAULT_SYSTEM = "You are given one task at a time. Solve it as well as you can."


class SimpleEnv:
    """An environment made of two functions; see ``make_env``."""

    def __init__(
        self,
        splits: Splits,
        prompt: PromptFunction,
        score: ScoreFunction,
        *,
        name: str = "custom",
        version: str = "1",
        system: str = DEFAULT_SYSTEM,
        answer_tag: str | None = "answer",
    ) -> None:
        self.name = name
        self.version = version
        self._splits = splits
        self._prompt = prompt
        self._score = score
        self._answer_tag = answer_tag
        self._system = system if answer_tag is None else f"{system}\n\n{_answer_format(answer_tag)}".strip()

    def load(self, split: Split) -> Sequence[Item]:
        """All items of a split, in order."""
        return self._splits.of(split)

    def prompt(self, item: Item) -> Task:
        """The system text, and what the prompt function says of the item. Raises ``EnvError`` when that fails."""
        user = guarded(self.name, "prompt", item, lambda: self._prompt(dict(item.data)))
        if not isinstance(user, str):
            raise EnvError(f"environment {self.name!r}: prompt of item {item.id!r} returned {user!r}, which is no text")
        return Task(self._system, user, self._answer_tag)

    def score(self, item: Item, answer: Answer) -> Score:
        """What the score function says of the answer. Raises ``EnvError`` when it fails or says nothing usable."""
        value = guarded(self.name, "score", item, lambda: self._score(dict(item.data), answer.text))
        if isinstance(value, Score):
            check_score(self.name, item, value)
            return value
        hard, soft = self._numbers(item, value)
        reason = "" if hard >= 1 else f"wrong answer: predicted {answer.text[:200]!r}"
        feedback = [f"Predicted answer: {answer.text}", f"Score: hard {hard:g}, soft {soft:g}"]
        expected = item.data.get("answers", item.data.get("answer"))
        if expected is not None:
            feedback.insert(1, f"Expected: {expected}")
        detail = {"predicted_answer": answer.text, "response": answer.reply, "fail_reason": reason}
        result = Score(hard, soft, reason=reason, feedback="\n".join(feedback), detail=detail)
        check_score(self.name, item, result)
        return result

    def _numbers(self, item: Item, value: object) -> tuple[float, float]:
        parts = value if isinstance(value, tuple) else (value,)
        if len(parts) not in (1, 2) or not all(isinstance(part, SupportsFloat) for part in parts):
            raise EnvError(
                f"environment {self.name!r}: score of item {item.id!r} returned {value!r}; "
                "it must return a bool, a number, a (hard, soft) pair or a Score"
            )
        soft = float(parts[-1])
        return (float(parts[0]) if len(parts) == 2 else float(soft >= 1.0)), soft


def make_env(
    items: Records,
    prompt: PromptFunction,
    score: ScoreFunction,
    *,
    name: str = "custom",
    version: str = "1",
    system: str = DEFAULT_SYSTEM,
    answer_tag: str | None = "answer",
    split_ratio: str = DEFAULT_RATIO,
    split_seed: int = DEFAULT_SEED,
) -> SimpleEnv:
    """An environment of your own, for ``skillopt.train(env=...)``.

    ``items`` are dicts, each with a unique ``id``: by split (``{"train": [...], "val": [...], "test": [...]}``), or
    one list that is cut by ``split_ratio`` and ``split_seed``. ``prompt(item)`` is the user message of an item.
    ``score(item, answer)`` returns True or False, a number in [0, 1] (1 is a pass), a pair (hard, soft) or a
    ``Score``. It is shown the text inside the ``answer_tag`` of the reply; with None, the whole reply. ``system`` is
    said to the target before every item; the answer format is added to it. An item's ``answer`` or ``answers`` is
    shown to the optimizer as what was expected. Change ``version`` when prompt or score change their meaning.

    Raises ``DataError`` for items that cannot be used.
    """
    splits = _splits(items, name, split_ratio, split_seed)
    return SimpleEnv(splits, prompt, score, name=name, version=version, system=system, answer_tag=answer_tag)


def _splits(items: Records, name: str, split_ratio: str, split_seed: int) -> Splits:
    schema = Schema(name)
    if not isinstance(items, Mapping):
        parts = ratio_split(_placed(items, "items", schema), parse_ratio(split_ratio), split_seed)
        return to_splits(dict(zip(SPLITS, parts, strict=True)))
    placed: dict[Split, list[Placed]] = {}
    for key, rows in items.items():
        split = resolve_split(key)
        if split in placed:
            raise DataError(f"the {split} split is given twice, the second time as {key!r}")
        placed[split] = _placed(rows, key, schema)
    return to_splits(placed)


def _placed(rows: Sequence[Record], label: str, schema: Schema) -> list[Placed]:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise DataError(f"{label} row {number}: is {type(row).__name__}, but an item is a dict")
    return to_items([Row(f"{label} row {number}", dict(row)) for number, row in enumerate(rows, 1)], schema)


def _answer_format(tag: str) -> str:
    return f"Give your final answer inside <{tag}></{tag}> tags, and nothing else inside them."
