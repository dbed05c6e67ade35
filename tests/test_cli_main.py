"""The command that finds commands, and the edge where everything ends in a status and plain words."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

from skillopt.cli import edge, endings
from skillopt.cli.edge import FAILED, INTERRUPTED, REFUSED, Shell, force_utf8, guarded, status_of_stop
from skillopt.cli.main import COMMANDS, main
from skillopt.cli.options import new_folder
from skillopt.config import ConfigError
from skillopt.models.errors import StopRequested

SECRET = "sk-a-secret-of-the-tests"


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_help_names_every_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name}" in out for name in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == main(["train", "--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("skillopt ")


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    assert "there is no command 'trian'; did you mean train?" in capsys.readouterr().err
    assert main(["xyzzy"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "skillopt: error: there is no command 'xyzzy'"


@pytest.mark.parametrize("name", ["train", "eval", "resume", "status", "demo"])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert f"usage: skillopt {name}" in capsys.readouterr().out


def test_help_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; from skillopt.cli.main import main; main(['--help']); "
        "print('heavy:', [name for name in ('pydantic', 'aiohttp', 'yaml', 'rich', 'skillopt.engine') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "heavy: []" in done.stdout


def test_the_names_of_expected_errors_exist() -> None:
    for name in edge._EXPECTED:
        module, _, kind = name.rpartition(".")
        assert issubclass(getattr(import_module(module), kind), Exception), name


def raising(error: BaseException) -> int:
    def command(shell: Shell) -> int:
        raise error

    return guarded(command)


def test_an_expected_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(ConfigError("train.batch_size: must be 1 or more")) == REFUSED
    assert capsys.readouterr().err == "error: train.batch_size: must be 1 or more\n"


def test_an_operating_system_error_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(PermissionError(13, "Permission denied", "/runs/x")) == FAILED
    assert "Traceback" not in capsys.readouterr().err


def test_an_unexpected_error_is_shown_whole_without_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert raising(RuntimeError(f"the key {SECRET} broke it")) == FAILED
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "RuntimeError: the key *** broke it" in err
    assert SECRET not in err


def test_an_interrupt_before_the_work_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(KeyboardInterrupt()) == INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(("code", "status"), [(0, 0), (2, 2), (None, 2), ("text", 2)])
def test_an_exit_becomes_a_status(code: object, status: int) -> None:
    assert raising(SystemExit(code)) == status


@pytest.mark.parametrize(
    ("reason", "status"), [("budget", 0), ("interrupted", 130), ("error_rate", 1), ("error", 1), ("new", 1)]
)
def test_the_status_of_a_stop(reason: str, status: int) -> None:
    assert status_of_stop(reason) == status


def test_a_stop_that_no_command_handled(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(StopRequested("budget", "budget.max_calls=1 is reached")) == 0
    assert capsys.readouterr().err == "stopped (budget): budget.max_calls=1 is reached\n"


def test_warnings_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def command(shell: Shell) -> int:
        warnings.warn("a key is retired", FutureWarning, stacklevel=1)
        return 0

    assert guarded(command) == 0
    assert capsys.readouterr().err == "warning: a key is retired\n"


def test_utf8_whatever_the_locale() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    force_utf8(stream)
    print("Ж — \udcff", file=stream)
    assert raw.getvalue().decode() == "Ж — \\udcff" + os.linesep


def test_a_reader_that_is_gone_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    shell = Shell({})
    shell.say("one")
    shell.say("two")
    sys.stdout.close()
    shell.complain("three")
    assert sys.stderr.getvalue() == "three\n"


def test_a_new_folder_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.chdir(tmp_path)
    now = time.strptime("2026-02-03 04:05:06", "%Y-%m-%d %H:%M:%S")
    first = new_folder("skillopt", "searchqa", "org/gpt-5.5", now)
    assert Path(first) == Path("outputs/skillopt_searchqa_org-gpt-5.5_20260203_040506")
    Path(first).mkdir(parents=True)
    assert new_folder("skillopt", "searchqa", "org/gpt-5.5", now) == f"{first}_2"


def test_a_command_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings.shutil, "which", lambda _: "/bin/skillopt")
    assert endings.how_to_go_on("/runs/x") == "skillopt resume /runs/x"
    assert "my run" in endings.how_to_go_on("/runs/my run")
    assert endings.how_to_go_on("/runs/my run").count("'") + endings.how_to_go_on("/runs/my run").count('"') == 2
    monkeypatch.setattr(endings.shutil, "which", lambda _: None)
    assert endings.how_to_go_on("/runs/x").endswith("-m skillopt resume /runs/x")


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ("budget.max_calls=100 is reached (100 spent)", "budget.max_calls=200"),
        ("budget.max_tokens=1e+06 is reached (1000023 spent)", "budget.max_tokens=2000000"),
        ("budget.max_seconds=1.5 is reached (2 spent)", "budget.max_seconds=3"),
        ("budget.max_usd=0.25 is reached (0.2513 spent)", "budget.max_usd=0.5"),
        ("budget.max_usd=0.004 is reached (0.0041 spent)", "budget.max_usd=0.008"),
        ("budget.max_usd=1e-05 is reached (2e-05 spent)", "budget.max_usd=2e-05"),
        ("budget.max_calls=0 is reached (0 spent)", "budget.max_calls=null"),
    ],
)
def test_a_larger_cap_is_proposed(detail: str, words: str) -> None:
    assert endings.how_to_go_on("/runs/x", detail).endswith(f"resume /runs/x {words}")
