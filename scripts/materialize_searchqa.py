"""Fetch the SearchQA rows of an id manifest: ``--manifest-dir``, ``--output-dir``, ``--dataset``."""

from __future__ import annotations

import sys

from skillopt.data.materialize import main

if __name__ == "__main__":
    sys.exit(main())
