from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from skillopt.cli import models as command
from skillopt.cli.main import main
from skillopt.local import catalog
from skillopt.local.catalog import Weights
from skillopt.local.sources import Job, SourceError

DATA = b"weights" * 1000
ROW = Weights("toy-1b", "Toy 1B", "toy.gguf", len(DATA), hashlib.sha256(DATA).hexdigest(), "MIT")


class Shop:
    title = "the shop"

    def fill(self, job: Job) -> None:
        job.part.write_bytes(DATA)
        job.watch(len(DATA))


class Closed:
    title = "the closed shop"

    def fill(self, job: Job) -> None:
        raise SourceError("nobody is in")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLOPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "CATALOG", (ROW,))
    monkeypatch.setattr(command, "find", lambda name: catalog.find(name, (ROW,)))
    monkeypatch.setattr(command, "sources_of", lambda row, environ: (Shop(),))
    return tmp_path / "cache" / "models"


def test_a_model_comes_and_goes(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "pull", "toy-1b"]) == 0
    assert (cache / "toy.gguf").read_bytes() == DATA
    out = capsys.readouterr().out
    assert "Toy 1B: 0.0 MB, MIT\nfetching from the shop\n  0.0 MB of 0.0 MB (100 %)\nchecksum verified: " in out
    assert main(["models", "pull", "toy-1b"]) == 0
    assert "here already" in capsys.readouterr().out
    assert main(["models", "list"]) == 0
    assert f"here: {cache / 'toy.gguf'}" in capsys.readouterr().out
    assert main(["models", "rm", "toy-1b"]) == 0
    assert "0.0 MB freed" in capsys.readouterr().out
    assert not (cache / "toy.gguf").exists()
    assert main(["models", "rm", "toy-1b"]) == 0
    assert "is not here" in capsys.readouterr().out


def test_the_list_for_programs(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {
        "name": "toy-1b",
        "title": "Toy 1B",
        "bytes": len(DATA),
        "sha256": ROW.sha256,
        "licence": "MIT",
        "present": False,
        "path": str(cache / "toy.gguf"),
        "bytes_on_disk": 0,
    }
    cache.mkdir(parents=True)
    (cache / "toy.gguf.part").write_bytes(DATA[:700])
    assert main(["models", "list"]) == 0
    assert "not here (0.0 MB fetched)" in capsys.readouterr().out


def test_a_file_is_taken_or_refused(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = tmp_path / "mine"
    given.write_bytes(bytes(len(DATA)))
    assert main(["models", "pull", "toy-1b", "--from", str(given)]) == 1
    assert "checksum is wrong" in capsys.readouterr().err
    given.write_bytes(DATA)
    assert main(["models", "pull", "toy-1b", "--from", str(given)]) == 0
    assert (cache / "toy.gguf").read_bytes() == DATA


def test_an_unknown_name_is_refused(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "pull", "toy"]) == 2
    assert "nearest is 'toy-1b'" in capsys.readouterr().err


def test_no_source_is_an_error_in_plain_words(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "sources_of", lambda row, environ: (Closed(),))
    assert main(["models", "pull", "toy-1b"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: Toy 1B could not be fetched")
    assert "the closed shop: nobody is in" in err
    assert "Traceback" not in err


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 2
    assert "COMMAND" in capsys.readouterr().err
    assert main(["models", "--help"]) == 0
    assert "pull" in capsys.readouterr().out
