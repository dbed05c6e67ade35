"""A dashboard for tests, and a hostile run folder to look at."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from skillopt.web.app import make_app
from skillopt.web.settings import make_settings

BASE = "http://127.0.0.1:7860"
KEYS = re.compile(r"(_API_KEY|_BASE_URL|_PROXY)$", re.IGNORECASE)
SECRET = "sk-a-secret-of-the-tests"
EVIL = "<script>alert('skill')</script><img src=x onerror=alert(1)>"
EVIL_ID = "<b>id</b>\"'><script>1</script>"
CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')


def user_environment(**more: str) -> dict[str, str]:
    """The environment of a user with a key."""
    kept = {name: value for name, value in os.environ.items() if not KEYS.search(name)}
    repository = str(Path(__file__).resolve().parents[2])
    return {**kept, "PYTHONPATH": repository, "OPENAI_API_KEY": SECRET, **more}


def dashboard(root: Path, *more: Path, folder: Path | None = None, **settings: Any) -> TestClient:
    """A client of a dashboard over ``root``."""
    environ = settings.pop("environ", user_environment())
    made = make_settings(
        [str(root), *map(str, more)], folder=folder or root.parent, environ=environ, **{"port": 7860, **settings}
    )
    return TestClient(make_app(made), base_url=BASE, raise_server_exceptions=True)


@contextmanager
def served(client: TestClient) -> Iterator[str]:
    """The dashboard of ``client`` behind a real server; its address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = uvicorn.Server(uvicorn.Config(client.app, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def run_ids(client: TestClient) -> list[str]:
    """The ids of the runs on the first page, in its order."""
    return list(dict.fromkeys(re.findall(r'href="/run/([a-z0-9-]+)"', client.get("/").text)))


def csrf(client: TestClient, path: str = "/new") -> str:
    """The word that forms of this client must carry."""
    found = CSRF.search(client.get(path).text)
    assert found is not None
    return found[1]


def post(client: TestClient, path: str, fields: Mapping[str, str], *, word: str | None = None) -> Any:
    """A form as a browser sends it from our own page."""
    data = {"csrf": csrf(client) if word is None else word, **fields}
    return client.post(path, data=data, headers={"origin": BASE}, follow_redirects=False)


def until(what: Callable[[], Any], seconds: float = 40.0) -> Any:
    """Waits until ``what`` is true, and returns it."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)
    return found


def write(root: Path, name: str, value: Any) -> None:
    """A file of a run folder: text as it is, anything else as JSON."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def hostile_run(root: Path, outside: Path) -> Path:
    """A folder whose every text is an attack: markup, paths that lead out of it, links, torn files."""
    row = {"step": 1, "epoch": EVIL, "action": EVIL, "train_hard": "x", "best_score": None, "tokens": [EVIL]}
    write(root, "config.json", {"env": EVIL, "target_model": EVIL, "optimizer_model": EVIL, "num_epochs": EVIL})
    write(root, "history.json", [row, {"step": 2, "action": ["reject"]}, "no row", {"step": EVIL}])
    write(root, "summary.json", '{"torn": ')
    write(root, "runtime_state.json", {"best_skill_path": "../../secret.txt", "best_score": 0.5, "best_step": EVIL})
    write(root, "skills/skill_v0000.md", f"# {EVIL}\n")
    write(root, "skills/skill_v0001.md", f"# {EVIL}\n\n- {EVIL}\n")
    write(root, "best_skill.md", f"# {EVIL}\n\n- {EVIL}\n")
    item = {"id": EVIL_ID, "hard": 0, "soft": EVIL, "question": EVIL, "predicted_answer": EVIL, "fail_reason": EVIL}
    rows = [item, {"id": "../../secret", "hard": 1, EVIL: EVIL}, {"hard": []}, {"id": ["x"], "hard": 1}]
    lines = [json.dumps(each) for each in rows] + ['{"id": "torn']
    write(root, "steps/step_0001/rollout/results.jsonl", "\n".join(lines))
    write(root, "steps/step_0001/candidate_skill.md", f"# {EVIL}\n\n- {EVIL}\n")
    write(root, "steps/step_0001/patches/minibatch_fail_000.json", {"reasoning": EVIL, "edits": [EVIL, {"op": EVIL}]})
    analysis = {"item_ids": [EVIL_ID], "reply": EVIL, "source_type": EVIL, "error": {"kind": EVIL, "message": EVIL}}
    write(root, "steps/step_0001/analysis/minibatch_fail_000.json", analysis)
    edit = {"op": EVIL, "target": EVIL, "content": EVIL, "support_count": EVIL, "source_type": EVIL}
    write(root, "steps/step_0001/ranked_edits.json", {"edits": [edit], "reasoning": EVIL})
    events = [{"at": EVIL, "event": EVIL, "x": EVIL}, {"at": 1, "event": "note", "text": EVIL}, {"event": ["x"]}]
    events += [{"at": 1, "event": "stage_done", "stage": 6, "action": EVIL}, {"event": "item_done", "label": EVIL}]
    write(root, "events.jsonl", "\n".join(map(json.dumps, events)) + '\n{"event": "no')
    outside.parent.mkdir(parents=True, exist_ok=True)
    outside.write_text("OUTSIDE-OF-THE-ROOTS", encoding="utf-8")
    (root / "skills" / "skill_v0002.md").symlink_to(outside)
    (root / "selection_eval_baseline").symlink_to(outside.parent)
    return root


def run_command(words: list[str], environ: Mapping[str, str], cwd: Path) -> None:
    """A command to its end."""
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "skillopt", *words],
        env=dict(environ),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
