"""What a program finds around it: a workspace, an environment, a login; and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from skillopt.agents.claude import CLAUDE
from skillopt.agents.codex import CODEX
from skillopt.agents.copilot import COPILOT
from skillopt.agents.cursor import CURSOR
from skillopt.agents.environment import Credentials, child_environment, credentials, named_files
from skillopt.agents.login import config_directory, copy_login, give_back, has_login
from skillopt.agents.sandbox import Sandbox, find_sandbox, installation
from skillopt.agents.workspace import Workspace, WorkspaceError, collect, open_workspace, remove_abandoned
from skillopt.models.types import File

# Workspace


def test_a_workspace_is_private_and_goes_away() -> None:
    with open_workspace((File("task.md", b"do"), File("a/b/c.bin", b"\0\1"))) as space:
        assert space.root.name.startswith("skillopt-")
        assert (space.work / "a/b/c.bin").read_bytes() == b"\0\1"
        if os.name != "nt":
            for folder in (space.root, space.work, space.home, space.temporary, space.desk, space.work / "a"):
                assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert stat.S_IMODE((space.work / "task.md").stat().st_mode) == 0o600
        (space.work / "locked").mkdir()
        (space.work / "locked" / "file").write_text("x")
        (space.work / "locked").chmod(0)
    assert not space.root.exists()


def test_it_goes_away_after_an_error_too() -> None:
    with pytest.raises(RuntimeError), open_workspace(()) as space:
        raise RuntimeError
    assert not space.root.exists()


@pytest.mark.skipif(os.name == "nt", reason="nothing is locked there")
def test_what_a_killed_process_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]; from skillopt.agents import workspace\n"
    code += (
        "with workspace.open_workspace(()) as space: (space.home / 'login').write_text('x'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    (tmp_path / "skillopt-of-somebody").mkdir()
    with open_workspace(()) as space:
        assert len(list(tmp_path.glob("skillopt-*/home"))) == 2
        remove_abandoned()
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([space.root.name, "skillopt-of-somebody"])


@pytest.mark.parametrize("path", ["", "/etc/x", "../x", "a/../x", "a//b", "./a", "a\\b", "C:/x", "a\0b"])
def test_paths_that_leave_it_are_refused(path: str) -> None:
    with pytest.raises(WorkspaceError, match="relative"), open_workspace((File(path, b""),)):
        pass
    with open_workspace(()) as space, pytest.raises(WorkspaceError):
        collect(space.work, [path])


def test_it_is_outside_of_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "inner"))
    with open_workspace((), [tmp_path / "elsewhere"]) as space:
        assert tmp_path.resolve() in space.root.resolve().parents
    if os.name != "nt":
        with open_workspace((), [tmp_path]) as space:
            assert tmp_path.resolve() not in space.root.resolve().parents
    (tmp_path / "inner" / "data.json").write_text("[]")
    if os.name != "nt":
        with open_workspace((), [tmp_path / "inner" / "data.json"]) as space:
            assert (tmp_path / "inner").resolve() not in space.root.resolve().parents
    with pytest.raises(WorkspaceError, match="TMPDIR"), open_workspace((), [Path(tmp_path.anchor)]):
        pass


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_what_is_collected(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    with open_workspace(()) as space:
        (space.work / "out").mkdir()
        (space.work / "out/a.py").write_text("x = 1\n")
        (space.work / "big").write_bytes(b"x" * 101)
        (space.work / "link").symlink_to(secret)
        (space.work / "folder").symlink_to(tmp_path)
        os.mkfifo(space.work / "pipe")
        names = ["out/a.py", "missing", "big", "link", "folder/secret", "out", "pipe"]
        files, notes = collect(space.work, names, largest=100)
    assert [(file.path, file.content) for file in files] == [("out/a.py", b"x = 1\n")]
    assert [note.split(" was")[0] for note in notes] == ["big", "link", "folder/secret", "out", "pipe"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_removal_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(mode=0o555)
    (tmp_path / "kept.txt").write_text("x")
    with open_workspace(()) as space:
        (space.work / "a").symlink_to(tmp_path / "kept")
        (space.work / "b").symlink_to(tmp_path / "kept.txt")
        (space.work / "locked").mkdir()
        (space.work / "locked/c").symlink_to(tmp_path / "kept")
        (space.work / "locked").chmod(0o500)
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o555
    assert (tmp_path / "kept.txt").read_text() == "x"


# Environment and credentials

USER = {
    "PATH": "/usr/bin",
    "HOME": "/home/u",
    "LANG": "de_DE.UTF-8",
    "LC_ALL": "C.UTF-8",
    "https_proxy": "http://proxy:1",
    "SSL_CERT_FILE": "/certs.pem",
    "SSH_AUTH_SOCK": "/ssh",
    "OPTIMIZER_OPENAI_API_KEY": "optimizers-openai",
    "OPTIMIZER_ANTHROPIC_API_KEY": "optimizers-anthropic",
    "OPENAI_API_KEY": "plain-openai",
    "ANTHROPIC_API_KEY": "plain-anthropic",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "AWS_REGION": "eu-1",
    "GH_TOKEN": "plain-gh",
    "CURSOR_API_KEY": "plain-cursor",
    "COPILOT_ALLOW_ALL": "true",
    "CODEX_HOME": "/elsewhere",
}


def test_the_environment_is_a_short_list() -> None:
    space = Workspace(Path("/w"))
    login = credentials(CODEX, "target", USER, has_login=False)
    found = child_environment(CODEX, USER, space, login, {"X": "1"})
    assert found == {
        "PATH": "/usr/bin",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C.UTF-8",
        "https_proxy": "http://proxy:1",
        "SSL_CERT_FILE": "/certs.pem",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "HOME": "/w/home",
        "TMPDIR": "/w/tmp",
        "TMP": "/w/tmp",
        "TEMP": "/w/tmp",
        "CODEX_HOME": "/w/home/.codex",
        "OPENAI_API_KEY": "plain-openai",
        "CODEX_API_KEY": "plain-openai",
        "X": "1",
    }
    assert named_files(found) == (Path("/certs.pem"),)


def test_each_program_gets_its_own_credentials_alone() -> None:
    for cli, own in ((CLAUDE, "plain-anthropic"), (CURSOR, "plain-cursor"), (COPILOT, "plain-gh")):
        values = set(credentials(cli, "target", USER, has_login=False).variables.values())
        assert values == {own}


def test_a_key_for_the_role_outweighs_and_keeps_out_all_plain_ones() -> None:
    environ = {**USER, "TARGET_ANTHROPIC_API_KEY": "mine", "ANTHROPIC_AUTH_TOKEN": "plain-token"}
    found = credentials(CLAUDE, "target", environ, has_login=True)
    assert found.variables == {"ANTHROPIC_API_KEY": "mine"}
    assert (found.secrets, found.stored, found.source) == (("mine",), False, "TARGET_ANTHROPIC_API_KEY")
    assert credentials(CLAUDE, "optimizer", environ, False).variables == {"ANTHROPIC_API_KEY": "optimizers-anthropic"}


def test_a_stored_login_of_codex_outweighs_a_plain_openai_key() -> None:
    environ = {"OPENAI_API_KEY": "plain", "OPENAI_BASE_URL": "http://elsewhere/v1"}
    found = credentials(CODEX, "target", environ, has_login=True)
    assert found.stored
    assert found.variables == {}  # neither the key nor where it belongs
    assert credentials(CODEX, "target", {"CODEX_API_KEY": "k"}, has_login=True).variables == {"CODEX_API_KEY": "k"}
    own = credentials(CODEX, "target", {"TARGET_OPENAI_API_KEY": "k"}, has_login=True)
    assert own.variables == {"OPENAI_API_KEY": "k", "CODEX_API_KEY": "k"}
    assert credentials(CODEX, "target", {}, has_login=False).source == ""


def test_cloud_credentials_only_with_their_switch() -> None:
    assert "AWS_REGION" not in credentials(CLAUDE, "target", USER, False).variables
    found = credentials(CLAUDE, "target", {**USER, "CLAUDE_CODE_USE_BEDROCK": "1"}, False)
    assert found.variables == {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_SECRET_ACCESS_KEY": "aws", "AWS_REGION": "eu-1"}
    assert found.secrets == ("aws",)
    off = credentials(CLAUDE, "target", {**USER, "CLAUDE_CODE_USE_BEDROCK": "0"}, False)
    assert "AWS_REGION" not in off.variables


def test_secrets_are_not_shown() -> None:
    assert "plain-anthropic" not in repr(credentials(CLAUDE, "target", USER, False))


# Login


def test_where_the_login_is() -> None:
    assert config_directory(CODEX, "", {"HOME": "/home/u"}) == Path("/home/u/.codex")
    assert config_directory(CODEX, "", {"HOME": "/home/u", "CODEX_HOME": "/c"}) == Path("/c")
    assert config_directory(COPILOT, "/own", {"COPILOT_HOME": "/c"}) == Path("/own")
    assert config_directory(CURSOR, "", {"HOME": "/home/u"}) == Path("/home/u/.config/cursor")


def test_only_the_login_is_copied(tmp_path: Path) -> None:
    config, private = tmp_path / "config", tmp_path / "private"
    config.mkdir()
    for name in ("auth.json", "config.toml", "AGENTS.md", "work.config.toml"):
        (config / name).write_text(f'{{"{name}": 1}}')
    assert has_login(CODEX, config)
    copy_login(CODEX, config, private, stored=True, profile="")
    assert os.listdir(private) == ["auth.json"]
    assert os.name == "nt" or stat.S_IMODE((private / "auth.json").stat().st_mode) == 0o600
    copy_login(CODEX, config, tmp_path / "p2", stored=False, profile="work")
    assert sorted(os.listdir(tmp_path / "p2")) == ["config.toml", "work.config.toml"]


def test_of_mixed_files_only_the_login_is_copied(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    assert not has_login(COPILOT, config)
    (config / "config.json").write_text(json.dumps({"trusted_folders": ["/"]}))
    assert not has_login(COPILOT, config)
    (config / "config.json").write_text(json.dumps({"trusted_folders": ["/"], "copilot_tokens": {"u": "t"}}))
    assert has_login(COPILOT, config)
    copy_login(COPILOT, config, tmp_path / "private", stored=True, profile="")
    assert json.loads((tmp_path / "private/config.json").read_text()) == {"copilot_tokens": {"u": "t"}}


@pytest.mark.parametrize(
    ("original", "renewed", "stored"),
    [
        ('{"token": "a"}', '{"token": "b"}', '{"token": "b"}'),
        ('{"token": "a"}', '{"token": "b", "more": 1}', '{"token": "a"}'),
        ('{"token": "a"}', '{"token": ["b"]}', '{"token": "a"}'),
        ('{"token": "a"}', "no json", '{"token": "a"}'),
        ('{"token": "changed"}', '{"token": "b"}', '{"token": "changed"}'),
    ],
)
def test_a_renewed_login_is_given_back(tmp_path: Path, original: str, renewed: str, stored: str) -> None:
    config, private = tmp_path / "config", tmp_path / "private"
    config.mkdir()
    file = config / ".credentials.json"
    file.write_text('{"token": "a"}')
    copies = copy_login(CLAUDE, config, private, stored=True, profile="")
    file.write_text(original)  # by the user's own program meanwhile
    (private / ".credentials.json").write_text(renewed)
    give_back(copies)
    assert file.read_text() == stored
    assert os.listdir(config) == [".credentials.json"]


# Sandbox


def test_without_bubblewrap_it_is_said(tmp_path: Path) -> None:
    found = asyncio.run(find_sandbox({"PATH": str(tmp_path)}))
    assert found.program == ""
    assert "bubblewrap" in found.isolation
    assert "could read other files" in found.isolation
    assert found.wrap(["x", "y"], Workspace(tmp_path), (), ()) == ["x", "y"]


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_a_bubblewrap_that_does_not_work_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    found = asyncio.run(find_sandbox({"PATH": str(tmp_path)}))
    assert found.program == ""
    assert "No permissions" in found.isolation


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_what_is_inside(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "readable").mkdir()
    space = Workspace(tmp_path / "space")
    program = str(tmp_path / "bin/tool")
    Path(program).parent.mkdir()
    Path(program).write_text("")
    readable = [tmp_path / "readable", tmp_path / "missing"]
    argv = Sandbox("/usr/bin/bwrap", "").wrap(
        [program, "--flag"], space, readable, [Path("/usr/lib"), tmp_path / "run"]
    )
    text = " ".join(argv)
    assert argv[argv.index("--") + 1 :] == [program, "--flag"]
    assert f"--bind {space.root} {space.root} --chdir {space.work}" in text
    assert "--tmpfs /usr/lib" in text
    assert f"--ro-bind {tmp_path}/readable" in text
    assert str(tmp_path / "run") not in text
    assert str(tmp_path / "missing") not in text
    assert "--unshare-pid" in text
    assert "--unshare-net" not in text
    for private in (str(Path.home()), "/etc/shadow", "/home", "/root "):
        assert f" {private} " not in text


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_where_a_program_is_installed(tmp_path: Path) -> None:
    package = tmp_path / "node/lib/node_modules/@vendor/tool/bin"
    package.mkdir(parents=True)
    (package / "tool.js").write_text("#!/usr/bin/env node\n")
    (tmp_path / "node/bin").mkdir()
    (tmp_path / "node/bin/tool").symlink_to("../lib/node_modules/@vendor/tool/bin/tool.js")
    found = set(installation(str(tmp_path / "node/bin/tool")))
    assert {tmp_path / "node/bin", tmp_path / "node/lib", tmp_path / "node/lib/node_modules"} <= found
    versions = tmp_path / "home/.local/share/tool/versions/1"
    versions.mkdir(parents=True)
    (versions / "tool").write_text("")
    (tmp_path / "home/.local/bin").mkdir()
    (tmp_path / "home/.local/bin/tool").symlink_to(versions / "tool")
    found = set(installation(str(tmp_path / "home/.local/bin/tool")))
    assert found == {tmp_path / "home/.local/bin", versions}
    script = tmp_path / "script"
    script.write_text(f"#!{shutil.which('sh')} -e\n")
    assert Path(shutil.which("sh") or "").parent in installation(str(script))


def test_no_credentials_in_the_check_of_a_program() -> None:
    found = child_environment(CLAUDE, USER, Workspace(Path("/w")), Credentials(), {})
    assert not {"plain-anthropic", "plain-openai", "plain-gh"} & set(found.values())
