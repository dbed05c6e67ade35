"""Commands as processes of their own: doors from a checkout, signals, a terminal."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest
from fakes.openai_server import FakeOpenAI
from fakes.rule_world import world, write_split

ROOT = Path(__file__).resolve().parent.parent
KEYS = re.compile(r"(_API_KEY|_BASE_URL|_PROXY)$", re.IGNORECASE)
TRAIN = ["--config", "configs/searchqa/default.yaml", "--optimizer_model", "teacher", "--target_model", "pupil"]
SIZE = ["--num_epochs", "2", "--batch_size", "4", "--workers", "2"]


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(world(delay=0.2)) as running:
        yield running


def environment(server: FakeOpenAI, **more: str) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not KEYS.search(name)}
    return {**kept, "OPENAI_API_KEY": "sk-a-secret-of-the-tests", "OPENAI_BASE_URL": server.url, **more}


def wait_for(count: int, server: FakeOpenAI, process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + 30
    while len(server.requests) < count:
        assert time.monotonic() < deadline, "the command sent too little"
        assert process is None or process.poll() is None, "the command ended too early"
        time.sleep(0.02)


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to one process on Windows")
def test_ctrl_c_saves_and_says_how_to_go_on_from_a_checkout_that_is_not_installed(
    server: FakeOpenAI, tmp_path: Path
) -> None:
    split = write_split(tmp_path / "split")
    # -S reads no .pth file, so that an editable installation of the package is not found; its requirements are.
    found = find_spec("pydantic")
    assert found is not None
    assert found.origin is not None
    libraries = str(Path(found.origin).parent.parent)
    words = [*TRAIN, *SIZE, "--split_dir", str(split), "--out_root", "run dir"]
    process = subprocess.Popen(
        [sys.executable, "-S", str(ROOT / "scripts" / "train.py"), *words],
        cwd=tmp_path,
        env=environment(server, PYTHONPATH=libraries),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    wait_for(30, server, process)
    before = len(server.requests)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert len(server.requests) <= before + 4
    assert "stopping: requests in flight are waited for" in out
    assert re.search(rf"^best so far: .* {re.escape(str(tmp_path / 'run dir' / 'best_skill.md'))}$", out, re.MULTILINE)
    assert re.search(rf"^go on with: .*skillopt resume '{re.escape(str(tmp_path / 'run dir'))}'$", err, re.MULTILINE)
    assert err.strip().splitlines()[-1] == "interrupted; all finished work is saved"
    assert "Traceback" not in out + err


def test_the_door_of_eval_refuses_in_plain_words(server: FakeOpenAI, tmp_path: Path) -> None:
    skill = tmp_path / "my.md"
    skill.write_text("x", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "eval_only.py"), "--skill_path", str(skill), "--split", "valid_unseen"],
        cwd=tmp_path,
        env=environment(server, PYTHONIOENCODING="ascii"),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "does not lie in a run folder" in done.stderr
    assert server.requests == []


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals on Windows")
def test_a_terminal_gets_the_live_view_and_its_ctrl_c_works(server: FakeOpenAI, tmp_path: Path) -> None:
    import fcntl
    import pty
    import struct
    import termios

    split = write_split(tmp_path / "split")
    words = ["train", *TRAIN, *SIZE, "--split_dir", str(split), "--out_root", "run"]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execvpe(
            sys.executable,
            [sys.executable, "-m", "skillopt", *words],
            {**environment(server, TERM="xterm-256color", NO_COLOR="1", PYTHONPATH=str(ROOT))},
        )
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    output, pressed, deadline = b"", False, time.monotonic() + 30
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                output += os.read(terminal, 65536)
            except OSError:
                break
        if not pressed and b"STEP 1 done" in output and b"step 2/4" in output:
            os.write(terminal, b"\x03")
            pressed = True
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    text = output.decode("utf-8", "replace")
    assert os.waitstatus_to_exitcode(status) == 130, text[-2000:]
    assert "[rollout]" not in text
    assert "current " in text
    assert "cost unknown" in text
    assert "\x1b[3" not in text
    assert "resume " in text
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", text.partition("stopping:")[0])
    lines = re.split(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n", drawn)
    assert 40 < max(map(len, lines)) <= 80
