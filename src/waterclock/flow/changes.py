"""The metadata columns for each change of a source's rows (BY CHANGES), and their names. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CHANGE = "_change"
TYPES: Mapping[str, str] = MappingProxyType({"op": "STRING", "lsn": "BIGINT", "at": "TIMESTAMP", "xid": "BIGINT"})
"""The metadata of a change: its operation, the log position of its commit, its time and its transaction."""

OP, LSN, AT, XID = (f"_waterclock_change_{name}" for name in TYPES)
SEQ = "_waterclock_change_seq"
MISSING = "_waterclock_change_missing"
"""Internal columns of changed rows: the order within a transaction, and columns that the change does not contain."""
IN_ROWS: Mapping[str, str] = MappingProxyType(dict(zip(TYPES, (OP, LSN, AT, XID), strict=True)))

OP_COLUMN = "_change_op"
"""The column with the operation of a change, if a collect names none. It identifies deletes."""
LOG_LIMIT = "log_limit"
"""The option of a collect for the amount of log, in GB, that a source may keep for it before a warning."""
DELETES = ("delete", "truncate")


def format_change_mark(what: str) -> str:
    """Return the mark of a column that contains metadata of a change."""
    return f"{CHANGE}.{what}"
