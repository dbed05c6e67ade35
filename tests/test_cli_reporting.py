"""The commands that show a run: log, show, diff, blame, compare. Each of them on a run of ours and a published one."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fakes import published
from fakes.world import World, run

from skillopt.cli.main import main
from skillopt.cli.tables import clean, items_named, json_text, paint, shorten, table, wants_color
from skillopt.report.content import read_report
from skillopt.report.run import read_run


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ours") / "run"
    run(World(), root)
    return root


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published.published_run(tmp_path_factory.mktemp("theirs") / "run")


@pytest.fixture(params=["ours", "theirs"])
def either(request: pytest.FixtureRequest) -> Path:
    root: Path = request.getfixturevalue(request.param)
    return root


class Said:
    """What commands print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str | Path) -> str:
        assert main([str(word) for word in words]) == 0
        out, err = self.capsys.readouterr()
        assert err == ""
        return out

    def json(self, *words: str | Path) -> Any:
        return json.loads(self(*words, "--json"), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    def refused(self, *words: str | Path) -> str:
        assert main([str(word) for word in words]) == 2
        out, err = self.capsys.readouterr()
        assert out == ""
        return err


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(capsys)


COMMANDS = [["log"], ["show", "1"], ["diff"], ["blame"], ["compare"], ["status"], ["report", "--no-png"]]
EVIL = "- \033[2Jgone\u202egnp\x9b\r\x07"
STEERS = re.compile(r"\033(?!\[[\d;]*m)|\u202e|\x07|\r|\x9b")


def write(root: Path, name: str, value: Any) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def elsewhere(words: list[str], folder: Path) -> list[str]:
    """The words after the run; a report is written into another folder."""
    return [*words[1:], *(["--out", str(folder / "page")] if words[0] == "report" else [])]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_each_command_reads_only_and_tells_no_secret(
    either: Path, tmp_path: Path, said: Said, words: list[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in either.rglob("*")}
    more = elsewhere(words, tmp_path)
    plain = said(words[0], either, *more)
    assert plain.strip()
    assert "\033" not in plain
    text = plain + json.dumps(said.json(words[0], either, *more))
    assert published.KEY not in text
    assert {path: path.stat().st_mtime_ns for path in either.rglob("*")} == before


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_each_command_refuses_the_folder_of_no_run(said: Said, tmp_path: Path, words: list[str]) -> None:
    assert "is not a run folder" in said.refused(words[0], tmp_path, *words[1:])


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", ["*.json", "*.jsonl", "*.md"])
def test_each_command_stands_torn_files(theirs: Path, tmp_path: Path, said: Said, name: str, words: list[str]) -> None:
    root = Path(shutil.copytree(theirs, tmp_path / "run"))
    for path in root.rglob(name):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    status = main([words[0], str(root), *elsewhere(words, tmp_path)])
    out, err = said.capsys.readouterr()
    assert status in (0, 2)
    assert "fault in SkillOpt" not in out + err


# log


def test_log_has_a_line_a_step(ours: Path, said: Said) -> None:
    lines = said("log", ours).splitlines()
    assert re.match(r"step +epoch +action +score +change +items +tokens +cost +edits", lines[0])
    assert [line.split()[0] for line in lines[1:] if "slow update" not in line] == ["4", "3", "2", "1"]
    assert re.search(
        r"1 +1 +accept_new_best +0\.2500 -> 0\.5000 +\+0\.2500 +n=4 \+1 -0 +[\d,]+ +unknown +2/2 append: - rule: ",
        lines[-1],
    )
    assert "slow update: reject" in lines[1]
    assert [line.split()[0] for line in said("log", ours, "--reverse", "-n", "2").splitlines()] == ["step", "4", "2"]


@pytest.mark.parametrize(("number", "kept"), [("0", 0), ("1", 1), ("3", 3), ("99", 4)])
def test_log_prints_the_last_lines(theirs: Path, said: Said, number: str, kept: int) -> None:
    every = said.json("log", theirs)
    assert said.json("log", theirs, "-n", number) == every[:kept]
    assert len(said("log", theirs, "-n", number).splitlines()) == (kept + 1 if kept else 0)


def test_log_refuses_fewer_lines_than_none(theirs: Path, said: Said) -> None:
    assert "-3 is less than 0" in said.refused("log", theirs, "-n", "-3")


def test_the_score_of_accepted_guidance_is_what_the_next_step_began_with(tmp_path: Path, said: Said) -> None:
    root = published.published_run(tmp_path / "run")
    write(root, "slow_update/epoch_01/slow_result.json", {"action": "accept", "selection_hard": 0.6})
    entries = said.json("log", root, "--reverse")
    found = [(entry["kind"], entry["step"], entry["before"], entry["score"]) for entry in entries]
    assert found[2:4] == [("slow_update", 2, 0.5, 0.6), ("step", 3, 0.6, 0.75)]
    report = read_report(read_run(root))
    assert [(line.before, line.score) for line in report.steps] == [(0.25, 0.5), (0.5, 0.25), (0.6, 0.75)]
    assert next((change.slow.before, change.slow.score) for change in report.changes if change.slow) == (0.5, 0.6)


def test_before_the_first_step_the_score_is_the_gates(tmp_path: Path, said: Said) -> None:
    root = published.published_run(tmp_path / "run")
    config = json.loads((root / "config.json").read_text(encoding="utf-8"))
    write(root, "config.json", {**config, "gate_metric": "soft"})
    rows = [{"id": f"val{number}", "hard": number // 4, "soft": 0.9} for number in range(1, 5)]
    write(root, "selection_eval_baseline/results.jsonl", "\n".join(map(json.dumps, rows)))
    assert said.json("log", root, "--reverse")[0]["before"] == 0.9
    assert read_report(read_run(root)).steps[0].before == 0.9


def test_log_of_a_published_run(theirs: Path, said: Said) -> None:
    entries = said.json("log", theirs, "--reverse")
    assert [
        (entry["step"], entry["action"], entry["before"], entry["score"], entry["change"]) for entry in entries
    ] == [
        (1, "accept_new_best", 0.25, 0.5, 0.25),
        (2, "reject", 0.5, 0.25, -0.25),
        (3, "accept_new_best", 0.5, 0.75, 0.25),
        (3, "force_accept", None, None, None),
    ]
    assert entries[0]["edits"] == [{"op": "append", "content": published.APPENDED, "status": "applied_append"}]
    assert (entries[0]["tokens"], entries[0]["cost_usd"]) == (990, None)


def test_log_of_a_run_that_has_done_nothing_yet(tmp_path: Path, said: Said) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert "has no finished step yet" in said("log", tmp_path)
    assert said.json("log", tmp_path) == []


def test_a_run_that_was_just_begun_is_its_seed(tmp_path: Path, said: Said) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "best_skill.md").write_text("# Skill\n", encoding="utf-8")
    assert said("blame", tmp_path) == "seed  1  # Skill\n"
    assert said("diff", tmp_path) == "seed and best are equal\n"
    assert "has no finished step yet" in said.refused("show", tmp_path, "last")
    assert "has measured nothing yet" in said.refused("compare", tmp_path)
    assert "has measured nothing on the val items yet" in said.refused("compare", tmp_path, "--split", "val")


# show


def test_show_has_all_stages(ours: Path, said: Said) -> None:
    shown = said("show", ours, "1")
    titles = [line for line in shown.splitlines() if line and not line.startswith(" ") and ":" not in line]
    assert titles == ["rollouts", "reflections", "merged", "ranked", "edits", "candidate", "gate"]
    for expected in (
        "step 1 (epoch 1): accept_new_best",
        "steps/step_0001/rollout: 0 passed, 3 failed, 0 unmeasured",
        "minibatch_fail_000 (failure): ",
        "1. append: applied_append  rests on at most 2 trajectories  failure",
        "+- rule: alpha always",
        "difference +0.2500 on 4 items: 1 better, 0 worse, 3 equal, 0 left out",
        "rule: strict, metric: hard",
    ):
        assert expected in shown


def test_show_as_json_is_everything(ours: Path, said: Said) -> None:
    found = said.json("show", ours, "best")
    assert found["step"] == 2
    assert found["action"] == found["row"]["action"] == "accept_new_best"
    assert len(found["rollouts"]["steps/step_0002/rollout"]) == 3
    assert len(found["selection"]) == 4
    assert found["reflections"][0]["reply"]
    assert found["edits"][0]["source_items"]
    assert found["gate"]["pairs"] == 4
    assert found["candidate"] == (ours / "best_skill.md").read_text(encoding="utf-8").split("\n<!--")[0]
    assert found["diff"][:2] == ["--- version 1", "+++ candidate of step 2"]


def test_show_lists_ten_failures_or_everything(tmp_path: Path, said: Said) -> None:
    root = published.published_run(tmp_path / "run")
    rows = [json.dumps({"id": f"item{number}", "hard": int(number > 12), "soft": 0}) for number in range(15)]
    (root / "steps/step_0001/rollout/results.jsonl").write_text("\n".join(rows), encoding="utf-8")
    few, every = said("show", root, "1"), said("show", root, "step_1", "--all")
    assert "2 passed, 13 failed" in few
    assert "… 3 more that failed" in few
    assert [len(re.findall(r"^  item\d", text, re.MULTILINE)) for text in (few, every)] == [10, 15]


def test_show_of_a_step_without_patches(ours: Path, said: Said) -> None:
    shown = said("show", ours, "last")
    assert shown.startswith("step 4 (epoch 2): skip_no_patches\n")
    assert "\ngate\n" not in shown


@pytest.mark.parametrize(
    ("word", "message"), [("9", "has no step 9; it has 1 to 3"), ("x", "'x' names no step; use a number")]
)
def test_show_of_no_step_is_refused(theirs: Path, said: Said, word: str, message: str) -> None:
    assert message in said.refused("show", theirs, word)


# diff


def test_diff_is_of_the_seed_and_the_best_skill(theirs: Path, said: Said) -> None:
    lines = said("diff", theirs).splitlines()
    assert lines[:2] == ["--- seed", "+++ best"]
    assert {"-- Answer the question.", f"+{published.REPLACED}", "+- Use digits."} <= set(lines)
    assert said("diff", theirs, "0", "best").splitlines()[2:] == lines[2:]


def test_a_diff_can_be_applied(theirs: Path, said: Said, tmp_path: Path) -> None:
    patch = shutil.which("patch")
    if patch is None:
        pytest.skip("there is no patch program here")
    import subprocess

    skill = tmp_path / "skill.md"
    skill.write_text(published.SEED, encoding="utf-8")
    text = said("diff", theirs)
    subprocess.run([patch, "-s", str(skill)], input=text.encode(), check=True)
    assert skill.read_text(encoding="utf-8") == published.CANDIDATE_3


def test_diff_of_a_step_is_what_it_proposed(theirs: Path, said: Said) -> None:
    lines = said("diff", theirs, "step_2").splitlines()
    assert lines[:2] == ["--- version 1", "+++ candidate of step 2"]
    assert f"+{published.REJECTED}" in lines


def test_diff_marks_words_on_a_terminal(theirs: Path, said: Said) -> None:
    colored = said("diff", theirs, "--color", "always", "-U", "0")
    assert "\033[32;7m in three words\033[0m" in colored
    assert "\033[32m- Answer the question\033[0m" in colored
    assert re.sub(r"\033\[[\d;]*m", "", colored) == said("diff", theirs, "-U", "0")


def test_diff_of_the_same(theirs: Path, said: Said) -> None:
    assert said("diff", theirs, "best", "best") == "best and best are equal\n"
    assert said.json("diff", theirs, "seed", "seed")["hunks"] == []


def test_diff_of_an_unknown_version_is_refused(theirs: Path, said: Said) -> None:
    assert "has no version 8; it has 0 to 3" in said.refused("diff", theirs, "8")
    assert "names no skill of a run" in said.refused("diff", theirs, "seed", "other")


# blame


def test_blame_names_step_edit_support_and_items(ours: Path, said: Said) -> None:
    lines = said.json("blame", ours)
    assert "".join(f"{line['text']}\n" for line in lines) == (ours / "best_skill.md").read_text(encoding="utf-8")
    by_text = {line["text"]: line for line in lines if line["text"].strip()}
    assert by_text["# Skill"]["origin"] == "seed"
    alpha = by_text["- rule: alpha always"]
    assert (alpha["origin"], alpha["step"], alpha["edit"], alpha["op"]) == ("edit", 1, 1, "append")
    assert (alpha["support_count"], alpha["source_type"], alpha["source_certain"]) == (2, "failure", False)
    assert len(alpha["source_items"]) == 2
    printed = said("blame", ours)
    assert re.search(r"^step 1, edit 1 +5  - rule: alpha always$", printed, re.MULTILINE)
    assert re.search(r"^step 1, edit 1 +at most 2 +failure +accept_new_best +among TR-", printed, re.MULTILINE)


def test_blame_of_a_published_run_says_what_is_not_told(theirs: Path, said: Said) -> None:
    assert re.search(r"^step 3, edit 1 .* not told +replace: ", said("blame", theirs), re.MULTILINE)


# compare


def test_compare_of_one_run_is_the_final_comparison(ours: Path, said: Said) -> None:
    lift = json.loads((ours / "summary.json").read_text(encoding="utf-8"))["test_lift"]
    found = said.json("compare", ours, "--split", "test")["entrants"]
    assert [entrant["name"] for entrant in found] == ["seed", "best", "final"]
    assert found[1]["result"]["lift"] == lift
    printed = said("compare", ours)
    interval = f"{lift['lift']:+.4f} [{lift['low']:+.4f}, {lift['high']:+.4f}]"
    assert re.search(rf"^best +test +3 +.*{re.escape(interval)}", printed, re.MULTILINE)
    assert "chosen on the val items" in printed


def test_compare_of_runs_and_skill_files(ours: Path, theirs: Path, tmp_path: Path, said: Said) -> None:
    other = Path(shutil.copytree(ours, tmp_path / "other"))
    found = said.json("compare", ours, other, "--metric", "soft")
    assert (found["metric"], [entrant["split"] for entrant in found["entrants"]]) == ("soft", ["test", "test"])
    assert found["entrants"][1]["result"]["lift"]["lift"] == 0
    assert found["entrants"][0]["tokens"] > 0
    printed = said("compare", theirs / "skills" / "skill_v0000.md", theirs / "best_skill.md")
    assert re.search(r"^run: best_skill.md +test +4 +0\.7500 +0\.7500 +\+0\.5000 \[", printed, re.MULTILINE)


def test_compare_of_what_was_never_measured_is_refused(theirs: Path, tmp_path: Path, said: Said) -> None:
    (tmp_path / "skill.md").write_text("x", encoding="utf-8")
    assert "neither a run folder nor a skill file in one" in said.refused("compare", theirs, tmp_path / "skill.md")
    assert "not measured on the train items" in said.refused("compare", theirs, theirs, "--split", "train")


# untrusted text


def test_a_skill_cannot_steer_the_terminal(tmp_path: Path, said: Said) -> None:
    root = published.published_run(tmp_path / "run")
    evil = EVIL
    for name in ("best_skill.md", "steps/step_0003/candidate_skill.md", "skills/skill_v0003.md"):
        (root / name).write_text(f"# Skill\n{evil}\n", encoding="utf-8", newline="")
    ranked = root / "steps/step_0003/ranked_edits.json"
    ranked.write_text(json.dumps({"edits": [{"op": evil, "content": evil, "support_count": 1}]}), encoding="utf-8")
    history = json.loads((root / "history.json").read_text(encoding="utf-8"))
    history[2] |= {"action": f"accept{evil}", "epoch": evil}
    write(root, "history.json", history)
    pointers = json.loads((root / "runtime_state.json").read_text(encoding="utf-8"))
    write(root, "runtime_state.json", pointers | {"current_origin": evil, "best_step": evil})
    write(root, "events.jsonl", json.dumps({"event": "run_stopped", "reason": evil, "detail": evil}))
    for words in (
        ["log"],
        ["show", "3"],
        ["blame"],
        ["diff", "--color", "always"],
        ["status"],
        ["status", "--json"],
        ["report", "--no-png", "--out", str(tmp_path / "page")],
        ["report", "--no-png", "--out", str(tmp_path / "page"), "--json"],
    ):
        printed = said(words[0], root, *words[1:])
        assert not STEERS.search(printed), words


def test_an_evaluation_cannot_steer_the_terminal(tmp_path: Path, said: Said) -> None:
    root = published.published_evaluation(tmp_path / "run")
    write(root, "eval_summary.json", {"skill": EVIL, "split": EVIL, "n_items": EVIL, "hard": EVIL})
    for words in (["status"], ["status", "--json"]):
        assert not STEERS.search(said(words[0], root, *words[1:])), words


def test_a_reply_cannot_steer_the_terminal(ours: Path, tmp_path: Path, said: Said) -> None:
    root = Path(shutil.copytree(ours, tmp_path / "run"))
    with closing(sqlite3.connect(root / "journal.sqlite")) as db:
        db.execute("UPDATE replies SET text = ?", (EVIL,))
        db.commit()
    printed = said("calls", root, "--json")
    assert {json.loads(line)["reply"] for line in printed.splitlines()} == {EVIL}
    assert not STEERS.search(printed + said("calls", root, "--full"))


def test_pieces_of_text() -> None:
    assert clean("a\tb\nc\x00\x9bd") == "a\tb\nc\ufffd\ufffdd"
    assert shorten("  two\n\nlines  ", 20) == "two lines"
    assert shorten("a" * 30, 10) == "a" * 9 + "…"
    assert items_named(["a", "b", "c", "d"], 2) == "a, b +2"
    assert table(("x", "yy"), [("long", "1")], right=(1,)) == ["x     yy", "long   1"]
    assert json.loads(json_text({"a": float("nan"), "b": (1,)})) == {"a": None, "b": [1]}
    assert (paint("x", "1", on=False), paint("", "1", on=True)) == ("x", "")


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert wants_color("auto", {"TERM": "xterm"})
    assert not wants_color("auto", {"TERM": "dumb"})
    assert not wants_color("auto", {"NO_COLOR": "1"})
    assert wants_color("always", {"NO_COLOR": "1"})
    assert not wants_color("never", {})
