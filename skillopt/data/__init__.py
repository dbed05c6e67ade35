"""Datasets: readers, the three splits, and the materialiser that turns id manifests into rows."""

from skillopt.data.errors import DataError
from skillopt.data.items import Schema
from skillopt.data.names import resolve_split, safe_name
from skillopt.data.readers import Row, read_rows
from skillopt.data.splits import Splits, SplitSettings, load_splits

__all__ = [
    "DataError",
    "Row",
    "Schema",
    "SplitSettings",
    "Splits",
    "load_splits",
    "read_rows",
    "resolve_split",
    "safe_name",
]
