"""Secrets stay out of text, and the environment is read without being written."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from skillopt.config import ConfigError, Redactor, load_config, mask, read_environment
from skillopt.config.secrets import is_secret_name
from skillopt.config.values import looks_like_a_key

SECRET = 'sk-9f/8+2 "é'


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("TARGET_OPENAI_API_KEY", True),
        ("openai_apikey", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("HF_TOKEN", True),
        ("CLIENT_SECRET", True),
        ("DB_PASSWORD", True),
        ("TOKEN", True),
        ("OPENAI_COMPATIBLE_MAX_TOKENS", False),
        ("MONKEY", False),
        ("PATH", False),
        ("OPENAI_BASE_URL", False),
        ("KEYBOARD", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@pytest.mark.parametrize(
    "text",
    [SECRET, quote(SECRET), quote(SECRET, safe=""), json.dumps({"k": SECRET}), f"Bearer {SECRET}!"],
)
def test_every_form_of_a_secret_is_masked(text: str) -> None:
    masked = mask(text, [SECRET])
    assert "***" in masked
    assert "9f" not in masked
    assert "é" not in masked


def test_a_basic_authorisation_header_is_masked() -> None:
    header = base64.b64encode(b"me:hunter22").decode()
    redactor = Redactor.collect({"OPENAI_BASE_URL": "https://me:hunter22@host/v1"})
    assert redactor.mask(f"Authorization: Basic {header}") == "Authorization: Basic ***"


def test_a_secret_within_a_secret() -> None:
    assert mask("abcdef123456 abcdef", ["abcdef", "abcdef123456"]) == "*** ***"


@pytest.mark.parametrize("value", ["", "dummy", "none", "EMPTY", "placeholder", "not-needed", "     "])
def test_placeholders_do_not_mangle_text(value: str) -> None:
    text = "a dummy placeholder is not-needed; EMPTY none"
    redactor = Redactor.collect({"OPENAI_API_KEY": value})
    assert redactor.mask(text) == text


def test_text_without_a_secret_is_left_alone() -> None:
    text = "see ssh://git@host/x and http://user:pass@example.org"
    assert Redactor.collect({"OPENAI_API_KEY": "sk-123456"}).mask(text) == text


def test_secrets_come_from_the_environment_and_the_configuration() -> None:
    config = load_config(None, ["env.name=x", "model.target_base_url=https://us%40er:p%40ssword@host/v1"])
    environ = {"OPENAI_API_KEY": "sk-123456", "HTTPS_PROXY": "http://tokentoken@proxy:1", "HOME": "/home/someone"}
    redactor = Redactor.collect(environ, config)
    text = "sk-123456 p@ssword p%40ssword https://us%40er:p%40ssword@host/v1 tokentoken /home/someone"
    assert redactor.mask(text) == "*** *** *** https://***@host/v1 *** /home/someone"
    assert "123456" not in repr(redactor)
    assert Redactor.collect({}).mask(text) == text


def test_dot_env_adds_what_is_not_set(tmp_path: Path) -> None:
    lines = ["\ufeffOPENAI_API_KEY='from file'", "export B=2", "# no", "NOTHING", "PRICE=${HOME}", "C=file"]
    (tmp_path / ".env").write_bytes("\r\n".join(lines).encode())
    before = dict(os.environ)
    environ = {"C": "real", "D": ""}
    found = read_environment(tmp_path, environ)
    assert found == {"OPENAI_API_KEY": "from file", "B": "2", "PRICE": "${HOME}", "C": "real", "D": ""}
    assert environ == {"C": "real", "D": ""}
    assert dict(os.environ) == before


def test_without_a_dot_env(tmp_path: Path) -> None:
    assert read_environment(tmp_path, {"A": "1"}) == {"A": "1"}
    (tmp_path / ".env").mkdir()
    assert read_environment(tmp_path, {"A": "1"}) == {"A": "1"}


def test_a_dot_env_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff\n")
    with pytest.raises(ConfigError, match=r"\.env: the file is not UTF-8"):
        read_environment(tmp_path, {})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f'A=1\nOPENAI_API_KEY="{SECRET}\nB=2\n', 2),
        (f"OPENAI_API_KEY='{SECRET}", 1),
        (f'A="one\ntwo"\n\nexport KEY = "{SECRET}\n', 4),
        (f'KEY="quoted" {SECRET}\n', 1),
    ],
)
def test_a_quote_that_does_not_close_is_refused_by_file_and_line(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        read_environment(tmp_path, {})
    assert str(refused.value).startswith(f"{tmp_path / '.env'}:{line}: ")
    assert SECRET[:5] not in str(refused.value)


@pytest.mark.parametrize("text", ["A=it's\n", 'A="one\ntwo"\n', "A='#'# a word on \"A\n", "echo hi\nA=1\n"])
def test_a_quote_that_closes_or_is_none_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    assert set(read_environment(tmp_path, {})) == {"A"}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("sk-abcdefgh", True),
        ("gsk_4fQx9Zt2LmNc8Rw1", True),
        ("0123456789abcdef0123456789abcdef.Zk3vQ8rT1xY5wB7n", True),
        ("aB3/dE6+gH9/jK2+mN5/pQ8+sT1/vW4+yZ7/", True),
        ("http://localhost:8000/v1", False),
        ("gate.example/v1", False),
        ("my-gateway-2.production-1.example.com", False),
        ("192.168.100.100:8000", False),
        ("just words that hold 1 number", False),
        ("", False),
    ],
)
def test_a_key_where_a_url_belongs_is_a_secret(text: str, key: bool) -> None:
    assert looks_like_a_key(text) is key
    masked = Redactor.collect({"OPENAI_BASE_URL": text}).mask(f"the address {text}")
    assert masked == ("the address ***" if key else f"the address {text}")
    if text and not text.startswith("http"):
        with pytest.raises(ConfigError, match=r"target_base_url must begin with http") as refused:
            load_config(None, ["env.name=x", f"model.target_base_url={text}"])
        assert (text in str(refused.value)) is not key
