"""Builds complete rows from a source's change log, one for each key and time.

The log omits large values that an update did not change, and the values of deleted rows. They are filled from the key's
previous change, or from the table. A truncate deletes every key that exists.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.connectors.change_collector import ChangeCollector, ChangeRequest, ChangesRead
from waterclock.engine.collect.changed_keys import complete_moved_rows
from waterclock.engine.collect.collect_result import COPIED, CollectResult
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.tokens import stored_rows_with_values
from waterclock.errors import WaterclockError
from waterclock.flow.changes import AT, IN_ROWS, LSN, MISSING, OP, SEQ
from waterclock.flow.checks import columns_to_request
from waterclock.flow.declarations import Table, Unit
from waterclock.flow.enums import Scope
from waterclock.flow.merge_settings import RECORD
from waterclock.ledger.read.source_events import KEPT, RELEASED_AT_SOURCE
from waterclock.planner.plan import Group
from waterclock.spark_sql import quote_name, sql_text
from waterclock.storage.slices.read import frame_of_version
from waterclock.storage.slices.row_filter import is_hidden

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOTED = "changes"
"""The entry in a batch's source notes with the position in the log that the batch reached."""
READ_AT = "read_at"
"""The entry in NOTED with the time of the read, by the ledger's clock."""
_OWN, _CARRIED = "_waterclock_own", "_waterclock_carried"


def collect_changes(
    work: RunContext, spark: SparkSession, table: Table, group: Group, unit: Unit, collector: ChangeCollector
) -> CollectResult:
    """Read the changes of a source's rows since the previous batch, up to the end of the group's only window."""
    if table.fold is None or len(group.batches) > 1:
        raise AssertionError(f"{table.name} takes changes one label at a time, key by key, which check sees to")
    batch = group.batches[0]
    request = ChangeRequest(
        table.fold.keys, newest_notes(work, table), batch.window.end, partial(_generate_name, work, table)
    )
    read = collector.read_changes(spark, unit, request, columns_to_request(table), table.cadence.zone)
    read = replace(read, noted={**read.noted, READ_AT: work.real_now().isoformat()})
    try:
        for message in read.messages:
            work.report_once(message)
        rows = _complete_rows(table, read, _read_own_rows(work, spark, table))
    except BaseException:
        read.collected.close()
        raise
    collected = replace(
        read.collected,
        frame=rows,
        is_empty=read.collected.is_empty and read.whole_at is None,
        close=partial(_close_read, work, table, unit, collector, read),
    )
    source = {batch.label: {**read.collected.source, NOTED: dict(read.noted)}}
    return CollectResult(collected, source, partial(_confirm_changes, table, unit, collector, read))


def may_be_committed(work: RunContext, table: str) -> bool:
    """Return whether a batch of a table may still be committed: a claim is open, or a batch is held."""
    return bool(work.ledger.reads.held_labels(table)) or any(
        it.request.table == table for it in work.ledger.claims.open()
    )


def newest_notes(work: RunContext, table: Table) -> Mapping[str, Any] | None:
    """Return the notes of the newest committed read of the change log. None before the first one.

    A label that was made again from stored rows, or a released held one, has the position of its original read. Other
    batches may have read further since.
    """
    most, copies = 16, list[Mapping[str, Any]]()
    for past in range(0, 1 << 20, most):
        found = work.ledger.reads.source_notes(table.name, BEGINNING, FOREVER, most=most, past=past)
        for _, source in found:
            copies += [source[NOTED]] if NOTED in source else []
            if NOTED in source and not COPIED & source.keys():
                return _last_read(copies)
        if len(found) < most:
            break
    return _last_read(copies)


def _last_read(noted: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the notes with the newest read time; among those without one, the last in `noted`."""
    return max(reversed(noted), key=lambda each: str(each.get(READ_AT, "")), default=None)


def _generate_name(work: RunContext, table: Table) -> str:
    """Generate the name of an object to create at the source. Record it first, so that it is found after a crash."""
    name = f"waterclock_{''.join(sign for sign in table.name.lower() if sign.isascii() and sign.isalnum())[:32]}"
    name = f"{name}_{secrets.token_hex(6)}"
    unit = table.source.unit if table.source else None
    data = {"name": name, "connection": unit.connection if unit else "", "unit": unit.path if unit else ""}
    work.ledger.past.add_event(KEPT, who=work.settings.who, table=table.name, data=data)
    return name


def _read_own_rows(work: RunContext, spark: SparkSession, table: Table) -> DataFrame | None:
    """Return the table's current rows, one for each key. None before its first batch."""
    record = work.ledger.reads.find_table(table.name)
    if record is None or record.head_label is None:
        return None
    rows = frame_of_version(spark, work.folder(table), record.head_version)
    rows = stored_rows_with_values(spark, work.lake, table, rows)
    return rows.where(RECORD[2]) if table.temporal is not None else rows


def _confirm_changes(table: Table, unit: Unit, collector: ChangeCollector, read: ChangesRead, work: RunContext) -> None:
    """Allow the source to discard the committed changes, and remove the objects that earlier reads created there."""
    collector.confirm(unit, read.noted)
    names = [name for name in work.ledger.past.list_retained_objects(table.name) if name != read.name]
    for name in collector.release_resources(unit, names):
        work.ledger.past.add_event(RELEASED_AT_SOURCE, who=work.settings.who, table=table.name, data={"name": name})


def _close_read(work: RunContext, table: Table, unit: Unit, collector: ChangeCollector, read: ChangesRead) -> None:
    """Close a read. If its batch failed and no commit may follow, remove the source's object that it created."""
    read.collected.close()
    if read.whole_at is None or may_be_committed(work, table.name):
        return
    if newest_notes(work, table) != read.noted:
        for gone in collector.release_resources(unit, [read.name]):
            work.ledger.past.add_event(RELEASED_AT_SOURCE, who=work.settings.who, table=table.name, data={"name": gone})


def _complete_rows(table: Table, read: ChangesRead, own: DataFrame | None) -> DataFrame:
    """Return one complete row for each key and time of a change."""
    if table.fold is None:
        raise AssertionError("changes are folded")
    keys, rows = table.fold.keys, read.collected.frame
    lacking = [key for key in keys if key.lower() not in {name.lower() for name in rows.columns}]
    if lacking:
        raise WaterclockError(
            "E862",
            f"the column list of {table.name} is missing {', '.join(lacking)}",
            where=table.name,
            why="it is the key of its rows",
            fix="add it to the column list",
        )
    if read.whole_at is not None:
        gone = None if own is None else _build_deletes(rows, own, keys, read.whole_at)
        return rows if gone is None else rows.unionByName(gone, allowMissingColumns=True)
    lacking = list(read.missing)
    if read.has_moved:
        rows = complete_moved_rows(rows, own, keys, lacking)
    if read.has_truncates:
        rows = _expand_truncates(rows, own, keys)
    if has_row_rules(table):
        key_names = {name.lower() for name in keys}
        attributes = [name for name in rows.columns if not is_hidden(name) and name.lower() not in key_names]
        lacking += attributes if read.has_truncates else read.missing_of_deletes
    if lacking:
        rows = _fill_missing(rows, own, keys, list(dict.fromkeys(lacking)))
    at = table.temporal.at if table.temporal else None
    return _last_changes(rows, [*map(quote_name, keys), *([AT] if at else [])])


def has_row_rules(table: Table) -> bool:
    """Return whether a rule of the table applies to single rows. If so, deleted rows need all their values."""
    of_columns = any(column.is_not_null or column.rules for column in table.columns.named)
    return of_columns or any(rule.scope is Scope.ROW for rule in table.rules)


def _build_deletes(rows: DataFrame, own: DataFrame, keys: Sequence[str], whole_at: tuple[int, datetime]) -> DataFrame:
    """Build a delete for each key that the table has and a snapshot does not.

    `whole_at` is the log position and the time of the snapshot.
    """
    position, at = whole_at
    gone = own.join(rows.select(*map(quote_name, keys)), list(keys), "left_anti")
    there = {name.lower() for name in gone.columns}
    return gone.selectExpr(
        *(quote_name(name) for name in rows.columns if name.lower() in there),
        f"'delete' AS {OP}",
        f"{position}L AS {LSN}",
        f"0L AS {SEQ}",
        f"TIMESTAMP '{at.isoformat()}' AS {AT}",
        f"CAST(array() AS ARRAY<STRING>) AS {MISSING}",
    )


def _expand_truncates(rows: DataFrame, own: DataFrame | None, keys: Sequence[str]) -> DataFrame:
    """Replace each truncate by deletes of all keys in log and table. A delete of a missing key has no effect."""
    names = [quote_name(key) for key in keys]
    truncates = rows.where(f"{OP} = 'truncate'").select(*IN_ROWS.values(), SEQ)
    changed = rows.where(f"{OP} <> 'truncate'")
    known = changed.select(*names)
    if own is not None:
        known = known.unionByName(own.select(*names))
    deletes = known.distinct().crossJoin(F.broadcast(truncates))
    others = [name for name in rows.columns if name.lower() not in {key.lower() for key in keys}]
    absent = [name for name in others if name not in deletes.columns and name != MISSING]
    lists = f"array({', '.join(sql_text(name) for name in absent)})" if absent else "CAST(array() AS ARRAY<STRING>)"
    return changed.unionByName(deletes.withColumn(MISSING, F.expr(lists)), allowMissingColumns=True)


def _fill_missing(rows: DataFrame, own: DataFrame | None, keys: Sequence[str], missing: Sequence[str]) -> DataFrame:
    """Fill columns that are missing from a change with the value of the previous change, or else of the table.

    Cost: a window over the changes; a scan of the table if the previous change is not among them.
    """
    from pyspark.sql import Window

    names = [quote_name(key) for key in keys]
    before = Window.partitionBy(*names).orderBy(LSN, SEQ).rowsBetween(Window.unboundedPreceding, -1)
    marks = {name: f"coalesce(array_contains({MISSING}, {sql_text(name)}), false)" for name in missing}
    carried = {
        f"{_CARRIED}{at}": F.last(
            F.expr(f"CASE WHEN NOT {marks[name]} THEN struct({quote_name(name)} AS v) END"), ignorenulls=True
        ).over(before)
        for at, name in enumerate(missing)
    }
    filled = rows.withColumns(carried) if carried else rows
    there = {} if own is None else {name.lower(): name for name in own.columns}
    looked_up = {name: f"{_OWN}{at}" for at, name in enumerate(missing) if name.lower() in there}
    if own is not None and looked_up:
        lacks = [f"({marks[name]} AND {_CARRIED}{missing.index(name)} IS NULL)" for name in looked_up]
        asked = filled.where(" OR ".join(lacks)).select(*names).distinct()
        values = [F.col(quote_name(there[name.lower()])).alias(alias) for name, alias in looked_up.items()]
        known = own.join(F.broadcast(asked), list(keys), "left_semi").select(*names, *values)
        filled = filled.join(known, list(keys), "left")
    made = {
        name: f"CASE WHEN NOT {marks[name]} THEN {quote_name(name)} "
        f"WHEN {_CARRIED}{at} IS NOT NULL THEN {_CARRIED}{at}.v "
        f"ELSE {looked_up.get(name, 'NULL')} END AS {quote_name(name)}"
        for at, name in enumerate(missing)
    }
    return filled.selectExpr(*(made.get(name, quote_name(name)) for name in rows.columns))


def _last_changes(rows: DataFrame, group: Sequence[str]) -> DataFrame:
    """Return the last row in log order for each combination of the columns `group`."""
    every = F.struct(*(F.col(quote_name(name)) for name in rows.columns))
    last = F.max_by(every, F.struct(LSN, SEQ)).alias("_last")
    by = [F.col(name).alias(f"_by{at}") for at, name in enumerate(group)]
    return rows.groupBy(*by).agg(last).select("_last.*")
