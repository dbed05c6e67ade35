"""A run is bounded in time, output and memory, and nothing of it is left behind."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from skillopt import concurrency
from skillopt.agents.process import MIB, Finished, Limits, run_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there it is the system that ends a tree of processes")

LEFT = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
STARTS_THREE = """
import subprocess, sys, time
leave = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
subprocess.Popen(leave)
subprocess.Popen(leave, start_new_session=True)
orphan = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
subprocess.run([sys.executable, "-c", orphan, *leave])
print("started", flush=True)
time.sleep(float(sys.argv[3]))
"""


LOOPS = pytest.mark.parametrize("loop", [asyncio.run, concurrency.run], ids=["asyncio", "ours"])


def run(
    code: str,
    *arguments: str,
    stdin: bytes = b"",
    timeout: float = 20.0,
    limits: Limits | None = None,
    loop: Any = concurrency.run,
) -> Finished:
    argv = [sys.executable, "-c", code, *arguments]
    environment = {"PATH": os.defpath}
    work = run_process(argv, stdin=stdin, cwd=Path.cwd(), env=environment, timeout=timeout, limits=limits)
    done: Finished = loop(work)
    return done


def with_word(word: str) -> list[int]:
    """The living processes that have ``word`` among their arguments."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if word in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


@LOOPS
def test_input_output_and_exit_status(loop: Any) -> None:
    done = run(
        "import sys; t = sys.stdin.read(); print(len(t)); print(t[:3], file=sys.stderr); sys.exit(7)",
        stdin=b"x" * 300_000,
        loop=loop,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, b"300000\n", b"xxx\n")
    assert not done.timed_out
    assert not done.overflowed


@LOOPS
def test_a_program_that_does_not_read_its_input(loop: Any) -> None:
    assert run("print('done')", stdin=b"x" * 2_000_000, loop=loop).stdout == b"done\n"


@LOOPS
@pytest.mark.parametrize("stdin", [b"", b"x" * 300_000])
def test_a_program_that_has_ended_before_it_is_given_anything(loop: Any, stdin: bytes) -> None:
    for _ in range(10):
        work = run_process(["/bin/sh", "-c", "exit 4"], stdin=stdin, cwd=Path.cwd(), env={}, timeout=5)
        assert loop(work).returncode == 4


def test_both_streams_are_read_at_once() -> None:
    done = run("import sys\nfor i in range(3000): print('o' * 99); print('e' * 99, file=sys.stderr)")
    assert len(done.stdout) == len(done.stderr) == 300_000


def test_a_missing_program_is_an_os_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        concurrency.run(run_process(["no-such-program"], stdin=b"", cwd=Path.cwd(), env={}, timeout=5))


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found through /proc")
def test_a_timeout_ends_the_whole_tree() -> None:
    word = secrets.token_hex(8)
    started = time.monotonic()
    done = run(STARTS_THREE, LEFT, word, "600", timeout=1.0)
    seconds = time.monotonic() - started
    assert done.stdout == b"started\n"
    assert done.timed_out
    assert done.returncode is not None
    assert done.returncode < 0
    assert 1.0 <= seconds < 3.0
    assert with_word(word) == []


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found through /proc")
def test_what_outlives_the_program_neither_delays_nor_survives() -> None:
    word = secrets.token_hex(8)
    started = time.monotonic()
    done = run(STARTS_THREE, LEFT, word, "0.2")
    assert (done.returncode, done.stdout, done.timed_out) == (0, b"started\n", False)
    assert time.monotonic() - started < 3.0
    assert with_word(word) == []


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found through /proc")
def test_cancellation_ends_the_whole_tree() -> None:
    word = secrets.token_hex(8)

    async def go() -> None:
        argv = [sys.executable, "-c", STARTS_THREE, LEFT, word, "600"]
        task = asyncio.create_task(run_process(argv, stdin=b"", cwd=Path.cwd(), env={}, timeout=60.0))
        while len(with_word(word)) < 4:
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # Ctrl-C again
        with pytest.raises(asyncio.CancelledError):
            await task

    started = time.monotonic()
    concurrency.run(go())
    assert time.monotonic() - started < 4.0
    assert with_word(word) == []


def test_a_program_that_ends_when_asked_is_not_forced() -> None:
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (print('bye'), sys.exit(5)));"
    done = run(code + " time.sleep(600)", timeout=0.7)
    assert (done.returncode, done.stdout, done.timed_out) == (5, b"bye\n", True)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_runaway_writer_is_stopped(stream: str) -> None:
    started = time.monotonic()
    done = run(f"import sys\nwhile True: sys.{stream}.write('x' * 10000)", limits=Limits(output_bytes=MIB))
    assert done.overflowed
    assert not done.timed_out
    assert len(getattr(done, stream)) == MIB
    assert time.monotonic() - started < 4.0


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set from outside on Linux only")
def test_memory_cpu_and_file_size_are_bounded() -> None:
    hungry = run("import time; x = bytearray(300 << 20); time.sleep(30)", limits=Limits(memory_bytes=100 * MIB))
    assert hungry.out_of_memory
    assert not hungry.timed_out
    assert hungry.seconds < 5.0
    busy = run("while True: pass", limits=Limits(cpu_seconds=1))
    assert busy.returncode is not None
    assert busy.returncode < 0
    code = "from resource import *; print(getrlimit(RLIMIT_FSIZE)[0], getrlimit(RLIMIT_CORE)[0])"
    assert run(f"import time; time.sleep(0.2); {code}", limits=Limits(file_bytes=MIB)).stdout.split() == [
        b"1048576",
        b"0",
    ]
