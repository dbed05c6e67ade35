"""Reads price files: the one that comes with the package, the user's own, and the one that a configuration names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from platformdirs import user_config_path

from skillopt.config.errors import ConfigError, Problem, Source
from skillopt.models.pricing import Price, PriceTable, folded
from skillopt.spelling import did_you_mean

SHIPPED = Path(__file__).with_name("prices.yaml")
_KEYS = ("date", "source", "prices")
_RATES = ("input", "cached", "cache_write", "output")
_DEAREST = 1e6


def user_price_file(environ: Mapping[str, str]) -> Path | None:
    """``prices.yaml`` in the user's configuration folder, there or not; None where the environment names no home."""
    root = environ.get("XDG_CONFIG_HOME", "").strip()
    if root:
        return Path(root) / "skillopt" / "prices.yaml"
    if not (environ.get("HOME") or environ.get("USERPROFILE")):
        return None
    return user_config_path("skillopt", appauthor=False) / "prices.yaml"


def read_price_tables(given: str, environ: Mapping[str, str]) -> tuple[PriceTable, ...]:
    """The price tables of a run, the one that counts first in front: the file ``given`` as ``budget.prices`` (''
    without one), the user's own, the shipped one. Raises ``ConfigError``, with the line of what is wrong."""
    own = user_price_file(environ)
    files = [SHIPPED]
    if own is not None and own.is_file():
        files.insert(0, own)
    if given:
        path = Path(given).expanduser()
        if not path.is_file():
            raise ConfigError(Problem(f"budget.prices: there is no price file {given!r}", Source.key("budget.prices")))
        files.insert(0, path)
    return tuple(read_price_file(path) for path in files)


def read_price_file(path: Path) -> PriceTable:
    """The table in a price file. Raises ``ConfigError``."""
    try:
        return parse_prices(path.read_bytes().decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        said = f"{path}: the file is not UTF-8 (byte {error.start})"
        raise ConfigError(Problem(said, Source.file(path))) from None
    except OSError as error:
        said = f"{path}: the file cannot be read: {error.strerror or error}"
        raise ConfigError(Problem(said, Source.file(path))) from None


def parse_prices(text: str, where: str) -> PriceTable:
    """The table that a YAML text holds; ``where`` names it in errors. Raises ``ConfigError`` with all that is wrong."""
    try:
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        said = f"{where}{line}: {error.problem or error.context or 'this is not YAML'}"
        raise ConfigError(Problem(said, Source.file(where))) from None
    except (yaml.YAMLError, RecursionError) as error:
        said = f"{where}: this is not YAML: {(str(error).splitlines() or ['?'])[0]}"
        raise ConfigError(Problem(said, Source.file(where))) from None
    reader = _Reader(where)
    sections = reader.document(root)
    if reader.problems:
        raise ConfigError(reader.problems)
    return PriceTable(sections, where)


class _Reader:
    """Walks the nodes of a price file, which know their lines, and gathers what is wrong."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.problems: list[Problem] = []

    def document(self, root: yaml.Node | None) -> dict[str, dict[str, Price]]:
        if root is None:
            return {}
        found: dict[str, dict[str, Price]] = {}
        entries = list(self._entries(root, "a price file"))
        for key, name, node in entries:
            if name == "prices":
                for _, section, rows in self._entries(node, "prices"):
                    found[section] = self._section(section, rows)
            elif name not in _KEYS:
                self._problem(key, f"{name} is no key of a price file{did_you_mean(name, _KEYS)}")
        if entries and not any(name == "prices" for _, name, _ in entries):
            self._problem(root, "prices is missing: it holds the models by provider")
        return found

    def _section(self, section: str, node: yaml.Node) -> dict[str, Price]:
        found: dict[str, Price] = {}
        for key, name, rates in self._entries(node, section):
            price = self._price(f"{section}.{name}", key, rates)
            if folded(name) in found:
                self._problem(key, f"{section}.{name} is given twice")
            elif price is not None:
                found[folded(name)] = price
        return found

    def _price(self, where: str, key: yaml.Node, node: yaml.Node) -> Price | None:
        before = len(self.problems)
        rates: dict[str, float] = {}
        for rate_key, name, value in self._entries(node, where):
            if name not in _RATES:
                self._problem(rate_key, f"{where}.{name} is no price{did_you_mean(name, _RATES)}")
            else:
                rates[name] = self._number(f"{where}.{name}", value)
        if len(self.problems) > before:
            return None
        missing = [name for name in ("input", "output") if name not in rates]
        if missing:
            self._problem(key, f"{where} needs {' and '.join(missing)}, in US dollars per million tokens")
            return None
        return Price(rates["input"], rates["output"], rates.get("cached"), rates.get("cache_write"))

    def _number(self, where: str, node: yaml.Node) -> float:
        try:
            value = float(node.value) if isinstance(node, yaml.ScalarNode) else math.nan
        except ValueError:
            value = math.nan
        shown = f", got {node.value!r}" if isinstance(node, yaml.ScalarNode) else ""
        if not (math.isfinite(value) and value >= 0):
            self._problem(node, f"{where} must be a number of US dollars, 0 or more{shown}")
        elif value > _DEAREST:
            self._problem(node, f"{where} is in US dollars per million tokens, {_DEAREST:.0f} at most{shown}")
        return value

    def _entries(self, node: yaml.Node, what: str) -> Iterator[tuple[yaml.Node, str, yaml.Node]]:
        """The keys of a mapping, as nodes and as text, with their values. A key that is there twice is a problem."""
        if not isinstance(node, yaml.MappingNode):
            self._problem(node, f"{what} must hold a mapping")
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if not name or name in seen:
                self._problem(key, f"{name} is given twice" if name else f"a key of {what} must be a name")
                continue
            seen.add(name)
            yield key, name, value

    def _problem(self, node: yaml.Node, text: str) -> None:
        said = f"{self._where}:{node.start_mark.line + 1}: {text}"
        self.problems.append(Problem(said, Source.file(self._where)))
