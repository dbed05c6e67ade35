"""The process that holds a model: ``python -m skillopt.local.child JSON``, started by ``skillopt.local.server``.

It prints one line of JSON, ``{"address": URL}``, once the model is loaded, and serves until its standard input ends.
It never outlives its parent: a killed parent closes that input, and on Linux the kernel ends the child as well.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_PR_SET_PDEATHSIG = 1
# Saved prompts of slots that had to take another one. The default of the engine is 8 GiB: too much for a laptop.
_SAVED_PROMPTS_MIB = 1024
_ERRORS_ONLY = 1


@dataclass(frozen=True)
class ChildSpec:
    """What to serve. ``context`` is in tokens for each of the ``slots``; ``parent`` is the process to live with."""

    path: str
    slots: int
    context: int
    threads: int
    parent: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ChildSpec:
        fields: Mapping[str, Any] = json.loads(text)
        return cls(**fields)


def main() -> int:
    """Serves the model of the first argument until the parent is done with it."""
    spec = ChildSpec.from_json(sys.argv[1])
    live_with(spec.parent)
    announce = _own_stdout()
    try:
        server = serve(spec)
    except (ImportError, RuntimeError) as error:  # the engine has printed why; the parent shows it
        print(f"the model cannot be loaded: {error}", file=sys.stderr)
        return 1
    with announce:
        announce.write(json.dumps({"address": server.listening_address}) + "\n")
    threading.Event().wait()
    return 0


def live_with(parent: int) -> None:
    """Ends this process when the parent ends, even by SIGKILL; Ctrl-C is the parent's business alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if hasattr(os, "getppid") and os.name != "nt" and os.getppid() != parent:  # it died before the call above
        os._exit(1)
    threading.Thread(target=_leave_at_eof, name="parent-watch", daemon=True).start()


def serve(spec: ChildSpec) -> Any:
    """Loads the model and starts llama.cpp's server on a free port of 127.0.0.1; returns when it answers."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = spec.path
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.ui = False
    params.verbosity = _ERRORS_ONLY
    params.n_parallel = spec.slots
    # Each slot has a context of its own: a long conversation in one never pushes out another.
    params.n_ctx = spec.context * spec.slots
    params.kv_unified = False
    params.cont_batching = True
    params.cpuparams.n_threads = spec.threads
    params.cpuparams_batch.n_threads = spec.threads
    # A request goes to the slot that shares most of its prompt, which computes only the rest.
    params.cache_prompt = True
    params.slot_prompt_similarity = 0.95  # else parallel requests wait for each other's slots
    params.cache_ram_mib = _SAVED_PROMPTS_MIB
    return xllamacpp.Server(params)


def _own_stdout() -> Any:
    """The standard output for one line of ours; whatever else prints there ends up on the standard error."""
    ours = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(ours, "w", encoding="utf-8")


def _leave_at_eof() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)  # no farewell: nothing of a server's state is worth waiting for


if __name__ == "__main__":
    sys.exit(main())
