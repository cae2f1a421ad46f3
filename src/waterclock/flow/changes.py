"""Names and types of the metadata of a row's change, as collected from a database log (COLLECT BY CHANGES)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CHANGE = "_change"
TYPES: Mapping[str, str] = MappingProxyType({"op": "STRING", "lsn": "BIGINT", "at": "TIMESTAMP", "xid": "BIGINT"})
"""The metadata of a change: its operation, the log position of its commit, its time and its transaction."""

OP, LSN, AT, XID = (f"_waterclock_change_{name}" for name in TYPES)
SEQ = "_waterclock_change_seq"
MISSING = "_waterclock_change_missing"
"""Internal columns: the order of changes within a transaction, and the columns that a change does not contain."""
IN_ROWS: Mapping[str, str] = MappingProxyType(dict(zip(TYPES, (OP, LSN, AT, XID), strict=True)))

OP_COLUMN = "_change_op"
"""The column with the operation of a change, if a collect declares none. It identifies deletes."""
LOG_LIMIT = "log_limit"
"""The option of a collect with the size in GB above which the log that its source retains for it causes a warning."""
DELETES = ("delete", "truncate")


def format_change_mark(what: str) -> str:
    """Return the name of a change's metadata field in a column list, such as `_change.op` for `op`."""
    return f"{CHANGE}.{what}"
