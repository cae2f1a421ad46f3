"""Drops the rows of erased persons from every batch, so that no source, archive or copy restores them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.batches.erasures import SEPARATOR, Erasure
from waterclock.batches.records import Claim
from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.dpl.query.subject_columns import (
    SubjectColumns,
    copied_columns,
    find_subject_columns,
    list_subjects,
)
from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.user_functions import register_functions
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.flow.key_connections import PREFIX
from waterclock.spark_sql import quote_name, sql_text
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.open_tables import is_bare, open_table
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def drop_erased_rows(attempt: GroupAttempt, claim: Claim, rows: DataFrame) -> DataFrame:
    """Return the rows of a batch without those of persons that were erased before its claim.

    Cost: nothing in a project without erasures; else one query of the ledger, and a keyed hash for each row of a table
    with a column of the subject. Raises E464 if a key of an erasure is missing.
    """
    found = _erased_condition(attempt, claim, rows.columns)
    return rows if found is None else rows.where(~found)  # it is never NULL


def require_no_erased_rows(attempt: GroupAttempt, claim: Claim, manifest: Manifest) -> None:
    """Raise E465 if a held or an earlier slice contains rows of erased persons: committing it would bring them back."""
    if not claim.erasures:
        return
    rows = frame_of_slices(attempt.spark, attempt.folder, [manifest])
    condition = _erased_condition(attempt, claim, rows.columns)
    if condition is not None and not rows.where(condition).isEmpty():
        where = f"{attempt.table.name}@{label_of(manifest.label)}"
        raise WaterclockError(
            "E465",
            f"{where} contains rows of erased persons",
            where=where,
            why="it was sealed before the erasure, and would be committed as it is",
            fix=f"`waterclock {'retry' if attempt.held else 'recompute'} {where}` makes it again without them",
        )


def find_all_subject_columns(work: RunContext) -> dict[str, SubjectColumns]:
    """Map each subject of the flow to its columns, by the columns that the tables have now."""
    lineage = _lineage_of(work)
    return {subject: find_subject_columns(lineage, columns) for subject, columns in list_subjects(work.flow).items()}


def find_columns_of_subject(work: RunContext, subject: str, known: Iterable[ColumnOf]) -> SubjectColumns:
    """Return the columns of one subject, by those that declare it in the flow and those that are `known`."""
    return find_subject_columns(_lineage_of(work), [*list_subjects(work.flow).get(subject, ()), *known])


def _lineage_of(work: RunContext) -> ColumnLineage:
    flow = work.flow
    schemas = {
        name: fields
        for name, table in flow.tables.items()
        if table.kind is Kind.COLLECT and table.columns.is_open and (fields := _stored_columns(work, table))
    }
    return ColumnLineage(flow, schemas, (work.past or work.ledger).lineage.of_code(flow))


def _stored_columns(work: RunContext, table: Table) -> Mapping[str, str]:
    folder = work.folder(table)
    if not table_exists(folder):
        return {}
    with open_table(folder) as found:
        return {} if is_bare(found) else {name: str(each["type"]) for name, each in fields_of(found.schema).items()}


def _erased_condition(attempt: GroupAttempt, claim: Claim, columns: list[str]) -> Column | None:
    """Return the condition that a row is that of an erased person, or None if the table cannot contain one."""
    work = attempt.work
    if not claim.erasures and work.past is None:
        return None
    recorded = (work.past or work.ledger).erasures.list()
    if not recorded:
        return None
    subjects = find_all_subject_columns(work)
    conditions: list[str] = []
    for erasure in recorded:
        known = subjects.get(erasure.subject, SubjectColumns())
        now = known.columns.get(attempt.table.name, ())
        wanted = {name.lower() for name in (*now, *_columns_since(work, attempt.table.name, erasure, known))}
        named = [name for name in columns if name.lower() in wanted]
        if named and erasure.hashes:
            _require_key(work, erasure)
            conditions += [_is_erased_sql(name, erasure) for name in named]
    if not conditions:
        return None
    register_functions(attempt.spark, work.root, work.flow, conditions[:1], work.keys)
    return F.expr(" OR ".join(conditions))


def _columns_since(work: RunContext, table: str, erasure: Erasure, known: SubjectColumns) -> Iterator[str]:
    """Yield the other columns recorded with an erasure that may still contain persons, as those that lost SUBJECT.

    A table that was declared anew may have a column of the same name that copies another one, which is no person's.
    """
    since = [ColumnOf(table, name) for name in erasure.columns.get(table, ())]
    since = [column for column in since if not _has_column(known.columns, column)]
    if not since:
        return
    lineage, seen = _lineage_of(work), set[ColumnOf]()

    def may_contain(column: ColumnOf) -> bool:
        if column in seen:
            return False
        seen.add(column)
        if _has_column(known.columns, column):
            return True
        try:
            copied = copied_columns(lineage.trace_column(column))
        except WaterclockError:  # a column that its table does not have now
            copied = ()
        return any(map(may_contain, copied)) if copied else _has_column(erasure.columns, column)

    for column in since:
        seen.clear()
        if may_contain(column):
            yield column.column


def _has_column(columns: Mapping[str, Iterable[str]], column: ColumnOf) -> bool:
    return column.column.lower() in {name.lower() for name in columns.get(column.table, ())}


def _is_erased_sql(column: str, erasure: Erasure) -> str:
    value = f"concat({sql_text(erasure.subject + SEPARATOR)}, CAST({quote_name(column)} AS STRING))"
    connection, _, key = erasure.key.partition("/")
    hashes = ", ".join(sql_text(each) for each in sorted(erasure.hashes))
    return f"coalesce(hash_keyed({value}, {sql_text(connection)}, {sql_text(key)}) IN ({hashes}), false)"


def _require_key(work: RunContext, erasure: Erasure) -> None:
    connection, _, key = erasure.key.partition("/")
    known = work.keys.connections.get(connection)
    if known is None or PREFIX + key not in known.options:
        raise WaterclockError(
            "E464",
            f"the key {erasure.key} of erasure {erasure.number} is missing",
            where=f"connection {connection}",
            why="rows of erased persons are recognised by it, and this batch could bring them back",
            fix=f"declare it again: CREATE CONNECTION {connection} TYPE keys OPTIONS ({PREFIX}{key} SECRET ...)",
        )
