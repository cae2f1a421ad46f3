"""Checks whether a change of a table's data by another writer was undone."""

from __future__ import annotations

from deltalake.exceptions import DeltaError

from waterclock.storage.log.live_files import files_with_deletion_vectors, live_files, open_delta


def is_undone(folder: str, *, before: int, after: int) -> bool:
    """Return whether version `after` of a table has exactly the files that version `before` had.

    Return False if one of the two versions cannot be opened any more. Cost: the log is read twice, 10 ms for a small
    one.
    """
    try:
        old_files = _files(folder, before)
        return old_files is not None and old_files == _files(folder, after)
    except (DeltaError, OSError):
        return False


def _files(folder: str, version: int) -> frozenset[str] | None:
    """Return the paths of a version's files, or None if one carries a deletion vector, which hides some of its rows."""
    table = open_delta(folder, version)
    may_hide = "deletionVectors" in (table.protocol().reader_features or ())
    if may_hide and files_with_deletion_vectors(table, folder):
        return None
    return frozenset(file.path for file in live_files(table))
