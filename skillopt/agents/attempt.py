"""One run of a program for one request: workspace, login, sandbox, process, and what came of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skillopt.agents import prompt as prompts
from skillopt.agents.description import Cli, Job
from skillopt.agents.environment import Credentials, child_environment, credentials, find_program, named_files
from skillopt.agents.failures import Program, fault_of, hide
from skillopt.agents.login import config_directory, copy_login, give_back, has_login
from skillopt.agents.process import Finished, Limits, run_process
from skillopt.agents.sandbox import Sandbox
from skillopt.agents.trajectory import Told, read_output
from skillopt.agents.workspace import Workspace, WorkspaceError, collect, open_workspace, write_private
from skillopt.models.types import Image, ModelSpec, Reply, Request, Usage
from skillopt.models.wire import IMAGE_CHARS, Fault, strict_ready

LONGEST_ARGUMENT = 24_000
"""Bytes of a prompt that may be an argument: Windows takes 32,767 characters in all, Linux 128 KiB in one."""
PROMPT_FILE = "PROMPT.md"
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}


@dataclass(frozen=True, slots=True)
class Setting:
    """All that the runs of one model have in common.

    ``program`` and ``home`` ('' : the usual ones) say which executable and whose login; ``environ`` is the user's
    environment; ``hidden`` are directories and files that runs must not see (the run folder, the data set); ``extra``
    variables are handed to the program as they are.
    """

    spec: ModelSpec
    cli: Cli
    agent: bool
    environ: Mapping[str, str] = field(repr=False)
    program: str = ""
    home: str = ""
    sandbox: Sandbox = field(default_factory=Sandbox)
    limits: Limits = field(default_factory=Limits)
    hidden: tuple[Path, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def executable(self) -> str | None:
        """Where the program is, or None."""
        return find_program(self.program or self.cli.program, self.environ)

    def login(self) -> tuple[Path, Credentials]:
        """The user's own configuration directory of the program, and how it is logged in."""
        config = config_directory(self.cli, self.home, self.environ)
        return config, credentials(self.cli, self.spec.role, self.environ, has_login(self.cli, config))


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one run: a reply or a fault, the tokens that it used and what the program says that it cost."""

    value: Reply | Fault
    usage: Usage
    cost_usd: float | None = None


async def attempt(setting: Setting, request: Request, timeout: float, *, reminder: bool = False) -> Result:
    """Runs the program once for ``request``, within ``timeout`` seconds. Raises nothing but cancellation."""
    executable = setting.executable
    if executable is None:
        return _never(setting.cli.missing(setting.program or setting.cli.program))
    refused = _beyond(setting, request)
    if refused:
        return _never(refused)
    config, login = setting.login()
    try:
        with open_workspace(request.files, setting.hidden) as space:
            profile = str(setting.spec.parameters.get("profile") or "")
            private = space.home / setting.cli.config
            copies = copy_login(setting.cli, config, private, stored=login.stored, profile=profile)
            try:
                ask = _prepare(setting, request, space, login, reminder)
                run = await _run(setting, executable, ask, space, login, timeout)
            finally:
                give_back(copies)
            program = Program(setting.cli, executable, timeout, login.source)
            return await asyncio.to_thread(_read, setting, request, run, ask, space, login, program)
    except WorkspaceError as error:
        return _never(str(error))
    except OSError as error:
        return _never(f"{executable} cannot be run: {error.strerror or error}")


@dataclass(frozen=True, slots=True)
class _Ask:
    """A run as it is asked for: what goes to stdin, and the job that the arguments are made of."""

    stdin: str
    job: Job


def _prepare(setting: Setting, request: Request, space: Workspace, login: Credentials, reminder: bool) -> _Ask:
    """Writes what the program is handed by path, and puts the job together."""
    cli, spec = setting.cli, setting.spec
    apart = cli.system_in_agent if setting.agent else cli.system_in_chat
    system = prompts.system_text(request.messages) if apart else ""
    text = prompts.flatten(request.messages, with_system=not apart, reminder=reminder)
    images = prompts.all_images(request.messages)
    paths = _write_images(images, space.desk if cli.images else space.work / "attachments")
    if images and not cli.images:
        text += "\n\nPictures: " + ", ".join(f"attachments/{path.name}" for path in paths)
    schema = dict(request.json_schema) if request.json_schema is not None and cli.json_schema else None
    if schema is not None and cli.strict_schema and not strict_ready(schema):
        schema = None
    stdin = prompts.message_line(text, images) if images and cli.images_in_stdin else text
    argument = None
    if cli.prompt_in_argv:
        argument, stdin = _as_argument(text, setting.agent, space)
    job = Job(
        agent=setting.agent,
        work=space.work,
        model=spec.model,
        effort=_effort(setting, request),
        base_url=login.variables.get("OPENAI_BASE_URL", ""),
        parameters=spec.parameters,
        prompt=argument,
        system=_write(space.desk / "system.md", system) if system else None,
        schema=_write(space.desk / "schema.json", json.dumps(schema)) if schema is not None else None,
        schema_text=json.dumps(schema) if schema is not None else "",
        images=paths if cli.images else (),
        answer=space.desk / "answer.txt",
        usage=space.desk / "usage.json",
    )
    return _Ask(stdin, job)


def _as_argument(text: str, agent: bool, space: Workspace) -> tuple[str | None, str]:
    """The prompt argument and the text for stdin of a program that takes short prompts as an argument. An agent finds a
    long one in its workspace; one that has no tools to read it gets it by stdin."""
    if len(text.encode("utf-8", "replace")) <= LONGEST_ARGUMENT:
        return text, ""
    if not agent:
        return None, text
    _write(space.work / PROMPT_FILE, text)
    return f"Read the file {PROMPT_FILE} in the current directory, all of it, and do what it says.", ""


async def _run(
    setting: Setting, executable: str, ask: _Ask, space: Workspace, login: Credentials, timeout: float
) -> Finished:
    environment = child_environment(setting.cli, setting.environ, space, login, setting.extra)
    argv = [executable, *setting.cli.arguments(ask.job)]
    return await run_process(
        setting.sandbox.wrap(argv, space, named_files(environment), setting.hidden),
        stdin=ask.stdin.encode("utf-8", "replace"),
        cwd=space.work,
        env=environment,
        timeout=timeout,
        limits=setting.limits,
    )


def _read(
    setting: Setting, request: Request, run: Finished, ask: _Ask, space: Workspace, login: Credentials, program: Program
) -> Result:
    tidy = _Tidy(space, login.secrets)
    told = read_output(run.stdout, setting.cli.read, tidy)
    answer = tidy(_file_text(ask.job.answer)).strip() or told.answer
    told = replace(told, answer=answer)
    usage = told.usage or _written_usage(setting.cli, ask.job.usage) or _estimate(request, told)
    fault = fault_of(run, told, program, usage, login.secrets)
    if fault is not None:
        return Result(fault, usage, told.cost_usd)
    files, notes = collect(space.work, request.collect)
    events = (*told.events, *({"role": "error", "content": note} for note in notes))
    return Result(Reply(answer, usage, events=events, files=files, cost_usd=told.cost_usd), usage, told.cost_usd)


class _Tidy:
    """Takes out of a text what must not be kept (secrets) and what differs from run to run (paths of the workspace)."""

    def __init__(self, space: Workspace, secrets: Sequence[str]) -> None:
        self._secrets = secrets
        roots = {str(space.root), str(space.root.resolve())}
        self._paths = [
            change
            for root in sorted(roots, key=len, reverse=True)
            for change in ((f"{root}/work/", ""), (f"{root}/work", "."), (f"{root}/home", "~"), (root, "/tmp"))
        ]

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = hide(text, secret)
        for path, short in self._paths:
            text = text.replace(path, short)
        return text


def _beyond(setting: Setting, request: Request) -> str:
    """Why the program cannot do what ``request`` needs, or ''."""
    if request.tools:
        return f"{setting.cli.title} cannot be given functions to call (tools); use a provider that can"
    if not setting.agent and not setting.cli.images and prompts.all_images(request.messages):
        return f"{setting.cli.title} takes no images; use a provider that does"
    return ""


def _never(why: str) -> Result:
    """The result of a run that never started."""
    return Result(Fault("provider", why, "stop"), Usage())


def _effort(setting: Setting, request: Request) -> str:
    given = setting.spec.parameters
    own = given.get("effort") or given.get("reasoning_effort")
    found = request.reasoning_effort or own or ("" if setting.agent else setting.spec.reasoning_effort)
    return "" if str(found or "none").lower() in ("none", "off", "null", "default") else str(found)


def _written_usage(cli: Cli, path: Path) -> Usage | None:
    if cli.read_usage is None:
        return None
    try:
        found = json.loads(_file_text(path))
    except (ValueError, RecursionError):
        return None
    return cli.read_usage(found) if isinstance(found, dict) else None


def _estimate(request: Request, told: Told) -> Usage:
    """Tokens of a run whose program does not tell (4 characters a token): a token cap has to hold there too."""
    asked = sum(len(message.content) + IMAGE_CHARS * len(message.images) for message in request.messages)
    asked += sum(len(file.content) for file in request.files)
    written = sum(len(str(event.get(key, ""))) for event in told.events for key in ("content", "cmd"))
    return Usage(asked // 4 + 1, (max(written, len(told.answer)) + 3) // 4)


def _write_images(images: Sequence[Image], folder: Path) -> tuple[Path, ...]:
    paths = []
    for index, image in enumerate(images, start=1):
        path = folder / f"image_{index}.{_ENDINGS.get(image.media_type, 'png')}"
        write_private(path, image.data)
        paths.append(path)
    return tuple(paths)


def _write(path: Path, text: str) -> Path:
    write_private(path, text.encode("utf-8", "replace"))
    return path


def _file_text(path: Path) -> str:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > 4 << 20:
        return ""
    return path.read_text(encoding="utf-8", errors="replace")
