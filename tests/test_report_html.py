"""The report of a run: what the page, the picture and the lines say, whatever the run holds."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import published
from fakes.longrun import long_run, write
from fakes.pages import EVIL, Page, safe
from fakes.world import World, run

from skillopt.cli import report as command
from skillopt.cli.edge import Shell
from skillopt.cli.main import main
from skillopt.extras import install_hint
from skillopt.report import publish
from skillopt.report.answers import answers_of
from skillopt.report.bounds import bounded_diffs, changed_items, cut
from skillopt.report.comparison import flips
from skillopt.report.content import Report, read_report, verdict
from skillopt.report.evolution import diff
from skillopt.report.final import read_final, read_flips
from skillopt.report.numbers import p_text, percent, points
from skillopt.report.run import read_run
from skillopt.run.folder import FolderError

jinja2 = pytest.importorskip("jinja2", reason="the extra report is not installed")

from skillopt.report.page import report_page  # noqa: E402


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ours") / "run"
    run(World(), root)
    return root


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return long_run(tmp_path_factory.mktemp("long") / "run")


@pytest.fixture(scope="module")
def long_report(long: Path) -> Report:
    return read_report(read_run(long))


@pytest.fixture(scope="module")
def long_page(long_report: Report) -> str:
    return report_page(long_report)


@pytest.fixture
def copied(ours: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ours, tmp_path / "run"))


def page_of(root: Path) -> str:
    return report_page(read_report(read_run(root)))


# one file


def test_a_page_needs_nothing_else(ours: Path) -> None:
    text = page_of(ours)
    safe(text)
    assert "@import" not in text
    assert "url(" not in text
    assert not re.search(r"https?://", text)


def test_its_policy_lets_its_own_style_and_script_run(ours: Path) -> None:
    text = page_of(ours)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1].replace("&#39;", "'")
    for tag in ("style", "script"):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert content is not None
        digest = base64.b64encode(hashlib.sha256(content[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1].replace("&#39;", "'").replace("&#43;", "+")


def test_each_id_is_there_once_and_each_link_leads_somewhere(long_page: str) -> None:
    page = Page(long_page)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {
        (attributes["href"] or "")[1:] for _, attributes in page.tags if (attributes.get("href") or "").startswith("#")
    }
    assert links <= set(ids)
    named = [attributes.get("aria-labelledby") for _, attributes in page.tags]
    assert {name for each in named if each for name in each.split()} <= set(ids)


def test_a_long_run_stays_small(long: Path, long_report: Report, long_page: str) -> None:
    assert len(long_report.steps) == 40
    assert len(read_run(long).item_scores("test_eval")) == 2_000
    assert 200_000 < len(long_page.encode()) < 3_000_000
    safe(long_page)


def test_long_answers_do_not_make_a_long_page(long: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(long, tmp_path / "run"))
    for name in ("test_eval_baseline", "test_eval"):
        rows = [json.loads(line) for line in (root / name / "results.jsonl").read_text(encoding="utf-8").splitlines()]
        for row in rows:
            row |= {"response": "<&>\"'" * 300, "question": "é" * 900}
        write(root, f"{name}/results.jsonl", "\n".join(map(json.dumps, rows)))
    report = read_report(read_run(root))
    assert len(report_page(report).encode()) < 3_000_000
    (found,) = (each for each in report.flips if each.split == "test")
    told = {group.kind: (len(group.shown), group.total) for group in found.groups}
    assert 0 < sum(shown for shown, _ in told.values()) < sum(total for _, total in told.values())
    shown, total = told["fixed"]
    assert f"{total} items, the first {shown} are here" in Page(report_page(report)).text


# what it says


@pytest.mark.parametrize("split", ["test", "val"])
def test_the_final_comparison_is_that_of_the_readers(long: Path, long_page: str, split: str) -> None:
    view = read_run(long)
    final = read_final(view, "test" if split == "test" else "val")
    assert final is not None
    assert [arm.name for arm in final.arms] == ["seed", "best", "final"]
    table = re.search(rf'aria-label="Final comparison on the {split} items">.*?</table>', long_page, re.DOTALL)
    assert table is not None
    said = Page(table[0].partition(">")[2]).text
    for arm in final.arms:
        assert percent(arm.hard) in said
        if arm.lift is not None:
            lift = arm.lift
            interval = f"{points(lift.low)} to {points(lift.high)}"
            assert f"{points(lift.lift)} {interval} {p_text(lift.p_value)} {lift.wins} {lift.losses}" in said


def test_the_table_of_steps_is_the_history(long: Path, long_page: str) -> None:
    table = re.search(r'aria-label="Table of steps">.*?</table>', long_page, re.DOTALL)
    assert table is not None
    rows = [Page(each).text for each in re.findall(r"<tr>.*?</tr>", table[0], re.DOTALL)][1:]
    history = read_run(long).rows
    assert len(rows) == len(history) == 40
    for said, row in zip(rows, history, strict=True):
        assert said.startswith(
            f"{row['step']} {row['epoch']} {row['action'].replace('_', ' ')} {percent(row['train_hard'])}"
        )
        assert f"{row['tokens_total']:,} $0.1210" in said
        if "gate" in row:
            gate = row["gate"]
            change = gate["candidate_score"] - gate["current_score"]
            assert f"n 200 {points(change)} {gate['wins']} / {gate['losses']}" in said


def test_the_items_that_changed_are_there_with_both_answers(ours: Path) -> None:
    found = read_flips(read_run(ours), "test")
    assert found is not None
    assert found.fixed
    said = Page(page_of(ours)).text
    for flip in (*found.fixed, *found.broken, *found.failing):
        assert flip.id in said
        assert flip.question in said
        assert " ".join(flip.before.answer.split()) in said
        assert " ".join(flip.after.answer.split()) in said
    assert f"{len(found.fixed)} fixed, {len(found.broken)} broken, {len(found.failing)} still failing" in said


def test_how_the_skill_evolved_is_there_word_by_word(long: Path, long_report: Report, long_page: str) -> None:
    accepted = [row["step"] for row in read_run(long).rows if row["action"].startswith("accept")]
    changed = [change for change in long_report.changes if change.diff is not None]
    assert [change.line.step for change in changed] == accepted
    assert [change.diff.diff.new_name for change in changed if change.diff] == [f"version {step}" for step in accepted]
    assert all(change.edits for change in changed)
    fifth = diff("one short answer.\n", "one short answer of at most 4 words.\n")
    assert [word.changed for line in fifth.hunks[0].lines for word in line.words].count(True) > 0
    assert re.search(r"answer<ins> of at most \d words</ins>", long_page)
    assert {block.cause.label for block in long_report.blame} >= {"seed"}


def test_a_verdict_never_says_more_than_was_shown() -> None:
    def final_of(before: list[int], after: list[int]) -> str:
        from skillopt.report.comparison import Arm, compare
        from skillopt.report.final import FinalComparison

        arms = [
            Arm(name, answers_of({"id": str(i), "hard": hard} for i, hard in enumerate(values)))
            for name, values in (("seed", before), ("best", after))
        ]
        return verdict(FinalComparison("test", compare(arms)))

    assert "is better than the baseline on the held-out test items" in final_of([0] * 20, [1] * 20)
    assert "is worse" in final_of([1] * 20, [0] * 20)
    assert "No difference" in final_of([0] * 20, [1] + [0] * 19)
    assert "was not compared" in final_of([], [1])


# whoever made the run, whatever it holds


def test_a_run_of_the_published_implementation(tmp_path: Path) -> None:
    page = safe(page_of(published.published_run(tmp_path / "run")))
    assert published.KEY not in page.text
    assert "accept new best" in page.text


def test_a_run_that_has_hardly_begun(tmp_path: Path) -> None:
    write(tmp_path, "config.json", {"env": "searchqa"})
    write(tmp_path, "history.json", [])
    assert "Nothing was measured yet." in safe(page_of(tmp_path)).text


def test_torn_files(copied: Path) -> None:
    for name in ("history.json", "summary.json", "runtime_state.json"):
        path = copied / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for path in copied.rglob("results.jsonl"):
        path.write_bytes(path.read_bytes()[:-7])
    assert "history.json is torn" in safe(page_of(copied)).text


def test_hostile_text_stays_text(copied: Path) -> None:
    def evil(name: str, change: Callable[[dict[str, object]], None]) -> None:
        rows = [json.loads(line) for line in (copied / name).read_text(encoding="utf-8").splitlines()]
        for row in rows:
            change(row)
        write(copied, name, "\n".join(map(json.dumps, rows)))

    def spoil(row: dict[str, object]) -> None:
        row |= {"id": f"{row['id']}{EVIL}", "question": EVIL, "fail_reason": EVIL, "response": EVIL}
        row |= {"predicted_answer": EVIL, "gold_answers": [EVIL]}

    for path in copied.rglob("results.jsonl"):
        evil(path.relative_to(copied).as_posix(), spoil)
    for path in copied.rglob("*.md"):
        path.write_text(f"{path.read_text(encoding='utf-8')}\n- {EVIL} {path.name}\n", encoding="utf-8")
    for path in copied.rglob("ranked_edits.json"):
        path.write_text(
            path.read_text(encoding="utf-8").replace('"op": "', f'"op": {json.dumps(EVIL)[:-1]}'), encoding="utf-8"
        )
    config = json.loads((copied / "config.json").read_text(encoding="utf-8"))
    write(copied, "config.json", config | {"target_model": EVIL, EVIL: EVIL})
    history = json.loads((copied / "history.json").read_text(encoding="utf-8"))
    write(copied, "history.json", [row | {"action": f"reject{EVIL}"} for row in history])
    text = page_of(copied)
    page = safe(text)
    assert page.text.count("<script>alert(1)</script>") > 20
    assert "{{ 7 * 7 }}" in page.text
    assert "\u202e" not in text


def test_the_keys_of_the_environment_do_not_reach_a_page(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = 'sk-a"b&0123456789'
    monkeypatch.setenv("SOME_API_KEY", key)
    for path in [copied / "best_skill.md", *copied.glob("skills/skill_v0002.md"), *copied.glob("test_eval/*.jsonl")]:
        text = path.read_text(encoding="utf-8")
        written = json.dumps(key)[1:-1] if path.suffix == ".jsonl" else key
        path.write_text(text.replace("carol", written), encoding="utf-8")
    assert main(["report", str(copied), "--out", str(tmp_path / "out"), "--no-png"]) == 0
    assert main(["compare", str(copied), "--html", str(tmp_path / "out" / "compare.html")]) == 0
    for name in ("report.html", "compare.html"):
        text = Page((tmp_path / "out" / name).read_text(encoding="utf-8")).text.replace(" ", "")
        assert key not in text
        assert "0123456789" not in text
    assert "***" in Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8")).text


def test_an_evaluation_has_no_report(tmp_path: Path) -> None:
    write(tmp_path, "config.json", {"env": "searchqa"})
    write(tmp_path, "eval_summary.json", {"split": "test", "hard": 0.5})
    with pytest.raises(FolderError, match="is an evaluation"):
        read_report(read_run(tmp_path))


# bounds


def test_what_broke_is_kept_first() -> None:
    before = [{"id": f"i{n}", "hard": n % 2, "response": "x" * 500} for n in range(100)]
    after = [{"id": f"i{n}", "hard": (n + 1) % 2, "response": "y" * 500} for n in range(100)]
    broken, fixed, failing = changed_items(
        "test", "seed", "best", flips(answers_of(before), answers_of(after)), 60_000
    ).groups
    assert (broken.kind, broken.total, fixed.total, failing.total) == ("broken", 50, 50, 0)
    assert len(broken.shown) + len(fixed.shown) < 100
    assert len(broken.shown) == 50 or not fixed.shown


def test_a_huge_diff_is_cut_and_says_so() -> None:
    small, huge = diff("a\n", "b\n"), diff("", "\n".join(f"line {n} " + "x" * 90 for n in range(5_000)))
    first, second, third = bounded_diffs([small, huge, small], 60_000)
    assert (first.left_out, third.left_out) == (0, 0)
    kept = sum(len(hunk.lines) for hunk in second.diff.hunks)
    assert 0 < kept < 5_000
    assert kept + second.left_out == 5_000
    assert second.diff.added == 5_000


def test_a_cut_says_how_much_is_gone() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("a" * 1_010, 10) == f"{'a' * 10}… (1,000 more characters)"


# the command


def test_the_command_writes_the_files_and_prints_the_numbers(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="the extra report is not installed")
    assert main(["report", str(copied)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[-2:] == [f"report: {copied / name}" for name in ("report.html", "training_dashboard.png")]
    assert (copied / "report.html").read_text(encoding="utf-8") == page_of(copied)
    picture = (copied / "training_dashboard.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(picture[16:20], "big") > 1_000
    final = read_final(read_run(copied), "test")
    assert final is not None
    assert all(re.search(rf"test +{arm.name} +{arm.n} +{arm.hard:.4f}", out) for arm in final.arms)


def test_other_places_and_json(ours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in ours.rglob("*")}
    assert main(["report", str(ours), "--out", str(tmp_path / "new" / "place"), "--no-png", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] == [str(tmp_path / "new" / "place" / "report.html")]
    assert [path.name for path in (tmp_path / "new" / "place").iterdir()] == ["report.html"]
    assert {path: path.stat().st_mtime_ns for path in ours.rglob("*")} == before
    report = read_report(read_run(ours))
    assert [step["step"] for step in told["steps"]] == [line.step for line in report.steps]
    assert told["final"]["test"][1]["hard"] == report.finals[0].arms[1].hard
    assert told["flips"]["test"]["fixed"]["total"] == report.flips[0].groups[1].total
    assert told["curves"]["baseline"] == report.curves.baseline


def test_without_the_extra_it_prints_the_numbers_and_what_to_install(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(publish, "find_spec", lambda name: None)
    assert main(["report", str(ours), "--out", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert "test items, seed to best" in out
    assert install_hint("report") in err
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_there_is_a_page(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(publish, "find_spec", lambda name: None if name == "matplotlib" else True)
    assert main(["report", str(ours), "--out", str(tmp_path)]) == 0
    assert "no training_dashboard.png without matplotlib" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_no_run_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "is not a run folder" in capsys.readouterr().err


# after a training


@pytest.fixture
def shell() -> Shell:
    return Shell({})


def test_a_training_ends_with_its_report(copied: Path, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    command.report_after_training(shell, copied)
    out, err = capsys.readouterr()
    assert f"report: {copied / 'report.html'}" in out.splitlines()
    assert err == ""


def test_a_report_that_fails_is_a_note(
    copied: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (RuntimeError("no paper left"), KeyboardInterrupt()):

        def fails(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(command, "publish", fails)
        command.report_after_training(shell, copied)
        out, err = capsys.readouterr()
        assert out.startswith("note: no report was written (")
        assert f"skillopt report {copied}" in out
        assert err == ""
    assert not (copied / "report.html").exists()


def test_without_the_extra_a_training_says_nothing(
    copied: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(publish, "find_spec", lambda name: None)
    command.report_after_training(shell, copied)
    assert capsys.readouterr() == ("", "")
