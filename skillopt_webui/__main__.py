"""``python -m skillopt_webui``: the dashboard."""

from __future__ import annotations

import sys

from skillopt_webui.app import main

if __name__ == "__main__":
    sys.exit(main())
