"""Text in and out: UTF-8 whatever the locale, a BOM tolerated on read, whole files or none on write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from skillopt.data.errors import DataError
from skillopt.files import write_changed


def read_text(path: Path) -> str:
    """The text of a UTF-8 file without its BOM, line ends untouched. Raises ``DataError`` naming the file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def json_text(value: Any) -> str:
    """``value`` as a readable JSON document that ends with a newline: equal values give equal text."""
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def write_if_changed(path: Path, text: str) -> bool:
    """Put ``text`` into ``path`` as a whole; leave a file that holds it already untouched. True: it was written."""
    try:
        return write_changed(path, text.encode("utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
