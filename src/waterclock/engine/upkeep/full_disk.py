"""Recognizes a full disk as the cause of an error of a rebuild."""

from __future__ import annotations

import errno

from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError, causes_of

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
# of Java and system libraries; of SQLite; of our own errors
_SAID_OF_FULL = ("No space left on device", "database or disk is full", "the disk is full")


def full_disk_error(work: RunContext, raised: BaseException) -> WaterclockError | None:
    """Return the error of a full disk, if that is the cause."""
    for seen in causes_of(raised):
        if _is_of_full_disk(seen):
            return WaterclockError(
                "E645",
                "there is not enough space for a second set of tables",
                where=work.lake.root,
                why=str(seen).partition("\n")[0],
                fix="free disk space, then run `waterclock rebuild --all` again; the files of this one are removed",
            )
    return None


def _is_of_full_disk(raised: BaseException) -> bool:
    is_said = any(words in str(raised) for words in _SAID_OF_FULL)
    return is_said or (isinstance(raised, OSError) and raised.errno in _NO_ROOM)
