"""``python -m skillopt_webui.app``: the dashboard, as ``skillopt ui`` starts it."""

from __future__ import annotations

import sys

from skillopt.cli.ui import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
