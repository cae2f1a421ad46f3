"""Removes the past of a Delta table: commits and checkpoints before its newest version, and files of old versions."""

from __future__ import annotations

import re
from datetime import datetime
from urllib.parse import unquote

from waterclock.files.filesystem import entry_path, files_below, remove_file
from waterclock.storage.log.delta_log import actions_of
from waterclock.storage.log.open_tables import forget_open_table, open_table

_VERSION = re.compile(r"(\d{20})\.")
_LOG = "_delta_log"


def purge_log(folder: str, *, known: int) -> int:
    """Write a checkpoint of the newest version, and remove all earlier commits and checkpoints. Return their number.

    Earlier versions cannot be read any more. The newest commit stays, and so do those after `known`, the newest version
    that the ledger has recorded: the next batch looks there for the outcome of earlier ones.
    """
    with open_table(folder) as table:
        newest = table.version
        table.delta().create_checkpoint()
    forget_open_table(folder)
    log = entry_path(folder, _LOG)
    removed = 0
    for file in files_below(log):
        found = _VERSION.match(file.path.rpartition("/")[2])
        oldest = known + 1 if file.path.endswith(".json") else newest
        if found and int(found[1]) < min(oldest, newest):
            remove_file(log / file.path)
            removed += 1
    return removed


def purge_files(folder: str, before: datetime) -> tuple[int, int]:
    """Remove the files of older versions outside of the stage, such as former states. Return their number.

    A file that no commit names may belong to a commit that another process prepares. It is removed if it was written
    earlier than `before`; the second number counts the others. Must run before `purge_log`.
    """
    with open_table(folder) as table:
        live = set(table.files)
    named = _find_named_files(folder)
    removed = unknown = 0
    for file in files_below(entry_path(folder)):
        first = file.path.split("/")[0]
        if file.path in live or first.startswith("_") or not file.path.endswith(".parquet"):
            continue
        if file.path in named or file.changed < before:
            remove_file(entry_path(folder, file.path))
            removed += 1
        else:
            unknown += 1
    return removed, unknown


def _find_named_files(folder: str) -> set[str]:
    """Return the paths of all files that a commit in the log has added or removed."""
    log = entry_path(folder, _LOG)
    named = set()
    for file in files_below(log):
        if _VERSION.match(file.path) and file.path.endswith(".json") and file.path.count(".") == 1:
            for action in actions_of(log / file.path):
                path = (action.get("add") or action.get("remove") or {}).get("path")
                if path:
                    named.add(unquote(path))
    return named
