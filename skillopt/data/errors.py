"""The one error of everything that reads a dataset."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used. The message says which file and row, what is wrong, and what to do."""
