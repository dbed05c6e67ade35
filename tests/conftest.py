"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A busy machine is slow, not wrong.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, so that all workers end at about the same time."""
    items.sort(key=lambda item: "test_web_browser" not in item.nodeid)
