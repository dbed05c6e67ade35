"""From a program's output to a trajectory, an answer and what it cost. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillopt.agents.notes import Called, Edited, Ended, Note, Returned, Said, Spent, Thought, Total, Wrong
from skillopt.models.types import Usage

LONGEST_TEXT = 16_000
"""Characters of one text of an event; the middle of a longer one is left out."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a program's output says. ``answer`` is '' without one; ``usage`` and ``cost_usd`` None when it does not
    tell. ``errors`` are what it reported, ``fatal`` the one that ended it, ``noise`` its lines that are no events."""

    events: tuple[Mapping[str, Any], ...] = ()
    answer: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    errors: tuple[str, ...] = ()
    fatal: Wrong | None = None
    noise: tuple[str, ...] = ()
    ended: bool = False


def read_output(output: bytes, read: Callable[[Mapping[str, Any]], Iterable[Note]], tidy: Callable[[str], str]) -> Told:
    """What ``output`` (one JSON object a line) tells, by the ``read`` of its program. ``tidy`` is put on every text.

    Lines that are not JSON objects are kept as noise, unknown events are passed over, a torn last line does no harm.
    """
    noise: list[str] = []
    notes = [note for event in _objects(output, noise) for note in read(event)]
    told = _fold(notes, tidy)
    return Told(**{**told, "noise": tuple(tidy(line) for line in noise)})


def _objects(output: bytes, noise: list[str]) -> Iterator[Mapping[str, Any]]:
    for line in output.decode("utf-8", "replace").split("\n"):
        text = line.strip()
        if not text:
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            noise.append(text[:1000])
            continue
        if isinstance(value, dict):
            yield value
        else:
            noise.append(text[:1000])


def _fold(notes: Sequence[Note], tidy: Callable[[str], str]) -> dict[str, Any]:
    spent: dict[str, Usage] = {}
    told: dict[str, Any] = {"events": events_of(notes, tidy), "answer": tidy(_answer(notes)).strip()}
    for note in notes:
        if isinstance(note, Spent):
            spent[note.id] = note.usage
        elif isinstance(note, Total):
            told["usage"] = note.usage if note.usage is not None else told.get("usage")
            told["cost_usd"] = note.cost_usd if note.cost_usd is not None else told.get("cost_usd")
        elif isinstance(note, Wrong) and note.fatal:
            told["fatal"] = Wrong(tidy(note.message), True, note.kind)
        elif isinstance(note, Ended):
            told["ended"] = True
    if told.get("usage") is None and spent:
        told["usage"] = add_usage(spent.values())
    told["errors"] = tuple(tidy(note.message) for note in notes if isinstance(note, Wrong))
    return told


def add_usage(parts: Iterable[Usage]) -> Usage:
    """The sum of what single requests used."""
    found = list(parts)
    return Usage(
        sum(part.prompt_tokens for part in found),
        sum(part.completion_tokens for part in found),
        sum(part.cached_tokens for part in found),
        sum(part.reasoning_tokens for part in found),
        sum(part.cache_write_tokens for part in found),
    )


def _answer(notes: Sequence[Note]) -> str:
    """The program's last word, else what it said after its last call."""
    said: list[str] = []
    final: str | None = None
    for note in notes:
        if isinstance(note, Ended) and note.answer is not None:
            final = note.answer
        elif isinstance(note, Said):
            said.append(note.text)
        elif isinstance(note, (Called, Returned, Edited)):
            said.clear()
    return final if final is not None else "\n".join(said)


@dataclass(slots=True)
class _Trail:
    """Events in the making: a call gets its output when that comes."""

    tidy: Callable[[str], str]
    events: list[dict[str, Any]] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)
    shells: set[str] = field(default_factory=set)

    def text(self, text: str) -> str:
        return shorten(self.tidy(text))

    def call(self, note: Called) -> None:
        if note.id in self.open:  # said again when it ended
            return
        self.open[note.id] = len(self.events)
        if note.shell:
            self.shells.add(note.id)
        self.events.append({"type": "tool_call", "cmd": self.text(note.command), "obs": "", "exit_code": None})

    def edit(self, note: Edited) -> None:
        if note.id:
            self.open[note.id] = len(self.events)
        self.events.append({"type": "file_edit", "path": self.tidy(note.path), "kind": note.kind})

    def result(self, note: Returned) -> None:
        place = self.open.get(note.id)
        if place is None:
            return
        event = self.events[place]
        if event["type"] == "file_edit":
            if not note.failed:
                return
            said = f"{event['kind']} {event['path']}"
            event = self.events[place] = {"type": "tool_call", "cmd": said, "obs": "", "exit_code": 1}
        event["obs"] = self.text(note.output)
        if note.exit_code is not None:
            event["exit_code"] = note.exit_code
        elif note.failed or note.id in self.shells:
            event["exit_code"] = int(note.failed)


def events_of(notes: Iterable[Note], tidy: Callable[[str], str]) -> tuple[dict[str, Any], ...]:
    """The trajectory, in the form of ``conversation.json``: messages, reasoning, calls with their output, edits."""
    trail = _Trail(tidy)
    for note in notes:
        if isinstance(note, Said) and note.text.strip():
            trail.events.append({"role": "assistant", "content": trail.text(note.text)})
        elif isinstance(note, Thought) and note.text.strip():
            trail.events.append({"role": "reasoning", "content": trail.text(note.text)})
        elif isinstance(note, Wrong) and note.message.strip():
            trail.events.append({"role": "error", "content": trail.text(note.message)})
        elif isinstance(note, Called):
            trail.call(note)
        elif isinstance(note, Edited):
            trail.edit(note)
        elif isinstance(note, Returned):
            trail.result(note)
    return tuple(trail.events)


def shorten(text: str, most: int = LONGEST_TEXT) -> str:
    """``text`` with its middle left out when it has more than ``most`` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
