"""Marks rows by the rules they break, in the same job that writes them, so that their source is evaluated once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from waterclock.files.filesystem import arrow_source, entry_path
from waterclock.flow.origins import IN_ROWS
from waterclock.spark_sql import INTERNAL_PREFIX, quote_name, sql_text
from waterclock.storage.schema_types import sql_type
from waterclock.storage.slices.digest import JSON_OPTIONS_SQL, row_hash_text
from waterclock.storage.slices.manifest import DataFile
from waterclock.storage.slices.row_filter import (
    BROKEN,
    FILE,
    FILE_ROW,
    HASH,
    MASK,
    QUARANTINE_DETAILS,
    ROW,
    ROW_DROPPED,
    ROW_KEPT,
    ROW_OUTCOME,
    ROW_QUARANTINED,
    UNREAD,
    UNREAD_AS,
    RowFilter,
    RowFilterSettings,
    is_hidden,
)
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_IS_PAST = f"{INTERNAL_PREFIX}is_past"
_FOUND = f"{INTERNAL_PREFIX}found"
_MASK_LEAF = f"{QUARANTINE_DETAILS}.{MASK}"
_HASH_LEAF = f"{QUARANTINE_DETAILS}.{HASH}"
_LOW_BITS = 0xFFFFFFFF


def add_rule_marks(frame: DataFrame, through: RowFilterSettings) -> DataFrame:
    """Add to each row its outcome (`ROW_OUTCOME`), and to rows that break rules the details (`QUARANTINE_DETAILS`).

    A quarantined row keeps its original columns as JSON. Cost: one expression per rule, and one exchange for a rule on
    the key, which includes the keys of earlier labels that it is compared with.
    """
    row_filter = through.row_filter
    shown = [name for name in frame.columns if not is_hidden(name)]
    origins = {FILE: IN_ROWS["file"], FILE_ROW: IN_ROWS["row"]}
    origins = {field: name for field, name in origins.items() if name in frame.columns}
    raw = [*through.raw.values(), *([through.row] if through.row else [])]
    needed = list(dict.fromkeys([*shown, *raw, *origins.values()]))
    marked = frame.selectExpr(*map(quote_name, needed), f"{marks_text(row_filter)} AS {BROKEN}")
    if row_filter.keys:
        names = [*map(quote_name, needed), BROKEN]
        marked = _add_earlier_keys(marked, through, names)
        tie = row_hash_text(StructType([field for field in frame.schema.fields if field.name in shown]))
        found = _key_mark_sql(row_filter, tie, has_label=TIMELABEL in shown, has_past=through.past is not None)
        marked = marked.selectExpr(*names, *([_IS_PAST] if through.past is not None else []), f"{found} AS {_FOUND}")
        marked = marked if through.past is None else marked.where(f"NOT {_IS_PAST}")
        marked = marked.selectExpr(*map(quote_name, needed), f"{BROKEN} | {_FOUND} AS {BROKEN}")
    with_outcome = marked.selectExpr(*map(quote_name, needed), BROKEN, f"{outcome_text(row_filter)} AS {ROW_OUTCOME}")
    as_it_came = quote_name(through.row) if through.row else row_json(through.raw)
    row = f"CASE WHEN {ROW_OUTCOME} = {ROW_QUARANTINED} THEN {as_it_came} END"
    unfit = with_outcome.selectExpr(
        *map(quote_name, [*shown, *origins.values()]), BROKEN, ROW_OUTCOME, f"{row} AS {ROW_TEXT}"
    )
    where = "".join(f", '{field}', {quote_name(name)}" for field, name in origins.items())
    aside = (
        f"CASE WHEN {BROKEN} != 0 THEN named_struct('{ROW}', {ROW_TEXT}, '{MASK}', {BROKEN}, "
        f"'{HASH}', CASE WHEN {ROW_OUTCOME} = {ROW_QUARANTINED} THEN xxhash64({ROW_TEXT}, {BROKEN}) END{where}) END "
        f"AS {QUARANTINE_DETAILS}"
    )
    return unfit.selectExpr(*(_column_sql(name, row_filter) for name in shown), ROW_OUTCOME, aside)


ROW_TEXT = f"{INTERNAL_PREFIX}row"


def row_json(raw: Mapping[str, str]) -> str:
    """Return SQL for the received row as JSON: its columns, or the text of a line that could not be read.

    `raw` maps the received columns to their names in the frame.
    """
    parts = ", ".join(f"{sql_text(name)}, {quote_name(at)}" for name, at in raw.items() if at != UNREAD)
    columns = f"to_json(named_struct({parts}), {JSON_OPTIONS_SQL})"
    if UNREAD not in raw.values():
        return columns
    line = f"to_json(named_struct({sql_text(UNREAD_AS)}, {UNREAD}), {JSON_OPTIONS_SQL})"
    return f"CASE WHEN {UNREAD} IS NULL THEN {columns} ELSE {line} END"


def marks_text(row_filter: RowFilter) -> str:
    """Return SQL for the bits of the rules that a row breaks, without the rule on the key."""
    plain = [(1 << at, row_rule) for at, row_rule in enumerate(row_filter.row_rules) if row_rule.holds]
    marks = [
        f"CASE WHEN ({row_rule.holds}) THEN 0L ELSE {bit}L END" for bit, row_rule in plain if not row_rule.is_alone
    ]
    text = " | ".join(marks) or "0L"
    for bit, row_rule in plain:
        text = f"CASE WHEN ({row_rule.holds}) THEN {text} ELSE {bit}L END" if row_rule.is_alone else text
    return text


def _column_sql(name: str, row_filter: RowFilter) -> str:
    """Return SQL for a column. In a dropped row its value is NULL."""
    if not row_filter.drops or name == TIMELABEL:
        return quote_name(name)
    return f"CASE WHEN {ROW_OUTCOME} != {ROW_DROPPED} THEN {quote_name(name)} END AS {quote_name(name)}"


def first_text(row_filter: RowFilter) -> str:
    """Return SQL for the bit of the first rule by which a marked row is quarantined or dropped; 0 if the row stays."""
    out = row_filter.bits(ROW_QUARANTINED, ROW_DROPPED)
    return f"(({BROKEN} & {out}L) & -({BROKEN} & {out}L))"


def outcome_text(row_filter: RowFilter) -> str:
    """Return SQL for the outcome of a marked row."""
    out, dropping = row_filter.bits(ROW_QUARANTINED, ROW_DROPPED), row_filter.bits(ROW_DROPPED)
    first = first_text(row_filter)
    gone = (
        f"CASE WHEN {first} & {dropping}L != 0 THEN {ROW_DROPPED} ELSE {ROW_QUARANTINED} END"
        if dropping
        else str(ROW_QUARANTINED)
    )
    return f"CASE WHEN {BROKEN} & {out}L = 0 THEN {ROW_KEPT} ELSE {gone} END"


def _add_earlier_keys(marked: DataFrame, through: RowFilterSettings, names: Sequence[str]) -> DataFrame:
    """Add the keys of earlier labels as rows without other values, so that one exchange groups them with new rows."""
    if through.past is None:
        return marked
    keys = {quote_name(key).lower(): quote_name(key) for key in through.row_filter.keys}
    types = {quote_name(field.name): sql_type(field.dataType.jsonValue()) for field in marked.schema.fields}
    nothing = [
        f"{keys[name.lower()]} AS {name}" if name.lower() in keys else f"CAST(NULL AS {types[name]}) AS {name}"
        for name in names[:-1]
    ]
    past = through.past.selectExpr(*nothing, f"0L AS {BROKEN}", f"TRUE AS {_IS_PAST}")
    return marked.selectExpr(*names, f"FALSE AS {_IS_PAST}").unionAll(past)


def _key_mark_sql(row_filter: RowFilter, tie: str, *, has_label: bool, has_past: bool) -> str:
    """Return SQL for the mark of a row with a NULL key, or with the key of another row of its label that is kept.

    Without an order, none of several rows with one key stays. A row whose key exists in an earlier label gets the mark
    of a separate rule instead.
    """
    last = len(row_filter.row_rules) - 1
    bit, out = 1 << last, row_filter.bits(ROW_QUARANTINED, ROW_DROPPED) & ~(1 << last)
    null_key = " OR ".join(f"{quote_name(key)} IS NULL" for key in row_filter.keys)
    alone_bits = sum(1 << at for at, row_rule in enumerate(row_filter.row_rules) if row_rule.is_alone)
    null_key = f"({BROKEN} & {alone_bits}L = 0 AND ({null_key}))" if alone_bits else null_key
    if not row_filter.is_unique:
        return f"CASE WHEN {null_key} THEN {bit}L ELSE 0L END"
    # if earlier keys are given, all new rows have one label
    by = ", ".join([*([TIMELABEL] if has_label and not has_past else []), *map(quote_name, row_filter.keys)])
    stays = f"({BROKEN} & {out}L = 0" + (f" AND NOT {_IS_PAST})" if has_past else ")")
    others = f"count_if({stays}) OVER (PARTITION BY {by}) > 1"
    if row_filter.order:
        order = ", ".join([f"{stays} DESC", *row_filter.order, tie])
        others = f"row_number() OVER (PARTITION BY {by} ORDER BY {order}) > 1"
    marks = f"WHEN {stays} AND {others} THEN {bit}L"
    if has_past:
        marks = f"WHEN bool_or({_IS_PAST}) OVER (PARTITION BY {by}) THEN {1 << last - 1}L {marks}"
    return f"CASE WHEN {null_key} THEN {bit}L {marks} ELSE 0L END"


def count_rule_masks(folder: str, files: Sequence[DataFile]) -> Counter[int]:
    """Count the rows of files by the set of rules that they broke (a bit mask). Cost: a column per file, no Spark."""
    found: Counter[int] = Counter()
    for file in files:
        with pq.ParquetFile(arrow_source(entry_path(folder, file.path), file.size)) as parquet:
            column = parquet.read(columns=[_MASK_LEAF]).column(QUARANTINE_DETAILS)
        masks = pc.drop_null(pc.struct_field(column, MASK))
        for each in pc.value_counts(masks).to_pylist():
            found[each["values"]] += each["counts"]
    return found


def quarantine_digest(folder: str, files: Sequence[DataFile]) -> str:
    """Return a digest of quarantined rows like a slice's: their number and the sums of their hashes."""
    rows = high = low = 0
    for file in files:
        with pq.ParquetFile(arrow_source(entry_path(folder, file.path), file.size)) as parquet:
            column = parquet.read(columns=[_HASH_LEAF]).column(QUARANTINE_DETAILS)
        hashes = pc.struct_field(column, HASH)
        rows += len(hashes)
        high += pc.sum(pc.shift_right(hashes, 32)).as_py()
        low += pc.sum(pc.bit_wise_and(hashes, _LOW_BITS)).as_py()
    return f"{rows}:{high}:{low}" if rows else ""
