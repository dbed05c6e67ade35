"""Cutting one dataset into train, val and test by weights. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from skillopt.data.errors import DataError

T = TypeVar("T")
Weights = tuple[int, int, int]


def parse_ratio(text: str) -> Weights:
    """``"a:b:c"`` (train:val:test, positive whole numbers) as weights. Raises ``DataError``."""
    parts = str(text).split(":")
    numbers = [part.strip() for part in parts]
    if len(numbers) != 3 or not all(n.isascii() and n.isdigit() and len(n) < 10 and int(n) > 0 for n in numbers):
        raise DataError(
            f"env.split_ratio={text!r}: needs train:val:test as positive whole numbers, such as 2:1:7",
            setting="env.split_ratio",
            choices=("2:1:7",),
        )
    train, val, test = (int(number) for number in numbers)
    return train, val, test


def ratio_counts(total: int, weights: Weights) -> Weights:
    """How many of ``total`` items each split gets.

    Floors first; what is left goes one each to the largest fractional part, of equal ones to the larger weight.
    """
    whole = sum(weights)
    counts = [total * weight // whole for weight in weights]
    # In floating point, as in the published splits: there 1.4 has a little less left over than 0.4, so that two items
    # at 2:1:7 are cut 1/0/1.
    left_over = [total * weight / whole - count for weight, count in zip(weights, counts, strict=True)]
    by_claim = sorted(range(3), key=lambda i: (-left_over[i], -weights[i]))
    for index in by_claim[: total - sum(counts)]:
        counts[index] += 1
    return counts[0], counts[1], counts[2]


def ratio_split(items: Sequence[T], weights: Weights, seed: int) -> tuple[list[T], list[T], list[T]]:
    """``items`` shuffled by ``seed`` (0 is a seed like any other) and cut into train, val, test."""
    shuffled = list(items)
    random.Random(seed).shuffle(shuffled)
    train, val, _ = ratio_counts(len(shuffled), weights)
    return shuffled[:train], shuffled[train : train + val], shuffled[train + val :]
