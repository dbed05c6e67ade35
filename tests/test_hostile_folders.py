"""Run folders that anyone may have made: every reader tells what it can of them, soon, and no more."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from html import unescape
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2", reason="the extra report is not installed")
pytest.importorskip("starlette", reason="the extra webui is not installed")
pytest.importorskip("httpx2", reason="the extra webui's tests need httpx2")

from fakes.dashboard import dashboard, write
from fakes.world import World, run

from skillopt.cli.main import main
from skillopt.report import files, steps
from skillopt.report import run as report_run
from skillopt.report.run import read_run
from skillopt.run import folder
from skillopt.web.catalog import id_of

PAGE_LIMIT = 1_000_000
OUTSIDE = "OUTSIDE-OF-THE-ROOT"
DEEP: Any = None
for _ in range(900):
    DEEP = [DEEP]
TABS = (
    *("", "/steps", "/steps/1", "/skill", "/skill?from=seed&to=best", "/skill?to=step_1", "/blame", "/items"),
    *("/items?only=failed", "/calls", "/calls?page=2", "/events", "/events?items=1", "/log", "/config"),
)
Spoil = Callable[[Path, pytest.MonkeyPatch], object]
SPOILS: dict[str, Spoil] = {}


def spoil(make: Spoil) -> Spoil:
    SPOILS[make.__name__.replace("_", " ")] = make
    return make


# How a folder is spoilt.


def documents(root: Path) -> list[Path]:
    return [path for path in sorted(root.rglob("*")) if path.suffix in (".json", ".jsonl", ".md", ".sqlite")]


def change(root: Path, each: Callable[[Any], Any], kinds: type | tuple[type, ...]) -> None:
    """Every value of some kinds in every JSON file of a run."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [changed(entry) for entry in value]
        return each(value) if isinstance(value, kinds) and not isinstance(value, bool) else value

    for path in documents(root):
        if path.suffix in (".json", ".jsonl"):
            content = path.read_text(encoding="utf-8")
            parts = content.splitlines() if path.suffix == ".jsonl" else [content]
            path.write_text("".join(json.dumps(changed(json.loads(part))) + "\n" for part in parts), encoding="utf-8")


def numbers(*odd: Any) -> Spoil:
    """One odd number after the other in place of each number."""
    left = cycle(odd)
    return lambda root, patch: change(root, lambda value: next(left), (int, float))


def each_row(root: Path, made: Callable[[int, dict[str, Any]], dict[str, Any]]) -> None:
    for path in root.rglob("results.jsonl"):
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        path.write_text("".join(json.dumps(made(*each)) + "\n" for each in enumerate(found)), encoding="utf-8")


def sql(root: Path, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    with closing(sqlite3.connect(root / "journal.sqlite")) as db, db:
        for statement in statements:
            db.execute(*((statement,) if isinstance(statement, str) else statement))


SPOILS |= {
    "numbers of 400 digits": numbers(10**400),
    "floats at their end": numbers(1.7e308),
    "whole numbers of 60 bits": numbers(10**18),
    "numbers of all kinds": numbers(5e-324, float("inf"), -1e9, 10**15, float("nan"), True, 0.5),
}


@spoil
def pipes_in_place_of_files(root: Path, patch: pytest.MonkeyPatch) -> None:
    for path in documents(root):
        if path.name not in ("config.json", "journal.sqlite"):
            path.unlink()
            os.mkfifo(path)
    os.mkfifo(root / "journal.sqlite-wal") if not (root / "journal.sqlite-wal").exists() else None


@spoil
def folders_and_devices_in_place_of_files(root: Path, patch: pytest.MonkeyPatch) -> None:
    for number, path in enumerate(documents(root)):
        if path.name != "config.json":
            path.unlink()
            path.symlink_to("/dev/zero") if number % 2 else path.mkdir()


@spoil
def links_out(root: Path, patch: pytest.MonkeyPatch) -> None:
    sql(root, f"UPDATE texts SET content = '{OUTSIDE} ' || content", f"UPDATE replies SET text = '{OUTSIDE}'")
    outside = root.parent.parent / "outside"
    for path in documents(root):
        if path.name != "config.json":
            target = outside / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
            if path.suffix != ".sqlite":
                target.write_text(target.read_text(encoding="utf-8").replace("rule", OUTSIDE), encoding="utf-8")
            path.symlink_to(target)


@spoil
def values_nested_deep(root: Path, patch: pytest.MonkeyPatch) -> None:
    for name in ("config.json", "summary.json", "runtime_state.json"):
        write(root, name, {**json.loads((root / name).read_text(encoding="utf-8")), "x": DEEP, "num_epochs": DEEP})
    each_row(root, lambda number, row: {**row, "question": DEEP, "id": DEEP if number % 2 else row["id"]})
    step = root / "steps" / "step_0001"
    for name in ("ranked_edits", "merged_patch"):
        write(step, f"{name}.json", {"edits": [{"op": DEEP, "content": DEEP}], "reasoning": DEEP})
    for path in (step / "patches").iterdir():
        write(path.parent, path.name, {"edits": [{"op": DEEP}], "reasoning": DEEP})
    with (root / "events.jsonl").open("a", encoding="utf-8") as events:
        events.write(json.dumps({"event": "note", "text": DEEP}) + "\n")
    sql(root, ("UPDATE meta SET value = ? WHERE key = 'identity'", ("[" * 100_000,)))


@spoil
def more_of_all_than_is_read(root: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "JSON_LIMIT", 500)
    patch.setattr(files, "LINE_LIMIT", 400)
    patch.setattr(files, "MOST_ROWS", 2)
    patch.setattr(report_run, "MOST_ROWS", 2)
    patch.setattr(steps, "MOST_EDITS", 1)


@spoil
def endless_views_in_place_of_tables(root: Path, patch: pytest.MonkeyPatch) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT"
    for table, columns in (("requests", "'a' role, 'ok' kind, 1 prompt_tokens"), ("meta", "'k' || x key, 'v' value")):
        sql(root, f"ALTER TABLE {table} RENAME TO old_{table}", f"CREATE VIEW {table} AS {endless} {columns} FROM c")


@spoil
def questions_that_take_too_long(root: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(folder, "PATIENCE", 20_000)
    patch.setattr(folder, "_AT_ONCE", 10)
    sql(
        root,
        *(f"INSERT INTO requests SELECT NULL, role || '{n}', stage, kind, 1, 1, 1, 1, 1 FROM requests" for n in "abcd"),
    )


@spoil
def a_journal_of_odd_kinds(root: Path, patch: pytest.MonkeyPatch) -> None:
    for table in ("replies", "requests"):
        sql(root, f"CREATE TABLE other AS SELECT * FROM {table}", f"DROP TABLE {table}")
        sql(root, f"ALTER TABLE other RENAME TO {table}")
    sql(root, "UPDATE replies SET role = x'ff', stage = 7, prompt_tokens = 'abc', cost_usd = 'zz' WHERE rowid % 3 = 0")
    sql(root, "UPDATE replies SET owner = 5, completion_tokens = x'ff00', text = x'ff00', cost_usd = 9e999")
    sql(root, "UPDATE replies SET stage = NULL, text = 3, stored_at = 'never' WHERE rowid % 2 = 0")
    sql(root, "UPDATE requests SET role = NULL, prompt_tokens = 9223372036854775807, cost_usd = 9e999")


@spoil
def calls_that_cannot_be_read(root: Path, patch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(root / "journal.sqlite")) as db:
        (digest,) = db.execute("SELECT hash FROM texts").fetchone()
        keys = [key for (key,) in db.execute("SELECT key FROM replies ORDER BY key")]
    odd = [
        "{}",
        "[1, 2]",
        '[["user", "gone"]]',
        "[" * 100_000,
        f'[["user", "{digest}", 5]]',
        f'[["request", "{digest}"]]',
        "",
    ]
    sql(root, *(("UPDATE replies SET messages = ? WHERE key = ?", pair) for pair in zip(odd, keys, strict=False)))
    extra = {"messages": [1], "reply": 5, "events": "x", "tool_calls": 7, "key": None, "cost_usd": "y"}
    blobs: Sequence[Any] = (b"\x00\xff", "text", *(zlib.compress(json.dumps(each).encode()) for each in ([1], extra)))
    blobs = (*blobs, zlib.compress(b'{"events": ["' + b"a" * (5 << 20) + b'"]}', 9))
    pairs = zip(blobs, keys[len(odd) :], strict=False)
    sql(root, *(("UPDATE replies SET extra = ? WHERE key = ?", pair) for pair in pairs))
    sql(root, ("UPDATE replies SET text = ? WHERE key = ?", ("A" * 3_000_000, keys[-1])))
    sql(root, ("UPDATE replies SET role = CAST(x'ff41fe' AS TEXT) WHERE key = ?", (keys[-2],)))


@spoil
def long_words(root: Path, patch: pytest.MonkeyPatch) -> None:
    long = "<&>" * 90_000
    change(root, lambda word: word if len(word) > 60 else f"{word}{long[:9000]}", str)
    history = json.loads((root / "history.json").read_text(encoding="utf-8"))
    gate = {f"{number}{long}": long for number in range(2)}
    write(root, "history.json", [{**row, "action": f"accept{long}", "gate": gate} for row in history[:2]])
    write(root, "config.json", {"env": long[:90_000], "target_model": long[:90_000], long[:90_000]: 1})
    write(root, "runtime_state.json", {"best_skill_path": "a" * 10_000, "best_origin": f"step_{'9' * 5000}"})
    each_row(root, lambda number, row: {**row, "id": f"{number}{long[: 5000 * number]}", "question": long})
    analysis = {"item_ids": [long[:1900]] * 40, "source_type": long[:99_000], "error": {"kind": long[:99_000]}}
    for path in (root / "steps" / "step_0001" / "analysis").iterdir():
        write(path.parent, path.name, analysis)
    (root / "events.jsonl").unlink()
    write(root, "summary.json", {"stop_reason": long})


@spoil
def half_characters(root: Path, patch: pytest.MonkeyPatch) -> None:
    change(root, lambda word: f"{word}\ud800\u202e\x00\x1b[31m", str)
    write(root, "runtime_state.json", {"best_skill_path": "\ud800/x", "current_origin": "slow_update_epoch_\ud800"})


@spoil
def skills_of_many_lines(root: Path, patch: pytest.MonkeyPatch) -> None:
    lines = [f"{number}\n" for number in range(6_000)]
    for version, path in enumerate(sorted((root / "skills").iterdir())):
        random.Random(version).shuffle(lines)
        twos = ("ab"[(number // (version + 2)) % 2] + "\n" for number in range(6_000))
        path.write_text("".join(twos if version % 2 else lines), encoding="utf-8")
    shutil.copy(root / "skills" / "skill_v0002.md", root / "best_skill.md")
    words = "".join(f"{'a b ' * 900}{number}\n" for number in range(60))
    write(root, "steps/step_0001/candidate_skill.md", words)


@spoil
def many_of_all(root: Path, patch: pytest.MonkeyPatch) -> None:
    (row, *_) = json.loads((root / "history.json").read_text(encoding="utf-8"))
    rows = [
        {**row, "step": number, "epoch": number, "action": ("accept", "reject")[number % 2]} for number in range(1, 501)
    ]
    write(root, "history.json", rows)
    edit = {"op": "append", "content": "words & more " * 20, "target": "<" * 500}
    step = root / "steps" / "step_0001"
    write(step, "ranked_edits.json", {"edits": [{**edit, "support_count": number} for number in range(800)]})
    write(step, "edit_apply_report.json", [{"index": number, "status": "applied"} for number in range(800)])
    for number in range(60):
        patched = {"edits": [{**edit, "content": f"words {number} of {part}"} for part in range(8)]}
        write(step, f"patches/minibatch_fail_{number:05d}.json", patched)
        write(step, f"analysis/minibatch_fail_{number:05d}.json", {"item_ids": ["&<" * 150] * 40, "reply": "&" * 5000})
    for number in range(300):
        write(root, f"{'&' * 200}{number}/results.jsonl", '{"id": "x", "hard": 1}\n')


# What reads it.


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "run"
    run(World(), root, {"logging.predictions": "all"})
    return root


@pytest.fixture
def spoilt(
    request: pytest.FixtureRequest, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    root = tmp_path / "roots" / "run"
    shutil.copytree(made, root)
    SPOILS[request.param](root, monkeypatch)
    yield root
    shutil.rmtree(tmp_path)  # some of them are large


def commands(root: Path, other: Path, out: Path) -> list[list[str]]:
    plain: list[list[Any]] = [
        *(["status", root], ["log", root], ["show", root, "last"], ["show", root, "1", "--all"]),
        *(["diff", root], ["diff", root, "step_1"], ["diff", root, "epoch_2"], ["blame", root]),
        *(["compare", root], ["compare", root, other], ["calls", root]),
        ["export", root, "--to", "file", "--out", out / "SKILL.md", "--yes", "--provenance"],
    ]
    report = ["report", root, "--out", out, "--no-png", "--json"]
    words = [*plain, ["calls", root, "--full"], *([*line, "--json"] for line in plain), report]
    return [[str(word) for word in line] for line in words]


def no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes among files")
@pytest.mark.parametrize("spoilt", SPOILS, indirect=True)
def test_every_command_tells_what_it_can(
    spoilt: Path, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in commands(spoilt, made, tmp_path / "out"):
        status = main(words)
        said = capsys.readouterr()
        assert "Traceback" not in said.err, (words, said.err[-2000:])
        assert OUTSIDE not in said.out, words
        if "--json" in words and status == 0:
            texts = said.out.splitlines() if words[0] == "calls" else [said.out]
            for text in texts:
                json.loads(text, parse_constant=no_constant)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes among files")
@pytest.mark.parametrize("spoilt", SPOILS, indirect=True)
def test_every_page_is_there_and_small(spoilt: Path, made: Path) -> None:
    shutil.copytree(made, spoilt.parent / "other")
    client, run, other = dashboard(spoilt.parent), id_of(spoilt), id_of(spoilt.parent / "other")
    paths = ["/", "/?sort=best", f"/compare?run={run}", f"/compare?run={run}&run={other}&kind=failing"]
    paths += [f"/evaluate?run={run}", *(f"/run/{run}{tab}" for tab in TABS)]
    passes = ("test_eval", "steps/step_0001/rollout")
    paths += [f"/run/{run}/items?pass={name}" for name in passes if name in read_run(spoilt).passes]
    for path in paths:
        answer = client.get(path)
        assert answer.status_code < 500, path
        assert len(answer.content) < PAGE_LIMIT, path
        assert OUTSIDE not in answer.text, path
        if "/items" in path:
            links = re.findall(r'href="(/run/[^"]+/item\?[^"]*)"', answer.text)
            assert {client.get(unescape(link)).status_code for link in links[:4]} <= {200}, path
