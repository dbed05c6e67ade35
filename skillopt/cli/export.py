"""``skillopt export``: the best skill of a run as a ``SKILL.md`` where a coding agent looks for it, and its check."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from skillopt.cli.edge import FAILED, REFUSED, Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.config import ConfigError
from skillopt.files import write_atomic
from skillopt.report.agent_skill import (
    FILE_NAME,
    NAME_RULE,
    AgentSkill,
    FrontmatterError,
    Problem,
    agent_skill,
    check_skill,
    choose_name,
    is_name,
    provenance_of,
    slug,
)
from skillopt.report.run import RunView, read_run
from skillopt.skill import Skill

# Where each tool looks, below a project and below the home folder, and the variable that moves the latter.
_PROJECT = {
    "claude": ".claude/skills",
    "codex": ".agents/skills",
    "cursor": ".cursor/skills",
    "copilot": ".github/skills",
}
_USER = {
    "claude": (".claude/skills", "CLAUDE_CONFIG_DIR"),
    "codex": (".agents/skills", "CODEX_HOME"),
    "cursor": (".cursor/skills", ""),
    "copilot": (".copilot/skills", ""),
}
_ABOUT = (
    "Installs the best skill of a run as SKILL.md where a coding agent looks for it, or checks such a file against "
    "the Agent Skills format. A file that says something else is replaced only with your consent."
)


@dataclass(frozen=True)
class Place:
    """Where a ``SKILL.md`` goes: ``path``, which must not lead out of ``base`` by a link."""

    base: Path
    path: Path


def main(argv: Sequence[str] | None = None) -> int:
    """Exports or checks a skill and returns the exit status."""
    return guarded(lambda shell: _export(shell, argv))


def _export(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = _parser()
    args = parser.parse_args(argv)
    if args.check is not None:
        if args.to:
            parser.error("--check writes nothing: leave --to out")
        target = args.check or args.run
        if not target:
            parser.error("--check needs a SKILL.md, the folder of a skill, or a run folder")
        return check(shell, args, Path(target))
    if not args.run or not args.to:
        parser.error("a run folder and --to are needed; or --check PATH")
    if (args.to == "file") != (args.out is not None):
        parser.error("--to file goes with --out PATH")
    if args.to == "file" and (args.user or args.project):
        parser.error("--user and --project make no sense with --to file")
    if args.user and args.project:
        parser.error("--user and --project exclude each other")
    return install(shell, args, read_run(Path(args.run)))


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("skillopt export", _ABOUT)
    parser.usage = "%(prog)s RUN --to {claude,codex,cursor,copilot,file} [options]\n       %(prog)s --check PATH|RUN"
    parser.add_argument("run", metavar="RUN", nargs="?", help="run folder")
    parser.add_argument("--to", choices=(*_PROJECT, "file"), help="the tool that is to find the skill; file: see --out")
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
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def install(shell: Shell, args: argparse.Namespace, run: RunView) -> int:
    """Writes the best skill of ``run`` where ``args`` say."""
    exported = exported_skill(args, run)
    place = place_of(args, exported.name, Path.home(), os.environ)
    confine(place)
    problems = check_skill(exported.text)
    errors = [problem.message for problem in problems if problem.level == "error"]
    if errors:
        raise ConfigError(f"the skill of {run.root} cannot be exported:\n" + "\n".join(f"  {text}" for text in errors))
    content = exported.text.encode("utf-8")
    present = _present(place.path)
    diff = difference(present, content, str(place.path))
    told = {
        "to": args.to,
        "path": str(place.path),
        "name": exported.name,
        "description": exported.description,
        "notes": [
            *exported.notes,
            *(problem.message for problem in problems),
            *place_notes(place, exported),
            *run_notes(run),
        ],
        "diff": diff,
    }
    if present is None or args.yes or present == content or _consent(shell, args, diff, place.path):
        if present != content:
            write_atomic(place.path, content)
        done = "written" if present is None else "unchanged" if present == content else "replaced"
        _tell(shell, args, {**told, "result": done})
        return 0
    asked = _can_ask(args)
    _tell(shell, args, {**told, "result": "declined" if asked else "refused"})
    if asked:
        return FAILED
    shell.complain(f"error: {place.path} is there and says something else; nothing was written. --yes replaces it")
    return REFUSED


def exported_skill(args: argparse.Namespace, run: RunView) -> AgentSkill:
    """The best skill of a run in its new form. Raises ``ConfigError``."""
    text = run.best
    if text is None:
        raise ConfigError(f"{run.root} holds no skill: neither best_skill.md nor skills/skill_v0000.md")
    if args.name is not None and not is_name(args.name):
        nearest = slug(args.name)
        hint = f"; {nearest} would do" if nearest else ""
        raise ConfigError(f"--name {args.name}: a name takes {NAME_RULE}{hint}")
    skill = Skill(text)
    task = str(run.config.get("env") or "")
    name = args.name or choose_name(skill, _folder_named(args), task, run.name)
    provenance = ""
    if args.provenance:
        provenance = provenance_of(run.name, run.config, run.summary, run.pointers, _date(run))
    try:
        return agent_skill(skill, name, description=args.description, task=task, provenance=provenance)
    except FrontmatterError as error:
        raise ConfigError(f"the skill of {run.root}: {error}") from None


def place_of(args: argparse.Namespace, name: str, home: Path, environ: Mapping[str, str]) -> Place:
    """Where the skill goes."""
    if args.to == "file":
        out = Path(os.path.abspath(os.path.expanduser(args.out)))
        path = out if out.suffix.lower() == ".md" else out / FILE_NAME
        return Place(path.parent, path)
    if args.user:
        below, variable = _USER[args.to]
        moved = environ.get(variable, "") if variable else ""
        base = Path(os.path.abspath(os.path.expanduser(moved))) if moved else home
        return Place(base, base / ("skills" if moved else below) / name / FILE_NAME)
    base = Path(os.path.abspath(os.path.expanduser(args.project or ".")))
    if not base.is_dir():
        raise ConfigError(f"--project {args.project}: there is no such folder")
    return Place(base, base / _PROJECT[args.to] / name / FILE_NAME)


def confine(place: Place) -> None:
    """Refuses a place that a link leads away from. Raises ``ConfigError``."""
    real, base = os.path.realpath(place.path.parent), os.path.realpath(place.base)
    if real != base and not real.startswith(base.rstrip(os.sep) + os.sep):
        raise ConfigError(f"{place.path.parent} leads to {real}, which is outside of {place.base}: nothing was written")
    if place.path.is_symlink():
        raise ConfigError(f"{place.path} is a link; remove it first: nothing is written through links")
    if place.path.exists() and not place.path.is_file():
        raise ConfigError(f"{place.path} is there and is no file")


def difference(present: bytes | None, content: bytes, name: str) -> str:
    """A unified diff from what is there to what would be; '' when nothing is there or nothing differs."""
    if present is None or present == content:
        return ""
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (present, content))
    lines = list(difflib.unified_diff(old, new, f"{name} (there)", f"{name} (new)", lineterm=""))
    return "\n".join(lines) or "(they differ in line ends only)"


def place_notes(place: Place, exported: AgentSkill) -> list[str]:
    """What keeps a tool from finding the skill in a place of the user's choice."""
    if place.path.name != FILE_NAME:
        return [f"tools look for files called {FILE_NAME}"]
    folder = place.path.parent.name
    if folder != exported.name:
        return [f"the folder is called {folder!r} and the skill {exported.name!r}: tools want the same name"]
    return []


def run_notes(run: RunView) -> list[str]:
    """What to know about a run before its skill is used."""
    notes = []
    if run.status != "finished":
        notes.append(f"the run is {run.status}: its best skill may change")
    if run.pointers.get("best_origin") == "initial_skill":
        notes.append("the best skill is the one that training began with: nothing beat it")
    return notes


def check(shell: Shell, args: argparse.Namespace, path: Path) -> int:
    """Says each problem of a skill; 1 when one is an error."""
    if path.is_dir() and not (path / FILE_NAME).is_file():
        try:
            run = read_run(path)
        except ValueError:
            raise ConfigError(f"{path} holds no {FILE_NAME} and is no run folder") from None
        exported = exported_skill(args, run)
        problems = check_skill(exported.text, exported.name)
    else:
        problems = check_file(path / FILE_NAME if path.is_dir() else path)
    failed = any(problem.level == "error" for problem in problems)
    if args.json:
        found = [{"level": problem.level, "message": problem.message} for problem in problems]
        shell.say(json.dumps({"path": str(path), "valid": not failed, "problems": found}, ensure_ascii=False, indent=2))
        return FAILED if failed else 0
    for problem in problems:
        shell.say(visible(f"{problem.level}: {problem.message}"))
    shell.say(f"{path}: {'not valid' if failed else 'valid'}")
    return FAILED if failed else 0


def check_file(path: Path) -> tuple[Problem, ...]:
    """The problems of a file. Raises ``ConfigError`` when there is none."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return (Problem("error", "it is not UTF-8 text"),)
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    named = () if path.name == FILE_NAME else (Problem("error", f"the file must be called {FILE_NAME}"),)
    return (*named, *check_skill(text, path.absolute().parent.name))


def visible(line: str) -> str:
    """``line`` for a terminal: what a skill holds must not move the cursor or hide a part of the difference."""
    return "".join(letter if letter.isprintable() or letter == "\t" else ascii(letter)[1:-1] for letter in line)


def _folder_named(args: argparse.Namespace) -> str:
    """The name that a path of the user's own gives."""
    if args.out is None:
        return ""
    out = Path(os.path.abspath(os.path.expanduser(args.out)))
    if out.suffix.lower() != ".md":
        return out.name
    return out.parent.name if out.name == FILE_NAME else out.stem


def _present(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _date(run: RunView) -> str:
    """The day on which the run did something last, in UTC; '' when nobody knows."""
    events = run.events(1)
    at = events[-1].get("at") if events else None
    if not isinstance(at, (int, float)):
        try:
            at = (run.root / "best_skill.md").stat().st_mtime
        except OSError:
            return ""
    try:
        return datetime.fromtimestamp(at, timezone.utc).date().isoformat()
    except (OverflowError, OSError, ValueError):
        return ""


def _can_ask(args: argparse.Namespace) -> bool:
    return not args.json and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _consent(shell: Shell, args: argparse.Namespace, diff: str, path: Path) -> bool:
    """Shows the difference; whether a person at a terminal agrees."""
    if args.json:
        return False
    for line in diff.splitlines():
        shell.say(visible(line))
    if not _can_ask(args):
        return False
    shell.say(f"Replace {path}? [y/N]")
    try:
        return input().strip().casefold() in ("y", "yes")
    except EOFError:
        return False


def _tell(shell: Shell, args: argparse.Namespace, told: Mapping[str, Any]) -> None:
    if args.json:
        shell.say(json.dumps(told, ensure_ascii=False, indent=2))
        return
    for note in told["notes"]:
        shell.say(visible(f"note: {note}"))
    if told["result"] in ("written", "replaced"):
        shell.say(f"{told['result']}: {told['path']}")
    elif told["result"] == "unchanged":
        shell.say(f"already there: {told['path']}")
    else:
        shell.say("nothing was written")
