"""Exact match, token F1 and containment of short answers, as SQuAD defines them. Pure."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


@lru_cache(maxsize=4096)  # an item is scored by three measures, again and again
def normalize(text: str) -> str:
    """Lower case, without ASCII punctuation, without the words a, an, the, single spaces."""
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", bare).split())


def exact_match(prediction: str, golds: Sequence[str]) -> int:
    """1 if the normalised prediction equals a normalised gold answer, else 0."""
    predicted = normalize(prediction)
    return int(any(predicted == normalize(gold) for gold in golds))


def f1(prediction: str, golds: Sequence[str]) -> float:
    """The largest token F1 over the gold answers, in [0, 1]."""
    return max((_token_f1(normalize(prediction), normalize(gold)) for gold in golds), default=0.0)


def sub_em(prediction: str, golds: Sequence[str]) -> int:
    """1 if a normalised gold answer contains the normalised prediction or the other way round, else 0.

    Nothing is contained only in nothing: an empty prediction is no part of an answer.
    """
    predicted = normalize(prediction)
    return int(any(_contained(predicted, normalize(gold)) for gold in golds))


def _contained(left: str, right: str) -> bool:
    if not left or not right:
        return left == right
    return left in right or right in left


def _token_f1(predicted: str, gold: str) -> float:
    left, right = predicted.split(), gold.split()
    if not left or not right:
        return float(left == right)
    common = (Counter(left) & Counter(right)).total()
    # 2PR/(P+R) with P = common/|left| and R = common/|right|, in one division: equal texts give exactly 1.0.
    return 2 * common / (len(left) + len(right))
