"""``skillopt doctor`` whole: what it finds with real servers and programs, what it says to type, what it spares."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from fakes.agents import install
from fakes.openai_server import FakeOpenAI, Received, Step, reply, status, text
from fakes.provider_server import KEY, MODEL, USED, Fails, ProviderServer, Says
from fakes.rule_world import world, write_split

import skillopt.engine.doctor as engine_doctor
from skillopt.cli.doctor import _without_secrets
from skillopt.cli.main import main
from skillopt.config.errors import Problem
from skillopt.data.errors import DataError
from skillopt.engine.remedies import Commands, for_data, for_error, for_problem, for_provider
from skillopt.extras import install_hint
from skillopt.local.catalog import find
from skillopt.local.errors import LocalError
from skillopt.local.server import LocalServer
from skillopt.models.azure import token_getter
from skillopt.models.errors import ProviderError, ProviderTrouble
from skillopt.models.resolve import require, resolve_role

SECRET = "sk-a-secret-of-the-tests"
SETTINGS = re.compile(
    r"(_API_KEY|_BASE_URL|_PROXY|_ENDPOINT|_BACKEND|_DEPLOYMENT|_MODEL|_TOKEN|^SKILLOPT_.*)$", re.IGNORECASE
)


@dataclass(frozen=True)
class Ran:
    """What a command returned and printed."""

    status: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    def check(self, name: str) -> dict[str, Any]:
        return next(check for check in self.report["checks"] if check["name"] == name)


def skillopt(*words: str | Path) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return Ran(code, out.getvalue(), err.getvalue())


def doctor(*words: str | Path) -> Ran:
    """The check as JSON."""
    return skillopt("doctor", "--json", *words)


def typed(line: str) -> list[str]:
    """The words of a command of ours that was advised, without the program."""
    words = shlex.split(line)
    return words[words.index("skillopt") + 1 :] if "skillopt" in words else words[1:]


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, a home without logins, and no setting of a provider."""
    for name in [name for name in os.environ if SETTINGS.search(name)]:
        monkeypatch.delenv(name)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    monkeypatch.setenv("SKILLOPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(work)
    return work


Use = Callable[[FakeOpenAI], FakeOpenAI]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Starts a server and makes it the one endpoint of the environment."""
    servers: list[FakeOpenAI] = []

    def start(server: FakeOpenAI) -> FakeOpenAI:
        server.__enter__()
        servers.append(server)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# The five situations


def test_nothing_set(bare: Path) -> None:
    ran = doctor()
    assert (ran.status, ran.err, ran.report["ok"]) == (1, "", False)
    optimizer, target = ran.check("optimizer model"), ran.check("target model")
    assert optimizer["status"] == target["status"] == "fail"
    assert "no model provider is set" in optimizer["found"]
    assert ran.report["next"] == optimizer["advice"][0] == "export OPENAI_API_KEY=YOUR_KEY"
    assert typed(optimizer["advice"][1]) == ["doctor", "--backend", "local"]
    assert ran.check("data")["facts"]["items"] == {"train": 24, "val": 24, "test": 72}
    assert ran.check("disk")["status"] == "ok"
    assert not list(bare.iterdir())


def test_a_wrong_key(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    server = use(ProviderServer("openai", [Says("OK")]))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ran = doctor()
    assert ran.status == 1
    assert len(server.requests) == 2, "a refused key costs one request a role"
    key, probe = ran.check("target key"), ran.check("target probe")
    assert (key["status"], key["found"]) == ("ok", f"OPENAI_API_KEY ({len(SECRET)} characters)")
    assert probe["status"] == "fail"
    assert probe["facts"] == {"kind": "auth", "http_status": 401}
    assert ran.report["next"] == probe["advice"][0] == "export OPENAI_API_KEY=YOUR_KEY"
    for part in (SECRET, SECRET[3:], SECRET[:8]):
        assert part not in ran.out


def test_a_wrong_model(use: Use) -> None:
    def answer(received: Received) -> Step:
        if received.method == "GET":
            assert received.target == "/v1/models"
            assert received.headers["authorization"] == f"Bearer {KEY}"
            return reply({"data": [{"id": "pupil-large"}, {"id": "teacher"}]})
        if received.body["model"] == "teacher":
            return text("OK")
        return status(404, "The model does not exist", code="model_not_found")

    use(FakeOpenAI(answer))
    ran = doctor("--optimizer_model", "teacher", "--target_model", "pupil-larg")
    assert ran.status == 1
    assert ran.check("optimizer probe")["status"] == "ok"
    probe = ran.check("target probe")
    assert "(it has pupil-large, teacher)" in probe["found"]
    words = ["doctor", "--optimizer_model", "teacher", "--target_model", "pupil-large"]
    assert typed(ran.report["next"]) == typed(probe["advice"][0]) == words


def test_a_wrong_model_where_nobody_lists_them(use: Use) -> None:
    use(FakeOpenAI([status(404, "no such model")]))
    ran = doctor()
    assert typed(ran.report["next"]) == ["doctor", "--optimizer_model", "NAME"]


def test_an_address_without_its_version(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    server = use(ProviderServer("openai", [Says("OK")]))
    bare_url = server.url.removesuffix("/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", bare_url)
    assert doctor().report["next"] == f"export OPENAI_BASE_URL={bare_url}/v1"


def test_an_address_of_a_web_page(use: Use) -> None:
    use(ProviderServer("openai", [Step(payload=b"<!doctype html><title>Sign in</title>")]))
    ran = doctor()
    assert "the response is a web page, not JSON" in ran.check("target probe")["found"]
    assert ran.report["next"] == "export OPENAI_BASE_URL=http://HOST:PORT/v1"


def test_an_address_that_leads_elsewhere(use: Use) -> None:
    use(FakeOpenAI([Step(301, headers={"Location": "https://elsewhere.example/v1"})]))
    ran = doctor()
    assert "https://elsewhere.example/v1" in ran.check("target probe")["found"]
    assert ran.report["next"] == "export OPENAI_BASE_URL=http://HOST:PORT/v1"


def test_an_account_without_credit(use: Use) -> None:
    use(FakeOpenAI([status(402, "pay first")]))
    ran = doctor()
    assert "no credit left" in ran.check("target probe")["found"]
    assert typed(ran.report["next"]) == ["doctor"], "to wait would not help"


def test_tokens_of_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("skillopt.models.azure._has_library", lambda: False)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://x.openai.azure.com")
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = doctor()
    assert "the Azure CLI is not here" in ran.check("target probe")["found"]
    assert ran.report["next"] == "export AZURE_OPENAI_API_KEY=YOUR_KEY"


def test_a_server_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:  # a port that nobody listens at
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        ran = doctor()
    assert ran.status == 1
    probe = ran.check("target probe")
    assert "cannot connect" in probe["found"]
    assert probe["advice"] == [f"curl -sS -m 10 {url}/models", "export OPENAI_BASE_URL=http://HOST:PORT/v1"]
    assert ran.report["next"] == probe["advice"][0]


@pytest.mark.parametrize(
    ("backend", "start"),
    [("ollama", "ollama serve"), ("vllm", "vllm serve m"), ("lmstudio", "lms server start")],
)
def test_how_a_server_of_ones_own_is_started(backend: str, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
        monkeypatch.setenv(f"{backend.upper()}_BASE_URL", url)
        ran = doctor("--backend", backend, "--target_model", "m", "--optimizer_model", "m")
    assert ran.report["next"] == start
    assert ran.check("target key")["status"] == "ok", "none is needed"


def test_everything_right(use: Use, bare: Path, tmp_path: Path) -> None:
    server = use(ProviderServer("openai", [Says("OK")]))
    prices = tmp_path / "prices.yaml"
    prices.write_text(f"prices: {{openai: {{{MODEL}: {{input: 2, output: 8, cached: 1}}}}}}", encoding="utf-8")
    words = ["--target_model", MODEL, "--optimizer_model", MODEL, f"budget.prices={prices}"]
    before = everything(tmp_path)
    ran = doctor(*words)
    assert (ran.status, ran.err, ran.report["ok"]) == (0, "", True)
    assert not server.complaints  # type: ignore[attr-defined]
    model = ran.check("target model")["facts"]
    assert (model["provider"], model["model"], model["endpoint"]) == ("openai", MODEL, server.url)
    assert ran.check("target abilities")["facts"] == {
        "tools": True, "images": True, "json_schema": True, "agent": False,
    }  # fmt: skip
    assert ran.check("target price")["found"] == "$2.00 in, $1.00 cached, $8.00 out per million tokens"
    facts = ran.check("target probe")["facts"]
    cost = ((USED["prompt"] - USED["cached"]) * 2 + USED["cached"] * 1 + USED["completion"] * 8) / 1e6
    assert facts.pop("seconds") < 5
    assert facts == {
        "requests": 1,
        "prompt_tokens": USED["prompt"],
        "completion_tokens": USED["completion"],
        "cost_usd": pytest.approx(cost),
    }
    assert ran.check("plan")["facts"] == {"epochs": 4, "steps": 4}
    assert ran.check("run folder")["facts"] == {"state": "new"}
    sample = ["--config", "configs/searchqa/default.yaml", "env.split_dir=data/samples/searchqa-mini"]
    assert typed(ran.report["next"]) == ["train", *sample, *words]
    assert everything(tmp_path) == before
    assert not list(bare.iterdir())
    assert KEY not in ran.out


def test_what_a_person_reads(use: Use) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    ran = skillopt("doctor")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[-2] == "a training can start"
    assert " train --config configs/searchqa/default.yaml " in lines[-1]
    assert re.search(
        r"^ok    optimizer probe     answered in \d+\.\d\d s, 120\+30 tokens, unknown cost$", ran.out, re.M
    )
    column = len("ok    ") + 20
    assert all(line[column - 1] == " " != line[column] for line in lines[:-3] if line.startswith(("ok", "note")))

    failed = skillopt("doctor", "--split_dir", "nowhere")
    assert failed.status == 1
    assert re.search(r"^FAIL  data .*\n(?: {6}.*\n)* +type: .*skillopt doctor .*searchqa-mini$", failed.out, re.M)
    assert failed.out.splitlines()[-2] == "1 problem: a training could not start"


# The shape, the exits, the secrets


def test_the_shape_of_the_json(use: Use) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    report = doctor().report
    assert set(report) == {"ok", "next", "checks"}
    names = [check["name"] for check in report["checks"]]
    assert len(set(names)) == len(names)
    per_role = [f"{role} {what}" for role in ("optimizer", "target") for what in ("model", "key", "abilities", "price")]
    last = ["data", "first skill", "plan", "run folder", "disk", "optimizer probe", "target probe"]
    assert names == ["skillopt", "configuration", *per_role, *last]
    for check in report["checks"]:
        assert set(check) == {"name", "status", "found", "advice", "facts"}
        assert check["status"] in ("ok", "warn", "fail")
        assert check["advice"] or check["status"] != "fail", "a problem ends with something to type"


def test_no_probe_sends_nothing(use: Use) -> None:
    server = use(ProviderServer("openai", [Fails("key")]))
    ran = doctor("--no-probe")
    assert ran.status == 0
    assert not server.requests
    assert "target probe" not in [check["name"] for check in ran.report["checks"]]
    assert "--no-probe" not in ran.report["next"]


def test_secrets_stay_out(use: Use, bare: Path) -> None:
    def echo(received: Received) -> Step:
        return status(400, f"you sent {received.headers['authorization']}")

    use(FakeOpenAI(echo))
    (bare / ".env").write_text(f"ANTHROPIC_API_KEY={SECRET}\n", encoding="utf-8")
    words = [
        "--optimizer_backend",
        "anthropic",
        "--azure_openai_api_key",
        f"{SECRET}-2",
        f"model.azure_api_key={SECRET}3",
    ]
    for ran in (doctor("--no-probe", *words), skillopt("doctor", "--no-probe", *words, "--split_dir", "nowhere")):
        assert SECRET not in ran.out + ran.err
    key = doctor("--no-probe", *words).check("optimizer key")
    assert key["found"] == f"ANTHROPIC_API_KEY in .env ({len(SECRET)} characters)"
    ran = doctor()
    assert KEY not in ran.out
    assert "you sent" in ran.check("target probe")["found"]


def test_typed_keys_become_placeholders() -> None:
    words = ["--azure_openai_api_key", "abc", "model.openai_api_key=abc", "--qwen-chat-api-key=abc", "--workers", "3"]
    assert list(_without_secrets(words)) == [
        "--azure_openai_api_key", "YOUR_KEY", "model.openai_api_key=YOUR_KEY", "--qwen-chat-api-key=YOUR_KEY",
        "--workers", "3",
    ]  # fmt: skip


# Configuration, data, plan, folder, disk


@pytest.mark.parametrize(
    ("words", "said", "following"),
    [
        (["env.nmae=x"], "env.nmae is not a known key", ["doctor", "env.name=x"]),
        (["train.batch_size=abc", "train.seed=1"], "must be a whole number", ["doctor", "train.seed=1"]),
        (["--batch_size", "abc", "--workers", "3"], "must be a whole number", ["doctor", "--workers", "3"]),
        (["--backend", "anthropc"], "did you mean anthropic?", ["doctor", "--backend", "anthropic"]),
        (["model.backend=anthropc"], "did you mean anthropic?", ["doctor", "model.backend=anthropic"]),
        (["--config", "no.yaml"], "no such configuration", ["doctor", "--config", "configs/searchqa/default.yaml"]),
    ],
)
def test_a_wrong_configuration(words: list[str], said: str, following: list[str]) -> None:
    ran = doctor(*words)
    assert ran.status == 1
    assert said in ran.check("configuration")["found"]
    assert typed(ran.report["next"]) == following


def test_a_wrong_configuration_file_is_opened(bare: Path) -> None:
    (bare / "mine.yaml").write_text("env: {name: searchqa}\ntrain: {batch_sise: 3}\n", encoding="utf-8")
    ran = doctor("--config", "mine.yaml")
    assert ran.report["next"] == "${EDITOR:-nano} mine.yaml"
    assert ran.check("configuration")["advice"][1].endswith("doctor --config mine.yaml")


@pytest.mark.parametrize(
    ("name", "text", "words", "said"),
    [
        (".env", f'A=1\nOPENAI_API_KEY="{SECRET}\n', [], ".env:2: a value starts with a quote"),
        ("mine.yaml", "env: {name: searchqa\n", ["--config", "mine.yaml"], "mine.yaml: line 2"),
        ("mine.yaml", "_base_: no.yaml\n", ["--config", "mine.yaml"], "mine.yaml: _base_ no.yaml"),
        ("mine.yaml", "env: {name: searchqa, workers: x}\n", ["--config", "mine.yaml"], "env.workers must be"),
        ("prices.yaml", "prices: {openai: {m: {input: 1}}}\n", ["budget.prices=prices.yaml"], "prices.yaml:1: "),
    ],
)
def test_a_file_with_a_mistake_is_opened(
    name: str, text: str, words: list[str], said: str, use: Use, bare: Path
) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    (bare / name).write_text(text, encoding="utf-8")
    ran = doctor("--no-probe", *words)
    assert ran.status == 1
    (failed, *_) = [check for check in ran.report["checks"] if check["status"] == "fail"]
    assert said in failed["found"]
    editor, path = shlex.split(ran.report["next"])
    assert editor == "${EDITOR:-nano}"
    assert Path(path).resolve() == bare / name
    assert SECRET not in ran.out


def test_a_key_in_place_of_the_address(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", SECRET)
    ran = doctor()
    assert "the base URL '***' (OPENAI_BASE_URL)" in ran.check("optimizer model")["found"]
    assert ran.report["next"] == "export OPENAI_BASE_URL=http://HOST:PORT/v1"
    assert SECRET not in ran.out + ran.err


def test_an_environment_that_is_not_named() -> None:
    ran = doctor("--config", "configs/searchqa/default.yaml", "env.name=")
    assert typed(ran.report["next"])[-2:] == ["--env", "searchqa"]


def rows(count: int) -> str:
    return json.dumps([{"id": str(n), "question": f"q{n}", "context": "", "answers": ["a"]} for n in range(count)])


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (["--env", "serchqa"], ["--env", "searchqa"]),
        (["--env", "qqq"], ["--env", "searchqa"]),
        (["--env", "docvqa"], ["--env", "searchqa"]),
        (["--split_mode", "ratio", "--data_path", "all.json", "--split_ratio", "1:2"], ["all.json"]),
        (["env.limit=-1"], ["doctor"]),
        (["--split_mode", "ratio", "--data_path", "cut"], ["env.split_mode=split_dir", "env.split_dir=cut"]),
        (["--split_mode", "ratio", "--data_path", "two"], ["env.data_path=two/a.json"]),
        (["--split_mode", "ratio", "--data_path", "none.json"], ["--split_dir", "data/samples/searchqa-mini"]),
        (["--split_dir", "torn"], ["--split_dir", "data/samples/searchqa-mini"]),
    ],
)
def test_wrong_data(words: list[str], last: list[str], use: Use, bare: Path) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    for name in ("all.json", "two/a.json", "two/b.json", "cut/train/a.json", "cut/val/a.json", "cut/test/a.json"):
        path = bare / name
        path.parent.mkdir(parents=True, exist_ok=True)
        number = ("train", "val", "test").index(path.parent.name) * 100 if name.startswith("cut") else 0
        path.write_text(rows(40).replace('"id": "', f'"id": "{number}-'), encoding="utf-8")
    for split in ("train", "val", "test"):
        (bare / "torn" / split).mkdir(parents=True)
        (bare / "torn" / split / "items.json").write_text('[{"id": 1', encoding="utf-8")
    ran = doctor("--no-probe", *words)
    assert ran.status == 1
    (failed, *_) = [check for check in ran.report["checks"] if check["status"] == "fail"]
    assert ran.report["next"] == failed["advice"][0]
    assert typed(ran.report["next"])[-len(last) :] == last
    assert skillopt(*typed(ran.report["next"]), "--no-probe").status == 0, "what it says to type works"


def test_missing_data(use: Use) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    ran = doctor("--config", "configs/searchqa/default.yaml")
    data = ran.check("data")
    assert (ran.status, data["status"]) == (1, "fail")
    sample = ["--split_mode", "split_dir", "--split_dir", "data/samples/searchqa-mini"]
    assert typed(ran.report["next"]) == ["doctor", "--config", "configs/searchqa/default.yaml", *sample]
    assert data["advice"][1].startswith("python scripts/materialize_searchqa.py --manifest-dir ")
    assert skillopt(*typed(ran.report["next"])).status == 0, "what it says to type works"


def test_a_cut_of_one_file_is_not_written(use: Use, bare: Path) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    rows = [{"id": str(n), "question": f"q{n}", "context": "", "answers": ["a"]} for n in range(40)]
    (bare / "all.json").write_text(json.dumps(rows), encoding="utf-8")
    before = everything(bare)
    ran = doctor("--split_mode", "ratio", "--data_path", "all.json", "--split_output_dir", "cut")
    assert ran.status == 0
    assert ran.check("data")["facts"]["items"] == {"train": 8, "val": 4, "test": 28}
    assert everything(bare) == before
    assert not (bare / "cut").exists()


def test_an_environment_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch, use: Use) -> None:
    use(ProviderServer("openai", [Says("OK")]))

    def broken(config: object) -> None:
        raise ZeroDivisionError("in a plug-in")

    monkeypatch.setattr(engine_doctor, "load_env", broken)
    ran = doctor()
    assert ran.status == 1
    assert "ZeroDivisionError: in a plug-in" in ran.check("data")["found"]
    assert ran.check("target probe")["status"] == "ok"


@pytest.mark.parametrize(
    ("words", "name", "last"),
    [
        (["--train_size", "5"], "plan", "train.train_size=0"),
        (["--skill_init", "no.md"], "first skill", "env.skill_init="),
        (["budget.max_usd=1"], "optimizer price", "budget.max_tokens=2000000"),
        (["budget.prices=no.yaml"], "optimizer price", "budget.prices="),
        (["--limit", "1", "evaluation.test_env_num=0", "train.train_size=7"], "plan", "train.train_size=0"),
    ],
)
def test_values_that_do_not_fit(words: list[str], name: str, last: str, use: Use) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    ran = doctor("--optimizer_model", "unheard-of", "--target_model", "unheard-of", *words)
    assert ran.status == 1
    assert ran.check(name)["status"] == "fail"
    assert typed(ran.report["next"])[-1] == last
    assert skillopt(*typed(ran.report["next"])).status == 0, "what it says to type works"


def test_a_plan_that_needs_what_is_not_there(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    use(ProviderServer("openai", [Says("OK")]))

    def missing(environ: object) -> None:
        raise ModuleNotFoundError("No module named 'tensorboard'")

    monkeypatch.setattr("skillopt.trackers.tensorboard.find", missing)
    tracked = doctor("--no-probe", "logging.trackers=tensorboard")
    assert tracked.check("plan")["status"] == "fail"
    assert tracked.report["next"] == install_hint("tensorboard")

    monkeypatch.setattr("skillopt.engine.prepare.needs_of", lambda env, items: frozenset({"images"}))
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    blind = doctor("--no-probe", "--target_backend", "deepseek")
    assert "the environment needs images, and deepseek has none" in blind.check("plan")["found"]
    assert typed(blind.report["next"]) == ["doctor", "--target_backend", "openai"]


def train_words(split: Path) -> list[str]:
    size = ["--num_epochs", "1", "--batch_size", "4", "--workers", "4", "--optimizer_model", "teacher"]
    return ["--config", "configs/searchqa/default.yaml", "--split_dir", str(split), "--target_model", "pupil", *size]


def test_the_states_of_a_run_folder(use: Use, bare: Path, tmp_path: Path) -> None:
    use(FakeOpenAI(world()))
    words = [*train_words(write_split(tmp_path / "split")), "--out_root", "outputs/run"]
    assert skillopt("train", *words, "budget.max_calls=8").status == 0  # stopped by its budget
    before = everything(bare)
    folder = doctor(*words).check("run folder")
    assert folder["facts"] == {"state": "resumable"}
    assert "stopped after step 0 of 2" in folder["found"]

    other = doctor(*words, "--batch_size", "8")
    assert (other.status, other.check("run folder")["facts"]["state"]) == (1, "refused")
    assert "batch_size: 4 -> 8" in other.check("run folder")["found"]
    assert typed(other.report["next"])[-2:] == ["--resume_policy", "fork"]
    assert skillopt(*typed(other.report["next"])).status == 0
    assert everything(bare) == before

    assert skillopt("train", *words).status == 0
    assert doctor(*words).check("run folder")["facts"] == {"state": "finished"}


def test_a_folder_of_something_else_is_refused(use: Use, bare: Path) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    (bare / "theirs").mkdir()
    (bare / "theirs" / "summary.json").write_text("{}", encoding="utf-8")
    ran = doctor("--out_root", "theirs")
    assert ran.check("run folder")["facts"] == {"state": "refused"}
    assert typed(ran.report["next"]) == ["doctor", "--out_root", str(bare / "theirs-2")]


def test_a_disk_that_cannot_be_written(use: Use, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    (bare / "closed").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(bare / "closed"))
    ran = doctor("--out_root", "closed/run")
    assert (ran.status, ran.check("disk")["status"]) == (1, "fail")
    assert typed(ran.report["next"]) == ["doctor", "--out_root", "outputs/another"]


@pytest.mark.parametrize(("free", "said", "code"), [(500 << 20, "warn", 0), (10 << 20, "fail", 1)])
def test_a_full_disk(free: int, said: str, code: int, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    usage = shutil.disk_usage(".")._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    ran = doctor()
    assert (ran.status, ran.check("disk")["status"]) == (code, said)
    assert ran.check("disk")["advice"][0].startswith("df -h ")


# Other providers, programs, the embedded model


def test_each_role_has_its_own_provider(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    with ProviderServer("anthropic", [Says("OK")]) as anthropic:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", anthropic.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        ran = doctor("--target_backend", "anthropic")
    assert ran.status == 0
    assert not anthropic.complaints
    assert ran.check("optimizer model")["facts"]["provider"] == "openai"
    assert ran.check("target model")["facts"]["protocol"] == "messages"
    assert ran.check("target probe")["facts"]["completion_tokens"] == USED["completion"]


def test_a_key_that_only_the_target_lacks(use: Use) -> None:
    use(ProviderServer("openai", [Says("OK")]))
    ran = doctor("--target_backend", "anthropic")
    assert ran.report["next"] == "export ANTHROPIC_API_KEY=YOUR_KEY"
    assert ran.check("optimizer probe")["status"] == "ok"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-ins, in the path."""
    bin_ = install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}{os.defpath}")
    return bin_


@pytest.mark.skipif(os.name == "nt", reason="the stand-ins are scripts with an interpreter line")
class TestPrograms:
    def test_a_program_that_works(self, use: Use, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        use(ProviderServer("openai", [Says("OK")]))
        monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
        ran = doctor("--target_backend", "claude_code_exec", "--optimizer_backend", "openai")
        assert ran.status == 0
        program = ran.check("target program")
        assert program["facts"] == {"path": str(programs / "claude"), "version": "2.1.197"}
        assert ran.check("target login")["found"] == "ANTHROPIC_API_KEY"
        assert ran.check("target sandbox")["facts"]["bubblewrap"] in (True, False)
        assert ran.check("target probe")["facts"]["cost_usd"] == pytest.approx(0.0123)
        assert SECRET not in ran.out

    def test_a_program_without_a_login(self, use: Use, programs: Path) -> None:
        use(ProviderServer("openai", [Says("OK")]))
        ran = doctor("--target_backend", "claude_code_exec", "--optimizer_backend", "openai")
        assert ran.status == 1
        assert ran.check("target login")["status"] == "warn"
        assert ran.check("target probe")["facts"]["kind"] == "auth"
        assert ran.report["next"] == "claude auth login"

    def test_a_program_that_is_not_there(self, use: Use, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        use(ProviderServer("openai", [Says("OK")]))
        monkeypatch.setenv("PATH", str(tmp_path))
        ran = doctor("--target_backend", "codex", "--optimizer_backend", "openai")
        assert ran.status == 1
        assert ran.report["next"] == "npm install -g @openai/codex"
        assert ran.check("target program")["advice"][1] == "export CODEX_EXEC_PATH=/path/to/codex"
        assert ran.check("target probe")["found"] == "not asked: see above"

    def test_a_program_that_is_too_old(self, use: Use, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        use(ProviderServer("openai", [Says("OK")]))
        old = (programs / "codex").read_text(encoding="utf-8")
        (programs / "codex").write_text(old.replace("--output-schema", "--no-schema"), encoding="utf-8")
        ran = doctor("--no-probe", "--target_backend", "codex", "--optimizer_backend", "openai")
        assert ran.status == 1
        assert "does not know" in ran.check("target program")["found"]


def test_an_embedded_model_is_never_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine_doctor, "find_spec", lambda name: object())
    ran = doctor("--config", "configs/quickstart.yaml")
    assert ran.status == 0, "a run would fetch it"
    weights = ran.check("target weights")
    assert (weights["status"], weights["facts"]["present"]) == ("warn", False)
    assert typed(weights["advice"][0]) == ["models", "pull", "qwen2.5-coder-1.5b"]
    assert ran.check("target probe")["found"] == "not asked: see above"
    assert not (tmp_path / "cache").exists()


def test_an_embedded_model_without_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_doctor, "find_spec", lambda name: None)
    ran = doctor("--config", "configs/quickstart.yaml")
    assert (ran.status, ran.report["next"]) == (1, install_hint("local"))


# The remedies, one by one


def commands(words: Sequence[str] = (), *, windows: bool = False) -> Commands:
    return Commands(tuple(words), lambda *parts: " ".join(("skillopt", *parts)), windows=windows)


OPENAI = {"OPENAI_API_KEY": KEY}
AZURE = {"AZURE_OPENAI_ENDPOINT": "https://models.example"}
QWEN = {"QWEN_CHAT_THINKING_MODE": "enabled"}
ENDPOINT = "AZURE_OPENAI_ENDPOINT=https://NAME.openai.azure.com"

# environment, arguments of resolve_role (and what an environment needs) -> the first line of the advice
MISTAKES: list[tuple[dict[str, str], dict[str, Any], str]] = [
    # no provider, no key, no endpoint, no model
    ({}, {}, "export OPENAI_API_KEY=YOUR_KEY"),
    ({"AZURE_OPENAI_API_KEY": KEY}, {}, f"export {ENDPOINT}"),
    ({}, {"backend": "azure"}, f"export {ENDPOINT}"),
    ({}, {"backend": "groq", "model": "m"}, "export GROQ_API_KEY=YOUR_KEY"),
    ({**AZURE, "AZURE_OPENAI_AUTH_MODE": "api_key"}, {}, "export AZURE_OPENAI_API_KEY=YOUR_KEY"),
    ({"FIREWORKS_API_KEY": KEY}, {"backend": "fireworks"}, "skillopt doctor --target_model NAME"),
    ({"OPENAI_BASE_URL": "http://gate/v1"}, {"role": "optimizer"}, "skillopt doctor --optimizer_model NAME"),
    # a provider that there is not, that does not fit the role or the model, that cannot do what is needed
    ({}, {"backend": "olama"}, "skillopt doctor --backend ollama"),
    ({}, {"role_backend": "olama"}, "skillopt doctor --target_backend ollama"),
    ({"TARGET_BACKEND": "olama"}, {}, "export TARGET_BACKEND=ollama"),
    ({}, {"backend": "qqq"}, "skillopt doctor --backend openai"),
    ({}, {"role": "optimizer", "role_backend": "cursor"}, "skillopt doctor --optimizer_backend openai"),
    (OPENAI, {"backend": "openai", "model": "anthropic/m"}, "skillopt doctor --target_backend anthropic"),
    ({}, {"backend": "local", "need": "tools"}, "skillopt doctor --target_backend openai"),
    ({}, {"backend": "local", "need": "a screen"}, "skillopt doctor --env searchqa"),
    # addresses and keys
    ({**OPENAI, "OPENAI_BASE_URL": "x:y"}, {}, "export OPENAI_BASE_URL=http://HOST:PORT/v1"),
    (
        {**OPENAI, "OPENAI_BASE_URL": "gate"},
        {"backend": "openai", "model": "openai/m"},
        "export OPENAI_BASE_URL=http://HOST:PORT/v1",
    ),
    (OPENAI, {"base_url": "x:y"}, "skillopt doctor model.target_base_url=http://HOST:PORT/v1"),
    (
        {},
        {"backend": "azure", "configured": {"azure_openai_endpoint": "https://me:pw@host"}},
        f"skillopt doctor model.{ENDPOINT.replace('AZURE_OPENAI_ENDPOINT', 'azure_openai_endpoint')}",
    ),
    ({"OPENAI_API_KEY": "two words"}, {}, "export OPENAI_API_KEY=YOUR_KEY"),
    (AZURE, {}, "export AZURE_OPENAI_AUTH_MODE=api_key"),  # no key, so tokens; and that host is none of Azure's
    (
        AZURE,
        {"configured": {"azure_openai_auth_mode": "azure_cli"}},
        "skillopt doctor model.azure_openai_auth_mode=api_key",
    ),
    # values
    ({"MINIMAX_API_KEY": KEY, "MINIMAX_REGION": "eu"}, {}, "export MINIMAX_REGION=global_en"),
    (
        {"MINIMAX_API_KEY": KEY},
        {"configured": {"minimax_region": "cnzh"}},
        "skillopt doctor model.minimax_region=cn_zh",
    ),
    ({**OPENAI, "OPENAI_TIMEOUT": "x"}, {}, "export OPENAI_TIMEOUT=1"),
    ({**OPENAI, "OPENAI_TIMEOUT": "0"}, {}, "export OPENAI_TIMEOUT=300"),
    ({**OPENAI, "OPENAI_TEMPERATURE": "-1"}, {}, "export OPENAI_TEMPERATURE=1"),
    ({**OPENAI, "OPENAI_MAX_TOKENS": "0"}, {}, "export OPENAI_MAX_TOKENS=1"),
    ({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_THINKING_TOKENS": "5"}, {}, "export ANTHROPIC_THINKING_TOKENS=1024"),
    ({"CODEX_EXEC_NETWORK_ACCESS": "x"}, {"backend": "codex"}, "export CODEX_EXEC_NETWORK_ACCESS=true"),
    # settings that contradict each other
    ({**QWEN, "QWEN_CHAT_ENABLE_THINKING": "false"}, {"backend": "qwen"}, "unset QWEN_CHAT_ENABLE_THINKING"),
    (
        QWEN,
        {"backend": "qwen", "configured": {"qwen_chat_enable_thinking": False}},
        "skillopt doctor model.qwen_chat_enable_thinking=null",
    ),
]


def mistake(environ: dict[str, str], arguments: dict[str, Any]) -> ProviderError | None:
    need, role = arguments.get("need"), arguments.get("role", "target")
    rest = {name: value for name, value in arguments.items() if name not in ("need", "role")}
    try:
        require(resolve_role(role, environ=environ, **rest), frozenset({need} if need else ()))
    except ProviderError as error:
        return error
    return None


@pytest.mark.parametrize(("environ", "arguments", "first"), MISTAKES)
def test_remedies_of_providers(environ: dict[str, str], arguments: dict[str, Any], first: str) -> None:
    error = mistake(environ, arguments)
    assert error is not None
    assert for_provider(error, arguments.get("role", "target"), commands())[0] == first


@pytest.mark.parametrize(("environ", "arguments", "first"), MISTAKES)
def test_a_remedy_that_is_obeyed_mends_what_it_is_for(
    environ: dict[str, str], arguments: dict[str, Any], first: str
) -> None:
    before, after = mistake(environ, arguments), mistake(*obeyed(environ, arguments, first))
    assert before is not None
    assert after is None or (after.kind, after.setting, str(after)) != (before.kind, before.setting, str(before))
    if before.setting and after is not None:
        assert after.setting != before.setting, "the same setting is still wrong"


def obeyed(environ: dict[str, str], arguments: dict[str, Any], line: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The environment and the arguments as they are after ``line``, whose place-holders the user has filled in."""
    role = arguments.get("role", "target")
    verb, *words = shlex.split(line.replace("HOST:PORT", "localhost:8000"))
    if verb == "unset":
        return {name: value for name, value in environ.items() if name not in words}, arguments
    if verb == "export":
        name, _, value = words[0].partition("=")
        return {**environ, name: value}, arguments
    if words[1] == "--env":
        return environ, {**arguments, "need": None}
    named = {"--backend": "backend", f"--{role}_backend": "role_backend", f"--{role}_model": "model"}
    if words[1] in named:
        return environ, {**arguments, named[words[1]]: words[2]}
    name, _, value = words[-1].removeprefix("model.").partition("=")
    if name == f"{role}_base_url":
        return environ, {**arguments, "base_url": value}
    configured = {**arguments.get("configured", {}), name: None if value == "null" else value}
    return environ, {**arguments, "configured": configured}


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillopt.models.azure._has_library", lambda: False)
    environ = {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com", "AZURE_OPENAI_AUTH_MODE": "managed_identity"}
    role = resolve_role("target", environ=environ)
    with pytest.raises(ProviderError) as refused:
        token_getter(role, environ)
    assert for_provider(refused.value, "target", commands()) == (install_hint("azure"),)


def test_every_kind_of_mistake_was_made() -> None:
    made = {error.kind for *given, _ in MISTAKES if (error := mistake(*given)) is not None}
    assert made | {"install"} == set(get_args(ProviderTrouble))


def test_options_are_replaced_not_repeated() -> None:
    words = ["--split-dir", "x", "model.target=a", "--json", "--cfg-options", "a.b=1", "c.d=2"]
    line = commands(words).doctor("--split_dir", "y", "model.target=b", "--d", "3")
    assert line == "skillopt doctor --json --cfg-options a.b=1 --split_dir y model.target=b --d 3"


def test_other_shells() -> None:
    windows = commands(windows=True)
    assert windows.export("A_KEY", "x") == "set A_KEY=x"
    assert windows.edit("a b.yaml") == 'notepad "a b.yaml"'


def test_remedies_without_a_known_cause() -> None:
    problem = Problem("something quite new")
    assert for_problem(problem, "", commands(["--config", "a.yaml"])) == ("skillopt doctor --config a.yaml",)
    assert for_provider(ProviderError("something quite new"), "target", commands()) == ("skillopt doctor",)
    assert for_data(DataError("something quite new"), "mine", commands()) == ("skillopt doctor --split_dir FOLDER",)


def test_remedies_of_what_is_not_ours() -> None:
    absent = ImportError("this benchmark needs a package: pip install 'benchmark[all]'")
    assert for_data(absent, "mine", commands()) == ("pip install 'benchmark[all]'",)
    told = DataError("no rows here yet; run\n  python fetch.py --all\nand come again")
    assert for_data(told, "mine", commands()) == ("python fetch.py --all",)


def test_remedies_of_an_embedded_model(tmp_path: Path) -> None:
    async def serve() -> None:
        async with LocalServer(tmp_path / "no.gguf"):
            raise AssertionError("nothing to serve")

    for job in (lambda: find("nowhere"), lambda: asyncio.run(serve())):
        with pytest.raises(LocalError) as refused:
            job()
        assert for_error(refused.value, "target", "searchqa", commands()) == ("skillopt models list",)
