"""Whether a program is there and speaks the way it is spoken to: asked once, before any spend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from skillopt.agents.description import Cli
from skillopt.agents.environment import Credentials, child_environment, find_program, named_files
from skillopt.agents.process import Finished, run_process
from skillopt.agents.sandbox import Sandbox
from skillopt.agents.workspace import Workspace, open_workspace

PATIENCE = 10.0
"""Seconds that a program has for its version, and as many for its help."""

_BOXED = (
    "does not run where it sees no files but those of its own installation: if it is a shim (of asdf, mise, volta), "
    "give the path of the program that it starts"
)


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """What is known of a program. ``path`` and ``version`` are '' when unknown; ``problems`` say what to do."""

    path: str
    version: str
    problems: tuple[str, ...]


async def check_program(
    cli: Cli,
    program: str,
    environ: Mapping[str, str],
    extra_environment: Mapping[str, str] | None = None,
    sandbox: Sandbox | None = None,
) -> ProgramReport:
    """Asks ``program`` ('' : the usual name) for its version and its help, in the ``sandbox`` that its runs will be in.
    Never raises for what it finds."""
    named = program or cli.program
    path = find_program(named, environ)
    if path is None:
        return ProgramReport("", "", (cli.missing(named),))
    with open_workspace(()) as space:
        env = child_environment(cli, environ, space, Credentials(), extra_environment or {})
        box = sandbox or Sandbox()
        version = await _ask([path, "--version"], space, env, box)
        if isinstance(version, str):
            outside = version if not box.program else await _ask([path, "--version"], space, env, Sandbox())
            what = f"{version}; reinstall it ({cli.install})" if isinstance(outside, str) else f"{_BOXED}: {version}"
            return ProgramReport(path, "", (f"{cli.title} ({path}) {what}",))
        help_ = await _ask([path, *cli.help], space, env, box)
    number = _version(version)
    if isinstance(help_, str):
        return ProgramReport(path, number, (f"{cli.title} ({path} {' '.join(cli.help)}) {help_}",))
    return ProgramReport(path, number, missing_flags(cli, help_.stdout.decode("utf-8", "replace"), path, number))


def missing_flags(cli: Cli, help_text: str, path: str, version: str) -> tuple[str, ...]:
    """What to say of a ``help_text`` that does not mention all that the program is called with."""
    words = set(re.findall(r"--[A-Za-z][\w-]*", help_text))
    missing = [flag for flag in cli.needs if flag not in words]
    if not missing:
        return ()
    which = f"{path}, version {version}" if version else path
    return (f"{cli.title} ({which}) does not know {', '.join(missing)}: update it ({cli.install})",)


async def _ask(argv: list[str], space: Workspace, env: Mapping[str, str], sandbox: Sandbox) -> Finished | str:
    """The answer, or what is wrong with it."""
    boxed = sandbox.wrap(argv, space, named_files(env), ())
    try:
        run = await run_process(boxed, stdin=b"", cwd=space.work, env=env, timeout=PATIENCE)
    except OSError as error:
        return f"cannot be started: {error.strerror or error}"
    if run.timed_out:
        return f"did not answer {argv[-1]} within {PATIENCE:g} s"
    if run.returncode != 0:
        said = run.stderr.decode("utf-8", "replace").strip()[-200:]
        return f"failed at {argv[-1]} with exit status {run.returncode}: {said}"
    return run


def _version(run: Finished) -> str:
    found = re.search(r"\d+(?:\.\d+)+\S*", run.stdout.decode("utf-8", "replace"))
    return found[0].rstrip(".,") if found else ""
