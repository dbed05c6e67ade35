"""Short commands whose output a page shows: the provider check and the dry run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MOST_BYTES = 200_000
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Output:
    """What a command returned and printed; ``status`` is None when it took too long."""

    status: int | None
    out: str
    err: str


async def run_command(
    program: Sequence[str], words: Sequence[str], cwd: Path, environ: Mapping[str, str], timeout: float = TIMEOUT_S
) -> Output:
    """Runs ``PROGRAM WORDS…`` to its end."""
    process = await asyncio.create_subprocess_exec(
        *program,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env=dict(environ),
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), timeout)
    except asyncio.TimeoutError:
        return Output(None, "", f"it took more than {timeout:g} seconds")
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return Output(process.returncode, _text(out), _text(err))


def checks_of(output: Output) -> Mapping[str, Any] | None:
    """The report of ``skillopt doctor --json``; None when it printed none. Pure."""
    try:
        report = json.loads(output.out)
    except ValueError:
        return None
    return report if isinstance(report, dict) and isinstance(report.get("checks"), list) else None


def _text(printed: bytes) -> str:
    return printed[:_MOST_BYTES].decode("utf-8", "replace")
