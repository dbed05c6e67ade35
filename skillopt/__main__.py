"""``python -m skillopt``: the command line where the ``skillopt`` command is not on the path."""

from __future__ import annotations

import sys

from skillopt.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
