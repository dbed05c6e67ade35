"""Whole commands in this process against a server on this machine: what they print, send, write and return."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.folders import tree
from fakes.openai_server import FakeOpenAI, Received, Step, status
from fakes.rule_world import RULE, role_of, world, write_split

from skillopt.cli import demo
from skillopt.cli.main import main
from skillopt.extras import install_hint

SECRET = "sk-a-secret-of-the-tests"
KEYS = re.compile(r"(_API_KEY|_BASE_URL|_PROXY)$", re.IGNORECASE)


@dataclass(frozen=True)
class Ran:
    """What a command returned and printed."""

    status: int
    out: str
    err: str


def skillopt(*words: str | Path) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return Ran(code, out.getvalue(), err.getvalue())


def train_words(split: Path, out_root: str | Path, *more: str) -> list[str]:
    models = ["--optimizer_model", "teacher", "--target_model", "pupil"]
    size = ["--num_epochs", "2", "--batch_size", "4", "--workers", "4"]
    return [
        "train",
        *("--config", "configs/searchqa/default.yaml", "--split_dir", str(split)),
        *models,
        *size,
        *("--out_root", str(out_root)),
        *more,
    ]


def connect(patch: pytest.MonkeyPatch, server: FakeOpenAI | None, folder: Path) -> None:
    """The environment of a user: a folder to work in and, with a server, one key."""
    for name in [name for name in os.environ if KEYS.search(name)]:
        patch.delenv(name)
    patch.chdir(folder)
    if server is not None:
        patch.setenv("OPENAI_API_KEY", SECRET)
        patch.setenv("OPENAI_BASE_URL", server.url)


@pytest.fixture
def split(tmp_path: Path) -> Path:
    return write_split(tmp_path / "split")


Serve = Callable[..., FakeOpenAI]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server with a script and makes it the one provider of the environment."""
    servers: list[FakeOpenAI] = []

    def start(script: Callable[[Received], Step]) -> FakeOpenAI:
        server = FakeOpenAI(script)
        server.__enter__()
        servers.append(server)
        connect(monkeypatch, server, tmp_path)
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)


@dataclass(frozen=True)
class Finished:
    """A run that finished, the split it was trained on, its server, and what it printed."""

    root: Path
    split: Path
    server: FakeOpenAI
    ran: Ran


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("finished")
    split = write_split(folder / "split")
    with FakeOpenAI(world()) as server, pytest.MonkeyPatch.context() as patch:
        connect(patch, server, folder)
        ran = skillopt(*train_words(split, "outputs/run"))
        yield Finished(folder / "outputs" / "run", split, server, ran)


def test_training_prints_its_anchor_lines_and_improves(finished: Finished) -> None:
    ran = finished.ran
    assert (ran.status, ran.err) == (0, "")
    for pattern in (
        r"target: pupil   optimizer: teacher",
        r"BASELINE — evaluate the first skill on 6 selection items",
        r"\[EPOCH 1/2\]",
        r"\[STEP 1/4\] epoch 1",
        r"\[1/6 ROLLOUT\]",
        r"\[rollout\] \d+/\d+ \(acc=[\d.]+\) id=q\d+ hard=[01]",
        r"\[2/6 done\] failure_patches=\d+ success_patches=\d+",
        r"\[6/6 EVALUATE\] ACCEPT \(new best\)",
        r"\[STEP 1 done\] epoch=1 action=accept_new_best ",
        r"\[SLOW UPDATE epoch 2\]",
        r"\[META SKILL epoch 2\]",
        r"best_score=1\.0000 \(step 1\)",
        r"Output saved to: .*outputs.run",
        r"Final test: 1\.0000",
    ):
        assert re.search(rf"^{pattern}", ran.out, re.MULTILINE), pattern
    assert RULE in (finished.root / "best_skill.md").read_text(encoding="utf-8")
    assert json.loads((finished.root / "config.json").read_text())["out_root"] == str(finished.root)


def test_no_secret_is_printed_or_written(finished: Finished) -> None:
    assert SECRET not in finished.ran.out
    for path in finished.root.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def test_the_same_command_on_a_finished_run_sends_nothing(finished: Finished) -> None:
    sent = len(finished.server.requests)
    for words in (train_words(finished.split, finished.root), ["resume", str(finished.root)]):
        ran = skillopt(*words)
        assert ran.status == 0
        assert ran.out.startswith("already finished: nothing was sent\n")
        assert "Final test: 1.0000" in ran.out
    assert len(finished.server.requests) == sent


def test_status_of_a_finished_run(finished: Finished) -> None:
    ran = skillopt("status", finished.root)
    assert ran.status == 0
    assert "state: finished\nsteps: 4 of 4\n" in ran.out
    assert "go on with" not in ran.out


def test_resume_with_other_values_is_refused_with_the_difference(finished: Finished) -> None:
    sent = len(finished.server.requests)
    ran = skillopt("resume", finished.root, "--num_epochs", "3")
    assert ran.status == 2
    assert "train.num_epochs: 2 -> 3" in ran.err
    assert "--resume-policy fork" in ran.err
    assert len(finished.server.requests) == sent


def test_a_dry_run_tells_calls_by_role_and_leaves_nothing(finished: Finished) -> None:
    sent = len(finished.server.requests)
    other = finished.root.parent / "other"
    ran = skillopt(*train_words(finished.split, other, "--dry-run"))
    assert (ran.status, ran.err) == (0, "")
    assert re.search(r"^target: \d+-\d+ calls", ran.out, re.MULTILINE)
    assert re.search(r"^optimizer: \d+-\d+ calls", ran.out, re.MULTILINE)
    assert "items: train=8 val=6 test=6" in ran.out
    assert "epochs=2 steps=4" in ran.out
    assert not other.exists()
    assert "is there" in skillopt("resume", finished.root, "--dry-run").out
    assert "train.seed: 42 -> 7" in skillopt("resume", finished.root, "--dry-run", "train.seed=7").out
    assert len(finished.server.requests) == sent


def test_eval_takes_its_configuration_from_the_run_of_the_skill(finished: Finished, tmp_path: Path) -> None:
    ran = skillopt("eval", "--skill_path", finished.root / "best_skill.md", "--split", "valid_unseen")
    assert (ran.status, ran.err) == (0, "")
    assert re.search(r"^Results: hard=1\.0000  soft=1\.0000  \(n=6\)$", ran.out, re.MULTILINE)
    match = re.search(r"^Saved to: (.*)$", ran.out, re.MULTILINE)
    assert match is not None
    saved = Path(match[1])
    assert saved.is_absolute()
    assert re.fullmatch(r"eval_searchqa_pupil_\d{8}_\d{6}", saved.name)
    assert json.loads((saved / "eval_summary.json").read_text())["n_items"] == 6
    assert "Results: hard=1.0000" in skillopt("status", saved).out


def test_eval_with_a_configuration_and_overrides(finished: Finished, tmp_path: Path) -> None:
    skill = tmp_path / "my.md"
    skill.write_text("# Nothing\n", encoding="utf-8")
    words = ["eval", "--config", "configs/searchqa/default.yaml", "--skill", skill, "--split", "valid_unseen"]
    more = ["--split_dir", finished.split, "--target_model", "pupil", "--out_root", tmp_path / "e", "env.limit=3"]
    ran = skillopt(*words, *more, "env.workers=1")
    assert ran.status == 0
    assert re.search(r"^Results: hard=0\.3333  soft=0\.3333  \(n=3\)$", ran.out, re.MULTILINE)
    dry = skillopt(*words, *more, "--dry-run")
    assert (dry.status, "target: 4 calls" in dry.out) == (0, True)


def test_eval_refuses_the_folder_of_another_evaluation(finished: Finished, tmp_path: Path) -> None:
    folder = tmp_path / "e"
    words = ["eval", "--split", "val", "--out_root", folder, "--skill"]
    assert skillopt(*words, finished.root / "best_skill.md").status == 0
    before, sent = tree(folder), len(finished.server.requests)
    other = finished.root / "skills" / "skill_v0000.md"
    dry = skillopt(*words, other, "--dry-run")
    assert (dry.status, "was made otherwise (runtime.resume_policy=strict)" in dry.out) == (0, True)
    ran = skillopt(*words, other)
    assert (ran.status, ran.out, tree(folder)) == (2, "", before)
    assert re.search(rf"^  skill: {re.escape(str(finished.root / 'best_skill.md'))} .* -> ", ran.err, re.MULTILINE)
    same = skillopt(*words, finished.root / "best_skill.md", "--dry-run")
    assert "is there: what it holds is not sent again" in same.out
    assert len(finished.server.requests) == sent
    forked = skillopt(*words, other, "--resume-policy", "fork")
    assert (forked.status, tree(folder)) == (0, before)
    assert f"Saved to: {folder}-fork1" in forked.out


def test_how_a_training_treated_its_folder_is_nothing_to_an_evaluation_of_its_skill(
    finished: Finished, tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(finished.root, copy)
    values = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps({**values, "resume_policy": "force"}), encoding="utf-8")
    words = ["eval", "--split", "val", "--out_root", tmp_path / "e", "--skill"]
    assert skillopt(*words, copy / "best_skill.md").status == 0
    assert skillopt(*words, copy / "skills" / "skill_v0000.md").status == 2


def test_eval_of_a_skill_elsewhere_needs_a_configuration(tmp_path: Path) -> None:
    skill = tmp_path / "my.md"
    skill.write_text("# Skill\n", encoding="utf-8")
    ran = skillopt("eval", "--skill", skill)
    assert ran.status == 2
    assert "does not lie in a run folder" in ran.err
    assert "--config" in ran.err


def test_no_key_is_refused_without_a_request(split: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, None, tmp_path)
    ran = skillopt(*train_words(split, "run"))
    assert (ran.status, ran.out) == (2, "")
    assert "OPENAI_API_KEY" in ran.err
    assert "--backend local" in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("more", [("--dry-run",), ()])
def test_a_local_model_that_there_is_not_is_refused_before_anything_else(
    split: Path, serve: Serve, tmp_path: Path, more: tuple[str, ...]
) -> None:
    server = serve(world())
    words = train_words(split, "run", "--target_backend", "local", "--target_model", "smollm2-135", *more)
    evaluation = ["--config", "configs/searchqa/default.yaml", "--split_dir", split, "--skill", tmp_path / "s.md"]
    (tmp_path / "s.md").write_text("# Skill\n", encoding="utf-8")
    local = ["--target_backend", "local", "--target_model", "smollm2-135", *more]
    for ran in (skillopt(*words), skillopt("eval", *evaluation, "--out_root", "run", *local)):
        assert (ran.status, ran.out) == (2, "")
        assert "no model named 'smollm2-135' runs on this machine; the nearest is 'smollm2-135m'" in ran.err
    assert server.requests == []
    assert not (tmp_path / "run").exists()
    missing = skillopt(*words, "--target_model", str(tmp_path / "none.gguf"))
    assert (missing.status, "no such model file" in missing.err) == (2, True)
    assert "target: " in skillopt(*words, "--target_model", "smollm2-135m", "--dry-run").out


def test_a_key_may_stand_in_a_file(split: Path, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(world())
    connect(monkeypatch, None, tmp_path)
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={SECRET}\nOPENAI_BASE_URL={server.url}\n", encoding="utf-8")
    ran = skillopt(*train_words(split, "run", "budget.max_calls=4"))
    assert (ran.status, len(server.requests)) == (0, 4)
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "nowhere.yaml"], "there is no such configuration file"),
        (["--config", "configs/searchqa/default.yaml", "train.batch_sise=4"], "did you mean train.batch_size?"),
        (["--config", "configs/searchqa/default.yaml", "--split_dir", "nowhere"], "nowhere"),
        (["--config", "configs/searchqa/default.yaml", "--batch_size", "0"], "train.batch_size"),
        (["--config", "configs/searchqa/default.yaml", "--batchsize", "4"], "unrecognized arguments: --batchsize"),
        ([], "--config"),
    ],
)
def test_what_cannot_be_used_is_refused(
    words: list[str], said: str, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(world())
    ran = skillopt("train", *words)
    assert ran.status == 2
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert server.requests == []


def test_the_default_run_folder_is_named_after_what_is_trained(split: Path, serve: Serve, tmp_path: Path) -> None:
    serve(world())
    words = [word for word in train_words(split, "x", "--dry-run") if word not in ("--out_root", "x")]
    words[words.index("teacher")] = "some/teacher"
    ran = skillopt(*words)
    assert re.search(r"^run folder: (.*) \(would be made\)$", ran.out, re.MULTILINE)
    folder = re.findall(r"^run folder: (\S+)", ran.out, re.MULTILINE)[0]
    assert re.fullmatch(r"skillopt_searchqa_some-teacher_\d{8}_\d{6}", Path(folder).name)
    assert Path(folder).parent == tmp_path / "outputs"


def refusing(role: str, *, after: int) -> Callable[[Received], Step | None]:
    """Refuses the key of ``role`` from its ``after``-th request on."""
    seen = 0

    def broken(received: Received) -> Step | None:
        nonlocal seen
        if role_of(received.body) != role:
            return None
        seen += 1
        return status(401, f"bad key {SECRET}") if seen > after else None

    return broken


@pytest.mark.parametrize(("role", "after"), [("target", 0), ("optimizer", 0), ("target", 4), ("optimizer", 1)])
def test_a_role_that_does_not_work_is_named_last(role: str, after: int, split: Path, serve: Serve) -> None:
    serve(world(broken=refusing(role, after=after)))
    ran = skillopt(*train_words(split, "run"))
    assert ran.status == 1
    last = ran.err.strip().splitlines()[-1]
    assert role in last
    assert "401" in last
    assert SECRET not in ran.err + ran.out
    assert "Traceback" not in ran.err
    state = skillopt("status", "run")
    assert "state: stopped (error" in state.out
    assert role in state.out


def test_too_many_failed_items_end_the_run(split: Path, serve: Serve) -> None:
    def broken(received: Received) -> Step | None:
        probe = "single word OK" in received.body["messages"][-1]["content"]
        return None if probe or role_of(received.body) == "optimizer" else status(400, "no such thing")

    serve(world(broken=broken))
    ran = skillopt(*train_words(split, "run"))
    assert ran.status == 1
    assert "stopped (error_rate): target: " in ran.err.strip().splitlines()[-1]
    assert "resume" in ran.err


def test_a_spent_budget_is_no_failure_and_says_how_to_go_on(split: Path, serve: Serve) -> None:
    server = serve(world())
    ran = skillopt(*train_words(split, "run", "budget.max_calls=12"))
    assert (ran.status, ran.err) == (0, "")
    assert "stopped (budget): budget.max_calls=12 is reached" in ran.out
    go_on = re.findall(r"^go on with: .*skillopt (.*)$", ran.out, re.MULTILINE)[0].split()
    assert go_on == ["resume", str(Path("run").absolute()), "budget.max_calls=24"]
    assert len(server.requests) == 12
    ran = skillopt("resume", "run", "budget.max_calls=null")
    assert ran.status == 0
    assert "Final test: 1.0000" in ran.out
    asked = [str(body) for body in server.bodies if "single word OK" not in str(body["messages"])]
    assert len(asked) == len(set(asked))


def test_a_second_ctrl_c_ends_at_once(split: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    from skillopt.engine import session

    async def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    serve(world())
    monkeypatch.setattr(session, "train", interrupted)
    ran = skillopt(*train_words(split, "run"))
    assert ran.status == 130
    assert re.search(r"^go on with: .*resume .*run$", ran.err, re.MULTILINE)
    assert "Traceback" not in ran.err


def test_resume_finds_the_size_that_was_asked_for(split: Path, serve: Serve) -> None:
    serve(world())
    assert skillopt(*train_words(split, "run", "--train_size", "8", "budget.max_calls=5")).status == 0
    ran = skillopt("resume", "run", "budget.max_calls=6")
    assert (ran.status, ran.err) == (0, "")


def test_a_folder_of_the_published_implementation_is_not_continued(finished: Finished, tmp_path: Path) -> None:
    copy = shutil.copytree(finished.root, tmp_path / "old")
    for path in copy.glob("journal.sqlite*"):
        path.unlink()
    ran = skillopt("resume", copy)
    assert ran.status == 2
    assert "can be read (status, eval) but not continued" in ran.err
    assert (
        skillopt("eval", "--skill", copy / "best_skill.md", "--split", "val", "--out_root", tmp_path / "e").status == 0
    )


def test_a_moved_run_goes_on_where_it_lies_now(finished: Finished, tmp_path: Path) -> None:
    moved = shutil.copytree(finished.root, tmp_path / "moved")
    ran = skillopt("resume", moved)
    assert ran.status == 0
    assert f"Output saved to: {moved}" in ran.out


def test_a_run_with_relative_paths_goes_on_from_another_folder(
    split: Path, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(world())
    (tmp_path / "first.md").write_text("# First\n", encoding="utf-8")
    words = train_words(Path("split"), "run", "--skill_init", "first.md", "budget.max_calls=5")
    assert skillopt(*words).status == 0
    stored = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert (stored["split_dir"], stored["skill_init"]) == (str(split), str(tmp_path / "first.md"))
    (tmp_path / "far").mkdir()
    monkeypatch.chdir(tmp_path / "far")
    ran = skillopt("resume", "../run", "budget.max_calls=null")
    assert (ran.status, ran.err) == (0, "")
    assert "best_score=1.0000" in ran.out


def test_splits_are_cut_into_the_folder_only_when_it_is_the_runs(split: Path, serve: Serve, tmp_path: Path) -> None:
    serve(world())
    files = [next((split / name).glob("*")) for name in ("train", "val", "test")]
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]
    (tmp_path / "all.json").write_text(json.dumps(rows), encoding="utf-8")
    ratio = ["--split_mode", "ratio", "--data_path", "all.json", "--split_output_dir", "cut"]
    words = [*train_words(split, "run"), *ratio]
    assert skillopt(*words, "--dry-run").status == 0
    assert not (tmp_path / "cut").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    assert skillopt(*words).status == 2
    assert not (tmp_path / "cut").exists()
    (tmp_path / "run" / "config.json").unlink()
    assert skillopt(*words, "budget.max_calls=2").status == 0
    assert (tmp_path / "cut" / "split_manifest.json").is_file()


def test_the_demo_runs_once_and_takes_overrides(
    split: Path, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Path(__file__).resolve().parent.parent / "configs" / "searchqa" / "default.yaml"
    config = tmp_path / "quickstart.yaml"
    config.write_text(
        f"_base_: {base.as_posix()}\n"
        "model: {optimizer: teacher, target: pupil}\n"
        "train: {num_epochs: 1, batch_size: 8}\n"
        f"env: {{split_dir: {split.as_posix()}}}\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(demo, "CONFIG", str(config))
    server = serve(world())
    ran = skillopt("demo")
    assert (ran.status, ran.err) == (0, "")
    for expected in ("baseline on the selection items: 0.3333", "best_score=1.0000", "paired lift", "total tokens: "):
        assert expected in ran.out
    assert f"best skill: {tmp_path / 'outputs' / 'quickstart' / 'best_skill.md'}" in ran.out
    assert re.search(r"^look at it: .*skillopt report \S+quickstart .*\nuse it: .*--to claude\n$(?!.)", ran.out, re.M)
    sent = len(server.requests)
    again = skillopt("demo")
    assert again.out.startswith("already finished: nothing was sent\n")
    assert again.out.splitlines()[1:] == ran.out.splitlines()[-len(again.out.splitlines()) + 1 :]
    assert len(server.requests) == sent
    other = skillopt("demo", "train.seed=2")
    assert other.status == 0
    assert f"Output saved to: {tmp_path / 'outputs' / 'quickstart-fork1'}" in other.out


def test_the_demo_says_which_extra_is_missing(split: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, None, tmp_path)
    monkeypatch.setattr(demo, "CONFIG", "configs/searchqa/default.yaml")
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    ran = skillopt("demo", "--backend", "local", "--split_dir", split)
    assert (ran.status, ran.out) == (2, "")
    assert install_hint("local") in ran.err
    assert "Traceback" not in ran.err
