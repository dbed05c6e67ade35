"""Every command of the tutorial, and the script of the same workflow, against a server in place of the model."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("starlette", reason="the extra webui is not installed")
pytest.importorskip("uvicorn", reason="the extra webui is not installed")
pytest.importorskip("jinja2", reason="the extra report is not installed")
pytest.importorskip("matplotlib", reason="the extra report is not installed")
pytest.importorskip("httpx2", reason="the fakes of the dashboard need httpx2")

from fakes.dashboard import KEYS, SECRET, until, user_environment
from fakes.openai_server import FakeOpenAI, Received, Step, text
from fakes.world import play, stage_of

import skillopt
from skillopt.cli import models
from skillopt.cli.main import main
from skillopt.local.catalog import Weights
from skillopt.local.sources import Job

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
SAMPLE = ROOT / "data" / "samples" / "house-style"
WEIGHTS = b"weights" * 100
TOY = Weights("toy-1b", "Toy 1B", "toy.gguf", len(WEIGHTS), hashlib.sha256(WEIGHTS).hexdigest(), "MIT")
# In place of the model on this machine.
SERVED = ("--backend", "openai", "--target_model", "pupil", "--optimizer_model", "pupil")


def commands(page: str) -> list[str]:
    """The lines of the fenced blocks of a page."""
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", page)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


COMMANDS = commands(PAGE)


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Walk:
    """The folder in which the page was carried out, what each of its commands did, and how many requests each sent."""

    folder: Path
    done: Mapping[str, Done]
    sent: Mapping[str, int]

    def of(self, begin: str) -> Done:
        return next(done for command, done in self.done.items() if command.startswith(begin))


# the model


def _answers() -> Mapping[str, tuple[str, str]]:
    """The kind and the answer of each item by its question."""
    files = [SAMPLE / split / "items.json" for split in ("train", "val", "test")]
    items = [item for file in files for item in json.loads(file.read_text(encoding="utf-8"))]
    return {item["question"]: (item["task_type"], item["answers"][0]) for item in items}


ANSWERS = _answers()
RULES = {kind: f"- House style of a {kind}: as the examples show." for kind in ("date", "name", "yes_no")}


def house_style(received: Received) -> Step:
    """A model that follows the house style once the skill has the rule, and whose analyst proposes one rule a time."""
    messages = received.body["messages"]
    system = "".join(message["content"] for message in messages if message["role"] == "system")
    user = "".join(message["content"] for message in messages if message["role"] == "user")
    stage = stage_of(system)
    if stage == "rollout":
        kind, answer = next(found for question, found in ANSWERS.items() if question in user)
        right = kind not in RULES or RULES[kind] in system
        return text(f"<answer>{answer if right else 'in my own way'}</answer>")
    if stage == "analyst":
        lines = [rule for rule in RULES.values() if rule not in user][:1]
        edits = [{"op": "append", "target": "", "content": line} for line in lines]
        patch = {"reasoning": "form", "edits": edits}
        return text(json.dumps({"batch_size": 4, "failure_summary": [], "patch": patch}))
    return text(play(stage, system, user))


# the walk


class _Shop:
    title = "the shop"

    def fill(self, job: Job) -> None:
        job.part.write_bytes(WEIGHTS)


def _is_ours(command: str) -> bool:
    return command.startswith("skillopt ")


def _run(words: list[str]) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(words)
    return Done(status, out.getvalue(), err.getvalue())


def _look(words: list[str]) -> Done:
    """Starts the dashboard, on a free port, and fetches its first page."""
    code = "import sys; from skillopt.cli.main import main; sys.exit(main())"
    line = [sys.executable, "-u", "-c", code, *words, "--port", "0"]
    process = subprocess.Popen(
        line, env=user_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert found is not None, said
        page = until(lambda: _fetched(found[0]))
        return Done(0, str(page), "")
    finally:
        process.terminate()
        process.communicate(timeout=20)


def _fetched(url: str) -> str:
    try:
        with urlopen(url, timeout=5) as reply:
            page: str = reply.read().decode("utf-8")
            return page
    except OSError:
        return ""


def _carried_out(command: str) -> Done:
    words = shlex.split(command, comments=True)[1:]
    if words[0] == "ui":
        return _look(words)
    if words[0] in ("eval", "train") and "--dry-run" not in words:
        return _run([*words, *SERVED])
    return _run(words)


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """The page, from top to bottom, in an empty folder."""
    folder = tmp_path_factory.mktemp("tutorial")
    done: dict[str, Done] = {}
    sent: dict[str, int] = {}
    with FakeOpenAI(house_style) as server, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if KEYS.search(name)]:
            patch.delenv(name)
        patch.setenv("OPENAI_API_KEY", SECRET)
        patch.setenv("OPENAI_BASE_URL", server.url)
        patch.setenv("SKILLOPT_CACHE", str(folder / "cache"))
        patch.setattr(models, "find", lambda name: TOY)
        patch.setattr(models, "sources_of", lambda row, environ: (_Shop(),))
        patch.chdir(folder)
        for command in filter(_is_ours, COMMANDS):
            before = len(server.requests)
            done[command] = _carried_out(command)
            sent[command] = len(server.requests) - before
        yield Walk(folder, done, sent)


# the page


def test_every_command_of_the_page_is_in_a_block_that_is_tested() -> None:
    assert set(re.findall(r"(?m)^```(\S+)$", PAGE)) == {"sh"}
    assert not re.search(r"`skillopt ", re.sub(r"(?ms)^```sh\n.*?^```$", "", PAGE))
    assert len(COMMANDS) == len(set(COMMANDS))
    names = [shlex.split(command)[1] for command in COMMANDS if _is_ours(command)]
    order = ["eval", "train", "ui", "log", "show", "diff", "blame", "report", "compare", "export"]
    assert sorted(order, key=names.index) == order


def test_the_extras_that_the_page_installs_exist() -> None:
    others = [shlex.split(command) for command in COMMANDS if not _is_ours(command)]
    assert others[:2] == [["python3", "-m", "venv", ".venv"], [".", ".venv/bin/activate"]]
    (install,) = others[2:]
    assert install[:3] == ["pip", "install", "-e"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = install[3].removeprefix(".[").removesuffix("]").split(",")
    assert all(re.search(rf"(?m)^{extra} = \[", project) for extra in extras)


def test_the_links_of_the_page_lead_somewhere() -> None:
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", PAGE) if not target.startswith("http")]
    assert targets
    assert [target for target in targets if not (ROOT / "docs" / target).exists()] == []


@pytest.mark.parametrize("command", [command for command in COMMANDS if _is_ours(command)])
def test_a_command_of_the_page_works(walk: Walk, command: str) -> None:
    done = walk.done[command]
    assert (done.status, done.err) == (0, "")
    assert done.out.strip()
    assert SECRET not in done.out


def test_the_skill_learns_as_the_page_tells(walk: Walk) -> None:
    run = skillopt.load_run(walk.folder / "outputs/tutorial")
    assert run.stop_reason == "completed"
    assert [row["action"] for row in run.history] == ["accept_new_best", "accept_new_best"]
    assert run.summary["test_hard"] == 0.75
    assert walk.of("skillopt log").out.count("accept_new_best") == 2
    assert f"+{RULES['date']}" in walk.of("skillopt diff outputs/tutorial ").out
    step = walk.of("skillopt diff outputs/tutorial seed step_1").out
    assert RULES["date"] in step
    assert RULES["name"] not in step
    assert re.search(r"step 2, edit 1 .*House style of a name", walk.of("skillopt blame").out)
    assert re.search(r"\bbest\b.*\+0\.5000", walk.of("skillopt compare").out)


def test_only_what_measures_or_trains_sends_requests(walk: Walk) -> None:
    spoke = [shlex.split(command, comments=True)[1] for command, number in walk.sent.items() if number]
    assert spoke == ["eval", "train", "eval"]
    assert "qwen2.5-coder-1.5b on this machine" in walk.of("skillopt train").out, "the dry run is of the page's model"


def test_the_page_leaves_what_it_says(walk: Walk) -> None:
    for name in ("report.html", "training_dashboard.png", "best_skill.md"):
        assert (walk.folder / "outputs/tutorial" / name).stat().st_size > 0
    page = walk.of("skillopt ui").out
    assert all(f"{name}</a>" in page for name in ("tutorial", "tutorial-baseline"))
    skill = (walk.folder / ".claude/skills/house-style/SKILL.md").read_text(encoding="utf-8")
    assert skill.startswith("---\nname: house-style\n")
    assert RULES["date"] in skill


# the script


SCRIPT = [sys.executable, str(ROOT / "examples" / "instrumented_workflow.py")]


def _script(folder: Path, server: FakeOpenAI, **more: str) -> Done:
    folder.mkdir(exist_ok=True)
    env = user_environment(OPENAI_BASE_URL=server.url, MODEL="openai/pupil", PYTHONIOENCODING="utf-8", **more)
    done = subprocess.run(
        SCRIPT, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_the_script_of_the_workflow_runs_and_may_look_at_a_run_that_there_is(tmp_path: Path) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    run = first / "outputs/workflow/run"
    with FakeOpenAI(house_style) as server:
        done = _script(first, server)
        again = _script(other, server, RUN=str(run))
    assert (done.status, done.err) == (again.status, again.err) == (0, "")
    told = (
        "test split: 48 items",
        "baseline: 0.25 on 48 test items, 0 not measured",
        "baseline on the val items: 0.25",
        f"+{RULES['date']}",
        "step 2, edit 1",
        "fixed: ",
        "best skill: 0.75 on 48 test items, 0 not measured",
    )
    assert [said for said in told if said not in done.out or said not in again.out] == []
    assert "step 1: accept_new_best" in done.out
    assert "step 1: accept_new_best" not in again.out
    assert f"run {run}: completed" in again.out
    assert (run / "report.html").exists()
    assert (first / "outputs/workflow/house-style/SKILL.md").exists()
    assert not (other / "outputs/workflow/run").exists()
    assert SECRET not in done.out


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to one process on Windows")
def test_the_script_tells_at_once_what_it_does_and_ends_in_a_line(tmp_path: Path) -> None:
    with FakeOpenAI(lambda received: replace(house_style(received), delay=1.0)) as server:
        env = user_environment(OPENAI_BASE_URL=server.url, MODEL="openai/pupil")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(SCRIPT, cwd=tmp_path, env=env, text=True, **pipes)  # type: ignore[call-overload]
        try:
            assert process.stdout.readline() == "test split: 48 items\n"
            until(lambda: len(server.requests) > 4)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert err == "interrupted: the same command goes on from here\n"
    assert process.returncode != 0
