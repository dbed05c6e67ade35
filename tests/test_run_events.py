"""Events: every listener gets every event in order, and the log survives torn lines and odd texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillopt.run.events import EventLog, Events


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_listeners_are_called_in_order() -> None:
    heard: list[tuple[str, str, Mapping[str, Any]]] = []
    events = Events(lambda kind, fields: heard.append(("first", kind, fields)))
    events.add(lambda kind, fields: heard.append(("second", kind, fields)))
    events.emit("step_done", step=1)
    assert heard == [("first", "step_done", {"step": 1}), ("second", "step_done", {"step": 1})]


def test_an_event_is_a_line_of_json_at_once(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", lambda text: text)
    log("note", {"text": "zwei\nZeilen ä", "path": Path("x")})
    (line,) = lines(tmp_path / "events.jsonl")  # before the log is closed
    event = json.loads(line)
    assert (event["event"], event["text"], event["path"]) == ("note", "zwei\nZeilen ä", "x")
    assert event["at"] > 1_700_000_000
    log.close()


def test_secrets_are_masked(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", lambda text: text.replace("s3cret", "***"))
    log("note", {"text": "key s3cret"})
    log.close()
    assert json.loads(lines(tmp_path / "events.jsonl")[0])["text"] == "key ***"


def test_half_a_character_ends_nothing(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", lambda text: text)
    log("item_done", {"id": "half \ud83d"})
    log.close()
    assert json.loads(lines(tmp_path / "events.jsonl")[0])["id"] == "half ?"


def test_a_torn_line_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"at": 1, "event": "a"}\n{"at": 2, "ev')
    log = EventLog(path, lambda text: text)
    log("b", {})
    log.close()
    found = lines(path)
    assert found[:2] == ['{"at": 1, "event": "a"}', '{"at": 2, "ev']
    assert json.loads(found[2])["event"] == "b"


def test_a_whole_log_is_gone_on_with(tmp_path: Path) -> None:
    for name in ("a", "b"):
        log = EventLog(tmp_path / "events.jsonl", lambda text: text)
        log(name, {})
        log.close()
    assert [json.loads(line)["event"] for line in lines(tmp_path / "events.jsonl")] == ["a", "b"]
