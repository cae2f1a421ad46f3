"""Joins small files of a table with SORT BY or CLUSTER BY, and keeps the order of rows in the joined files.

Delta's OPTIMIZE writes the rows of one file after those of another, so a joined file is in no order. Its ZORDER BY
orders them, but writes all files of an unpartitioned table again, each time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, remove_folder
from waterclock.spark_sql import quote_name
from waterclock.storage.commit.change import NeedsSpark, require_known_layout
from waterclock.storage.commit.row_order import recorded_sort_columns
from waterclock.storage.commit.write_commit import Action, Change, build_add_action, build_remove_actions, try_commit
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.live_files import LiveFile
from waterclock.storage.log.open_tables import OpenTable, open_table
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.read import frame_of_files
from waterclock.storage.slices.row_order import names_to_sort_by, sort_rows
from waterclock.storage.slices.statistics import read_files
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_BYTES_OF_A_TASK = 256 << 20
_MAX_ATTEMPTS = 20


def order_of_joined_files(table: OpenTable) -> tuple[str, ...]:
    """Return the columns by which joined files of a table are ordered; none if Delta's OPTIMIZE must join them.

    That is so without SORT BY, CLUSTER BY or BUCKET BY, with deletion vectors or column mapping, and for tables whose
    commits only Spark can write.
    """
    try:
        require_known_layout(table)
    except NeedsSpark:
        return ()
    if not table.is_plain:
        return ()
    return tuple(names_to_sort_by(fields_of(table.schema), recorded_sort_columns(table)))


def join_files_in_order(
    spark: SparkSession, folder: str, groups: Sequence[Sequence[LiveFile]], order: Sequence[str], identity: Identity
) -> int | None:
    """Write the rows of each group of live files to one file, in an order, and commit all of them at once.

    A group has files of one label of a partitioned table, or of any labels of another table. One of more than 256 MB is
    split into several files by the order. The commit changes no rows, as that of OPTIMIZE. Return its version. Return
    None if another commit has removed one of the files meanwhile; the new files are then removed. Cost: a job for each
    group, which reads and sorts its rows; two if it is split.
    """
    place = f"joined/{uuid4().hex}"
    with open_table(folder) as table:
        schema, is_partitioned = table.schema, bool(table.partition_columns)
    adds: list[Action] = []
    for number, group in enumerate(groups):
        path = f"{place}/{number}"
        rows = frame_of_files(spark, folder, group, _without_label(schema) if is_partitioned else schema)
        label = group[0].label if is_partitioned else None
        if label is not None:
            rows = rows.select(F.lit(label).alias(TIMELABEL), "*")
        ordered = _order_rows(rows, order, sum(file.size for file in group))
        ordered.write.mode("overwrite").parquet(str(entry_path(folder, path)))
        at = int(time.time() * 1000)
        found = read_files(entry_path(folder), path, also=(TIMELABEL, *order))
        adds += [build_add_action(file, label, at) for file in found]
    fault("joined")
    version = _commit(folder, [file for group in groups for file in group], adds, identity)
    if version is None:
        remove_folder(entry_path(folder, place))
    return version


def _order_rows(rows: DataFrame, order: Sequence[str], size: int) -> DataFrame:
    """Return the rows in one task, or in several for many bytes, each with a range of values and in order."""
    tasks = -(-size // _MOST_BYTES_OF_A_TASK)
    if tasks <= 1:
        return sort_rows(rows.coalesce(1), order)
    return sort_rows(rows.repartitionByRange(tasks, *(F.col(quote_name(name)) for name in order)), order)


def _without_label(schema: str) -> str:
    """Return a schema's JSON without the partition column, which files that Delta's OPTIMIZE has joined do not have."""
    known: dict[str, Any] = json.loads(schema)
    return json.dumps(known | {"fields": [field for field in known["fields"] if field["name"] != TIMELABEL]})


def _commit(folder: str, old: Sequence[LiveFile], adds: Sequence[Action], identity: Identity) -> int | None:
    """Commit the new files in place of the old ones, on whichever version still has all of these."""
    for _ in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            # rows of a file may have been deleted meanwhile, by a deletion vector
            if not table.is_plain or any(file.path not in table.files for file in old):
                return None
            change = Change(list(adds), build_remove_actions(old))
            for action in (*change.adds, *change.removes):
                for content in action.values():
                    content["dataChange"] = False
            version = try_commit(table, change, identity)
        if version is not None:
            return version
    return None
