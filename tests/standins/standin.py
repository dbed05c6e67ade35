"""What the stand-ins for agent programs share. Standard library only: they run as programs of their own.

A stand-in checks its arguments against the documented ones, reads its prompt, and plays a step of the script in the
variable STANDIN_SCRIPT (JSON, or a file with it; without one it answers "ok"): an object, or ``{"runs": [step, …],
"state": FILE}``, of which each run takes the next (the last one is repeated). The fields of a step:

    answer          its answer; "$PROMPT" is the prompt, "$SYSTEM" the system text
    think           a summary of reasoning
    commands        [{"command", "output", "exit"}]; without "output" the command is really run
    edits           {path: text} files to write, null to delete
    noise           lines that are no events; "torn": half a line at the end
    usage, cost     [prompt, completion, cached] tokens; dollars
    fail            what it reports in place of an answer; "error": the program's own name for it
    exit, stderr    how it ends; "crash": it ends without a result
    empty           it ends without an answer; "once": only when the prompt holds no reminder
    flood           so many MiB of output
    hang            seconds to hang; "token": it leaves processes behind that have this word in their command line
    probe           [path, …]: the answer tells what it can read of them, its environment, its HOME and arguments
    delay           seconds before the answer

With STANDIN_LLM_URL the answer comes from ``URL/chat/completions``: an agent sends SKILL.md as system text and task.md
as the user's, one that only answers what it was given.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, ClassVar

LEFTOVER = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
SKILL = Path(".agents/skills/skillopt-target/SKILL.md")


class Arguments:
    """The arguments of a run. ``flags`` maps each known one to how many values it takes, or to a set of choices."""

    def __init__(self, argv: list[str], flags: dict[str, Any], refuse: Any) -> None:
        self.values: dict[str, list[str]] = {}
        self.rest: list[str] = []
        position = 0
        while position < len(argv):
            word, position = argv[position], position + 1
            name, equals, inline = word.partition("=")
            if not word.startswith("-") or word == "-":
                self.rest.append(word)
                continue
            if name not in flags:
                refuse(f"unknown {name}")
            kind = flags[name]
            if kind == 0:
                self.values.setdefault(name, []).append("")
                continue
            if equals:
                value = inline
            elif position < len(argv):
                value, position = argv[position], position + 1
            else:
                refuse(f"missing {name}")
            if isinstance(kind, (set, frozenset)) and value not in kind:
                refuse(f"value {name} {value}")
            self.values.setdefault(name, []).append(value)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, default: str = "") -> str:
        return self.values.get(name, [default])[-1]


def emit(event: Any) -> None:
    sys.stdout.write(event if isinstance(event, str) else json.dumps(event, ensure_ascii=False))
    sys.stdout.write("\n")
    sys.stdout.flush()


def read_stdin() -> str:
    return sys.stdin.buffer.read().decode("utf-8")


def split_prompt(prompt: str) -> list[dict[str, str]]:
    """The messages of a prompt that holds several, each in its tags; else the prompt as the user's."""
    found = re.findall(
        r'<message role="(\w+)">\n(.*?)\n</message>(?=\n\n<message role=|\n\nReply to the last message|\Z)',
        prompt,
        re.S,
    )
    return [{"role": role, "content": text} for role, text in found] or [{"role": "user", "content": prompt}]


def load_step() -> dict[str, Any]:
    source = os.environ.get("STANDIN_SCRIPT", "")
    if not source:
        return {}
    script = json.loads(source if source.lstrip().startswith("{") else Path(source).read_text(encoding="utf-8"))
    if "runs" not in script:
        return script
    state = Path(script["state"])
    with open(state, "a+b") as handle:
        number = handle.tell()  # one byte a run
        handle.write(b".")
    return script["runs"][min(number, len(script["runs"]) - 1)]


class Program:
    """One stand-in. A subclass gives its name, version, help and flags, and speaks its events."""

    name = version = help = ""
    flags: ClassVar[dict[str, Any]] = {}
    help_at: ClassVar[list[str]] = ["--help"]

    def run(self) -> int:
        argv = sys.argv[1:]
        if argv in (["--version"], ["-v"], ["-V"]):
            print(os.environ.get("STANDIN_VERSION") or self.version)
            return 0
        if argv == self.help_at:
            hidden = os.environ.get("STANDIN_HIDE", "").split()
            print("\n".join(f"  {flag} <value>" for flag in [*self.flags, *self.help.split()] if flag not in hidden))
            return 0
        self.step = load_step()
        self.arguments = Arguments(argv, self.flags, self.refuse)
        self.system, self.prompt = self.take(self.arguments)
        return self.play(self.step)

    # What a subclass gives

    def refuse(self, why: str) -> None:
        raise NotImplementedError

    def take(self, arguments: Arguments) -> tuple[str, str]:
        """Checks the arguments; returns system text and prompt."""
        raise NotImplementedError

    def logged_in(self) -> bool:
        raise NotImplementedError

    def begin(self) -> None: ...

    def think(self, text: str) -> None: ...

    def say(self, text: str) -> None: ...

    def command(self, id: str, command: str, output: str, code: int) -> None: ...

    def edit(self, id: str, path: str, kind: str, text: str | None) -> None: ...

    def finish(self, answer: str, usage: list[int], cost: float | None) -> None: ...

    def fail(self, message: str, error: str) -> int:
        raise NotImplementedError

    @property
    def agent(self) -> bool:
        raise NotImplementedError

    @property
    def schema(self) -> Any:
        return None

    # The play

    def play(self, step: dict[str, Any]) -> int:
        if not self.logged_in():
            return self.fail(*self.no_login())
        self.begin()
        for line in step.get("noise", []):
            emit(line)
        if "flood" in step:
            self.flood(step["flood"])
        if step.get("think"):
            self.think(step["think"])
        self.work(step)
        if "token" in step:
            leave_processes(step["token"])
        time.sleep(step.get("hang", 0) or step.get("delay", 0))
        if step.get("stderr"):
            print(step["stderr"], file=sys.stderr)
        if "fail" in step:
            return self.fail(step["fail"], step.get("error", ""))
        if step.get("crash"):
            return step.get("exit", 1)
        self.answer(step)
        if step.get("torn"):
            sys.stdout.write('{"type": "item.comp')
        return step.get("exit", 0)

    def no_login(self) -> tuple[str, str]:
        return "Not logged in", ""

    def work(self, step: dict[str, Any]) -> None:
        for index, call in enumerate(step.get("commands", [])):
            output, code = call.get("output"), call.get("exit", 0)
            if output is None:
                done = subprocess.run(call["command"], shell=True, capture_output=True, text=True, check=False)
                output, code = done.stdout + done.stderr, done.returncode
            self.command(f"call_{index}", call["command"], output, code)
        for index, (path, text) in enumerate(step.get("edits", {}).items()):
            kind = "delete" if text is None else "update" if os.path.exists(path) else "add"
            if text is None:
                os.remove(path)
            else:
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                Path(path).write_text(text, encoding="utf-8")
            self.edit(f"edit_{index}", path, kind, text)

    def answer(self, step: dict[str, Any]) -> None:
        usage = step.get("usage", [len(self.system + self.prompt) // 4 + 1, 7, 0])
        empty = step.get("empty")
        if empty is True or (empty == "once" and "ended without an answer" not in self.prompt):
            self.finish("", usage, step.get("cost"))
            return
        if "probe" in step:
            text = json.dumps(probe(step["probe"]))
        elif os.environ.get("STANDIN_LLM_URL") and "answer" not in step:
            text, usage = self.ask()
        else:
            text = step.get("answer", "ok").replace("$PROMPT", self.prompt).replace("$SYSTEM", self.system)
        self.say(text)
        self.finish(text, usage, step.get("cost"))

    def ask(self) -> tuple[str, list[int]]:
        messages = self.messages()
        body: dict[str, Any] = {"model": self.arguments.get("--model") or self.arguments.get("-m") or "model"}
        body["messages"] = messages
        if self.schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": self.schema}}
        url = os.environ["STANDIN_LLM_URL"].rstrip("/") + "/chat/completions"
        headers = {"Content-Type": "application/json", "Authorization": "Bearer stand-in"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as response:
                told = json.load(response)
        except urllib.error.HTTPError as error:
            sys.exit(self.fail(f"API Error: {error.code} {error.reason}", ""))
        used = told.get("usage") or {}
        usage = [used.get("prompt_tokens", 1), used.get("completion_tokens", 1), 0]
        return told["choices"][0]["message"]["content"], usage

    def messages(self) -> list[dict[str, str]]:
        """What to ask a real endpoint: as an agent would, or the very messages that were given."""
        task = Path("task.md")
        if self.agent and task.is_file():
            skill = SKILL.read_text(encoding="utf-8") if SKILL.is_file() else ""
            given = [message["content"] for message in split_prompt(self.prompt) if message["role"] == "system"]
            system = "\n\n".join(part for part in (skill, self.system, *given) if part)
            head = [{"role": "system", "content": system}] if system else []
            return [*head, {"role": "user", "content": task.read_text(encoding="utf-8")}]
        head = [{"role": "system", "content": self.system}] if self.system else []
        return [*head, *split_prompt(self.prompt)]

    def flood(self, mebibytes: int) -> None:
        line = json.dumps({"type": "filler", "text": "x" * 1000}) + "\n"
        for _ in range(mebibytes * 1024):
            sys.stdout.write(line)


def leave_processes(token: str) -> None:
    """Three that are hard to get rid of: a child, one in a session of its own, an orphan in a session of its own. All
    keep the standard output open and do not listen to SIGTERM."""
    command = [sys.executable, "-c", LEFTOVER, token]
    subprocess.Popen(command)
    subprocess.Popen(command, start_new_session=True)
    starter = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
    subprocess.run([sys.executable, "-c", starter, *command], check=True)
    time.sleep(0.2)  # until they have stopped listening


def probe(paths: list[str]) -> dict[str, Any]:
    """What this process can see."""
    found: dict[str, Any] = {}
    for path in paths:
        place = Path(path)
        try:
            found[path] = sorted(os.listdir(place)) if place.is_dir() else place.read_text(encoding="utf-8")
        except OSError:
            found[path] = None
    home = Path(os.environ["HOME"])
    files = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    mode = oct(home.stat().st_mode & 0o777)
    seen = {"env": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd(), "home": files, "mode": mode}
    return {**seen, "files": found, "work": sorted(os.listdir())}
