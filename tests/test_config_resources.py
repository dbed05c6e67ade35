"""Shipped files are found from a checkout and from a wheel, from any folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.config.docs import reference
from skillopt.resources import config_file, resolve_skill_path, sample_file

ROOT = Path(__file__).parent.parent


@pytest.fixture(params=["checkout", "wheel"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A package folder with its shipped files where a checkout or a wheel has them."""
    package = tmp_path / "skillopt"
    checkout = request.param == "checkout"
    configs, data = (tmp_path, tmp_path / "data") if checkout else (package, package / "sample_data")
    for path in (configs / "configs/a/b.yaml", data / "demo/train/x.json", package / "envs/e/skills/initial.md"):
        path.parent.mkdir(parents=True)
        path.write_text("x", encoding="utf-8")
    if checkout:
        (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    else:
        # Folders of other packages that lie beside this one in site-packages are none of ours.
        (tmp_path / "configs").mkdir()
        (tmp_path / "data").mkdir()
    return package


@pytest.mark.parametrize("name", ["configs/a/b.yaml", "a/b.yaml", "./configs/a/b.yaml", "configs\\a\\b.yaml"])
def test_configurations(package: Path, name: str) -> None:
    found = config_file(name, package=package)
    assert found is not None
    assert found.read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize("name", ["configs/a/c.yaml", "../configs/a/b.yaml", "configs/../a/b.yaml", "/a/b.yaml"])
def test_configurations_that_are_not_shipped(package: Path, name: str) -> None:
    assert config_file(name, package=package) is None


def test_sample_data(package: Path) -> None:
    for name in ("data/demo", "demo"):
        found = sample_file(name, package=package)
        assert found is not None
        assert (found / "train" / "x.json").is_file()
    assert sample_file("data/other", package=package) is None


def test_skills(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    name = "skillopt/envs/e/skills/initial.md"
    assert resolve_skill_path(name, package=package) == package / "envs/e/skills/initial.md"
    for missing in ("skillopt/envs/e/skills/other.md", "initial.md", "skillopt/../x", "skillopt", "\0", "~nobody/x"):
        assert resolve_skill_path(missing, package=package) is None
    own = elsewhere / name
    own.parent.mkdir(parents=True)
    own.write_text("mine", encoding="utf-8")
    found = resolve_skill_path(name, package=package)
    assert found is not None
    assert found.read_text(encoding="utf-8") == "mine"


def test_a_package_without_files(tmp_path: Path) -> None:
    assert config_file("a/b.yaml", package=tmp_path / "skillopt") is None
    assert sample_file("demo", package=tmp_path / "skillopt") is None


def test_the_committed_reference_is_up_to_date() -> None:
    page = (ROOT / "docs" / "configuration.md").read_bytes()
    assert page.decode("utf-8") == reference(), "run: python -m skillopt.config.docs > docs/configuration.md"
