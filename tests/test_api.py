"""The public functions and the examples, against a server over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.openai_server import FakeOpenAI, Received, Step, status, text
from fakes.world import RULES, SEED_SKILL, World, play, stage_of

import skillopt
from skillopt.engine.resume import ResumeError
from skillopt.models.errors import ProviderError

EXAMPLES = Path(__file__).parent.parent / "examples"
KEY = "sk-fake-0123456789abcdef"


def conversation(received: Received) -> tuple[str, str]:
    messages = received.body["messages"]
    system = "".join(message["content"] for message in messages if message["role"] == "system")
    return system, "".join(message["content"] for message in messages if message["role"] == "user")


def world_server(received: Received) -> Step:
    """The small world behind a server."""
    system, user = conversation(received)
    return text(play(stage_of(system), system, user))


def invoice_server(received: Received) -> Step:
    """The models of the custom example: the target writes the house style once the skill says so."""
    system, user = conversation(received)
    stage = stage_of(system)
    if stage == "rollout":
        amount = float(re.findall(r"Write ([\d.]+) euros", user)[0])
        said = f"EUR {amount:,.2f}".replace(",", "'") if "house style" in system else f"{amount:.2f} €"
        return text(f"<answer>{said}</answer>")
    if stage == "analyst":
        edits = [{"op": "append", "target": "", "content": "- Use the house style: EUR 1'234.50"}]
        return text(json.dumps({"batch_size": 1, "failure_summary": [], "patch": {"reasoning": "", "edits": edits}}))
    return text(play(stage, system, user))


def environ(url: str) -> dict[str, str]:
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}


def example(name: str, *arguments: str, cwd: Path, url: str) -> subprocess.CompletedProcess[str]:
    env = {**{name: value for name, value in os.environ.items() if not name.endswith("_PROXY")}, **environ(url)}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)


def write_splits(folder: Path) -> Path:
    """The items of the small world as SearchQA."""
    for split, items in World(train=6, val=4, test=3).items().items():
        rows = [
            {"id": item["id"], "question": item["question"], "context": "[DOC] text", "answers": [item["answer"]]}
            for item in items
        ]
        (folder / split).mkdir(parents=True)
        (folder / split / "items.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


# the examples


def test_the_custom_example_is_short_and_trains(tmp_path: Path) -> None:
    assert len((EXAMPLES / "custom_env.py").read_text(encoding="utf-8").splitlines()) <= 30
    with FakeOpenAI(invoice_server) as server:
        first = example("custom_env.py", cwd=tmp_path, url=server.url)
        sent = len(server.requests)
        again = example("custom_env.py", cwd=tmp_path, url=server.url)
        assert len(server.requests) == sent, "the same run again sends nothing"
    assert (first.returncode, first.stderr) == (0, "")
    assert "test: 0.00 -> 1.00" in first.stdout
    assert "- Use the house style: EUR 1'234.50" in first.stdout
    assert again.stdout == first.stdout
    assert KEY not in first.stdout
    assert skillopt.load_run(tmp_path / "outputs/invoice").stop_reason == "completed"


def test_the_searchqa_example_trains_and_evaluates(tmp_path: Path) -> None:
    split = write_splits(tmp_path / "split")
    with FakeOpenAI(world_server) as server:
        done = example("train_searchqa.py", str(split), "out", cwd=tmp_path, url=server.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert "step 1: accept_new_best" in done.stdout
    assert "stopped: completed; lift on the test split: {" in done.stdout
    assert re.search(r"best_skill\.md: \d\.\d{4} hard, \d\.\d{4} soft on 3 items \(0 not measured\)", done.stdout)
    assert (tmp_path / "out-test/eval_summary.json").exists()


def test_an_example_without_its_arguments_says_what_they_are(tmp_path: Path) -> None:
    done = example("train_searchqa.py", cwd=tmp_path, url="http://127.0.0.1:9/v1")
    assert done.returncode == 1
    assert "SPLIT_DIR OUT_ROOT" in done.stderr


# the functions


def trained(root: Path, url: str, **more: Any) -> skillopt.Run:
    arguments: dict[str, Any] = {
        "skill": SEED_SKILL,
        "env": World().env(),
        "target": "small-target",
        "epochs": 1,
        "batch_size": 3,
        "learning_rate": 3,
        "out_root": root,
        "environ": environ(url),
    }
    return skillopt.train(**{**arguments, **more})


def test_train_returns_the_run_and_again_goes_for_nothing(tmp_path: Path) -> None:
    with FakeOpenAI(world_server) as server:
        run = trained(tmp_path / "run", server.url)
        sent = len(server.requests)
        assert trained(tmp_path / "run", server.url) == run
        assert len(server.requests) == sent
    assert {body["model"] for body in server.bodies} == {"small-target"}, "the optimizer is the target unless named"
    assert (run.path, run.stop_reason) == (tmp_path / "run", "completed")
    assert [row["step"] for row in run.history] == [1, 2]
    assert run.summary["test_hard"] == 1.0
    assert all(word in run.best_skill for word in RULES)
    assert skillopt.load_run(str(tmp_path / "run")) == run


def test_load_run_of_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is not a run folder: it has no config\.json"):
        skillopt.load_run(tmp_path)


def test_a_run_that_has_not_begun_has_no_history(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    run = skillopt.load_run(tmp_path)
    assert (run.history, run.summary, run.stop_reason) == ([], {}, None)


def test_a_skill_may_be_a_text_a_path_or_a_skill(tmp_path: Path) -> None:
    (tmp_path / "skill.md").write_bytes(b"\xef\xbb\xbf" + SEED_SKILL.encode())
    with FakeOpenAI(world_server) as server:
        for number, skill in enumerate(
            (SEED_SKILL, tmp_path / "skill.md", str(tmp_path / "skill.md"), skillopt.Skill(SEED_SKILL))
        ):
            trained(tmp_path / f"run{number}", server.url, skill=skill, overrides={"budget.max_calls": 20})
            assert (tmp_path / f"run{number}/skills/skill_v0000.md").read_text(encoding="utf-8") == SEED_SKILL


def test_a_spent_budget_returns_the_run_so_far(tmp_path: Path) -> None:
    with FakeOpenAI(world_server) as server:
        run = trained(tmp_path / "run", server.url, overrides={"budget.max_calls": 12})
        assert (run.stop_reason, len(server.requests)) == ("budget", 12)
        assert trained(tmp_path / "run", server.url).stop_reason == "completed"


def test_a_run_that_ends_badly_raises_with_the_run(tmp_path: Path) -> None:
    def server_of(received: Received) -> Step:
        down = "Item VA" in conversation(received)[1]
        return status(400, "no such thing") if down else world_server(received)

    with FakeOpenAI(server_of) as server, pytest.raises(skillopt.TrainingStopped) as stopped:
        trained(tmp_path / "run", server.url)
    assert stopped.value.reason == "error_rate"
    assert stopped.value.run.stop_reason == "error_rate"
    assert str(stopped.value).startswith("target: ")
    assert f"(run folder: {tmp_path / 'run'})" in str(stopped.value)


def test_without_a_key_it_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="OPENAI_API_KEY"):
        skillopt.train(env=World().env(), out_root=tmp_path / "run", environ={})
    assert not (tmp_path / "run").exists()


def test_evaluate_scores_a_skill(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"env": World().env(), "target": "small-target", "out_root": tmp_path / "eval"}
    with FakeOpenAI(world_server) as server:
        result = skillopt.evaluate(skill=SEED_SKILL, environ=environ(server.url), **arguments)
        assert (result.split, result.n, result.errors) == ("test", 3, 0)
        sent = len(server.requests)
        again = skillopt.evaluate(skill=SEED_SKILL, environ=environ(server.url), **arguments)
        assert len(server.requests) == sent
        assert again == result
        better = SEED_SKILL + "- alpha bravo carol\n"
        with pytest.raises(ResumeError, match="holds another evaluation"):
            skillopt.evaluate(skill=better, environ=environ(server.url), **arguments)
        assert len(server.requests) == sent


def test_evaluations_without_a_folder_do_not_get_in_each_others_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    skills = [SEED_SKILL, SEED_SKILL + "- alpha bravo carol\n"]
    with FakeOpenAI(world_server) as server:
        arguments: dict[str, Any] = {"env": World().env(), "split": "all", "environ": environ(server.url)}
        found = [skillopt.evaluate(skill=skill, target="small-target", **arguments) for skill in skills]
        sent = len(server.requests)
        again = [skillopt.evaluate(skill=skill, target="small-target", **arguments) for skill in skills]
    assert (again, len(server.requests)) == (found, sent)
    assert (found[1].hard, found[1].n, found[0].root == found[1].root) == (1.0, 13, False)


def test_both_work_inside_a_running_event_loop(tmp_path: Path) -> None:
    """As in a notebook."""

    async def cell(url: str) -> skillopt.Run:
        return trained(tmp_path / "run", url)

    with FakeOpenAI(world_server) as server:
        assert asyncio.run(cell(server.url)).stop_reason == "completed"


def test_the_public_names_are_there() -> None:
    for name in skillopt.__all__:
        assert getattr(skillopt, name) is not None
    assert dir(skillopt) == skillopt.__all__
    with pytest.raises(AttributeError, match="has no attribute 'trane'"):
        _ = skillopt.trane
