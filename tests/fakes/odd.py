"""Values that no server ought to send, in every place where it could."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ODD = (None, True, -3, 7, "x", [], {}, [1], [None], {"a": 1}, [["x"]])


def variants(tree: Any) -> Iterator[Any]:
    """``tree`` with each of its nodes replaced by something odd."""
    yield from ODD
    if isinstance(tree, dict):
        for name in tree:
            yield {key: value for key, value in tree.items() if key != name}
            yield from ({**tree, name: odd} for odd in variants(tree[name]))
    elif isinstance(tree, list):
        for place, node in enumerate(tree):
            yield from ([*tree[:place], odd, *tree[place + 1 :]] for odd in variants(node))
