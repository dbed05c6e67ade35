"""``skillopt calls``: every call of a run, word for word, from its journal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.run.calls import stored_calls


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the stored calls of a run folder as JSON lines."""
    return guarded(lambda shell: _calls(shell, argv))


def _calls(shell: Shell, argv: Sequence[str] | None) -> int:
    about = "Prints each call of a run as a line of JSON: what was asked, what came back. It only reads."
    parser = make_parser("skillopt calls", about)
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("--stage", help="only calls of this stage: rollout, analyst, merge, ranking, slow_update …")
    parser.add_argument("--part", help="only calls that this part is charged with: baseline, step_0001, epoch_01, test")
    args = parser.parse_args(argv)
    for call in stored_calls(Path(args.run), args.stage, args.part):
        shell.say(json.dumps(call, ensure_ascii=False))
    return 0
