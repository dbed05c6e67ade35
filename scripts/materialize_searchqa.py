"""Fetch the SearchQA rows of an id manifest: ``--manifest-dir``, ``--output-dir``, ``--dataset``."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

if (found := find_spec("skillopt")) is None or found.origin is None:  # not installed, or a folder of that name
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from skillopt.data.materialize import main

if __name__ == "__main__":
    sys.exit(main())
