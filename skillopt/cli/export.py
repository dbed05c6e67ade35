"""``skillopt export``: the best skill of a run as a ``SKILL.md`` where a coding agent looks for it, and its check."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from skillopt.cli.edge import FAILED, REFUSED, Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.cli.skill_places import TOOLS, Place, Target, absolute, confine, place_notes, place_of
from skillopt.cli.tables import add_json, json_text
from skillopt.config import ConfigError
from skillopt.files import write_atomic
from skillopt.report.provenance import provenance_of
from skillopt.report.run import RunView, read_run
from skillopt.run.folder import FolderError
from skillopt.skill import Skill
from skillopt.skill.agent_format import FILE_NAME, NAME_RULE, FrontmatterError, Problem, check_skill, is_name, slug
from skillopt.skill.agent_skill import AgentSkill, agent_skill, choose_name

_ABOUT = (
    "Installs the best skill of a run as SKILL.md where a coding agent looks for it, or checks such a file against "
    "the Agent Skills format. A file that says something else is replaced only with your consent."
)

Plan = Literal["write", "leave", "replace", "ask"]
Result = Literal["written", "unchanged", "replaced", "declined", "refused"]
_STATUS: Mapping[Result, int] = {"written": 0, "unchanged": 0, "replaced": 0, "declined": FAILED, "refused": REFUSED}


@dataclass(frozen=True, slots=True)
class Wording:
    """What a skill is to say beside its text; None and '' leave it to the skill and its run."""

    name: str | None = None
    description: str = ""
    provenance: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What a command line asks for: the skill of the run ``path`` for ``target``; without one, the check of ``path`` (a
    ``SKILL.md``, its folder, or a run)."""

    path: Path
    target: Target | None
    wording: Wording
    yes: bool
    json: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Exports or checks a skill and returns the exit status."""
    return guarded(lambda shell: _export(shell, request_of(argv)))


def _export(shell: Shell, request: Request) -> int:
    if request.target is None:
        return check(shell, request.path, request.wording, as_json=request.json)
    return install(shell, request, request.target)


# what is asked for


def request_of(argv: Sequence[str] | None) -> Request:
    """The request of a command line; ``SystemExit`` for one that makes no sense."""
    parser = _parser()
    args = parser.parse_args(argv)
    wording = Wording(args.name, args.description, args.provenance)
    if args.check is None:
        return Request(Path(args.run or ""), _target(parser, args), wording, args.yes, args.json)
    if args.to or args.out is not None:
        parser.error("--check writes nothing: leave --to and --out out")
    if args.check and args.run:
        parser.error(f"--check takes one path, got {args.run} and {args.check}")
    if not (args.check or args.run):
        parser.error("--check needs a SKILL.md, the folder of a skill, or a run folder")
    return Request(Path(args.check or args.run), None, wording, args.yes, args.json)


def _target(parser: argparse.ArgumentParser, args: argparse.Namespace) -> Target:
    if not args.run or not args.to:
        parser.error("a run folder and --to are needed; or --check PATH")
    if (args.to == "file") != (args.out is not None) or args.out == "":
        parser.error("--to file goes with --out PATH")
    if args.to == "file":
        if args.user or args.project:
            parser.error("--user and --project make no sense with --to file")
        return Target("file", out=absolute(args.out))
    if args.user:
        if args.project:
            parser.error("--user and --project exclude each other")
        return Target(args.to)
    return Target(args.to, project=absolute(args.project or "."))


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("skillopt export", _ABOUT)
    parser.usage = "%(prog)s RUN --to {claude,codex,cursor,copilot,file} [options]\n       %(prog)s --check PATH|RUN"
    parser.add_argument("run", metavar="RUN", nargs="?", help="run folder")
    parser.add_argument("--to", choices=(*TOOLS, "file"), help="the tool that is to find the skill; file: see --out")
    parser.add_argument("--user", action="store_true", help="for all your projects, not only for this one")
    parser.add_argument("--project", metavar="DIR", help="folder of the project (default: the current folder)")
    parser.add_argument("--out", metavar="PATH", help="with --to file: a .md file, or the folder that gets SKILL.md")
    parser.add_argument("--name", metavar="NAME", help="name of the skill and of its folder")
    parser.add_argument("--description", metavar="TEXT", default="", help="what the skill does and when to use it")
    parser.add_argument("--provenance", action="store_true", help="add a comment: run, step, scores, date")
    parser.add_argument("--yes", action="store_true", help="replace a file that differs without asking")
    parser.add_argument(
        "--check",
        metavar="PATH|RUN",
        nargs="?",
        const="",
        help="write nothing: check a SKILL.md, the folder of a skill, or what would be made of a run",
    )
    add_json(parser)
    return parser


# what follows from it


def plan(present: bytes | None, content: bytes, yes: bool) -> Plan:
    """What to do about a file that holds ``present`` (None: there is none) and is to hold ``content``; ``yes``:
    whatever it holds may go."""
    if present is None:
        return "write"
    if present == content:
        return "leave"
    return "replace" if yes else "ask"


def difference(present: bytes | None, content: bytes, name: str) -> str:
    """A unified diff from what is there to what would be; '' when nothing is there or nothing differs."""
    if present is None or present == content:
        return ""
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (present, content))
    lines = list(difflib.unified_diff(old, new, f"{name} (there)", f"{name} (new)", lineterm=""))
    return "\n".join(lines) or "(they differ in line ends only)"


def made_of(run: RunView, wording: Wording, named: str = "") -> AgentSkill:
    """The best skill of a run in its new form; ``named`` is a name for one that has none. Raises ``ConfigError``."""
    text = run.best
    if text is None:
        raise ConfigError(f"{run.root} holds no skill: neither best_skill.md nor skills/skill_v0000.md")
    if wording.name is not None and not is_name(wording.name):
        nearest = slug(wording.name)
        hint = f"; {nearest} would do" if nearest else ""
        raise ConfigError(f"--name {wording.name}: a name takes {NAME_RULE}{hint}")
    skill = Skill(text)
    task = str(run.config.get("env") or "")
    name = wording.name or choose_name(skill, named, task, run.name)
    provenance = provenance_of(run) if wording.provenance else ""
    try:
        return agent_skill(skill, name, description=wording.description, task=task, provenance=provenance)
    except FrontmatterError as error:
        raise ConfigError(f"the skill of {run.root}: {error}") from None


def run_notes(run: RunView) -> list[str]:
    """What to know about a run before its skill is used."""
    notes = []
    if run.status != "finished":
        notes.append(f"the run is {run.status}: its best skill may change")
    if run.pointers.get("best_origin") == "initial_skill":
        notes.append("the best skill is the one that training began with: nothing beat it")
    return notes


# what is done


def install(shell: Shell, request: Request, target: Target) -> int:
    """Writes the best skill of a run where ``target`` says; the exit status."""
    run = read_run(request.path)
    made = made_of(run, request.wording, target.named)
    problems = check_skill(made.text)
    errors = [f"  {problem.message}" for problem in problems if problem.level == "error"]
    if errors:
        raise ConfigError("\n".join([f"the skill of {run.root} cannot be exported:", *errors]))
    place = _place(target, made.name)
    present, content = _present(place.path), made.text.encode("utf-8")
    diff = difference(present, content, str(place.path))
    todo = plan(present, content, request.yes)
    result = _asked(shell, diff, place.path, as_json=request.json) if todo == "ask" else _DONE[todo]
    if result in ("written", "replaced"):
        _write(place, present, content)
    advice = [problem.message for problem in problems]
    told = {
        "to": target.tool,
        "path": str(place.path),
        "name": made.name,
        "description": made.description,
        "notes": [*made.notes, *advice, *place_notes(place, made.name), *run_notes(run)],
        "diff": diff,
        "result": result,
    }
    for line in [json_text(told)] if request.json else _lines(told):
        shell.say(line)
    if result == "refused":
        shell.complain(f"error: {place.path} is there and says something else; nothing was written. --yes replaces it")
    return _STATUS[result]


_DONE: Mapping[Plan, Result] = {"write": "written", "leave": "unchanged", "replace": "replaced"}


def check(shell: Shell, path: Path, wording: Wording, *, as_json: bool) -> int:
    """Says each problem of a skill; 1 when one is an error."""
    problems = _problems(path, wording)
    failed = any(problem.level == "error" for problem in problems)
    if as_json:
        shell.say(json_text({"path": str(path), "valid": not failed, "problems": problems}))
        return FAILED if failed else 0
    for problem in problems:
        shell.say(visible(f"{problem.level}: {problem.message}"))
    shell.say(f"{path}: {'not valid' if failed else 'valid'}")
    return FAILED if failed else 0


def _problems(path: Path, wording: Wording) -> tuple[Problem, ...]:
    if not path.is_dir():
        return check_file(path)
    if (path / FILE_NAME).is_file():
        return check_file(path / FILE_NAME)
    try:
        run = read_run(path)
    except FolderError:
        raise ConfigError(f"{path} holds no {FILE_NAME} and is no run folder") from None
    made = made_of(run, wording)
    return check_skill(made.text, made.name)


def check_file(path: Path) -> tuple[Problem, ...]:
    """The problems of a file. Raises ``ConfigError`` when there is none."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return (Problem("error", "it is not UTF-8 text"),)
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    named = () if path.name == FILE_NAME else (Problem("error", f"the file must be called {FILE_NAME}"),)
    return (*named, *check_skill(text, absolute(str(path)).parent.name))


def visible(line: str) -> str:
    """``line`` for a terminal: what a skill holds must not move the cursor or hide a part of the difference."""
    return "".join(letter if letter.isprintable() or letter == "\t" else ascii(letter)[1:-1] for letter in line)


def _place(target: Target, name: str) -> Place:
    if target.project is not None and not target.project.is_dir():
        raise ConfigError(f"--project {target.project}: there is no such folder")
    place = place_of(target, name, Path.home(), os.environ)
    confine(place)
    return place


def _present(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _asked(shell: Shell, diff: str, path: Path, *, as_json: bool) -> Result:
    """Shows the difference and asks whoever sits at a terminal."""
    if as_json:
        return "refused"
    for line in diff.splitlines():
        shell.say(visible(line))
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "refused"
    shell.say(f"Replace {path}? [y/N]")
    try:
        return "replaced" if input().strip().casefold() in ("y", "yes") else "declined"
    except EOFError:
        return "declined"


def _write(place: Place, seen: bytes | None, content: bytes) -> None:
    """Writes ``content``, unless what was ``seen`` has changed: consent was to the loss of that alone."""
    confine(place)
    if _present(place.path) != seen:
        raise ConfigError(f"{place.path} was changed in the meantime: nothing was written")
    write_atomic(place.path, content)


def _lines(told: Mapping[str, Any]) -> list[str]:
    notes = [visible(f"note: {note}") for note in told["notes"]]
    if told["result"] in ("declined", "refused"):
        return [*notes, "nothing was written"]
    return [*notes, f"{'already there' if told['result'] == 'unchanged' else told['result']}: {told['path']}"]
