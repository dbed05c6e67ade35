"""``skillopt calls``: the calls of a run, from its journal: a list, word for word, or those of one item."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.cli.tables import add_json, clean, json_text, shorten
from skillopt.report.conversation import conversation_of, role_and_words
from skillopt.report.run import RunView, read_run
from skillopt.run.calls import stored_call, stored_calls
from skillopt.run.folder import FolderError
from skillopt.values import fraction, text

Call = Mapping[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the stored calls of a run folder."""
    return guarded(lambda shell: _calls(shell, argv))


def _calls(shell: Shell, argv: Sequence[str] | None) -> int:
    args = _parser().parse_args(argv)
    for call in _chosen(args):
        if args.json:
            shell.say(json_text(call, indent=None))
            continue
        shell.say(call_line(call))
        for line in spoken(call) if args.full or args.item is not None else ():
            shell.say(line)
    return 0


def _parser() -> ArgumentParser:
    about = (
        "Prints a line for each call of a run, in the order of time; with --full what was asked and what came back, "
        "word for word. It only reads."
    )
    parser = make_parser("skillopt calls", about)
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("--stage", help="only calls of this stage: rollout, analyst, merge, ranking, slow_update …")
    parser.add_argument("--part", help="only calls that this part is charged with: baseline, step_0001, epoch_01, test")
    parser.add_argument("--item", metavar="ID", help="only the conversations with this item, word for word")
    parser.add_argument(
        "--pass", dest="name", metavar="PASS", help="only calls of this pass: steps/step_0001/rollout, test_eval …"
    )
    parser.add_argument("--full", action="store_true", help="print the words of each call")
    add_json(parser)
    return parser


def _chosen(args: Namespace) -> Iterable[Call]:
    root = Path(args.run)
    if args.name is None and args.item is None:
        return stored_calls(root, args.stage, args.part)
    view = read_run(root)
    found = calls_of_item(view, args.item) if args.name is None else calls_of_pass(view, args.name, args.item)
    wanted = {"stage": args.stage, "part": args.part}
    return (call for call in found if all(value in (None, call[key]) for key, value in wanted.items()))


def calls_of_item(view: RunView, item: str) -> list[Call]:
    """The calls about an item in any pass, in the order of time; also one that was first made for another item with
    the same prompt. Raises ``FolderError`` when there is none."""
    calls: dict[str, Call] = {call["key"]: call for call in stored_calls(view.root, item=item)}
    rows = (view.result(name, item) or {} for name in view.passes)
    for key in dict.fromkeys(text(row.get("call_key")) for row in rows):
        call = stored_call(view.root, key) if key and key not in calls else None
        if call:
            calls[key] = {**call, "item": item}
    if not calls:
        raise FolderError(f"{view.root} has no call about an item {item!r}")
    return sorted(calls.values(), key=lambda call: fraction(call["at"]) or 0.0)


def calls_of_pass(view: RunView, name: str, item: str | None = None) -> Iterator[Call]:
    """The calls that the rows of a pass come from, or that of one ``item``. Raises ``FolderError`` when there is no
    such pass, and where an item has no call in it."""
    if name not in view.passes:
        raise FolderError(f"{view.root} has no pass {name!r}; it has {', '.join(view.passes) or 'none yet'}")
    one = None if item is None else view.result(name, item)
    if item is not None and one is None:
        raise FolderError(f"the pass {name} has no item {item!r}")
    for row in view.results(name, 0, None).rows if one is None else (one,):
        key = text(row.get("call_key"))
        call = stored_call(view.root, key) if key else None
        if call:
            yield {**call, "item": text(row.get("id"))}
        elif item is not None:
            raise FolderError(f"item {item!r} has no call in {name}: {_why(row)}")


def _why(row: Mapping[str, Any]) -> str:
    if fraction(row.get("hard")) is None:
        return f"no reply came ({text(row.get('fail_reason')) or 'not measured'})"
    return "the run does not say which it was; --stage rollout --full tells all calls of the target"


def call_line(call: Call) -> str:
    """A call on one line. Pure."""
    stage, part = shorten(text(call["stage"]), 20), shorten(text(call["part"]) or "in progress", 20)
    tokens = f"{call['prompt_tokens']:,} + {call['completion_tokens']:,} tokens"
    return f"{stage:<12}  {part:<12}  {tokens:>20}  {shorten(text(call['item']), 80)}".rstrip()


def spoken(call: Call) -> Iterator[str]:
    """The words of a call, line by line. Pure."""
    if call.get("problem"):
        yield f"cannot be read: {shorten(text(call['problem']), 200)}"
    for message in conversation_of(call):
        role, words = role_and_words(message)
        yield f"--- {shorten(role, 80)}"
        yield from clean(words).splitlines()
    yield ""
