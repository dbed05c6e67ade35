"""``skillopt compare --html``: the comparison as one page, whatever the runs hold."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from fakes import published
from fakes.longrun import long_run, write
from fakes.pages import EVIL, Page, safe
from fakes.world import World, run

from skillopt.cli import compare as command
from skillopt.cli.main import main
from skillopt.extras import install_hint
from skillopt.report.contest import contest, entrants_of
from skillopt.report.numbers import p_text, percent, points

pytest.importorskip("jinja2", reason="the extra report is not installed")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ours") / "run"
    run(World(), root)
    return root


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return published.published_run(tmp_path / "theirs")


def page_of(file: Path, *words: str | Path) -> str:
    assert main(["compare", *map(str, words), "--html", str(file)]) == 0
    return file.read_text(encoding="utf-8")


def test_one_run_is_shown_on_both_splits(ours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = safe(page_of(tmp_path / "deep" / "comparison.html", ours))
    assert f"comparison: {tmp_path / 'deep' / 'comparison.html'}" in capsys.readouterr().out
    found = contest(entrants_of([ours]))
    assert {entrant.split for entrant in found.entrants} == {"test", "val"}
    for entrant in found.entrants:
        assert percent(entrant.result.hard) in page.text
        lift = entrant.result.lift
        if lift is not None:
            interval = f"{points(lift.low)} to {points(lift.high)}"
            assert f"{points(lift.lift)} {interval} {p_text(lift.p_value)} {lift.wins} {lift.losses}" in page.text
    for note in found.notes:
        assert note in page.text
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_runs_have_their_curves_and_both_answers(ours: Path, theirs: Path, tmp_path: Path) -> None:
    other = shutil.copytree(ours, tmp_path / "another one")
    for rows in other.glob("test_eval/results.jsonl"):
        told = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
        changed = [row | {"hard": 1 - row["hard"], "response": f"<answer>other {row['id']}</answer>"} for row in told]
        write(other, "test_eval/results.jsonl", "\n".join(map(json.dumps, changed)))
    text = page_of(tmp_path / "c.html", ours, other)
    page = safe(text)
    assert "Best gate score by step" in page.text
    assert "From run: best to another one: best, test items" in page.text
    for row in told:
        assert row["id"] in page.text
    assert re.search(r"\d+ broken", page.text)


def test_a_published_run_and_its_files(theirs: Path, tmp_path: Path) -> None:
    page = safe(page_of(tmp_path / "c.html", theirs / "skills" / "skill_v0000.md", theirs / "best_skill.md"))
    assert "best_skill.md" in page.text
    assert published.KEY not in page.text


def test_a_long_comparison_stays_small(tmp_path: Path) -> None:
    first = long_run(tmp_path / "a")
    others = [shutil.copytree(first, tmp_path / name) for name in "bcd"]
    for root in others:
        rows = [
            json.loads(line) for line in (root / "test_eval/results.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        spoilt = [row | {"hard": 0, "response": "<&>" * 900, "question": "é" * 900} for row in rows]
        write(root, "test_eval/results.jsonl", "\n".join(map(json.dumps, spoilt)))
    text = page_of(tmp_path / "c.html", first, *others)
    assert len(text.encode()) < 3_000_000
    assert "the first" in Page(text).text


def test_hostile_text_stays_text(ours: Path, tmp_path: Path) -> None:
    root = shutil.copytree(ours, tmp_path / f"x{EVIL.replace('/', '')}"[:60])
    for path in root.rglob("results.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        spoilt = [row | {"id": f"{row['id']}{EVIL}", "question": EVIL, "response": EVIL} for row in rows]
        write(root, path.relative_to(root).as_posix(), "\n".join(map(json.dumps, spoilt)))
    text = page_of(tmp_path / "c.html", root)
    assert safe(text).text.count("<script>alert(1)</script>") > 3
    assert "\u202e" not in text


@pytest.mark.parametrize("file", ["run.htm.txt", "other", "."])
def test_what_is_no_page_is_refused_before_it_is_written(
    ours: Path, tmp_path: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(ours), "--html", str(tmp_path / file)]) == 2
    assert "name a file that ends with .html" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_it_says_so(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "can_publish", lambda: False)
    assert main(["compare", str(ours), "--html", str(tmp_path / "c.html")]) == 2
    assert install_hint("report") in capsys.readouterr().err
