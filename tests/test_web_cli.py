"""``skillopt ui`` and ``python -m skillopt_webui.app`` as processes: refusals, ports, Ctrl-C, what they cost."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("starlette", reason="the extra webui is not installed")
pytest.importorskip("uvicorn", reason="the extra webui is not installed")
pytest.importorskip("httpx2", reason="the extra webui's tests need httpx2")

from fakes.dashboard import until, user_environment
from fakes.published import published_run

from skillopt.cli import ui
from skillopt.cli.main import main
from skillopt.extras import install_hint


def test_another_host_without_a_token_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", "--host", "0.0.0.0"]) == 2
    assert "--token" in capsys.readouterr().err


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ui, "find_spec", lambda name: None)
    assert ui.main([]) == 2
    assert install_hint("webui") in capsys.readouterr().err


def test_a_port_that_is_taken_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["ui", "--port", str(port), "--root", str(tmp_path)]) == 2
    assert "choose another with --port" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to one process on Windows")
def test_the_published_door_opens_is_small_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    published_run(tmp_path / "outputs" / "one")
    process = subprocess.Popen(
        [sys.executable, "-m", "skillopt_webui.app", "--port", "0"],
        cwd=tmp_path,
        env=user_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        assert found is not None
        assert str(tmp_path / "outputs") in process.stdout.readline()
        page = until(lambda: _page(found[0]))
        assert "one</a>" in page
        stream = urlopen(found[0] + "stream", timeout=30)
        assert stream.readline().startswith(b"data: ")
        assert urlopen(Request(found[0] + "stream", method="HEAD"), timeout=30).read() == b""
        time.sleep(0.5)
        watched = psutil.Process(process.pid)
        assert watched.memory_info().rss < 120 << 20
        before = sum(watched.cpu_times()[:2])
        time.sleep(1)
        assert sum(watched.cpu_times()[:2]) - before < 0.2
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "what it started goes on" in out
    assert "Traceback" not in out, "a page was open"
    assert stream.read() is not None


def _page(url: str) -> str:
    try:
        with urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""
