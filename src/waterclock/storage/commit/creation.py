"""Creates a table before its first slice, once and for one project, with properties that keep its slices safe."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import CommitProperties

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, make_folder
from waterclock.files.object_stores import delta_options
from waterclock.storage.commit.write_commit import (
    Change,
    metadata_of,
    needed_protocol,
    protocol_of,
    try_commit,
)
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.identity import RESET, Identity
from waterclock.storage.log.open_tables import OpenTable, is_bare, open_table
from waterclock.storage.schema_types import schema_text
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from waterclock.storage.schema_types import Schema as AnySchema

PROJECT = "waterclock.project"
BARE = schema_text('{"fields": []}')
"""The schema of a table that has no columns of its own yet: Delta needs a schema."""
_NTZ = ["timestampNtz"]
_FOR_LOCAL_TIMES = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": _NTZ, "writerFeatures": _NTZ}
_MAX_ATTEMPTS, _PAUSE = 5, 0.2
_PROPERTIES = {
    "delta.enableDeletionVectors": "false",
    "delta.columnMapping.mode": "none",
    "delta.enableTypeWidening": "false",
    "delta.enableRowTracking": "false",
    "delta.enableInCommitTimestamps": "false",
    "delta.checkpointInterval": "10",
    # VACUUM LITE works from the log and does not know sealed slices: no file may ever be old enough for it (M3)
    "delta.deletedFileRetentionDuration": "interval 36500 days",
    "delta.logRetentionDuration": "interval 30 days",
    "delta.setTransactionRetentionDuration": "interval 30 days",
}


def create_table(
    folder: str,
    schema: AnySchema,
    *,
    is_partitioned: bool,
    project: str,
    properties: Mapping[str, str] = _PROPERTIES,
) -> None:
    """Create a table, or leave an existing one as it is. A table that was reset gets its columns. Cost: 10 ms.

    `properties` are set in place of the usual ones of the same names.

    Raises:
        WaterclockError: E601 if the table belongs to another project, E624 if it is partitioned by other columns, E615
            if a type cannot be stored, E622 (transient) if another writer's first commit was in progress at each
            attempt.
    """
    wanted = [TIMELABEL] if is_partitioned else []
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        if table_exists(folder):
            break
        try:
            _create(folder, schema, wanted, project, properties)
        except DeltaError as error:
            if table_exists(folder):  # another runner created it first
                break
            if not _is_put_conflict(error):
                fix = "check that this user may create files there, and that the disk has free space"
                raise WaterclockError(
                    "E615", "the table cannot be created", where=folder, why=str(error), fix=fix
                ) from error
            if attempt == _MAX_ATTEMPTS:
                raise _creation_conflict_error(folder) from error
            time.sleep(attempt * _PAUSE)
    with open_table(folder) as table:
        refuse_other_project(table, project)
        text = schema_text(schema)
        while is_bare(table) and text != BARE:  # also ends when another runner has meanwhile added columns and rows
            try_commit(table, build_columns_change(table, text, wanted), Identity(project, "", RESET, (), "", 0, ""))
            table.follow()
        if table.partition_columns != wanted:
            raise partition_error(folder, table.partition_columns, wanted)


def build_columns_change(table: OpenTable, schema: str, partition_columns: Sequence[str]) -> Change:
    """Return the change that gives a table other columns and partitions."""
    actions = [metadata_of(table, schema, partition_columns)]
    if "timestamp_ntz" in schema and (protocol := needed_protocol(protocol_of(table), _FOR_LOCAL_TIMES)):
        actions.insert(0, {"protocol": protocol})
    return Change(metadata=actions)


def _create(folder: str, schema: AnySchema, wanted: Sequence[str], project: str, properties: Mapping[str, str]) -> None:
    make_folder(entry_path(folder))  # delta-rs would make one that other users can read
    DeltaTable.create(
        folder,
        Schema.from_json(schema_text(schema)),
        mode="error",
        partition_by=list(wanted),
        configuration=_PROPERTIES | {**properties, PROJECT: project},
        raise_if_key_not_exists=False,
        # with retries, the loser of a race would write its metadata over the winner's, at the next version
        commit_properties=CommitProperties(max_commit_retries=0),
        storage_options=delta_options(folder),
    )


def _is_put_conflict(error: DeltaError) -> bool:
    """Return whether the store refused the log's first file as if it existed already.

    S3 does so (409) while it processes another put of that name, whether or not that put succeeds.
    """
    return isinstance(error, CommitFailedError) or "Invalid table version" in str(error)


def _creation_conflict_error(folder: str) -> WaterclockError:
    return WaterclockError(
        "E622",
        "another writer started the first commit of this table and did not finish it",
        where=folder,
        fix="try again",
        transient=True,
    )


def require_owner(folder: str, project: str) -> None:
    """Raise E601, naming the owner, if another project created the table."""
    with open_table(folder) as table:
        refuse_other_project(table, project)


def refuse_other_project(table: OpenTable, project: str) -> None:
    """Raise E601 if the table's properties name another project as its owner, or no project."""
    owner = table.configuration.get(PROJECT)
    if owner == project:
        return
    raise WaterclockError(
        "E601",
        f"the table belongs to project {owner}" if owner else "the table does not belong to a project",
        where=table.folder,
        why=f"project {project} may not write it: a table has one writer",
        fix="read it through a connection of type waterclock, or store this project elsewhere",
    )


def partition_error(folder: str, found: Sequence[str], wanted: Sequence[str]) -> WaterclockError:
    """Return the error for a table that is partitioned by other columns (`found`) than declared (`wanted`)."""
    return WaterclockError(
        "E624",
        f"the table is partitioned by {', '.join(found) or 'nothing'}, not by {', '.join(wanted) or 'nothing'}",
        where=folder,
        why="PARTITIONED and regular tables have different layouts on disk",
        fix="restore the declaration, or give the table another name",
    )
