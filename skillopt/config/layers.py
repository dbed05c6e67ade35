"""One source of configuration values (a file, the overrides, the flags) brought to one shape: dotted keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skillopt.config.errors import ConfigError, Problem, Source
from skillopt.config.keys import KeyInfo
from skillopt.config.schema import SECTIONS, iter_keys, key_by_dotted, key_by_flat
from skillopt.config.values import NULLS, Plain
from skillopt.config.yaml_text import parse_yaml
from skillopt.spelling import did_you_mean, nearest

RETIRED = "gradient.max_analyst_rounds"
_CODEX_ALIASES = {
    "codex_path": "codex_exec_path",
    "codex_cli_bin": "codex_exec_path",
    "codex_bin": "codex_exec_path",
    "sandbox": "codex_exec_sandbox",
    "codex_sandbox": "codex_exec_sandbox",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and where it was given. Of two entries for a key the one of the higher ``rank`` counts."""

    value: Any
    source: Source
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source gives: entries by dotted key, what is wrong with it, and where retired keys stand in it."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    problems: Sequence[Problem] = ()
    retired: Sequence[str] = ()


@dataclass(slots=True)
class _Collector:
    """Gathers the entries of one layer."""

    entries: dict[str, Entry] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)

    def put(self, dotted: str, value: Any, source: Source, *, weak: bool = False) -> None:
        if dotted == RETIRED:
            self.retired.append(source.text)
        elif not (weak and dotted in self.entries):
            self.entries[dotted] = Entry(value, source)

    def refuse(self, text: str, source: Source, shown: str = "") -> None:
        """Keeps a problem; ``shown`` says its source otherwise."""
        self.problems.append(Problem(f"{text} ({shown or source.text})", source))

    def refuse_key(self, name: str, source: Source, shown: str = "") -> None:
        """Keeps that a key is not known."""
        text, meant = unknown_key(name)
        self.problems.append(Problem(f"{text} ({shown or source.text})", source, meant, misnamed=True))

    def layer(self) -> Layer:
        return Layer(self.entries, tuple(self.problems), tuple(self.retired))


def layer_of_mapping(document: Mapping[Any, Any], source: Source) -> Layer:
    """The layer of a structured, a flat or a mixed mapping. Within it a structured key wins over its flat twin."""
    found = _Collector()
    flat: list[tuple[str, Any]] = []
    for name, value in document.items():
        name = str(name)
        if name in SECTIONS and (isinstance(value, Mapping) or _is_null(value)):
            _read_section(found, name, value, source)
        elif name in SECTIONS and name != "env":
            found.refuse(f"{name} is a section and must hold a mapping of its keys", source)
        elif isinstance(value, Mapping) and _known(name) is None:
            found.refuse(f"{name} is not a known section{did_you_mean(name, SECTIONS)}", source)
        else:
            flat.append((name, value))
    for name, value in sorted(flat, key=_alias_last):
        dotted = _known(name)
        if dotted is None:
            found.refuse_key(name, source)
        else:
            found.put(dotted, value, source if name == dotted else _under(source, name), weak=True)
    return found.layer()


def _under(source: Source, name: str) -> Source:
    """The source of a key that stands there by another name."""
    return replace(source, text=f"{source.text}: {name}")


def _read_section(found: _Collector, section: str, values: Any, source: Source) -> None:
    entries = values.items() if isinstance(values, Mapping) else ()
    for name, value in sorted(((f"{section}.{name}", value) for name, value in entries), key=_alias_last):
        dotted = _known(name)
        if dotted is None:
            found.refuse_key(name, source)
        else:
            found.put(dotted, value, source, weak=True)


def layer_of_overrides(overrides: Iterable[str]) -> Layer:
    """The layer of ``section.key=value`` and ``flat_key=value`` texts; a later one wins over an earlier one."""
    found = _Collector()
    for override in overrides:
        name, equals, text = override.partition("=")
        name = name.strip()
        dotted = _known(name)
        source = Source.override(name, dotted)
        if not equals:
            found.refuse(f"{name or 'an override'} must have the form section.key=value", source)
        elif dotted is None:
            found.refuse_key(name, source)
        else:
            try:
                found.put(dotted, override_value(text, key_by_dotted().get(dotted)), source)
            except ConfigError as error:
                found.problems.extend(error.problems)
    return found.layer()


def override_value(text: str, info: KeyInfo | None) -> Any:
    """What the text behind the ``=`` stands for: plain text, quoted text, or a list for a key that holds one."""
    text = text.strip()
    quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'"
    if quoted or (info is not None and info.kind.base == "list" and text.startswith("[")):
        dotted = info.dotted if info else ""
        value = parse_yaml(text, Source("override", dotted, f"override {dotted}".strip()))
        return value if isinstance(value, (str, list)) else Plain(text)
    return Plain(text)


def layer_of_flags(flags: Mapping[str, Any]) -> Layer:
    """The layer of command-line flags, by dotted or flat key. Text is text for a key that holds text, null too."""
    found = _Collector()
    for name, value in flags.items():
        dotted = _known(name)
        info = key_by_dotted().get(dotted or "")
        source = Source.option(f"--{info.flag}" if info is not None and info.flag else f"--{name}")
        if dotted is None:
            found.refuse_key(name, source, f"flag {source.text}")
        else:
            text = info is None or info.kind.base == "text"
            found.put(dotted, Plain(value) if type(value) is str and not text else value, source)
    return found.layer()


def unknown_key(name: str) -> tuple[str, str]:
    """Says that a key does not exist, and which one was probably meant ('' for none)."""
    if name in SECTIONS:
        return f"{name} is a section; write {name}.<key>=value", ""
    section, _, leaf = name.rpartition(".")
    in_section = f"{nearest(section, SECTIONS)}.{leaf}" if section else ""
    leaves = {spelling: info.dotted for info in reversed(iter_keys()) for spelling in (info.name, info.flat)}
    spellings = {dotted: dotted for dotted in key_by_dotted()} if section else leaves
    if in_section in key_by_dotted():
        meant: str | None = in_section
    elif leaf in leaves:
        meant = leaves[leaf]
    else:
        meant = spellings.get(nearest(name, spellings) or "") or leaves.get(nearest(leaf, leaves) or "")
    return f"{name} is not a known key" + (f"; did you mean {meant}?" if meant else ""), meant or ""


def _known(name: str) -> str | None:
    """The dotted key that a dotted or flat name stands for."""
    section, _, leaf = name.rpartition(".")
    if section in ("", "model"):
        name = f"model.{_CODEX_ALIASES[leaf]}" if leaf in _CODEX_ALIASES else name
    if name in key_by_dotted() or name == RETIRED:
        return name
    if name == RETIRED.partition(".")[2]:
        return RETIRED
    info = key_by_flat().get(name)
    return info.dotted if info is not None else None


def _alias_last(entry: tuple[str, Any]) -> bool:
    return entry[0].rpartition(".")[2] in _CODEX_ALIASES


def _is_null(value: Any) -> bool:
    return value is None or (isinstance(value, Plain) and value in NULLS)
