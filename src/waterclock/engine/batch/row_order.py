"""Checks a table's SORT BY against the columns of a batch, and records it in the table's log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.results import MadeSlices
from waterclock.errors import WaterclockError
from waterclock.flow.column_types import type_of_json
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.flow.row_order import has_order
from waterclock.planner.plan import GIVE_UP
from waterclock.similar_names import did_you_mean
from waterclock.storage.commit.row_order import record_row_order
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.schema_types import fields_of, schema_text, type_text, widen_schema
from waterclock.timelabel.label import TIMELABEL


def prepare_row_order(attempt: GroupAttempt, made: MadeSlices) -> None:
    """Record by which columns the files of a table are sorted from this batch on. Raises E774 for a missing column.

    `check` finds a wrong column earlier, unless the columns of the table are known only once a batch has made rows.
    Cost: a look at the log for a table with SORT BY, MERGE or TEMPORAL, and a commit in the first batch after a change.
    """
    table = attempt.table
    if table.kind is Kind.PUBLISH or attempt.group.verb == GIVE_UP or not (table.sort_by or table.is_fold):
        return
    with open_table(attempt.folder) as opened:
        own, new = opened.schema, schema_text(made.schema)
    _require_columns(table, fields_of(widen_schema(own, new) or own), attempt.where)
    record_row_order(attempt.folder, table.sort_by, new, project=attempt.work.flow.project)


def _require_columns(table: Table, fields: Mapping[str, Mapping[str, Any]], where: str) -> None:
    columns = {name.lower(): field for name, field in fields.items()}
    for name in table.sort_by:
        field = columns.get(name.lower())
        if field is None:
            known = [name for name in fields if name != TIMELABEL]
            raise WaterclockError(
                "E774",
                f"SORT BY names {name}, and {table.name} has no column of that name",
                where=where,
                why=f"its columns are {', '.join(known)}",
                fix=did_you_mean(name, known, otherwise=f"remove {name} from SORT BY at {table.place}"),
            )
        if not has_order(type_of_json(field["type"])):
            raise WaterclockError(
                "E774",
                f"SORT BY names {name}, which has the type {type_text(field['type'])}",
                where=where,
                why="Spark has no order for a MAP, nor for a value that contains one",
                fix=f"remove {name} from SORT BY at {table.place}",
            )
