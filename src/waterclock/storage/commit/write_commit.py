"""Writes a commit to a table's Delta log: one file, created only if it does not exist.

M1, M2 and M6 are rules of docs/decisions/commits-are-pointers.md. delta-rs writes the checkpoints, and removes log
files that are obsolete then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from deltalake.exceptions import DeltaError

from waterclock.files.filesystem import put_if_absent
from waterclock.storage.log.delta_log import commit_file, find_checkpoint_version
from waterclock.storage.log.identity import Identity, app_id
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from waterclock.storage.log.live_files import LiveFile
    from waterclock.storage.log.open_tables import OpenTable
    from waterclock.storage.slices.manifest import DataFile

# The cost of a checkpoint grows with the table's files. The commits after it are read one by one
_MIN_COMMITS_BETWEEN_CHECKPOINTS, _FILES_PER_COMMIT = 10, 200

# characters that a path in the log contains unescaped; all others are percent-encoded
_UNESCAPED = "/=:+,;@&$!*'()~"

Action = dict[str, Any]


@dataclass(slots=True)
class Change:
    """The actions of one commit, which add files to the table as it was read, and remove files from it.

    `is_overwrite`: the added files replace the removed ones, of the same labels or of the whole table. `metadata`:
    actions that change the table's own metadata.
    """

    adds: list[Action] = field(default_factory=list)
    removes: list[Action] = field(default_factory=list)
    is_overwrite: bool = False
    metadata: list[Action] = field(default_factory=list)


def build_add_action(file: DataFile, label: str | None, at: int) -> Action:
    """Return the action that adds a file written at `at` (milliseconds since 1970) to the partition `label`, if any."""
    return {
        "add": {
            "path": path_in_log(file.path),
            "partitionValues": _partition_values(label),
            "size": file.size,
            "modificationTime": at,
            "dataChange": True,
            "stats": file.stats,
        }
    }


def build_remove_actions(files: Sequence[LiveFile]) -> list[Action]:
    """Return the actions that remove live files of the version that was read, with their recorded size (rule M6)."""
    now = _now_millis()
    return [
        {
            "remove": {
                "path": path_in_log(file.path),
                "deletionTimestamp": now,
                "dataChange": True,
                "extendedFileMetadata": True,
                "partitionValues": _partition_values(file.label),
                "size": file.size,
            }
        }
        for file in files
    ]


def try_commit(table: OpenTable, change: Change, identity: Identity) -> int | None:
    """Commit on exactly the version that was read. Return None if another commit came first (rule M1).

    The commit carries the id of the identity's claim, if it has one. Cost: a small file, and sometimes a checkpoint.
    """
    version = table.version + 1
    if find_checkpoint_version(table.folder) >= version:
        return None  # other commits came and were cleaned up again: the missing file once existed
    actions = [
        _build_commit_info(change, identity, table),
        *_build_txn_actions(identity),
        *change.metadata,
        *change.removes,
        *change.adds,
    ]
    text = "\n".join(json.dumps(action, separators=(",", ":")) for action in actions)
    if not put_if_absent(commit_file(table.folder, version), text):
        return None
    table.apply_commit(version, actions)
    if version % _checkpoint_interval(table.file_count) == 0:
        with suppress(DeltaError, OSError):  # the data is committed; the next reader reports a fault in the log
            delta = table.delta()
            delta.create_checkpoint()
            delta.cleanup_metadata()
    return version


def metadata_of(table: OpenTable, schema: str, partition_columns: Sequence[str]) -> Action:
    """Return the action that sets a table's columns and partitions, and keeps its name and properties."""
    known = table.delta().metadata()
    content: dict[str, Any] = {
        "id": str(known.id),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": list(partition_columns),
        "configuration": dict(known.configuration),
        "createdTime": known.created_time,
    }
    content |= {name: text for name in ("name", "description") if (text := getattr(known, name))}
    return {"metaData": content}


def protocol_of(table: OpenTable) -> Action:
    """Return the reader and writer versions and features that a table's log requires, as the content of an action."""
    found = table.delta().protocol()
    content: Action = {"minReaderVersion": found.min_reader_version, "minWriterVersion": found.min_writer_version}
    for key, features in (("readerFeatures", found.reader_features), ("writerFeatures", found.writer_features)):
        if features:
            content[key] = sorted(features)
    return content


def needed_protocol(known: Action, wanted: Action) -> Action | None:
    """Return a protocol with the features of `known` and `wanted`, or None if `known` already has all of them."""
    names = ("readerFeatures", "writerFeatures")
    if all(known[version] >= wanted[version] for version in ("minReaderVersion", "minWriterVersion")) and all(
        set(wanted.get(name, ())) <= set(known.get(name, ())) for name in names
    ):
        return None
    both: Action = {
        version: max(known[version], wanted[version]) for version in ("minReaderVersion", "minWriterVersion")
    }
    for name in names:
        if features := sorted({*known.get(name, ()), *wanted.get(name, ())}):
            both[name] = features
    return both


def path_in_log(path: str) -> str:
    """Return a file's path as Delta actions encode it."""
    return quote(path, safe=_UNESCAPED)


def _build_commit_info(change: Change, identity: Identity, table: OpenTable) -> Action:
    mode = "Overwrite" if change.is_overwrite else "Append"
    parameters = {"mode": mode, "partitionBy": json.dumps(table.partition_columns)}
    return {
        "commitInfo": {
            "timestamp": _now_millis(),
            "operation": "WRITE",
            "operationParameters": parameters,
            "engineInfo": "waterclock",
            "userMetadata": identity.to_json(),
        }
    }


def _build_txn_actions(identity: Identity) -> list[Action]:
    """Return the `txn` action with the claim's id, if any. Spark ignores such an action if it has no time (rule M2)."""
    if not identity.claim:
        return []
    return [{"txn": {"appId": app_id(identity.claim), "version": 1, "lastUpdated": _now_millis()}}]


def _partition_values(label: str | None) -> dict[str, str]:
    return {} if label is None else {TIMELABEL: label}


def _checkpoint_interval(files: int) -> int:
    """Return the number of commits between checkpoints. It grows with the number of files, like the cost of one."""
    return max(_MIN_COMMITS_BETWEEN_CHECKPOINTS, files // _FILES_PER_COMMIT)


def _now_millis() -> int:
    return int(time.time() * 1000)
