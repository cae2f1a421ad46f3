"""What is told of each change of a source's rows (BY CHANGES), and under which names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CHANGE = "_change"
TYPES: Mapping[str, str] = MappingProxyType({"op": "STRING", "lsn": "BIGINT", "at": "TIMESTAMP", "xid": "BIGINT"})
"""What a column may tell of a change: what it did, where its commit lies in the log, when that was, by whom."""

OP, LSN, AT, XID = (f"_waterclock_change_{name}" for name in TYPES)
SEQ = "_waterclock_change_seq"
MISSING = "_waterclock_change_missing"
"""In changed rows: the order within a transaction, and which columns the change does not tell."""
IN_ROWS: Mapping[str, str] = MappingProxyType(dict(zip(TYPES, (OP, LSN, AT, XID), strict=True)))

OP_COLUMN = "_change_op"
"""The column that tells what a change did, where a collect names none: by it deletes are known."""
LOG_LIMIT = "log_limit"
"""The option of a collect that says how much a source may keep for it, in GB, before somebody is told."""
DELETES = ("delete", "truncate")


def tells(what: str) -> str:
    """Return how a column is marked that tells of a change."""
    return f"{CHANGE}.{what}"
