"""Keeps secrets out of files, logs and messages, and reads the environment they belong in."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from io import StringIO
from pathlib import Path
from urllib.parse import quote, unquote

from dotenv import dotenv_values
from dotenv.parser import Original, parse_stream
from pydantic import SecretStr

from skillopt.config.errors import ConfigError, Problem, Source
from skillopt.config.schema import Config
from skillopt.config.values import looks_like_a_key

MASK = "***"
SHORTEST_SECRET = 6
_SECRET_NAME = re.compile(r"(^|_)(API_?KEY|ACCESS_KEY|PRIVATE_KEY|TOKEN|SECRET|PASSWORD|PASSWD)$", re.IGNORECASE)
_KEY_NAME = re.compile(r"(^|_)API_?KEY$", re.IGNORECASE)
_SHORTEST_OTHER = 12
_URL_NAME = re.compile(r"(^|_)(URL|ENDPOINT|PROXY)$", re.IGNORECASE)
_USERINFO = re.compile(r"://([^/?#\s]+)@")
_OPEN_QUOTE = re.compile(r"""=\s*["']""")
# What people put where a local server wants some key: words that would be mangled wherever else they occur.
_PLACEHOLDERS = frozenset(
    {"placeholder", "not-needed", "not_needed", "notneeded", "no-key", "nokey", "no-key-required", "unused", "ignored"}
    | {"sk-no-key-required", "api-key", "api_key", "apikey", "changeme", "string", "ollama", "lm-studio", "default"}
)


def is_secret_name(name: str) -> bool:
    """Whether an environment variable of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def mask(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every occurrence of every secret replaced by ``***``, and nothing else changed.

    A secret is found as it is and in the forms it takes in a URL, in JSON, in HTML and in a basic authorisation header.
    Values shorter than six characters and common placeholders are left alone: masking them would mangle the text.
    """
    return _replace(text, _all_forms(secrets))


def _replace(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        text = text.replace(form, MASK)
    return text


def _all_forms(secrets: Iterable[str]) -> tuple[str, ...]:
    # The longest first: a secret that is part of another must not break the other up.
    return tuple(sorted({form for secret in secrets for form in _forms(secret)}, key=lambda form: (-len(form), form)))


def _forms(secret: str) -> set[str]:
    secret = secret.strip()
    if len(secret) < SHORTEST_SECRET or secret.casefold() in _PLACEHOLDERS:
        return set()
    forms = {secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1]}
    forms |= {escape(secret), escape(secret).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")}
    if ":" in secret:
        forms.add(base64.b64encode(secret.encode()).decode())
    return forms


class Redactor:
    """Replaces the secrets of a run in any text. Its own repr shows none of them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms = _all_forms(secrets)

    @classmethod
    def collect(cls, environ: Mapping[str, str], config: Config | None = None) -> Redactor:
        """Knows the secrets of the environment (by the names of its variables) and of the configuration."""
        found: set[str] = set()
        for name, value in environ.items():
            # A short password of something else may be a plain word: masked in replies, it would change their scores.
            if is_secret_name(name) and (_KEY_NAME.search(name) or len(value) >= _SHORTEST_OTHER):
                found.add(value)
            elif _URL_NAME.search(name):
                found.update(_in_url(value))
        for given in _config_values(config):
            found.update({given.get_secret_value()} if isinstance(given, SecretStr) else _userinfo(given))
        return cls(found)

    def mask(self, text: str) -> str:
        """``text`` without the secrets, as the function ``mask`` does it."""
        return _replace(text, self._forms)

    def __repr__(self) -> str:
        return f"Redactor({len(self._forms)} forms of secrets)"


def _config_values(config: Config | None) -> Iterable[str | SecretStr]:
    if config is None:
        return ()
    values = [value for name in type(config).model_fields for _, value in getattr(config, name)]
    return [value for value in values if isinstance(value, (str, SecretStr))]


def _in_url(text: str) -> set[str]:
    """The secrets in what is given as a URL: its user part, or all of it where it is a key instead."""
    return {text} if looks_like_a_key(text) else _userinfo(text)


def _userinfo(url: str) -> set[str]:
    """The user and password parts of a URL that has them, as they stand and decoded."""
    match = _USERINFO.search(url)
    if match is None:
        return set()
    user, colon, password = match[1].partition(":")
    # A user name beside a password is no secret; a user name alone is a token.
    part = password if colon else user
    return {match[1], part, unquote(part), unquote(match[1])}


def _line(statement: Original) -> int:
    """The line of a statement, which holds the blank lines before it."""
    text = statement.string
    return statement.line + text[: len(text) - len(text.lstrip())].count("\n")


def read_environment(cwd: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` with what ``cwd/.env`` adds; a variable that is set already keeps its value.

    Raises ``ConfigError`` when the file is there and cannot be read, and for a value in quotes that do not close: what
    it is, and where the next one starts, would be a guess.
    """
    path = cwd / ".env"
    if not path.is_file():
        return dict(environ)
    source = Source.file(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(Problem(f"{path}: the file is not UTF-8", source)) from None
    except OSError as error:
        raise ConfigError(Problem(f"{path}: the file cannot be read: {error.strerror}", source)) from None
    for statement in parse_stream(StringIO(text)):
        if statement.error and _OPEN_QUOTE.search(statement.original.string):
            said = f"{path}:{_line(statement.original)}: a value starts with a quote and does not end with it"
            raise ConfigError(Problem(said, source))
    values = dotenv_values(stream=StringIO(text), interpolate=False)
    return {**{name: value for name, value in values.items() if value is not None}, **environ}
