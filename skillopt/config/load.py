"""Loads a configuration: files with inheritance, then overrides, then command-line flags."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skillopt.config.build import build, merge
from skillopt.config.errors import ConfigError, Problem, Source
from skillopt.config.layers import Entry, Layer, layer_of_flags, layer_of_mapping, layer_of_overrides
from skillopt.config.schema import Config, iter_keys
from skillopt.config.secrets import Redactor
from skillopt.config.values import NULLS, Plain
from skillopt.config.yaml_text import read_yaml
from skillopt.resources import config_file

_BASE = "_base_"


def load_config(
    path: str | Path | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    base: Config | None = None,
) -> Config:
    """The configuration of a run. From weakest to strongest: ``base``, the file's bases, the file, overrides, flags.

    ``path`` may name a shipped configuration, such as ``configs/searchqa/default.yaml``, from any folder.
    ``overrides`` are texts ``section.key=value``, ``flags`` map dotted or flat keys to values. ``environ`` is only
    read to keep its secrets out of messages. Raises ``ConfigError`` with all that is wrong, and gives one
    ``FutureWarning`` when a retired key is used.
    """
    redactor = Redactor.collect(environ or {})
    try:
        layers = [
            *([_layer_of_config(base)] if base is not None else []),
            *(_file_layers(_find(path), ()) if path is not None else ()),
            layer_of_overrides(overrides),
            layer_of_flags(flags or {}),
        ]
        _warn_of_retired(source for layer in layers for source in layer.retired)
        problems = [problem for layer in layers for problem in layer.problems]
        config = build(merge(layers), problems)
        if not config.env.name:
            unset = "env.name is not set: name the environment in the configuration or with --env NAME"
            raise ConfigError(Problem(unset, Source.option("--env")))
        return config
    except ConfigError as error:
        raise ConfigError(replace(each, text=redactor.mask(each.text)) for each in error.problems) from None


def _find(path: str | Path) -> Path:
    given = Path(path)
    if os.path.exists(given):  # unlike Path.exists, it takes any text for a name
        return given
    shipped = config_file(str(path))
    if shipped is None or not shipped.is_file():
        raise ConfigError(Problem(f"{given}: there is no such configuration file", Source.option("--config")))
    return shipped


def _file_layers(path: Path, above: tuple[Path, ...]) -> Iterator[Layer]:
    """The layers of a file, its bases first. ``above`` are the files that inherit from it."""
    real = path.resolve()
    if real in [other.resolve() for other in above]:
        names = " -> ".join(str(other) for other in (*above, path))
        raise ConfigError(Problem(f"the configuration inherits from itself: {names}", Source.file(path)))
    document = dict(read_yaml(path))
    for name in _bases(document.pop(_BASE, None), path):
        base = path.parent / name
        if not os.path.isfile(base):
            raise ConfigError(Problem(f"{path}: {_BASE} {name}: there is no such file", Source.file(path)))
        yield from _file_layers(base, (*above, path))
    yield layer_of_mapping(document, Source.file(path))


def _bases(value: Any, path: Path) -> list[str]:
    if value is None or (isinstance(value, Plain) and value in NULLS):
        return []
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(Problem(f"{path}: {_BASE} must be a path or a list of paths", Source.file(path)))
    return [str(name) for name in names]


def _layer_of_config(config: Config) -> Layer:
    values = {info.dotted: getattr(getattr(config, info.section), info.name) for info in iter_keys() if info.built}
    return Layer({dotted: Entry(value, Source(text="base configuration")) for dotted, value in values.items()})


def _warn_of_retired(sources: Iterable[str]) -> None:
    found = list(dict.fromkeys(sources))
    if found:
        warnings.warn(
            f"max_analyst_rounds is retired and has no effect; remove it ({', '.join(found)})",
            FutureWarning,
            stacklevel=3,
        )
