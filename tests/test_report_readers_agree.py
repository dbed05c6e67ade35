"""Status, report, compare, log and dashboard read one run: what they say of it is the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2", reason="the extra report is not installed")
pytest.importorskip("starlette", reason="the extra webui is not installed")
pytest.importorskip("httpx2", reason="the extra webui's tests need httpx2")

from fakes import published
from fakes.dashboard import dashboard, run_ids
from fakes.world import World, run

from skillopt.cli.main import main
from skillopt.report.final import read_final
from skillopt.report.numbers import compact, percent
from skillopt.report.run import read_run
from skillopt.web.catalog import Entry, brief_of

PRICES = "prices: {openai: {small-target: {input: 1, output: 2}, big-optimizer: {input: 100, output: 200}}}\n"


def ours(root: Path, **overrides: Any) -> None:
    prices = root.parent / "prices.yaml"
    prices.parent.mkdir(parents=True, exist_ok=True)
    prices.write_text(PRICES, encoding="utf-8")
    run(World(), root, {"budget.prices": str(prices), **overrides})


def without_journal(root: Path) -> None:
    ours(root)
    for path in root.glob("journal.sqlite*"):
        path.unlink()


MADE: dict[str, Callable[[Path], object]] = {
    "ours": ours,
    "published": published.published_run,
    "published, unfinished": lambda root: published.published_run(root, finished=False),
    "without a journal": without_journal,
    "soft gate": lambda root: ours(root, **{"evaluation.gate_metric": "soft"}),
    "mixed gate": lambda root: ours(root, **{"evaluation.gate_metric": "mixed"}),
    "seed 0": lambda root: ours(root, **{"train.seed": 0}),
}


@pytest.fixture(params=MADE)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / "runs" / "run"
    MADE[request.param](made)
    return made


def test_all_readers_agree(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str) -> Any:
        assert main([words[0], str(root), *words[1:], "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    status, log, compared = told("status"), told("log"), told("compare")["entrants"]
    report = told("report", "--no-png", "--out", str(tmp_path / "page"))
    view = read_run(root)
    brief = brief_of(Entry("run", root, "run", 0.0), view)
    steps = [line for line in log if line["kind"] == "step"]

    assert status["state"] == report["status"] == brief.status
    assert status["steps_done"] == report["steps_done"] == len(report["steps"]) == len(steps) == brief.steps
    assert status["steps_total"] == report["total_steps"] == brief.total_steps

    assert status["baseline_score"] == report["curves"]["baseline"] == steps[-1]["before"]
    best = status["best_score"]
    assert best == report["curves"]["best"][-1]["value"] == steps[0]["best"] == report["steps"][-1]["best"]

    arms = {arm["name"]: arm for arm in report["final"]["val"]}
    entrants = {(each["name"], each["split"]): each for each in compared}
    hard = {name: entrants[name, "val"]["result"]["hard"] for name in ("seed", "best")}
    assert hard == {name: arms[name]["hard"] for name in hard}
    assert brief.best == hard["best"]
    assert brief.baseline == (hard["seed"] if view.summary else None)  # no small file tells it before the end
    if view.gate_metric.name == "hard":
        assert best == hard["best"]
    for arm in report["final"].get("test", ()):
        assert arm["lift"] == entrants[arm["name"], "test"]["result"]["lift"]

    tokens, usd = status["tokens"], status["cost_usd"]
    roles = report["spending"]["roles"]
    assert tokens == sum(role["prompt_tokens"] + role["completion_tokens"] for role in roles) == brief.tokens
    known = [role["usd"] for role in roles]
    assert usd == (None if None in known else pytest.approx(sum(known))) == brief.usd
    assert {(each["tokens"], each["usd"]) for each in compared} == {(tokens, usd)}


def test_the_dashboard_says_the_same(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(root), "--json"]) == 0
    steps = [line for line in json.loads(capsys.readouterr().out) if line["kind"] == "step"]
    assert main(["status", str(root), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    client = dashboard(root.parent)
    (id_,) = run_ids(client)
    page = client.get(f"/run/{id_}/steps").text
    rows = [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)]
        for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL)[1:]
    ]
    assert [(row[0], row[2], row[5]) for row in rows] == [
        (f"Step {line['step']}", line["action"].replace("_", " "), percent(line["best"])) for line in steps
    ]
    assert rows[0][5] == percent(status["best_score"])
    gates = [percent(line["gate"]["value"] if line["gate"] else None) for line in steps]
    assert [row[4] for row in rows] == gates
    assert compact(status["tokens"]) in client.get(f"/run/{id_}").text


@pytest.mark.parametrize("root", ["ours", "soft gate", "seed 0"], indirect=True)
def test_a_summary_and_its_readers_have_one_lift(root: Path) -> None:
    view = read_run(root)
    final = read_final(view, "test")
    assert final is not None
    lift = next(arm.lift for arm in final.arms if arm.name == "best")
    assert lift is not None
    assert asdict(lift) == view.summary["test_lift"]
