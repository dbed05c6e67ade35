"""What the pages tell a reader to type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skillopt.config import load_config
from skillopt.engine.money import role_prices
from skillopt.models.types import ModelSpec

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.py"))]
NAMED = re.compile(r"""(?:--(?:target|optimizer)_model |\b(?:target|optimizer)=")(?:openai/)?(gpt-[\w.-]+)""")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_models_of_examples_have_a_shipped_price(page: Path, tmp_path: Path) -> None:
    """So that a budget in dollars can be added to any of them."""
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    config = load_config(None, (), {"env.name": "searchqa"})
    for model in NAMED.findall(page.read_text(encoding="utf-8")):
        spec = ModelSpec("target", "openai", model, "https://api.openai.com/v1")
        assert role_prices(config, {"target": spec}, environ)["target"] is not None, model


def test_such_models_are_found() -> None:
    found = {model for page in PAGES for model in NAMED.findall(page.read_text(encoding="utf-8"))}
    assert {"gpt-5-mini", "gpt-5.2"} <= found


def test_extras_are_installed_from_the_checkout() -> None:
    """The name alone would get whatever an index holds under it."""
    assert [page.name for page in PAGES if "skillopt[" in page.read_text(encoding="utf-8")] == []
