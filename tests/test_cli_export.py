"""``skillopt export``: where the skill of a run goes, consent, what it says of the run, and the check."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.cli.export import Plan, Request, Wording, difference, plan, request_of
from skillopt.cli.main import main
from skillopt.cli.skill_places import Target
from skillopt.skill import GUIDANCE_END, GUIDANCE_START

SKILL = f"""# Reading *short* passages

- answer with the words of the passage

{GUIDANCE_START}
Read the question twice.
{GUIDANCE_END}
"""
EXPORTED = """---
name: searchqa
description: Reading short passages. Use for tasks like those of searchqa.
---

# Reading *short* passages

- answer with the words of the passage

## General guidance

Read the question twice.
"""


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


def export(*words: str | Path) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["export", *map(str, words)])
    return Ran(code, out.getvalue(), err.getvalue())


def write_run(root: Path, skill: str = SKILL, **summary: Any) -> Path:
    root.mkdir(parents=True)
    found = {"stop_reason": "completed", "best_step": 3, "version": "skillopt-9.9", **summary}
    scores = {"baseline_selection_hard": 0.5, "baseline_test_hard": 0.25, "test_hard": 0.75}
    pointers = {"best_skill_path": "best_skill.md", "best_score": 0.8, "best_step": 3, "best_origin": "step_0003"}
    files = {
        "config.json": {"env": "searchqa", "num_epochs": 2, "steps_per_epoch": 2},
        "summary.json": {**scores, **found},
        "runtime_state.json": pointers,
        "history.json": [],
    }
    for name, value in files.items():
        (root / name).write_text(json.dumps(value), encoding="utf-8")
    (root / "best_skill.md").write_bytes(skill.encode())
    (root / "events.jsonl").write_text('{"at": 1700000000.0, "event": "run_finished"}\n', encoding="utf-8")
    return root


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return write_run(tmp_path / "runs/my_run")


# where it goes


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["--to", "claude"], "project/.claude/skills/searchqa/SKILL.md"),
        (["--to", "codex"], "project/.agents/skills/searchqa/SKILL.md"),
        (["--to", "cursor"], "project/.cursor/skills/searchqa/SKILL.md"),
        (["--to", "copilot"], "project/.github/skills/searchqa/SKILL.md"),
        (["--to", "claude", "--user"], "home/.claude/skills/searchqa/SKILL.md"),
        (["--to", "codex", "--user"], "home/.agents/skills/searchqa/SKILL.md"),
        (["--to", "cursor", "--user"], "home/.cursor/skills/searchqa/SKILL.md"),
        (["--to", "copilot", "--user"], "home/.copilot/skills/searchqa/SKILL.md"),
        (["--to", "claude", "--project", "../home"], "home/.claude/skills/searchqa/SKILL.md"),
        (["--to", "file", "--out", "../searchqa"], "searchqa/SKILL.md"),
        (["--to", "file", "--out", "../x/searchqa/SKILL.md"], "x/searchqa/SKILL.md"),
        (["--to", "file", "--out", "searchqa.md"], "project/searchqa.md"),
    ],
)
def test_it_lands_where_the_tool_looks(run: Path, tmp_path: Path, words: list[str], path: str) -> None:
    ran = export(run, *words)
    assert (ran.status, ran.err) == (0, "")
    assert f"written: {tmp_path / path}" in ran.out
    assert (tmp_path / path).read_text(encoding="utf-8") == EXPORTED
    if path.endswith("SKILL.md"):
        assert export("--check", (tmp_path / path).parent).status == 0


@pytest.mark.parametrize(("tool", "variable"), [("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")])
def test_the_tools_own_variable_moves_the_users_folder(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, variable: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "moved"))
    assert export(run, "--to", tool, "--user").status == 0
    assert (tmp_path / "moved/skills/searchqa/SKILL.md").is_file()


@pytest.mark.parametrize("name", ["../evil", "a/b", "/abs", "..", "Upper", "a--b", "-a", "a" * 65, "", "a\nb"])
def test_a_name_that_is_none_is_refused(run: Path, tmp_path: Path, name: str) -> None:
    ran = export(run, "--to", "claude", f"--name={name}")
    assert ran.status == 2
    assert "lowercase letters, digits" in ran.err
    assert not list(tmp_path.rglob("SKILL.md"))


@pytest.mark.parametrize("link", [".claude", ".claude/skills", ".claude/skills/searchqa"])
def test_a_link_that_leads_out_of_the_project_is_refused(run: Path, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    where = tmp_path / "project" / link
    where.parent.mkdir(parents=True, exist_ok=True)
    where.symlink_to(outside, target_is_directory=True)
    ran = export(run, "--to", "claude", "--yes")
    assert ran.status == 2
    assert "outside" in ran.err
    assert not list(outside.iterdir())


def test_nothing_is_written_through_a_linked_file(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("keep", encoding="utf-8")
    where = tmp_path / "project/.claude/skills/searchqa"
    where.mkdir(parents=True)
    (where / "SKILL.md").symlink_to(tmp_path / "secret")
    ran = export(run, "--to", "claude", "--yes")
    assert ran.status == 2
    assert "is a link" in ran.err
    assert (tmp_path / "secret").read_text(encoding="utf-8") == "keep"


def test_a_link_within_the_project_is_fine(run: Path, tmp_path: Path) -> None:
    (tmp_path / "project/agents").mkdir()
    (tmp_path / "project/.claude").symlink_to(tmp_path / "project/agents", target_is_directory=True)
    assert export(run, "--to", "claude").status == 0
    assert (tmp_path / "project/agents/skills/searchqa/SKILL.md").is_file()


def test_a_skill_that_is_a_link_out_of_the_run_is_not_read(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (run / "best_skill.md").unlink()
    (run / "best_skill.md").symlink_to(tmp_path / "secret")
    ran = export(run, "--to", "claude")
    assert ran.status == 2
    assert "holds no skill" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "file"],
        ["--to", "claude", "--out", "x"],
        ["--to", "file", "--out", "x", "--user"],
        ["--to", "claude", "--user", "--project", "."],
        [],
        ["--to", "file", "--out", ""],
        ["--check", "--to", "claude"],
        ["--check", "--out", "x"],
        ["--check", "."],  # and the run
        ["--to", "vim"],
        ["--to", "claude", "--project", "nowhere"],
    ],
)
def test_options_that_make_no_sense_are_refused(run: Path, words: list[str]) -> None:
    assert export(run, *words).status == 2


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["--to", "codex"], Target("codex", project=Path("/here"))),
        (["--to", "codex", "--project", "sub/.."], Target("codex", project=Path("/here"))),
        (["--to", "codex", "--user"], Target("codex")),
        (["--to", "file", "--out", "a/b"], Target("file", out=Path("/here/a/b"))),
        (["--check"], None),
    ],
)
def test_a_command_line_becomes_a_request(
    monkeypatch: pytest.MonkeyPatch, words: list[str], target: Target | None
) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/here")
    assert request_of(["run", *words]) == Request(Path("run"), target, Wording(), yes=False, json=False)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (Target("claude", project=Path("/p")), ""),
        (Target("claude"), ""),
        (Target("file", out=Path("/p/a-skill")), "a-skill"),
        (Target("file", out=Path("/p/a-skill/SKILL.md")), "a-skill"),
        (Target("file", out=Path("/p/other.MD")), "other"),
    ],
)
def test_a_path_of_the_users_own_names_the_skill(target: Target, name: str) -> None:
    assert target.named == name


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    ran = export(tmp_path, "--to", "claude")
    assert ran.status == 2
    assert "is not a run folder" in ran.err


# consent


@pytest.mark.parametrize(
    ("present", "yes", "todo"),
    [
        (None, False, "write"),
        (None, True, "write"),
        (b"new", False, "leave"),
        (b"new", True, "leave"),
        (b"old", False, "ask"),
        (b"old", True, "replace"),
        (b"", False, "ask"),
        (b"", True, "replace"),
        (b"new\r\n", False, "ask"),
    ],
)
def test_what_is_there_decides_what_is_done(present: bytes | None, yes: bool, todo: Plan) -> None:
    assert plan(present, b"new", yes) == todo


@given(st.none() | st.binary(max_size=4), st.binary(max_size=4), st.booleans())
def test_nothing_is_lost_without_a_yes(present: bytes | None, content: bytes, yes: bool) -> None:
    lost = present is not None and present != content
    assert (plan(present, content, yes) in ("replace", "ask")) is lost
    assert (plan(present, content, yes) == "ask") is (lost and not yes)


@given(st.text(max_size=8), st.text(max_size=8))
def test_a_difference_is_shown_wherever_there_is_one(old: str, new: str) -> None:
    assert bool(difference(old.encode(), new.encode(), "x")) is (old != new)
    assert difference(None, new.encode(), "x") == ""


def edited(run: Path) -> Path:
    assert export(run, "--to", "claude").status == 0
    path = Path(".claude/skills/searchqa/SKILL.md").absolute()
    path.write_text("mine\n", encoding="utf-8")
    return path


def test_the_same_again_writes_nothing(run: Path) -> None:
    export(run, "--to", "claude")
    ran = export(run, "--to", "claude")
    assert ran.status == 0
    assert "already there" in ran.out


def test_what_differs_is_shown_and_kept(run: Path) -> None:
    path = edited(run)
    ran = export(run, "--to", "claude")
    assert ran.status == 2
    assert "-mine\n+---\n+name: searchqa" in ran.out
    assert "--yes" in ran.err
    assert path.read_text(encoding="utf-8") == "mine\n"


def test_yes_replaces_it(run: Path) -> None:
    path = edited(run)
    assert export(run, "--to", "claude", "--yes").status == 0
    assert path.read_text(encoding="utf-8") == EXPORTED


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("Yes\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_on_a_terminal_it_asks(run: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: int) -> None:
    path = edited(run)
    out = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    with redirect_stdout(out):
        assert main(["export", str(run), "--to", "claude"]) == status
    assert out.getvalue().index("-mine") < out.getvalue().index("[y/N]")
    assert (path.read_text(encoding="utf-8") == EXPORTED) is (status == 0)


@pytest.mark.parametrize("meanwhile", ["other", "link", "gone"])
def test_consent_is_to_what_was_shown(run: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str) -> None:
    path = edited(run)

    def answer() -> str:
        path.unlink()
        if meanwhile == "other":
            path.write_text("mine too\n", encoding="utf-8")
        elif meanwhile == "link":
            Path("mine.txt").write_text("mine\n", encoding="utf-8")
            path.symlink_to(Path("mine.txt").absolute())
        return "y"

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("sys.stdin", Terminal())
    err = io.StringIO()
    with redirect_stdout(Terminal()), redirect_stderr(err):
        assert main(["export", str(run), "--to", "claude"]) == 2
    assert ("nothing is written through links" if meanwhile == "link" else "changed in the meantime") in err.getvalue()
    kept = {"other": "mine too\n", "link": "mine\n"}.get(meanwhile)
    assert (path.read_text(encoding="utf-8") if path.exists() else None) == kept


def test_a_skill_cannot_hide_a_difference_from_who_consents(run: Path) -> None:
    (run / "best_skill.md").write_text("# A\n\n- evil\x1b[2K\u202e\x9b2K\n", encoding="utf-8")
    edited(run)
    ran = export(run, "--to", "claude")
    assert "evil\\x1b[2K\\u202e\\x9b2K" in ran.out
    assert not re.search("[\x1b\u202e\x9b]", ran.out)


def test_json_tells_it_all_and_asks_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = json.loads(export(run, "--to", "claude", "--json").out)
    assert first["result"] == "written"
    assert first["name"] == "searchqa"
    assert first["diff"] == ""
    Path(first["path"]).write_text("mine\n", encoding="utf-8")
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    ran = export(run, "--to", "claude", "--json")
    told = json.loads(ran.out)
    assert (ran.status, told["result"]) == (2, "refused")
    assert "-mine" in told["diff"]
    assert json.loads(export(run, "--to", "claude", "--json", "--yes").out)["result"] == "replaced"


# the text


def test_provenance_is_a_comment_at_the_end(run: Path) -> None:
    export(run, "--to", "claude", "--provenance")
    text = Path(".claude/skills/searchqa/SKILL.md").read_text(encoding="utf-8")
    assert text == EXPORTED + (
        "\n<!-- Trained with SkillOpt 9.9: run my_run, step 3, trained on searchqa, validation 0.5000 to 0.8000, "
        "test 0.2500 to 0.7500, 2023-11-14. -->\n"
    )


@pytest.mark.parametrize("metric", ["soft", "mixed"])
def test_provenance_compares_scores_of_one_kind(run: Path, metric: str) -> None:
    (run / "config.json").write_text(json.dumps({"env": "searchqa", "gate_metric": metric}), encoding="utf-8")
    export(run, "--to", "claude", "--provenance")
    text = Path(".claude/skills/searchqa/SKILL.md").read_text(encoding="utf-8")
    assert "trained on searchqa, test 0.2500 to 0.7500" in text  # best_score is in the metric of the gate


def test_provenance_says_what_is_known(run: Path) -> None:
    (run / "summary.json").write_text('{"baseline_test_hard": NaN, "test_hard": 1}', encoding="utf-8")
    (run / "runtime_state.json").write_text('{"best_step": 0}', encoding="utf-8")
    (run / "events.jsonl").write_text('{"at": 1e14, "event": "run_finished"}\n', encoding="utf-8")
    export(run, "--to", "claude", "--provenance")
    text = Path(".claude/skills/searchqa/SKILL.md").read_text(encoding="utf-8")
    assert text.endswith("\n<!-- Trained with SkillOpt: run my_run, the first skill, trained on searchqa. -->\n")


def test_a_run_that_found_nothing_better_is_named_as_that(run: Path) -> None:
    (run / "runtime_state.json").write_text(json.dumps({"best_origin": "initial_skill"}), encoding="utf-8")
    assert "nothing beat it" in export(run, "--to", "claude").out


def test_name_and_description_are_taken_from_the_options(run: Path) -> None:
    assert export(run, "--to", "claude", "--name", "qa", "--description", "Answers: all <b>questions</b>").status == 0
    text = Path(".claude/skills/qa/SKILL.md").read_text(encoding="utf-8")
    assert text.startswith('---\nname: qa\ndescription: "Answers: all bquestions/b"\n---\n')


def test_a_frontmatter_that_nobody_can_read_is_refused(run: Path) -> None:
    (run / "best_skill.md").write_text("---\nmetadata: {a: 1,\n  b: c\nname: x\n---\nBody\n", encoding="utf-8")
    ran = export(run, "--to", "claude")
    assert ran.status == 2
    assert "frontmatter is not valid YAML in line" in ran.err


def test_a_field_that_cannot_be_mended_is_refused_by_name(run: Path) -> None:
    (run / "best_skill.md").write_text("---\ncompatibility: [a]\n---\nBody\n", encoding="utf-8")
    ran = export(run, "--to", "claude")
    assert ran.status == 2
    assert "compatibility must be text" in ran.err
    assert not Path(".claude").exists()


# the check

GOOD = "---\nname: a-skill\ndescription: Does it.\n---\nBody\n"


def test_the_check_of_a_file_of_a_folder_and_of_a_run(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a-skill"
    folder.mkdir()
    (folder / "SKILL.md").write_text(GOOD, encoding="utf-8")
    assert export("--check", folder) == Ran(0, f"{folder}: valid\n", "")
    assert export("--check", folder / "SKILL.md").status == 0
    assert export("--check", run).status == 0
    assert export(run, "--check").status == 0
    (folder / "SKILL.md").write_text(GOOD.replace("a-skill", "B"), encoding="utf-8")
    bad = export("--check", folder)
    assert bad.status == 1
    assert [line.split(":")[0] for line in bad.out.splitlines()] == ["error", "error", str(folder)]
    told = json.loads(export("--check", folder, "--json").out)
    assert told["valid"] is False
    assert len(told["problems"]) == 2
    (folder / "SKILL.md").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in export("--check", folder).out
    (folder / "SKILL.md").rename(folder / "skill.markdown")
    assert export("--check", folder).status == 2
    assert export("--check", folder / "nothing.md").status == 2
    assert export("--check").status == 2
    assert not Path(".claude").exists()


@pytest.mark.parametrize("word", [".", "SKILL.md", "refs/..", "refs/../SKILL.md", "../a-skill"])
def test_the_check_knows_the_folder_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    (tmp_path / "a-skill/refs").mkdir(parents=True)
    (tmp_path / "a-skill/SKILL.md").write_text(GOOD, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "a-skill")
    assert export("--check", word) == Ran(0, f"{word}: valid\n", "")


def test_the_check_of_the_folder_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-skill/refs").mkdir(parents=True)
    (tmp_path / "a-skill/SKILL.md").write_text(GOOD, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "a-skill/refs")
    assert export("--check", "..") == Ran(0, "..: valid\n", "")
