"""The journal: stored before use, group commit, who is charged, adoption, masks, and what makes it unusable."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.models.types import Attempt, Message, Reply, Usage
from skillopt.run.calls import count_calls, stored_call, stored_calls
from skillopt.run.folder import FolderError, journal_problem, peek_meta
from skillopt.run.journal import Journal, JournalError, JournalWriteError, StageTokens

MESSAGES = (Message("system", "be brief"), Message("user", "hello"))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


async def put(journal: Journal, key: str, text: str = "hi", *, stage: str = "rollout", tokens: int = 10) -> Reply:
    return await journal.put(key, "target", stage, MESSAGES, Reply(text, Usage(tokens, 1)))


def attempt(kind: str = "ok", tokens: int = 10, stage: str = "rollout") -> Attempt:
    return Attempt("target", stage, kind, Usage(tokens, 1), 0.5)


class Transactions:
    """Counts the transactions of a journal, and lets one fail."""

    def __init__(self, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.fail = False
        inner = journal._transaction

        def counted(statements: Any) -> None:
            found = list(statements)
            self.sizes.append(len(found))
            if self.fail:
                raise JournalWriteError("the journal of the run cannot be written: database or disk is full")
            inner(found)

        monkeypatch.setattr(journal, "_transaction", counted)


# replies


def test_a_reply_comes_back_as_it_was_put(journal: Journal) -> None:
    usage = Usage(11, 7, 5, 3)
    asyncio.run(journal.put("k", "target", "rollout", MESSAGES, Reply("text with “quotes” and\r\nbreaks", usage)))
    assert journal.get("k") == Reply("text with “quotes” and\r\nbreaks", usage, "k")
    assert journal.get("other") is None


def test_put_returns_only_when_another_connection_can_read_the_reply(tmp_path: Path, journal: Journal) -> None:
    async def check() -> None:
        task = asyncio.ensure_future(put(journal, "k"))
        await asyncio.sleep(0)
        with sqlite3.connect(tmp_path / "journal.sqlite") as other:
            assert other.execute("SELECT COUNT(*) FROM replies").fetchone() == (0,) or task.done()
            await task
            assert other.execute("SELECT key FROM replies").fetchall() == [("k",)]
        other.close()

    asyncio.run(check())


def test_replies_of_one_turn_share_a_transaction(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    transactions = Transactions(journal, monkeypatch)

    async def check() -> None:
        await asyncio.gather(*(put(journal, f"k{number}") for number in range(50)))

    asyncio.run(check())
    assert transactions.sizes == [52]  # 50 replies and, once, the two texts of their prompt
    assert [journal.get(f"k{number}") is not None for number in range(50)] == [True] * 50


def test_a_reply_is_not_known_before_it_is_written(journal: Journal) -> None:
    async def check() -> None:
        task = asyncio.ensure_future(put(journal, "k"))
        await asyncio.sleep(0)
        assert journal.get("k") is None
        await task
        assert journal.get("k") is not None

    asyncio.run(check())


def test_the_first_reply_under_a_key_stays(journal: Journal) -> None:
    async def check() -> None:
        await put(journal, "k", "first")
        await put(journal, "k", "second")

    asyncio.run(check())
    found = journal.get("k")
    assert found is not None
    assert found.text == "first"


def test_a_disk_that_is_full_reaches_everyone_who_waits_and_nobody_hangs(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = Transactions(journal, monkeypatch)

    async def check() -> None:
        transactions.fail = True
        journal.book(attempt())
        found = await asyncio.wait_for(asyncio.gather(put(journal, "a"), put(journal, "b"), return_exceptions=True), 5)
        assert [type(each) for each in found] == [JournalWriteError, JournalWriteError]
        assert journal.get("a") is None
        transactions.fail = False
        await put(journal, "c")
        assert journal.get("c") is not None

    asyncio.run(check())


def test_a_failed_transaction_is_rolled_back_whole(journal: Journal) -> None:
    with pytest.raises(JournalWriteError, match="cannot be written"):
        journal._transaction([("INSERT INTO meta VALUES('a', 'b')", ()), ("INSERT INTO nowhere VALUES(1)", ())])
    assert journal.meta("a") is None
    journal.commit("step_0001", {}, {})
    assert journal.record("step_0001") == {}


def test_stored_calls_are_told_word_for_word(tmp_path: Path, journal: Journal) -> None:
    asyncio.run(put(journal, "k", "an answer"))
    asyncio.run(put(journal, "other", "no", stage="analyst"))
    journal.commit("step_0001", {}, {}, ["k"])
    (call,) = stored_calls(tmp_path, stage="rollout")
    assert call["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    assert (call["key"], call["role"], call["part"], call["reply"]) == ("k", "target", "step_0001", "an answer")
    assert (call["prompt_tokens"], call["completion_tokens"]) == (10, 1)
    assert [found["key"] for found in stored_calls(tmp_path)] == ["k", "other"]
    assert [found["key"] for found in stored_calls(tmp_path, part="step_0001")] == ["k"]
    for stage, part in product((None, "rollout", "analyst", "none"), (None, "step_0001", "none")):
        assert count_calls(tmp_path, stage, part) == len(list(stored_calls(tmp_path, stage, part)))


def test_calls_are_told_in_the_order_of_time_and_by_item(tmp_path: Path, journal: Journal) -> None:
    reply = Reply("hi", Usage(1, 1))
    for key, item in (("z", "TR-2"), ("a", "TR-1"), ("m", ""), ("b", "TR-1")):
        asyncio.run(journal.put(key, "target", "rollout", MESSAGES, reply, item=item))
    found = list(stored_calls(tmp_path))
    assert [(call["key"], call["item"]) for call in found] == [("z", "TR-2"), ("a", "TR-1"), ("m", None), ("b", "TR-1")]
    assert [call["at"] for call in found] == sorted(call["at"] for call in found)
    for item, keys in (("TR-1", ["a", "b"]), ("TR-2", ["z"]), ("none", [])):
        assert [call["key"] for call in stored_calls(tmp_path, item=item)] == keys
        assert count_calls(tmp_path, item=item) == len(keys)
    assert stored_call(tmp_path, "m") == found[2]
    assert stored_call(tmp_path, "none") is None


def test_the_item_of_a_call_is_stored_without_secrets_and_half_surrogates(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite", lambda text: text.replace("s3cret", "***"))
    asyncio.run(journal.put("k", "target", "rollout", MESSAGES, Reply("hi", Usage(1, 1)), item="s3cret \ud800"))
    journal.close()
    assert [call["item"] for call in stored_calls(tmp_path)] == ["*** ?"]


def test_a_folder_without_a_journal_has_no_calls(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="no journal"):
        list(stored_calls(tmp_path))
    assert count_calls(tmp_path) == 0
    (tmp_path / "journal.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(FolderError, match="cannot be read"):
        list(stored_calls(tmp_path))
    assert count_calls(tmp_path) == 0


def test_a_prompt_that_recurs_is_stored_once(tmp_path: Path, journal: Journal) -> None:
    async def check() -> None:
        for number in range(5):
            messages = (MESSAGES[0], Message("user", f"question {number}"))
            await journal.put(f"k{number}", "target", "rollout", messages, Reply("hi"))

    asyncio.run(check())
    with sqlite3.connect(tmp_path / "journal.sqlite") as other:
        assert other.execute("SELECT COUNT(*) FROM texts").fetchone() == (6,)
    other.close()


@given(st.text(st.characters(), max_size=40))
def test_any_text_can_be_stored(text: str) -> None:
    async def check() -> None:
        journal = Journal(Path(":memory:"))
        stored = await journal.put("k", "target", "rollout", [Message("user", text)], Reply(text or "x"))
        assert journal.get("k") == stored
        assert stored.text.encode() == (text or "x").encode("utf-8", "replace")
        asked = journal._db.execute("SELECT content FROM texts").fetchone()[0]
        assert asked.encode() == text.encode("utf-8", "replace")
        journal.close()

    asyncio.run(check())


def test_secrets_are_stored_nowhere_and_a_reply_is_used_as_stored(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite", lambda text: text.replace("s3cret", "***"))
    prompt = [Message("user", "my key is s3cret")]
    reply = asyncio.run(journal.put("k", "target", "rollout", prompt, Reply("you said s3cret")))
    assert reply.text == "you said ***"
    assert reply == journal.get("k")
    journal.commit("step_0001", {"deep": [{"text": "s3cret"}], "number": 1.5, "none": None}, {})
    assert journal.record("step_0001") == {"deep": [{"text": "***"}], "number": 1.5, "none": None}
    journal.close()
    assert b"s3cret" not in (tmp_path / "journal.sqlite").read_bytes()


# commits and charges


def test_a_commit_is_charged_with_its_replies_once(journal: Journal) -> None:
    async def check() -> None:
        await put(journal, "a", tokens=10)
        await put(journal, "b", tokens=20)
        await put(journal, "c", tokens=40, stage="analyst")

    asyncio.run(check())
    assert journal.charge("step_0001", ["a", "c"]) == {
        "analyst": StageTokens(1, 40, 1),
        "rollout": StageTokens(1, 10, 1),
    }
    journal.commit("step_0001", {"row": 1}, {}, ["a", "c"])
    assert journal.charge("step_0002", ["a", "b"]) == {"rollout": StageTokens(1, 20, 1)}
    assert journal.charge("step_0001", ["a", "b"]) == {"rollout": StageTokens(2, 30, 2)}, "its own keys stay its own"
    journal.commit("step_0002", {"row": 2}, {}, ["a", "b"])
    assert journal.charge("step_0003", ["a", "b", "c"]) == {}
    assert journal.stage_totals() == {"analyst": StageTokens(1, 40, 1), "rollout": StageTokens(2, 30, 2)}


def test_what_no_commit_is_charged_with_is_in_no_total(journal: Journal) -> None:
    asyncio.run(put(journal, "a"))
    assert journal.stage_totals() == {}


def test_fields_of_records_come_in_the_order_of_their_commits(journal: Journal) -> None:
    for name in ("step_0002", "epoch_01", "step_0001", "step_0003"):
        journal.commit(name, {"state": {"of": name, "score": 0.1 + 0.2, "text": "“ä”\n"}, "more": 1}, {})
    journal.commit("baseline", {"scores": {}}, {})
    found = journal.fields("step_", "state")
    assert [each["of"] for each in found] == ["step_0002", "step_0001", "step_0003"]
    assert found[0] == {"of": "step_0002", "score": 0.1 + 0.2, "text": "“ä”\n"}
    assert [each["of"] for each in journal.fields("", "state")] == ["step_0002", "epoch_01", "step_0001", "step_0003"]
    assert journal.record("step_0009") is None


def test_a_commit_replaces_the_one_of_its_name_and_its_files(journal: Journal) -> None:
    journal.commit("a", {"v": 1}, {"x.txt": b"old", "y.txt": b"y"})
    journal.commit("a", {"v": 2}, {"x.txt": b"new"})
    assert journal.record("a") == {"v": 2}
    assert dict(journal.files()) == {"x.txt": b"new", "y.txt": b"y"}


def test_a_commit_that_is_there_already_writes_nothing(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.commit("a", {"v": 1}, {"x.txt": b"x"})
    transactions = Transactions(journal, monkeypatch)
    journal.commit("a", {"v": 1}, {"x.txt": b"x"})
    assert transactions.sizes == []
    journal.commit("a", {"v": 1}, {"x.txt": b"other"})
    journal.commit("a", {"v": 1}, {"z.txt": b"z"})
    assert len(transactions.sizes) == 2


def test_a_commit_refuses_what_is_no_json_and_leaves_nothing(journal: Journal) -> None:
    with pytest.raises(ValueError, match="JSON"):
        journal.commit("a", {"score": float("nan")}, {"x.txt": b"x"})
    assert journal.record("a") is None
    assert dict(journal.files()) == {}


def test_a_commit_writes_the_pending_replies_first(tmp_path: Path, journal: Journal) -> None:
    async def check() -> None:
        task = asyncio.ensure_future(put(journal, "a"))
        await asyncio.sleep(0)
        journal.commit("step_0001", {}, {}, ["a"])
        with sqlite3.connect(tmp_path / "journal.sqlite") as other:
            assert other.execute("SELECT owner FROM replies").fetchall() == [("step_0001",)]
        other.close()
        await task

    asyncio.run(check())


def test_forgotten_replies_are_gone_but_not_what_is_charged(journal: Journal) -> None:
    async def check() -> None:
        await put(journal, "kept", stage="analyst")
        await put(journal, "gone", stage="analyst")
        await put(journal, "other")

    asyncio.run(check())
    journal.commit("step_0001", {}, {}, ["kept"])
    journal.forget(["kept", "gone", "other"], "analyst")
    assert [journal.get(key) is not None for key in ("kept", "gone", "other")] == [True, False, True]


def test_withdrawn_commits_are_no_commits(journal: Journal) -> None:
    journal.commit("a", {}, {"x": b"x"})
    journal.commit("b", {}, {"y": b"y"})
    journal.withdraw(["b", "never there"], ["y"])
    assert journal.record("b") is None
    assert journal.record("a") == {}
    assert dict(journal.files()) == {"x": b"x"}


# totals


def test_every_request_is_counted_whatever_became_of_it(journal: Journal) -> None:
    async def check() -> None:
        for kind in ("ok", "ok", "timeout", "cancelled"):
            journal.book(attempt(kind))
        assert journal.spent().requests == 4, "also before the next turn of the loop"
        assert journal.requests_by_kind() == {"cancelled": 1, "ok": 2, "timeout": 1}

    asyncio.run(check())
    assert (journal.spent().tokens, journal.spent().seconds) == (44, 2.0)


def test_spending_adds_up_over_processes(tmp_path: Path) -> None:
    async def process() -> int:
        journal = Journal(tmp_path / "journal.sqlite")
        journal.book(attempt())
        await asyncio.sleep(0)
        requests = journal.spent().requests
        journal.close()
        return requests

    assert [asyncio.run(process()) for _ in range(3)] == [1, 2, 3]


# the file


def test_what_is_booked_after_the_end_does_no_harm(tmp_path: Path) -> None:
    """After a second Ctrl-C the requests in flight end when the journal has been closed."""
    wrong: list[dict[str, Any]] = []

    async def go() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: wrong.append(context))
        journal = Journal(tmp_path / "journal.sqlite")
        journal.book(attempt())
        journal.close()
        journal.book(attempt())
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(go())
    assert wrong == []
    reopened = Journal(tmp_path / "journal.sqlite")
    assert reopened.spent().requests == 1
    reopened.close()


def test_close_writes_what_is_pending_and_leaves_one_file(tmp_path: Path) -> None:
    async def check() -> None:
        journal = Journal(tmp_path / "journal.sqlite")
        journal.book(attempt())
        task = asyncio.ensure_future(put(journal, "k"))
        await asyncio.sleep(0)
        journal.close()
        await task

    asyncio.run(check())
    assert [path.name for path in tmp_path.iterdir()] == ["journal.sqlite"]
    again = Journal(tmp_path / "journal.sqlite")
    assert again.get("k") is not None
    assert again.spent().requests == 1
    again.close()


def test_opening_and_closing_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    first = Journal(path)
    first.commit("a", {}, {})
    first.set_meta("identity", "x")
    first.close()
    before = path.stat().st_mtime_ns, path.read_bytes()
    again = Journal(path)
    again.set_meta("identity", "x")
    again.commit("a", {}, {})
    again.close()
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


def test_a_journal_of_another_version_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.set_meta("version", "99")
    journal.close()
    before = path.read_bytes()
    with pytest.raises(JournalError, match=r"another version of skillopt \(journal 99, this one reads 3\)"):
        Journal(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"no database at all, but long enough to look at" * 40, b"SQLite format 3\0" * 300]
)
def test_what_is_no_journal_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(content)
    with pytest.raises(JournalError, match="restore it from a copy or use another out_root"):
        Journal(path)


def test_a_killed_process_loses_only_what_it_had_not_written(tmp_path: Path) -> None:
    async def check() -> None:
        journal = Journal(tmp_path / "journal.sqlite")
        await put(journal, "written")
        journal.commit("step_0001", {"row": 1}, {"a.txt": b"a"}, ["written"])
        task = asyncio.ensure_future(put(journal, "lost"))
        await asyncio.sleep(0)
        # What a kill leaves is what is in the files at that moment.
        shutil.copytree(tmp_path, tmp_path / "killed", ignore=lambda *_: ["killed"])
        await task
        journal.close()

    asyncio.run(check())
    left = Journal(tmp_path / "killed" / "journal.sqlite")
    assert left.get("written") is not None
    assert left.get("lost") is None
    assert left.record("step_0001") == {"row": 1}
    assert dict(left.files()) == {"a.txt": b"a"}
    left.close()


def test_adopted_replies_are_free_and_charged_to_nobody(tmp_path: Path) -> None:
    async def check() -> tuple[Journal, Journal]:
        old, new = Journal(tmp_path / "old.sqlite"), Journal(tmp_path / "new.sqlite")
        await put(old, "a", "from the old run")
        await put(old, "b", "both, old")
        await put(new, "b", "both, new")
        old.book(attempt())
        old.commit("step_0001", {}, {"x": b"x"}, ["a", "b"])
        return old, new

    old, new = asyncio.run(check())
    assert new.adopt_replies(tmp_path / "old.sqlite") == 1
    assert new.adopt_replies(tmp_path / "old.sqlite") == 0, "again is nothing new"
    texts = {key: reply.text for key in "ab" if (reply := new.get(key))}
    assert texts == {"a": "from the old run", "b": "both, new"}
    assert new.charge("step_0001", ["a"]) == {"rollout": StageTokens(1, 10, 1)}
    assert new.spent().requests == 0
    assert new.record("step_0001") is None
    assert dict(new.files()) == {}
    old.close()
    new.close()


def test_records_are_plain_json(tmp_path: Path, journal: Journal) -> None:
    journal.commit("a", {"text": "ä 🙂", "half": "\ud83d", "tuple": (1, 2)}, {})
    with sqlite3.connect(tmp_path / "journal.sqlite") as other:
        (body,) = other.execute("SELECT record FROM commits").fetchone()
    other.close()
    assert json.loads(body) == {"text": "ä 🙂", "half": "?", "tuple": [1, 2]}


def test_calls_come_in_pages_with_the_start_of_their_texts(tmp_path: Path, journal: Journal) -> None:
    for key in "abcd":
        asyncio.run(put(journal, key, f"answer {key}"))
    found = list(stored_calls(tmp_path, offset=1, limit=2, most=6))
    assert [(call["key"], call["reply"], call["messages"][0]["content"]) for call in found] == [
        ("b", "answer", "be bri"),
        ("c", "answer", "be bri"),
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("messages = '[1, 2]'", "torn"),
        ('messages = \'[["user", "gone"]]\'', "gone"),
        ("messages = '{}'", "no list"),
        ("messages = '['", ""),
        ("extra = x'00ff'", "torn"),
        ("extra = 'text'", "torn"),
    ],
)
def test_a_call_that_cannot_be_read_hides_no_other(tmp_path: Path, journal: Journal, change: str, problem: str) -> None:
    for key in "abc":
        asyncio.run(put(journal, key, f"answer {key}"))
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db, db:
        db.execute(f"UPDATE replies SET {change} WHERE key = 'b'")
    first, second, third = stored_calls(tmp_path)
    assert (first["reply"], third["reply"]) == ("answer a", "answer c")
    assert "problem" not in first
    assert problem in second["problem"]
    assert (second["messages"], second["prompt_tokens"]) == ([], 10)


def test_what_is_packed_small_and_large_unpacked_is_left_alone(tmp_path: Path, journal: Journal) -> None:
    asyncio.run(put(journal, "a", "answer"))
    bomb = zlib.compress(b'{"events": "' + b"x" * (5 << 20) + b'"}', 9)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db, db:
        db.execute("UPDATE replies SET extra = ?", (bomb,))
    (cut,), (whole,) = stored_calls(tmp_path, most=100), stored_calls(tmp_path)
    assert "too large" in cut["problem"]
    assert len(whole["events"]) == 5 << 20


@pytest.mark.parametrize(
    "odd",
    [
        "CREATE VIEW endless AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
        "CREATE TRIGGER one AFTER INSERT ON meta BEGIN DELETE FROM meta; END",
        "CREATE TABLE other(a TEXT, b TEXT AS (hex(zeroblob(1000))))",
    ],
)
def test_a_journal_that_works_as_it_is_read_is_refused(tmp_path: Path, journal: Journal, odd: str) -> None:
    asyncio.run(put(journal, "a", "answer"))
    assert journal_problem(tmp_path) == ""
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db, db:
        db.execute(odd)
    assert "more than tables" in journal_problem(tmp_path)
    assert (count_calls(tmp_path), peek_meta(tmp_path, "version")) == (0, None)
    with pytest.raises(FolderError, match="more than tables"):
        list(stored_calls(tmp_path))


def test_a_journal_elsewhere_is_none(tmp_path: Path, journal: Journal) -> None:
    asyncio.run(put(journal, "a", "answer"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "journal.sqlite").symlink_to(tmp_path / "journal.sqlite")
    assert count_calls(tmp_path / "run") == 0
    with pytest.raises(FolderError, match="no journal"):
        list(stored_calls(tmp_path / "run"))
