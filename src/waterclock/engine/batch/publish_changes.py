"""Finds the rows that MERGE delivers from a regular table: those that changed since the last delivery."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.batches.records import Input, Slice
from waterclock.engine.batch.destinations import find_last_delivery
from waterclock.engine.batch.expectations import unproven_keys
from waterclock.engine.reads.as_of import frame_as_of
from waterclock.engine.reads.hidden import drop_columns
from waterclock.engine.reads.pin import PinnedRead, set_label
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.checks import asks_rows
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.planner.plan import Batch
from waterclock.spark_sql import quote_name
from waterclock.storage.folds.fold import fill_columns, last_row_by_key
from waterclock.storage.log.delta_log import is_recreated
from waterclock.storage.log.open_tables import is_readable
from waterclock.storage.slices.damage import damage_of_file
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import frame_at, frame_of_slices, table_schema
from waterclock.storage.slices.row_filter import DELETED_ROW
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# the column of sealed slices that is TRUE for rows that a MERGE publish deletes at the destination
_DELETED = "_deleted"
_RANK, _KEY = "_waterclock_rank", "_waterclock_key"
# codes of errors: neither a version nor the slices of a state are kept, or a file of them is missing or damaged
_NOT_KEPT = frozenset({"E640", "E605"})


@dataclass(frozen=True, slots=True)
class _ChangedSlices:
    """The sealed slices with all keys that may have changed, and whether any of these keys may have been deleted."""

    manifests: tuple[Manifest, ...]
    may_be_gone: bool


def changed_rows(
    work: RunContext, spark: SparkSession, table: Table, rows: DataFrame, pinned: PinnedRead, batch: Batch
) -> tuple[DataFrame, bool]:
    """Return the rows to upsert and (marked by `deleted_column_of`) to delete, and whether they are all rows.

    They are all rows at the first delivery, if the destination lost its newest delivery, and if the state of that
    delivery is not kept any more. Cost: the state is read once, and so are the slices committed since the last
    delivery. The rows of their keys are upserted even if nothing changed. If these slices do not suffice (rules on all
    delivered rows, other keys, a missing slice), two whole states are compared: two joins on the keys.
    """
    from pyspark.sql import functions as F  # noqa: N812

    now = last_by_key(work, table, rows).drop(TIMELABEL)
    read = _find_delivered_input(work, table, batch)
    changes = None if read is None else _changes_since(work, spark, table, now, pinned, read)
    upserts, gone = changes or (now, now.limit(0))
    mark = DELETED_ROW if _DELETED in map(str.lower, now.columns) else _DELETED
    marked = upserts.withColumn(mark, F.lit(col=False)).unionByName(gone.withColumn(mark, F.lit(col=True)))
    return set_label(marked, batch.window.label), changes is None


def deleted_column_of(columns: Collection[str]) -> str:
    """Return the column that marks deleted rows in a sealed slice of changes: `_deleted`, unless users have it."""
    return DELETED_ROW if DELETED_ROW in columns else _DELETED


def _changes_since(
    work: RunContext, spark: SparkSession, table: Table, now: DataFrame, pinned: PinnedRead, read: Input
) -> tuple[DataFrame, DataFrame] | None:
    """Return rows to upsert and to delete since the newest delivery. None if the state of that delivery is not kept."""
    touching = _find_changed_slices(work, table, pinned, read)
    if touching is not None:
        return _select_changed_rows(work, spark, table, now, touching)
    try:
        return _compare_states(work, spark, table, now, read)
    except WaterclockError as error:
        if error.code not in _NOT_KEPT:
            raise
        work.report_once(f"{table.name}: the last delivered state is no longer kept; the whole table is delivered")
        return None


def published_columns(table: Table, rows: DataFrame) -> DataFrame:
    """Return rows with the columns that the publish sends: those that it names or computes.

    A publish that names none sends all columns that are not HIDDEN. In computed columns, a column that is missing from
    the rows is NULL.
    """
    if table.columns.is_open:
        return drop_columns(rows, table.columns.left_out)
    named = table.columns.named
    if all(column.made_as is None for column in named):
        names = {column.name.lower() for column in named}
        return rows.select(*(quote_name(name) for name in rows.columns if name == TIMELABEL or name.lower() in names))
    there = {name.lower() for name in rows.columns}
    needed = (name for column in named if column.made_as for name in column.made_as.columns)
    lacking = {name.lower(): name for name in needed if name.lower() not in there}
    rows = rows.selectExpr("*", *(f"NULL AS {quote_name(name)}" for name in lacking.values()))
    sent = [quote_name(TIMELABEL)] if TIMELABEL in there else []
    for column in named:
        if column.made_as is not None:
            sent.append(f"({column.made_as.expression}) AS {quote_name(column.name)}")
        elif column.name.lower() in there:
            sent.append(quote_name(column.name))
    return rows.selectExpr(*sent)


def _find_delivered_input(work: RunContext, table: Table, batch: Batch) -> Input | None:
    """Return the input of the newest delivery, or None if all rows must be delivered again."""
    last = find_last_delivery(work, table, batch)
    are_chosen = not table.columns.is_open or bool(table.columns.left_out)
    if last is not None and are_chosen and _has_other_code(work, table, last):
        return None  # unchanged rows were sent in another form, or not masked yet
    inputs = () if last is None else work.ledger.reads.inputs(table.name, last.label)
    return inputs[0] if inputs else None


def _has_other_code(work: RunContext, table: Table, last: Slice) -> bool:
    made = work.ledger.past.audit(table.name, last.label).current
    return made is None or made.code != table.fingerprint


def last_by_key(work: RunContext, table: Table, rows: DataFrame) -> DataFrame:
    """Return for each key the rows of its newest label in an APPEND table. Return all rows of any other table.

    If a label of an APPEND table has several rows of one key, all are returned, and the audit refuses them.
    """
    source = work.flow.tables[table.reads[0].table]
    if source.mode is not Mode.APPEND:
        return rows
    return newest_by_key(rows, table.keys, keep_ties=bool(unproven_keys(table, source)))


def newest_by_key(rows: DataFrame, keys: Sequence[str], *, keep_ties: bool = False) -> DataFrame:
    """Return for each key the row of its newest label, or all its rows of that label with `keep_ties`.

    Cost: a shuffle, with `keep_ties` also a sort.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    if keep_ties:
        newest_first = Window.partitionBy(*map(quote_name, keys)).orderBy(F.col(TIMELABEL).desc())
        return rows.withColumn(_RANK, F.rank().over(newest_first)).where(f"{_RANK} = 1").drop(_RANK)
    return last_row_by_key(rows, keys, F.col(TIMELABEL))


def _find_changed_slices(work: RunContext, table: Table, pinned: PinnedRead, read: Input) -> _ChangedSlices | None:
    """Find the slices that the source committed since the version in `read`. They have all keys that changed.

    Both the old slice of a restated label and its new one are included. Extra slices do no harm. None if slices do not
    suffice to find the changes.
    """
    source = work.flow.tables[read.table]
    merge, keys = source.merge, set(table.keys)
    if any(column.made_as and column.name in keys for column in table.columns.named):
        return None  # the key has another name in the source
    never_null = {column.name for column in table.columns.named if column.is_not_null}
    if source.mode is not Mode.MERGE or merge is None or set(merge.keys) != keys or asks_rows(table):
        return None
    is_by_version = read.version >= 0 and not pinned.steps and all(it.version >= read.version for it in pinned.slices)
    if not is_by_version or not pinned.slices or never_null - keys:
        return None
    found = work.ledger.reads.changed_slices(source.name, read.version)
    folder = work.lake.folder(source.name)
    try:
        manifests = tuple(read_manifest(folder, each.slice_path) for each in found if each.slice_path)
        lost = any(damage_of_file(folder, file) for each in manifests for file in each.files)
    except WaterclockError:
        return None  # cleaned up: the stage keeps current slices, not all that ever existed
    may_be_gone = merge.delete_when is not None or len({each.label for each in found}) < len(found)
    return None if lost else _ChangedSlices(manifests, may_be_gone)


def _select_changed_rows(
    work: RunContext, spark: SparkSession, table: Table, now: DataFrame, touching: _ChangedSlices
) -> tuple[DataFrame, DataFrame]:
    from pyspark.sql import functions as F  # noqa: N812

    name = table.reads[0].table
    folder = work.lake.folder(name)
    names = table.keys
    held = [each for each in touching.manifests if each.files]
    if not held:
        return now.limit(0), now.limit(0)
    slices = frame_of_slices(spark, folder, held, table_schema(folder))
    asked = slices.select(*(F.col(f"`{key}`").alias(f"{_KEY}{at}") for at, key in enumerate(names)))
    same = F.expr(" AND ".join(f"`{key}` <=> {_KEY}{at}" for at, key in enumerate(names)))
    upserts = now.join(asked, same, "left_semi")
    if not touching.may_be_gone:
        return upserts, now.limit(0)
    missed = asked.distinct().join(now, same, "left_anti")
    types = {field.name: field.dataType.simpleString() for field in now.schema.fields}
    places = {key.lower(): f"{_KEY}{at}" for at, key in enumerate(names)}
    columns = (f"CAST({places.get(each.lower(), 'NULL')} AS {kind}) AS `{each}`" for each, kind in types.items())
    return upserts, missed.selectExpr(*columns)


def _compare_states(
    work: RunContext, spark: SparkSession, table: Table, now: DataFrame, read: Input
) -> tuple[DataFrame, DataFrame]:
    keys = list(table.keys)
    state = last_by_key(work, table, _delivered_state(work, spark, table, read))
    then = fill_columns(state, now.schema.json())  # columns that were added since are NULL there
    gone = then.join(now.select(*map(quote_name, keys)), keys, "left_anti").select(*map(quote_name, now.columns))
    # Spark compares no maps: all rows are upserted
    has_maps = any("map<" in field.dataType.simpleString() for field in now.schema.fields)
    return now if has_maps else now.exceptAll(then), gone


def _delivered_state(work: RunContext, spark: SparkSession, table: Table, read: Input) -> DataFrame:
    """Return the rows of the newest delivery, at the version to which its read was pinned.

    If that version does not exist, or VACUUM has removed its files, they are rebuilt from slices as of that delivery.
    """
    folder, source = work.lake.folder(read.table), work.flow.tables[read.table]
    # in a log that was recreated, a version of the same number has other rows
    if not is_recreated(folder, read.version) and is_readable(folder, read.version):
        # a version of an APPEND table may have labels beyond the delivered tick
        low, high = (read.low, read.high) if source.mode is Mode.APPEND else (None, None)
        rows = frame_at(spark, folder, read.version, low=low, high=high, is_partitioned=False)
        return published_columns(table, rows)
    last = work.ledger.reads.newest(table.name)
    delivered = None if last is None else work.ledger.past.audit(table.name, last.label).current
    then = None if delivered is None else delivered.claimed_at
    return published_columns(table, frame_as_of(work, spark, source, read.high, known_at=then))
