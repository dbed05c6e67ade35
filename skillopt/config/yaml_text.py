"""Reads YAML without guessing types: an unquoted scalar becomes ``Plain`` text that its key will read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from skillopt.config.errors import ConfigError, Problem, Source
from skillopt.config.values import Plain

_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """A safe loader that resolves nothing but merge keys, and refuses a key that a mapping has twice."""

    yaml_implicit_resolvers = {"<": [(_MERGE, re.compile("^<<$"))]}  # noqa: RUF012  (the library's own convention)

    def text(self, node: yaml.ScalarNode) -> str:
        return Plain(node.value) if node.style is None else str(node.value)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != _MERGE:
                if key_node.value in seen:
                    where = key_node.start_mark
                    raise yaml.constructor.ConstructorError(None, None, f"{key_node.value} is given twice", where)
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_constructors = {
    "tag:yaml.org,2002:str": _Loader.text,
    "tag:yaml.org,2002:seq": yaml.SafeLoader.construct_yaml_seq,
    "tag:yaml.org,2002:map": yaml.SafeLoader.construct_yaml_map,
    None: yaml.SafeLoader.construct_undefined,
}


def parse_yaml(text: str, source: Source) -> Any:
    """The one document of a YAML text, its unquoted scalars as ``Plain``. Raises ``ConfigError`` naming ``source``."""
    where = source.text
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = " ".join(part for part in (error.context, error.problem) if part) or "this is not YAML"
        raise ConfigError(Problem(f"{where}:{line} {what}", source)) from None
    except yaml.YAMLError as error:
        raise ConfigError(Problem(f"{where}: this is not YAML: {str(error).splitlines()[0]}", source)) from None
    except RecursionError:
        raise ConfigError(Problem(f"{where}: the YAML is nested too deeply", source)) from None


def read_yaml(path: Path) -> Mapping[str, Any]:
    """The mapping that a YAML file holds; an empty file is an empty mapping. Raises ``ConfigError``."""
    source = Source.file(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(Problem(f"{path}: the file is not UTF-8 (byte {error.start})", source)) from None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise ConfigError(Problem(f"{path}: the file cannot be read: {said}", source)) from None
    document = parse_yaml(text, source)
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise ConfigError(Problem(f"{path}: the file must hold a mapping of keys to values", source))
    return document
