"""Who may ask the dashboard, and what every answer carries."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra webui is not installed")
pytest.importorskip("httpx2", reason="the extra webui's tests need httpx2")

from fakes.dashboard import BASE, SECRET, csrf, dashboard, hostile_run, post, run_ids, user_environment
from fakes.published import KEY, published_run

from skillopt.web.render import Allowance
from skillopt.web.security import host_allowed, origin_allowed
from skillopt.web.settings import SettingsError, make_settings

TOKEN = "a-token-of-the-tests-1234"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    published_run(tmp_path / "runs" / "one")
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("header", "bound", "allowed"),
    [
        ("127.0.0.1:7860", "127.0.0.1", True),
        ("localhost:9000", "127.0.0.1", True),
        ("[::1]:7860", "127.0.0.1", True),
        ("evil.example", "127.0.0.1", False),
        ("127.0.0.1.evil.example", "127.0.0.1", False),
        ("localhost.evil.example:7860", "127.0.0.1", False),
        ("evil.example@127.0.0.1", "127.0.0.1", False),
        ("[::1].evil.example", "127.0.0.1", False),
        ("[::1]evil.example:80", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        ("192.168.0.4:7860", "127.0.0.1", False),
        ("192.168.0.4:7860", "0.0.0.0", True),
        ("evil.example", "0.0.0.0", False),
        ("box.local:7860", "box.local", True),
    ],
)
def test_only_names_of_this_server_are_hosts(header: str, bound: str, allowed: bool) -> None:
    assert host_allowed(header, bound) is allowed


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://127.0.0.1:7860", True),
        ("https://127.0.0.1:7860", True),
        ("http://127.0.0.1:7861", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
        ("file://127.0.0.1:7860", False),
    ],
)
def test_an_origin_is_the_host_or_foreign(origin: str, allowed: bool) -> None:
    assert origin_allowed(origin, "127.0.0.1:7860") is allowed


def test_a_foreign_host_or_origin_is_refused(root: Path) -> None:
    client = dashboard(root)
    assert client.get("/").status_code == 200
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/", headers={"origin": "http://evil.example"}).status_code == 403
    word = csrf(client)
    (run,) = run_ids(client)
    for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert client.post(f"/run/{run}/resume", data={"csrf": word}, headers=headers).status_code == 403


def test_a_form_without_its_word_is_refused(root: Path) -> None:
    client, other = dashboard(root), dashboard(root)
    (run,) = run_ids(client)
    for path in ("/new", "/evaluate", f"/run/{run}/stop", f"/run/{run}/resume", "/job/x/stop"):
        assert post(client, path, {}, word="").status_code == 403
        assert post(client, path, {}, word="0" * 64).status_code == 403
        assert post(client, path, {}, word=csrf(other)).status_code == 403  # the word of another visitor
    answer = client.post("/new", json={"csrf": csrf(client)}, headers={"origin": BASE})
    assert answer.status_code == 415
    huge = client.post("/new", data={"csrf": "x" * 400_000}, headers={"origin": BASE})
    assert huge.status_code == 413


def test_every_answer_has_the_headers(root: Path) -> None:
    client = dashboard(root)
    (run,) = run_ids(client)
    for path in ("/", f"/run/{run}", "/new", "/nope", "/static/app.js"):
        headers = client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["x-frame-options"] == "DENY"
        assert ("no-store" in headers["cache-control"]) is not path.startswith("/static/")


def test_pages_hold_no_inline_script_or_style(root: Path) -> None:
    client = dashboard(root)
    (run,) = run_ids(client)
    for path in ("/", f"/run/{run}", f"/run/{run}/steps/1", "/new", "/evaluate", f"/compare?run={run}"):
        page = client.get(path).text
        assert "<style" not in page
        assert " style=" not in page
        assert page.count("<script") == page.count('<script src="/static/app.js')
        assert " onclick" not in page


def test_cookies_are_strict(root: Path) -> None:
    cookie = dashboard(root).get("/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_a_token_is_asked_for_and_then_kept(root: Path) -> None:
    client = dashboard(root, token=TOKEN)
    assert client.get("/").status_code == 401
    assert client.get("/?token=wrong-wrong-wrong-1").status_code == 401
    assert client.get("/static/app.css").status_code == 200
    welcome = client.get(f"/?sort=name&token={TOKEN}")
    assert welcome.status_code == 200
    assert TOKEN not in welcome.text
    assert 'content="0; url=/?sort=name"' in welcome.text
    assert TOKEN not in welcome.headers["set-cookie"]
    assert client.get("/").status_code == 200
    assert post(client, "/new", {}, word="").status_code == 403


def test_the_welcome_goes_nowhere_else(root: Path) -> None:
    client = dashboard(root, token=TOKEN)
    page = client.get(f"{BASE}//evil.example/%22%3E%3Cscript%3E?token={TOKEN}").text
    assert "url=/evil.example/" in page
    assert "<script>" not in page
    assert "url=/evil.example?" in client.get(f"{BASE}/%09/evil.example?token={TOKEN}&a=b").text


@pytest.mark.parametrize(
    ("host", "token", "says"),
    [
        ("0.0.0.0", "", "--token"),
        ("box", "", "--token"),
        ("127.0.0.1", "short", "too short"),
        ("0.0.0.0", "short", "short"),
    ],
)
def test_another_host_needs_a_long_token(tmp_path: Path, host: str, token: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        make_settings([str(tmp_path)], host=host, token=token, folder=tmp_path, environ={})


def test_other_hosts_work_with_a_token(tmp_path: Path) -> None:
    settings = make_settings([str(tmp_path)], host="0.0.0.0", token=TOKEN, folder=tmp_path, environ={})
    assert TOKEN not in repr(settings)


def test_no_secret_is_rendered(root: Path) -> None:
    (root / "one" / "best_skill.md").write_text(f"# the key is {SECRET}\n", encoding="utf-8")
    (root.parent / ".env").write_text("OTHER_API_KEY=sk-of-the-dotenv-file\n", encoding="utf-8")
    (root / "one" / "skills" / "skill_v0003.md").write_text("sk-of-the-dotenv-file", encoding="utf-8")
    client = dashboard(root)
    (run,) = run_ids(client)
    pages = [f"/run/{run}/{tab}" for tab in ("skill", "skill?from=seed&to=final", "config", "blame", "items", "events")]
    for path in ("/", f"/run/{run}", *pages, "/new"):
        page = client.get(path).text
        assert SECRET not in page
        assert KEY not in page
        assert "sk-of-the-dotenv-file" not in page
    assert "the key is ***" in client.get(f"/run/{run}/skill").text


@pytest.mark.parametrize("key", ["sk-a&b<c>\"d'ef", "sk-plain-0123456789abcdef"])
def test_no_part_of_a_secret_is_rendered(root: Path, key: str) -> None:
    """HTML writes some characters in other ways, a diff marks the words that changed, and a long text is cut."""
    (root / "one" / "skills" / "skill_v0000.md").write_text("# Skill\n\nthe key is sk-plain-old\n", encoding="utf-8")
    for name in ("skills/skill_v0003.md", "best_skill.md"):
        (root / "one" / name).write_text(f"# Skill\n\nthe key is {key}\n", encoding="utf-8")
    client = dashboard(root, environ=user_environment(ANTHROPIC_API_KEY=key))
    (run,) = run_ids(client)
    for path in ("skill", "skill?from=seed&to=final", "blame", "compare"):
        page = unescape(re.sub(r"<[^>]*>", "", client.get(f"/run/{run}/{path}").text))
        assert key not in page
        assert key[3:] not in page


def test_a_cut_does_not_part_a_secret() -> None:
    allowed = Allowance(1000, mask=lambda text: text.replace("sk-secret", "***"))
    assert allowed.take(f"{'x' * 10}sk-secret", 14) == f"{'x' * 10}***"


def test_no_form_has_a_field_for_a_key_or_a_program(root: Path) -> None:
    client = dashboard(root)
    for path in ("/new", "/evaluate"):
        page = client.get(path).text
        names = re.findall(r' name="([^"]+)"', page)
        assert "model.target" in names
        assert not [name for name in names if re.search(r"api_key|exec_path|exec_home|out_root|token$", name)]


def test_ids_and_not_paths_are_addresses(tmp_path: Path, root: Path) -> None:
    outside = tmp_path / "elsewhere" / "secret.txt"
    hostile_run(root / "evil", outside)
    published_run(tmp_path / "elsewhere" / "run")
    (root / "link").symlink_to(tmp_path / "elsewhere" / "run")
    client = dashboard(root)
    assert len(run_ids(client)) == 2  # a link is not followed
    for path in ("/run/..%2f..%2felsewhere", "/run/../../etc/passwd", "/run/one", f"/run/{tmp_path}/elsewhere/run"):
        assert client.get(path).status_code == 404
