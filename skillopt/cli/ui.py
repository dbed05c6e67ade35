"""``skillopt ui``: the dashboard in the browser."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from skillopt.cli.edge import REFUSED, Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.extras import install_hint

_NEEDED = ("starlette", "uvicorn", "jinja2")
_ABOUT = (
    "Shows the runs below the roots in the browser, live, and starts, stops and resumes runs by the same command line "
    "that you would type. It runs until Ctrl-C; trainings that it started go on."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the dashboard and returns the exit status."""
    return guarded(lambda shell: _ui(shell, argv))


def _ui(shell: Shell, argv: Sequence[str] | None) -> int:
    args = _parser().parse_args(argv)
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        shell.complain(f"error: the dashboard needs {', '.join(missing)}: {install_hint('webui')}")
        return REFUSED
    from skillopt.web.app import listen, serve
    from skillopt.web.settings import SettingsError, make_settings

    token = args.token or os.environ.get("SKILLOPT_UI_TOKEN", "")
    try:
        wanted = make_settings(
            args.root, host=args.host, port=args.port, token=token, folder=Path.cwd(), environ=os.environ
        )
        settings, taken = listen(wanted)
    except SettingsError as error:
        shell.complain(f"error: {error}")
        return REFUSED
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    roots = ", ".join(map(str, settings.roots))
    shell.say(f"SkillOpt dashboard: http://{host}:{settings.port}/" + ("?token=YOUR_TOKEN" if settings.token else ""))
    shell.say(f"runs below: {roots}")
    serve(settings, taken)
    shell.say("the dashboard has ended; what it started goes on")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("skillopt ui", _ABOUT)
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; any but this machine's needs --token"
    )
    parser.add_argument("--port", type=int, default=7860, help="port to listen on (default: 7860)")
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="DIR",
        help="folder with runs; may be given again (default: outputs)",
    )
    parser.add_argument(
        "--token", default="", help="secret of 16 characters or more that visitors need; or SKILLOPT_UI_TOKEN"
    )
    return parser
