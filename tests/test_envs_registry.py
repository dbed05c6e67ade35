from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from skillopt.data import DataError, SplitSettings
from skillopt.envs.custom import make_env
from skillopt.envs.registry import GROUP, EnvImportError, get_env
from skillopt.envs.searchqa import SearchQA

OPTIONS = SplitSettings()
MODULE = "skillopt_test_plugin"


def plugin(name: str, attribute: str, module: str = MODULE) -> EntryPoint:
    return EntryPoint(name, f"{module}:{attribute}", GROUP)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    fake = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, fake)
    return fake


def test_a_built_in_environment_by_name(tmp_path: Path) -> None:
    assert isinstance(get_env("searchqa", OPTIONS, tmp_path), SearchQA)


def test_an_installed_environment_by_name(tmp_path: Path, module: ModuleType) -> None:
    env = make_env([], lambda item: "", lambda item, answer: True, name="mine")
    seen: list[Any] = []

    def make(options: Any, out_root: Path) -> Any:
        seen.append((options, out_root))
        return env

    module.__dict__["make"] = make
    assert get_env("mine", OPTIONS, tmp_path, plugins=[plugin("mine", "make")]) is env
    assert seen == [(OPTIONS, tmp_path)]
    taken = get_env("searchqa", OPTIONS, tmp_path, plugins=[plugin("searchqa", "make")])
    assert isinstance(taken, SearchQA)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("searchqq", "unknown environment 'searchqq'; did you mean 'searchqa'.*Known: minenv, searchqa"),
        ("xyz", "unknown environment 'xyz'; Known: minenv, searchqa"),
        ("", "env.name is empty; known: minenv, searchqa"),
        ("alfworld", "'alfworld' is not built yet; known: minenv, searchqa"),
    ],
)
def test_a_name_that_is_none(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        get_env(name, OPTIONS, tmp_path, plugins=[plugin("minenv", "make")])


@pytest.mark.parametrize(
    ("point", "cause"),
    [
        (plugin("mine", "make", "no_such_module_anywhere"), "ModuleNotFoundError: No module named 'no_such_module"),
        (plugin("mine", "gone"), "AttributeError: .*gone"),
    ],
)
def test_an_import_error_surfaces(tmp_path: Path, module: ModuleType, point: EntryPoint, cause: str) -> None:
    with pytest.raises(EnvImportError, match=f"environment 'mine' .* cannot be imported: {cause}"):
        get_env("mine", OPTIONS, tmp_path, plugins=[point])


def test_what_a_factory_makes_is_checked(tmp_path: Path, module: ModuleType) -> None:
    module.__dict__["make"] = lambda options, out_root: object()
    with pytest.raises(TypeError, match=r"'mine' .* made no Env: it needs name, version, load, prompt, score"):
        get_env("mine", OPTIONS, tmp_path, plugins=[plugin("mine", "make")])


def test_an_environment_is_imported_only_when_it_is_asked_for(tmp_path: Path) -> None:
    get_env("searchqa", OPTIONS, tmp_path, plugins=[plugin("mine", "make", "no_such_module_anywhere")])
