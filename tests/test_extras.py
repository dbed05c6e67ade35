"""The command that installs an extra: of the checkout in use, never of a namesake."""

from __future__ import annotations

from pathlib import Path

from skillopt.extras import install_hint

ROOT = Path(__file__).parent.parent


def test_from_a_checkout_and_from_an_installed_package(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages" / "skillopt"
    assert install_hint("webui") == f"pip install -e '{ROOT}[webui]'"
    assert install_hint("mlflow", "wandb", package=installed) == "pip install 'skillopt[mlflow,wandb]'"


def test_no_other_place_says_how_to_install_an_extra() -> None:
    sources = [path for path in (ROOT / "skillopt").rglob("*.py") if path.name != "extras.py"]
    assert [path.name for path in sources if "skillopt[" in path.read_text(encoding="utf-8")] == []
