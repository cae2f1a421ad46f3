"""Reads the newest version, the id and the columns of a table from its Delta log, and none of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from waterclock.files.filesystem import arrow_source, entry_path
from waterclock.storage.log.delta_log import damaged_log, find_checkpoint_version, iterate_commits
from waterclock.storage.log.open_tables import open_table

_COLUMNS = ["metaData.id", "metaData.schemaString"]


@dataclass(frozen=True, slots=True)
class TableHead:
    """The newest version of a table, its id, and its columns as Delta's schema JSON, as in `OpenTable`."""

    version: int
    identity: str
    schema: str


def read_table_head(folder: str) -> TableHead:
    """Return the head of a folder's table.

    Raises E623 if the folder has no table, E643 if its log is damaged. Cost: a column of the newest checkpoint and the
    commits since; with a checkpoint of another form, that of opening the table.
    """
    checkpoint = version = find_checkpoint_version(folder)
    metadata = None if checkpoint < 0 else _metadata_in_checkpoint(folder, checkpoint)
    for number, actions in iterate_commits(folder, checkpoint):
        version = number
        metadata = next((action["metaData"] for action in actions if "metaData" in action), metadata)
    if metadata is None:
        with open_table(folder) as table:
            return TableHead(table.version, table.identity, table.schema)
    from deltalake import Schema

    try:
        return TableHead(version, str(metadata["id"]), Schema.from_json(metadata["schemaString"]).to_json())
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise damaged_log(folder, f"{folder}/_delta_log", str(error).partition("\n")[0][:300]) from error


def _metadata_in_checkpoint(folder: str, version: int) -> Mapping[str, Any] | None:
    """Return the metadata in a checkpoint; None if it is in parts, or cannot be read."""
    path = entry_path(folder, "_delta_log", f"{version:020d}.checkpoint.parquet")
    try:
        rows = pq.ParquetFile(arrow_source(path)).read(columns=_COLUMNS, use_threads=False)
        found = [row for row in rows["metaData"].drop_null().to_pylist() if row["id"] is not None]
    except (OSError, KeyError, pa.ArrowException):
        return None
    return found[-1] if found else None
