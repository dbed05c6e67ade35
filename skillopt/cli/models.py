"""``skillopt models``: the models that run on this machine, fetched, listed and removed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.config import read_environment
from skillopt.local.catalog import CATALOG, DEFAULT, find
from skillopt.local.sources import sources_of
from skillopt.local.weights import Milestones, Shelf, Watch, pull, remove, shelf_of, size_text, take_file


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``pull``, ``list`` or ``rm`` and returns the exit status."""
    return guarded(lambda shell: _models(shell, argv))


def _models(shell: Shell, argv: Sequence[str] | None) -> int:
    args = _parser().parse_args(argv)
    environ = read_environment(Path.cwd(), os.environ)
    shell.know(environ)
    status: int = args.run(shell, args, environ)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("skillopt models", "Models that run on this machine.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    names = ", ".join(row.name for row in CATALOG)
    puller = commands.add_parser("pull", help="fetch a model", description="Fetches a model into the user's cache.")
    puller.add_argument("name", metavar="NAME", nargs="?", default=DEFAULT, help=f"one of {names} (default {DEFAULT})")
    puller.add_argument(
        "--from", dest="given", metavar="FILE", type=Path, help="a copy of the file that is here already"
    )
    puller.set_defaults(run=_pull)
    lister = commands.add_parser("list", help="show the models", description="Shows the models that can be fetched.")
    lister.add_argument("--json", action="store_true", help="print them as JSON")
    lister.set_defaults(run=_list)
    remover = commands.add_parser("rm", help="remove a model", description="Removes a model from the user's cache.")
    remover.add_argument("name", metavar="NAME", help=f"one of {names}")
    remover.set_defaults(run=_remove)
    return parser


def _pull(shell: Shell, args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    shelf = shelf_of(find(args.name), environ)
    if shelf.present():
        shell.say(f"{shelf.row.name} is here already: {shelf.path}")
        return 0
    shell.say(f"{shelf.row.title}: {size_text(shelf.row.size)}, {shelf.row.licence}")
    with _progress(shell) as watch:
        if args.given is not None:
            path = take_file(shelf, args.given, shell.say, watch)
        else:
            path = pull(shelf, sources_of(shelf.row, environ), shell.say, watch)
    shell.say(f"checksum verified: {path}")
    return 0


def _list(shell: Shell, args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    shelves = [shelf_of(row, environ) for row in CATALOG]
    if args.json:
        shell.say(json.dumps([_facts(shelf) for shelf in shelves], ensure_ascii=False, indent=2))
        return 0
    for shelf in shelves:
        row = shelf.row
        held = shelf.bytes_held()
        unfinished = f"not here ({size_text(held)} fetched)" if held else "not here"
        state = f"here: {shelf.path}" if shelf.present() else unfinished
        shell.say(f"{row.name:<20} {size_text(row.size):>9}  {row.licence:<11} {row.title}")
        shell.say(f"  {state}")
    return 0


def _remove(shell: Shell, args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    shelf = shelf_of(find(args.name), environ)
    freed = remove(shelf)
    shell.say(f"{shelf.row.name}: {size_text(freed)} freed" if freed else f"{shelf.row.name} is not here")
    return 0


def _facts(shelf: Shelf) -> dict[str, object]:
    row, present = shelf.row, shelf.present()
    return {
        "name": row.name,
        "title": row.title,
        "bytes": row.size,
        "sha256": row.sha256,
        "licence": row.licence,
        "present": present,
        "path": str(shelf.path),
        "bytes_on_disk": shelf.bytes_held(),
    }


@contextmanager
def _progress(shell: Shell) -> Iterator[Watch]:
    """A bar on a terminal, lines otherwise."""
    if not sys.stdout.isatty():
        yield Milestones(shell.say)
        return
    columns = (TextColumn("  "), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console()) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
