"""Records in a table's log by which columns its files are sorted, for every later write of its rows.

The writers of states know the table's folder, not its declaration. The columns are a table property. A second property
makes Spark use the statistics of these columns also if they are not among the first 32.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from waterclock.storage.commit.change import NeedsSpark, require_known_layout
from waterclock.storage.commit.creation import refuse_other_project
from waterclock.storage.commit.write_commit import Change, metadata_of, try_commit
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.open_tables import OpenTable, open_table
from waterclock.storage.schema_types import fields_of, schema_text, widen_schema
from waterclock.storage.slices.row_order import names_to_sort_by
from waterclock.storage.slices.statistics import USUAL_LEAVES

if TYPE_CHECKING:
    from waterclock.storage.schema_types import Schema as AnySchema

SORTED_BY = "waterclock.sortedBy"
INDEXED = "delta.dataSkippingNumIndexedCols"
_COMMIT_KIND = "sort by"
_MAX_ATTEMPTS = 20


def recorded_sort_columns(table: OpenTable) -> tuple[str, ...]:
    """Return the columns by which the files of a table are sorted, as its last batch recorded them."""
    return tuple(json.loads(table.configuration.get(SORTED_BY, "[]")))


def record_row_order(folder: str, sort_by: Sequence[str], schema: AnySchema | None = None, *, project: str) -> None:
    """Record the columns of SORT BY in the log, for all later writes. `schema` has the columns that the table will get.

    The number of columns with statistics is only raised, because a user may have set it. Cost: a read of the end of the
    log, and a commit if something changes. Nothing is recorded in a table whose commits only Spark can write, or if
    other commits come first at each attempt; the next batch tries again. Raises E601 if the table belongs to another
    project.
    """
    for _ in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            wanted = _wanted_properties(table, sort_by, table.schema if schema is None else schema_text(schema))
            if wanted == dict(table.configuration):
                return
            refuse_other_project(table, project)
            try:
                require_known_layout(table)
            except NeedsSpark:
                return
            metadata = metadata_of(table, table.schema, table.partition_columns)
            metadata["metaData"]["configuration"] = wanted
            identity = Identity(project, "", _COMMIT_KIND, (), "", 0, "")
            if try_commit(table, Change(metadata=[metadata]), identity) is not None:
                return


def _wanted_properties(table: OpenTable, sort_by: Sequence[str], schema: str) -> dict[str, str]:
    wanted = dict(table.configuration)
    wanted.pop(SORTED_BY, None)
    if sort_by:
        wanted[SORTED_BY] = json.dumps(list(sort_by))
    wide = widen_schema(table.schema, schema) or table.schema
    needed, known = _leaves_up_to(sort_by, wide, table.partition_columns), int(wanted.get(INDEXED, USUAL_LEAVES))
    if needed > known >= 0:  # -1 means all columns
        wanted[INDEXED] = str(needed)
    return wanted


def _leaves_up_to(sort_by: Sequence[str], schema: str, partition_columns: Sequence[str]) -> int:
    """Return how many columns Delta must index so that the last of `sort_by` is one of them.

    A struct counts as its fields, any other column as one. Partition columns need no statistics, and are not counted.
    """
    fields = {name: field["type"] for name, field in fields_of(schema).items() if name not in partition_columns}
    wanted = set(names_to_sort_by(fields, sort_by))
    counted = needed = 0
    for name, type_ in fields.items():
        counted += _count_leaves(type_)
        needed = counted if name in wanted else needed
    return needed


def _count_leaves(type_: object) -> int:
    if isinstance(type_, dict) and type_.get("type") == "struct":
        return sum(_count_leaves(field["type"]) for field in type_["fields"])
    return 1
