"""Starting, watching, stopping and resuming runs by the dashboard, with real processes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import pytest

pytest.importorskip("starlette", reason="the extra webui is not installed")
pytest.importorskip("httpx2", reason="the extra webui's tests need httpx2")

from fakes.dashboard import SECRET, dashboard, post, run_ids, served, until, user_environment
from fakes.openai_server import FakeOpenAI
from fakes.published import published_run
from fakes.rule_world import world, write_split
from filelock import FileLock
from starlette.testclient import TestClient

from skillopt.report.run import read_run

CONFIG = "configs/searchqa/default.yaml"
ESTIMATED = re.compile(r'name="estimated" value="([0-9a-f]+)"')


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(world(delay=0.08)) as running:
        yield running


@pytest.fixture
def client(tmp_path: Path, server: FakeOpenAI) -> TestClient:
    write_split(tmp_path / "split")
    return dashboard(tmp_path / "runs", environ=user_environment(OPENAI_BASE_URL=server.url))


def fields(client: TestClient, **more: str) -> dict[str, str]:
    site = client.app.state.site  # type: ignore[attr-defined]
    return {
        "config": CONFIG,
        "run_name": "mine",
        "root": str(site.settings.roots[0]),
        "model.optimizer": "teacher",
        "model.target": "pupil",
        "env.split_dir": "split",
        "train.num_epochs": "3",
        "train.batch_size": "4",
        "env.workers": "2",
        **more,
    }


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to one process on Windows")
def test_start_watch_stop_resume(client: TestClient, server: FakeOpenAI, tmp_path: Path) -> None:
    form = fields(client)
    estimate = post(client, "/new", {**form, "action": "estimate"}).text
    assert "dry run: nothing was sent" in estimate
    assert "skillopt train --config" in estimate
    assert not server.requests
    assert not (tmp_path / "runs" / "mine").exists()
    found = ESTIMATED.search(estimate)
    assert found is not None

    started = post(client, "/new", {**form, "action": "start", "estimated": found[1]})
    assert started.status_code == 303, started.text
    job = started.headers["location"]
    assert client.get(job).status_code == 200
    (run,) = until(lambda: run_ids(client))
    until(lambda: "Stop</button>" in client.get(f"/run/{run}").text)
    until(lambda: len(read_run(tmp_path / "runs" / "mine").rows) >= 1)
    page = client.get(f"/run/{run}").text
    assert "running" in page
    assert "Step " in page
    assert "Resume" not in page

    assert post(client, f"/run/{run}/resume", {}).status_code == 409
    assert post(client, f"/run/{run}/stop", {}).status_code == 303
    until(lambda: read_run(tmp_path / "runs" / "mine").status == "stopped")
    view = read_run(tmp_path / "runs" / "mine")
    assert view.stop_reason == "interrupted"
    done = len(view.rows)
    until(lambda: "Resume</button>" in client.get(f"/run/{run}").text)
    assert "all finished work is saved" in client.get(f"/run/{run}/log").text
    assert post(client, f"/run/{run}/stop", {}).status_code == 409

    resumed = post(client, f"/run/{run}/resume", {})
    assert resumed.status_code == 303
    until(lambda: read_run(tmp_path / "runs" / "mine").status == "finished")
    assert len(read_run(tmp_path / "runs" / "mine").rows) == 6 > done
    until(lambda: post(client, f"/run/{run}/stop", {}).status_code == 409)
    finished = post(client, f"/run/{run}/resume", {})
    assert (finished.status_code, "is finished" in finished.text) == (409, True)
    log = client.get(f"/run/{run}/log").text
    assert SECRET not in log
    assert "skillopt resume" in log
    assert SECRET not in "".join(path.read_text("utf-8") for path in (tmp_path / "runs" / ".dashboard").iterdir())

    _evaluates(client, run, tmp_path)


def _evaluates(client: TestClient, run: str, tmp_path: Path) -> None:
    """The skill of the finished run, through the other form."""
    form = {"run": run, "which": "best", "split": "test", "run_name": "scored", "root": str(tmp_path / "runs")}
    estimate = post(client, "/evaluate", {**form, "action": "estimate"}).text
    found = ESTIMATED.search(estimate)
    assert found is not None, estimate
    started = post(client, "/evaluate", {**form, "action": "start", "estimated": found[1]})
    assert started.status_code == 303
    until(lambda: (tmp_path / "runs" / "scored" / "eval_summary.json").is_file())
    page = client.get(f"/run/{run_ids(client)[0]}").text
    assert "Evaluation" in page
    assert "100.0%" in page


def test_what_was_not_estimated_is_not_started(client: TestClient, tmp_path: Path) -> None:
    form = fields(client)
    for seal in ("", "0" * 64):
        page = post(client, "/new", {**form, "action": "start", "estimated": seal})
        assert page.status_code == 200
        assert "The fields changed since the estimate" in page.text
    found = ESTIMATED.search(page.text)
    assert found is not None
    other = post(client, "/new", {**form, "train.num_epochs": "9", "action": "start", "estimated": found[1]})
    assert other.status_code == 200
    assert not (tmp_path / "runs" / "mine").exists()
    assert not (tmp_path / "runs" / ".dashboard").exists()


def test_a_refused_configuration_says_why(client: TestClient) -> None:
    page = post(client, "/new", fields(client, action="estimate", **{"train.batch_size": "-1"})).text
    assert "batch_size" in page
    assert "It would not run" in page
    assert 'value="-1"' in page  # what was typed is kept
    assert 'id="start"' not in page


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("run_name", "../out", "letters, digits"),
        ("run_name", ".hidden", "letters, digits"),
        ("root", "/", "one of the roots"),
        ("config", "../../etc/passwd", "one of the configurations"),
        ("config", "configs/_base_/default.yaml", "one of the configurations"),
        ("env.split_dir", "/etc", "not below a folder"),
        ("env.split_dir", "../..", "not below a folder"),
        ("env.data_path", "/etc/passwd", "not below a folder"),
        ("env.skill_init", ".env", "hidden"),
        ("env.skill_init", "~/.ssh/id_rsa", "begins with ~"),
        ("env.split_dir", "a/" * 9999, "characters"),
        ("env.split_dir", "a" * 300, "is not there"),
    ],
)
def test_forms_stay_below_the_roots(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    (tmp_path / ".env").write_text("X_API_KEY=abcdefgh\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text("secret\n", encoding="utf-8")
    for action in ("estimate", "preview", "start"):
        page = post(client, "/new", fields(client, action=action, **{name: value}))
        assert page.status_code == 200
        assert says in page.text
    assert list(tmp_path.rglob("config.json")) == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("run", "nope-0123456789", "choose a run"),
        ("file", "/etc/passwd", "not below a folder"),
        ("file", "split/train/items.json", "needs a configuration"),
        ("split", "x", "choose the items"),
        ("run_name", "a/b", "letters, digits"),
    ],
)
def test_evaluations_stay_below_the_roots(client: TestClient, tmp_path: Path, name: str, value: str, says: str) -> None:
    form = {"run": "", "which": "best", "split": "all", "run_name": "scored", "root": str(tmp_path / "runs")}
    assert says in post(client, "/evaluate", {**form, name: value, "action": "estimate"}).text


def test_the_data_are_previewed(client: TestClient) -> None:
    page = post(client, "/new", fields(client, action="preview")).text
    assert "What does code-1 stand for?" in page
    assert "8 items" in page
    sample = post(
        client, "/new", fields(client, action="preview", **{"env.split_dir": "data/samples/searchqa-mini"})
    ).text
    assert "<h2>Data</h2>" in sample
    gone = post(client, "/new", fields(client, action="preview", **{"env.split_dir": "nothing"})).text
    assert "not there" in gone


def test_the_providers_are_checked(client: TestClient, server: FakeOpenAI) -> None:
    page = post(client, "/new", fields(client, action="check")).text
    assert "A training can start" in page
    assert "pupil" in page
    assert SECRET not in page
    assert server.requests


def test_a_command_that_is_refused_shows_its_output(client: TestClient, tmp_path: Path) -> None:
    jobs = client.app.state.site.jobs  # type: ignore[attr-defined]
    job = jobs.start("train", ["train", "--config", "nope.yaml"], tmp_path / "runs" / "x")
    until(lambda: not jobs.alive(job))
    page = client.get(f"/job/{job.id}").text
    assert "nope.yaml" in page
    assert "ended without a run folder" in page
    assert client.get("/job/20200101-000000-00000000-0000").status_code == 404


def test_a_stream_tells_what_changes(client: TestClient, tmp_path: Path) -> None:
    root = published_run(tmp_path / "runs" / "one")
    (run,) = run_ids(client)

    def told(stream: IO[bytes]) -> dict[str, str]:
        line = next(line for line in stream if line.startswith(b"data: "))
        found: dict[str, str] = json.loads(line.removeprefix(b"data: "))
        return found

    start = {"at": 0.0, "event": "run_started", "epochs": 1, "steps": 4, "train": 40, "val": 20, "test": 40}
    step = {"at": 0.0, "event": "step_started", "step": 2, "steps": 4, "epoch": 1}
    item = {"event": "item_done", "label": "step 2 rollout", "total": 10, "hard": None, "accuracy": None}
    items = [{**item, "at": float(n), "done": n} for n in range(1, 8)]
    with FileLock(root / ".lock"), served(client) as base, urlopen(f"{base}/run/{run}/stream", timeout=60) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        first = told(stream)
        (root / "events.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in (start, step, *items)), "utf-8")
        second = told(stream)
        (root / "summary.json").write_text("{}", encoding="utf-8")
        third = told(stream)
    assert "Step 2 of 4" not in first["html"]
    assert "Step 2 of 4" in second["html"]
    assert "7 / 10 · 7 lost" in second["html"]
    assert "about 4 min left" in second["html"], "one answer a second, and 213 to go"
    assert second["version"] == first["version"] != third["version"]
    assert client.get("/run/nope-0123456789/stream").status_code == 404
