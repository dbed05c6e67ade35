"""Seeded keys are found in no file of a run folder, in no event, in no error and in no line of the output."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.folders import rows
from fakes.openai_server import FakeOpenAI, Received, Step, status, text
from fakes.world import DEFAULTS, SEED_SKILL, Played, World, play, run, stage_of

import skillopt
from skillopt.config import ConfigError, load_config
from skillopt.engine.errors import RoleError
from skillopt.envs.custom import make_env
from skillopt.models.errors import ModelError

KEY = "sk-live-9f8e7d6c5b4a39281706"
OTHER = "tok/en+with=odd?chars%41"
PROXY = "p4ssw0rd-of-the-proxy"
ENVIRON = {
    "OPENAI_API_KEY": KEY,
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "SOME_SERVICE_TOKEN": OTHER,
    "HTTPS_PROXY": f"http://user:{PROXY}@proxy.example:3128",
}
SECRETS = (KEY, OTHER, PROXY)


def assert_clean(root: Path, *texts: str) -> None:
    """No secret in any file below a folder, nor in any of the texts."""
    contents = [path.read_bytes() for path in root.rglob("*") if path.is_file()]
    assert contents
    for secret in SECRETS:
        assert not any(secret.encode() in content for content in contents), "a secret is in a file"
        assert not any(secret in each for each in texts), "a secret is in a text"


def leaking(system: str, user: str) -> Played:
    """An optimizer that puts the keys into what it writes."""
    edits = [{"op": "append", "target": "", "content": f"- rule: alpha bravo carol, key {KEY}"}]
    causes = [{"failure_type": "form", "count": 1, "description": f"lacks {OTHER}"}]
    return {"batch_size": 1, "failure_summary": causes, "patch": {"reasoning": PROXY, "edits": edits}}


def leaking_target(system: str, user: str) -> Played:
    return f"{play('rollout', system, user)}\nmy key is {KEY}, {OTHER} and {PROXY}"


def leaking_memory(system: str, user: str) -> Played:
    return {"reasoning": KEY, "slow_update_content": f"Use {KEY}.", "meta_skill_content": f"Use {OTHER}."}


def test_keys_in_replies_and_in_the_skill_reach_no_file(tmp_path: Path) -> None:
    root = tmp_path / "run"
    scripts = {
        "rollout": leaking_target,
        "analyst": leaking,
        "slow_update": leaking_memory,
        "meta_skill": leaking_memory,
    }
    world = World(scripts=scripts)
    heard: list[str] = []

    def listener(kind: str, fields: Mapping[str, Any]) -> None:
        heard.append(repr(fields))

    overrides = {"logging.predictions": "all", "train.num_epochs": 3}
    skill = f"{SEED_SKILL}- rule: the key is {KEY}\n"
    ending = run(world, root, overrides, skill=skill, environ=ENVIRON, listeners=[listener])
    assert ending.reason == "completed"
    assert rows(root)[0]["action"] == "accept_new_best"
    assert "key ***" in (root / "best_skill.md").read_text(encoding="utf-8")
    assert_clean(root, repr(ending), *heard)
    assert all(KEY not in call.system + call.user for call in world.calls), "nor does one go out in a prompt"


def test_a_run_with_masked_replies_resumes_to_the_same_end(tmp_path: Path) -> None:
    scripts = {"rollout": leaking_target, "analyst": leaking}
    run(World(scripts=scripts), tmp_path / "whole", environ=ENVIRON)
    run(World(scripts=scripts), tmp_path / "run", {"budget.max_calls": 25}, environ=ENVIRON)
    run(World(scripts=scripts), tmp_path / "run", environ=ENVIRON)
    assert (tmp_path / "run/best_skill.md").read_bytes() == (tmp_path / "whole/best_skill.md").read_bytes()
    assert [row["action"] for row in rows(tmp_path / "run")] == [row["action"] for row in rows(tmp_path / "whole")]
    assert_clean(tmp_path)


def test_keys_in_items_reach_no_file(tmp_path: Path) -> None:
    world = World()
    items = world.items()
    for row in items["train"]:
        row["question"] += f" (with {KEY})"
        row["answer"] = f"{OTHER} is the answer"
    env = make_env(items, lambda item: item["question"], lambda item, answer: 0.25, name="world")
    ending = run(world, tmp_path / "run", {"train.num_epochs": 1}, environ=ENVIRON, env=env)
    assert ending.reason == "completed"
    assert_clean(tmp_path / "run", repr(ending))


@pytest.mark.parametrize("stage", ["rollout", "analyst", "merge"])
def test_keys_in_errors_reach_no_file_and_no_ending(tmp_path: Path, stage: str) -> None:
    def script(system: str, user: str) -> Played:
        return ModelError("auth", f"the server refused {KEY} and {OTHER} via {PROXY}")

    overrides = {"train.batch_size": 6}
    ending = run(World(scripts={stage: script}), tmp_path / "run", overrides, environ=ENVIRON)
    assert ending.reason == "error"
    assert "the server refused ***" in ending.detail
    assert_clean(tmp_path / "run", repr(ending))


def test_keys_in_the_error_of_an_item_are_masked_in_its_row(tmp_path: Path) -> None:
    def script(system: str, user: str) -> Played:
        return ModelError("provider", f"bad gateway for {KEY}") if "TR-000" in user else None

    overrides = {"runtime.max_error_rate": 1.0}
    ending = run(World(scripts={"rollout": script}), tmp_path / "run", overrides, environ=ENVIRON)
    assert ending.reason == "completed"
    assert_clean(tmp_path / "run", repr(ending))


def test_a_key_in_the_configuration_reaches_no_file(tmp_path: Path) -> None:
    overrides = {
        "model.backend": "minimax",
        "model.minimax_api_key": KEY,
        "model.optimizer_minimax_api_key": OTHER,
        "model.qwen_chat_api_key": PROXY,
        "logging.predictions": "all",
    }
    environ = {"MINIMAX_BASE_URL": "http://127.0.0.1:9/v1"}
    scripts = {"rollout": leaking_target, "analyst": leaking}
    ending = run(World(scripts=scripts), tmp_path / "run", overrides, environ=environ)
    assert ending.reason == "completed"
    assert_clean(tmp_path / "run", repr(ending))
    again = run(World(), tmp_path / "run", {**overrides, "model.minimax_api_key": "another-key"}, environ=environ)
    assert again.detail == "already finished", "a key does not decide whether a run may go on"


def test_a_wrong_value_of_a_key_is_not_shown() -> None:
    for key in ("model.azure_openai_api_key", "model.qwen_chat_api_key", "model.minimax_api_key"):
        with pytest.raises(ConfigError) as refused:
            load_config(None, (), {"env.name": "world", key: [KEY]})
        assert key in str(refused.value)
        assert KEY not in "".join(traceback.format_exception(refused.value))


# over HTTP: what a real server may send back


def served(received: Received) -> Step:
    """The world behind a server, which tells the key in every reply."""
    messages = received.body["messages"]
    system = "".join(message["content"] for message in messages if message["role"] == "system")
    user = "".join(message["content"] for message in messages if message["role"] == "user")
    stage = stage_of(system)
    reply = play(stage, system, user)
    return text(f"{reply}\n(key {KEY})" if stage == "rollout" else reply)


def trained(root: Path, url: str, environ: Mapping[str, str]) -> skillopt.Run:
    overrides = {**DEFAULTS, "train.num_epochs": 1, "logging.predictions": "all"}
    return skillopt.train(
        skill=SEED_SKILL,
        env=World(test=1).env(),
        target="small-target",
        optimizer="big-optimizer",
        out_root=root,
        overrides={key: value for key, value in overrides.items() if key not in ("model.target", "model.optimizer")},
        environ={**environ, "OPENAI_BASE_URL": url},
    )


def test_a_run_over_http_leaves_no_key_behind(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with FakeOpenAI(served) as server:
        done = trained(tmp_path / "run", server.url, ENVIRON)
    assert done.stop_reason == "completed"
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in server.requests)
    out, err = capfd.readouterr()
    assert_clean(tmp_path / "run", out, err, caplog.text, repr(done), str(done.summary), str(done.history))


@pytest.mark.parametrize("code", [401, 404, 500])
def test_a_server_that_echoes_the_key_in_an_error_is_not_quoted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], code: int
) -> None:
    echo = f"Incorrect API key provided: {KEY} (Bearer {KEY})"
    with FakeOpenAI([status(code, echo, {"x-request": KEY})]) as server, pytest.raises(RoleError) as failed:
        trained(tmp_path / "run", server.url, ENVIRON)
    out, err = capfd.readouterr()
    assert_clean(tmp_path / "run", out, err, "".join(traceback.format_exception(failed.value)))


def test_a_server_that_echoes_the_key_in_the_middle_of_a_run_is_not_quoted(tmp_path: Path) -> None:
    def script(received: Received) -> Step:
        if '"failure_summary"' in received.body["messages"][0]["content"]:
            return status(401, f"revoked: {KEY}")
        return served(received)

    with FakeOpenAI(script) as server, pytest.raises(skillopt.TrainingStopped) as stopped:
        trained(tmp_path / "run", server.url, ENVIRON)
    assert stopped.value.run.stop_reason == "error"
    assert "the server refused the key from OPENAI_API_KEY" in str(stopped.value)
    assert_clean(tmp_path / "run", "".join(traceback.format_exception(stopped.value)))


def test_the_environment_of_the_process_is_left_alone(tmp_path: Path) -> None:
    before = dict(os.environ)
    run(World(), tmp_path / "run", {"train.num_epochs": 1}, environ=ENVIRON)
    assert dict(os.environ) == before
