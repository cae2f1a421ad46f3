"""Names and types of the metadata of changes that are collected from a database log (COLLECT BY CHANGES)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CHANGE = "_change"
TYPES: Mapping[str, str] = MappingProxyType({"op": "STRING", "lsn": "BIGINT", "at": "TIMESTAMP", "xid": "BIGINT"})
"""The metadata fields of a change: operation, log position of its commit, time of its commit, and transaction."""

OP, LSN, AT, XID = (f"_waterclock_change_{name}" for name in TYPES)
SEQ = "_waterclock_change_seq"
MISSING = "_waterclock_change_missing"
"""Internal columns: the sequence of changes within a transaction, and the columns that a change does not contain."""
IN_ROWS: Mapping[str, str] = MappingProxyType(dict(zip(TYPES, (OP, LSN, AT, XID), strict=True)))

OP_COLUMN = "_change_op"
"""The column that is added for the operation of a change if a collect declares none. It identifies deletes."""
LOG_LIMIT = "log_limit"
"""The option of a collect with the size, in GB, of the log that its source retains, above which a warning is shown."""
DELETES = ("delete", "truncate")


def format_change_mark(what: str) -> str:
    """Return the name of a change's metadata field in a column list, such as `_change.op` for `op`."""
    return f"{CHANGE}.{what}"
