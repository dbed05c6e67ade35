"""The server of a model, with stand-ins for the child; the last tests run the real engine where it is installed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from skillopt.extras import install_hint
from skillopt.local import server as server_module
from skillopt.local.catalog import SMOKE
from skillopt.local.child import ChildSpec
from skillopt.local.errors import LocalError
from skillopt.local.server import COMMAND, LocalServer, usable_cores
from skillopt.local.weights import shelf_of

posix_only = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")

LISTENING = """
import http.server, json, os, pathlib, signal, sys, threading
from skillopt.local.child import ChildSpec, live_with
spec = ChildSpec.from_json(sys.argv[1])
live_with(spec.parent)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"omp": os.environ.get("OMP_WAIT_POLICY"), "spec": sys.argv[1]}).encode())
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"address": f"http://127.0.0.1:{server.server_address[1]}"}), flush=True)
server.serve_forever()
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "toy.gguf"
    path.write_bytes(b"GGUF")
    return path


def child(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", textwrap.dedent(code))


def gone(pid: int, seconds: float = 2.0) -> bool:
    """Whether a process ends in time; a zombie that only waits to be read counts as ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


async def until(what: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.02)


def test_a_spec_survives_its_journey() -> None:
    spec = ChildSpec("/a b/ü.gguf", 4, 4096, 2, 17)
    assert ChildSpec.from_json(spec.to_json()) == spec


def test_a_server_serves_as_long_as_the_context(model: Path) -> None:
    async def scenario() -> tuple[int, dict[str, Any]]:
        async with LocalServer(model, slots=3, context=1000, command=child(LISTENING)) as server:
            assert server.base_url.startswith("http://127.0.0.1:")
            assert server.base_url.endswith("/v1")
            assert server.pid is not None
            async with aiohttp.ClientSession() as session, session.get(server.base_url[:-3] + "/health") as answer:
                return server.pid, json.loads(await answer.text())

    before = os.environ.get("OMP_WAIT_POLICY")
    pid, seen = asyncio.run(scenario())
    assert gone(pid)
    assert seen["omp"] == "PASSIVE"
    assert os.environ.get("OMP_WAIT_POLICY") == before
    expected = ChildSpec(str(model), 3, 1000, usable_cores(), os.getpid())
    assert ChildSpec.from_json(seen["spec"]) == expected


def test_an_error_in_the_context_ends_the_server(model: Path) -> None:
    async def scenario(pids: list[int]) -> None:
        async with LocalServer(model, command=child(LISTENING)) as server:
            assert server.pid is not None
            pids.append(server.pid)
            raise KeyError("mine")

    pids: list[int] = []
    with pytest.raises(KeyError, match="mine"):
        asyncio.run(scenario(pids))
    assert gone(pids[0])


DYING = "import sys; print('the file is torn', file=sys.stderr); print('not json'); sys.exit(7)"
MUTE = "import time; print('loading', file=__import__('sys').stderr, flush=True); time.sleep(60)"
NEVER_HEALTHY = """
import json, socket, sys, time
s = socket.create_server(("127.0.0.1", 0))
print(json.dumps({"address": f"http://127.0.0.1:{s.getsockname()[1]}"}), flush=True)
print("still loading", file=sys.stderr, flush=True)
if %s: sys.exit("it gave up")
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("code", "seconds", "reason"),
    [
        (DYING, 20, r"(?s)toy\.gguf ended at its start with status 7.*the file is torn"),
        (MUTE, 1.0, r"(?s)was not ready after 1 s.*loading"),
        (NEVER_HEALTHY % "0", 1.0, r"(?s)was not ready after 1 s.*still loading"),
        (NEVER_HEALTHY % "1", 20, r"(?s)ended at its start with status 1.*it gave up"),
        ("pass", 20, "it printed nothing"),
    ],
)
def test_a_server_that_does_not_start_is_reported_with_its_words(
    model: Path, code: str, seconds: float, reason: str
) -> None:
    async def scenario() -> None:
        async with LocalServer(model, command=child(code), ready_seconds=seconds):
            pytest.fail("it must not start")

    with pytest.raises(LocalError, match=reason):
        asyncio.run(scenario())
    assert not psutil.Process().children()


def test_only_the_last_words_are_kept(model: Path) -> None:
    code = "import sys\nfor i in range(50_000): print('line', i, file=sys.stderr)\nsys.exit(1)"

    async def scenario() -> None:
        async with LocalServer(model, command=child(code)):
            pytest.fail("it must not start")

    with pytest.raises(LocalError) as caught:
        asyncio.run(scenario())
    assert "line 49999" in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_cancelling_the_start_leaves_no_child(model: Path) -> None:
    async def scenario() -> int:
        server = LocalServer(model, command=child(MUTE))
        entering = asyncio.ensure_future(server.__aenter__())
        await until(lambda: server.pid is not None)
        pid = server.pid
        assert pid is not None
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        return pid

    assert gone(asyncio.run(scenario()))


STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTENING


@posix_only
def test_a_child_that_ignores_the_request_is_killed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "TERMINATE_SECONDS", 0.3)

    async def scenario() -> int:
        async with LocalServer(model, command=child(STUBBORN)) as server:
            assert server.pid is not None
            return server.pid

    start = time.monotonic()
    assert gone(asyncio.run(scenario()))
    assert time.monotonic() - start > 0.3


@posix_only
def test_cancelling_the_farewell_kills_at_once(model: Path) -> None:
    async def scenario() -> int:
        server = await LocalServer(model, command=child(STUBBORN)).__aenter__()
        pid = server.pid
        assert pid is not None
        leaving = asyncio.ensure_future(server.__aexit__(None, None, None))
        await asyncio.sleep(0.2)
        assert not leaving.done()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        return pid

    start = time.monotonic()
    assert gone(asyncio.run(scenario()))
    assert time.monotonic() - start < server_module.TERMINATE_SECONDS


PARENT = """
import asyncio, pathlib, sys
from skillopt.local.server import LocalServer
async def main():
    command = (sys.executable, "-c", pathlib.Path(sys.argv[2]).read_text())
    async with LocalServer(pathlib.Path(sys.argv[1]), command=command) as server:
        print(server.pid, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


@posix_only
@pytest.mark.parametrize("kernel_helps", [True, False])
def test_a_killed_parent_takes_the_child_along(model: Path, tmp_path: Path, kernel_helps: bool) -> None:
    code = tmp_path / "child.py"
    portable = "import sys; sys.platform = 'other'\n"  # only the pipe tells it then
    code.write_text(("" if kernel_helps else portable) + LISTENING)
    with subprocess.Popen([sys.executable, "-c", PARENT, str(model), str(code)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


@posix_only
def test_ctrl_c_does_not_reach_the_child(model: Path) -> None:
    async def scenario() -> None:
        async with LocalServer(model, command=child(LISTENING)) as server:
            assert server.pid is not None
            assert os.getpgid(server.pid) != os.getpgrp()
            os.kill(server.pid, signal.SIGINT)  # and ignored where it comes all the same
            await asyncio.sleep(0.2)
            async with aiohttp.ClientSession() as session, session.get(server.base_url[:-3] + "/health") as answer:
                assert answer.status == 200

    asyncio.run(scenario())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LocalServer(tmp_path / "none.gguf"):
            pytest.fail("it must not start")

    with pytest.raises(LocalError, match=r"no such model file: .*none\.gguf"):
        asyncio.run(scenario())


def test_a_missing_engine_names_the_extra(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "find_spec", lambda name: None)

    async def scenario() -> None:
        async with LocalServer(model):
            pytest.fail("it must not start")

    with pytest.raises(LocalError, match=re.escape(install_hint("local"))):
        asyncio.run(scenario())


# the real engine

needs_engine = pytest.mark.skipif(find_spec("xllamacpp") is None, reason="needs the extra 'local' (xllamacpp)")
_SMOKE = shelf_of(SMOKE, os.environ)
needs_weights = pytest.mark.skipif(not _SMOKE.present(), reason=f"needs 'skillopt models pull {SMOKE.name}'")

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}},
    "required": ["city"],
    "additionalProperties": False,
}


@needs_engine
def test_the_engine_says_why_it_cannot_load_a_file(model: Path) -> None:
    async def scenario() -> None:
        async with LocalServer(model):
            pytest.fail("it must not start")

    with pytest.raises(LocalError, match=r"(?s)toy\.gguf ended at its start .*cannot be loaded") as caught:
        asyncio.run(scenario())
    assert "Traceback" not in str(caught.value)


@needs_engine
@needs_weights
def test_the_engine_answers_side_by_side_and_is_gone_afterwards() -> None:
    async def ask(session: aiohttp.ClientSession, url: str, words: str, **more: Any) -> dict[str, Any]:
        body = {"model": "any", "messages": [{"role": "user", "content": words}], "max_tokens": 24, "temperature": 0}
        async with session.post(f"{url}/chat/completions", json={**body, **more}) as response:
            assert response.status == 200, await response.text()
            answer: dict[str, Any] = await response.json()
            return answer

    async def scenario() -> tuple[int, list[dict[str, Any]]]:
        async with LocalServer(_SMOKE.path) as server, aiohttp.ClientSession() as session:
            wanted = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
            answers = await asyncio.gather(
                ask(session, server.base_url, "Name a city.", response_format=wanted),
                ask(session, server.base_url, "Yes or no?", grammar='root ::= "yes" | "no"'),
            )
            again = await ask(session, server.base_url, "Name a city.", response_format=wanted)
            assert server.pid is not None
            return server.pid, [*answers, again]

    pid, (place, word, again) = asyncio.run(scenario())
    assert gone(pid)
    assert set(json.loads(place["choices"][0]["message"]["content"])) == {"city"}
    assert word["choices"][0]["message"]["content"] in ("yes", "no")
    assert place["usage"]["prompt_tokens"] > 0
    assert again["timings"]["prompt_n"] < place["timings"]["prompt_n"]  # the shared prompt was not computed again


def test_the_child_is_a_module_of_this_package() -> None:
    assert COMMAND[1:] == ("-m", "skillopt.local.child")
    assert find_spec(COMMAND[2]) is not None
