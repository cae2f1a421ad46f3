"""Marks rows by what they break, in the pass that writes them: what they are made of is evaluated once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from waterclock.filesystem import at, readable
from waterclock.flow.origins import IN_ROWS
from waterclock.spark_sql import quoted, sql_text
from waterclock.storage.slices.digest import JSON_OPTIONS_SQL, row_hash_text
from waterclock.storage.slices.manifest import DataFile
from waterclock.storage.slices.sieve import (
    ASIDE,
    BROKEN,
    DROPPED,
    FATE,
    FILE,
    FILE_ROW,
    HASH,
    HIDDEN,
    MASK,
    ROW,
    SET_ASIDE,
    STAYS,
    UNREAD,
    UNREAD_AS,
    Sieve,
    Through,
    is_hidden,
)
from waterclock.storage.types import sql_type
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_IS_PAST = f"{HIDDEN}is_past"
_FOUND = f"{HIDDEN}found"
_MASK_LEAF = f"{ASIDE}.{MASK}"
_HASH_LEAF = f"{ASIDE}.{HASH}"
_LOW = 0xFFFFFFFF


def sift(frame: DataFrame, through: Through) -> DataFrame:
    """Add to each row what becomes of it (`FATE`), and to those that break something what they broke (`ASIDE`).

    Of a row that is set aside its columns are kept as JSON, as they came. Cost: one expression a demand; one exchange
    where the key is one of them, in which the keys of its past take part.
    """
    sieve = through.sieve
    shown = [name for name in frame.columns if not is_hidden(name)]
    origins = {FILE: IN_ROWS["file"], FILE_ROW: IN_ROWS["row"]}
    origins = {field: name for field, name in origins.items() if name in frame.columns}
    raw = [*through.raw.values(), *([through.row] if through.row else [])]
    needed = list(dict.fromkeys([*shown, *raw, *origins.values()]))
    marked = frame.selectExpr(*map(quoted, needed), f"{marks_text(sieve)} AS {BROKEN}")
    if sieve.keys:
        names = [*map(quoted, needed), BROKEN]
        marked = _beside_past(marked, through, names)
        tie = row_hash_text(StructType([field for field in frame.schema.fields if field.name in shown]))
        found = _key_mark(sieve, tie, has_label=TIMELABEL in shown, has_past=through.past is not None)
        marked = marked.selectExpr(*names, *([_IS_PAST] if through.past is not None else []), f"{found} AS {_FOUND}")
        marked = marked if through.past is None else marked.where(f"NOT {_IS_PAST}")
        marked = marked.selectExpr(*map(quoted, needed), f"{BROKEN} | {_FOUND} AS {BROKEN}")
    fated = marked.selectExpr(*map(quoted, needed), BROKEN, f"{fate_text(sieve)} AS {FATE}")
    as_it_came = quoted(through.row) if through.row else row_json(through.raw)
    row = f"CASE WHEN {FATE} = {SET_ASIDE} THEN {as_it_came} END"
    told = fated.selectExpr(*map(quoted, [*shown, *origins.values()]), BROKEN, FATE, f"{row} AS {ROW_TEXT}")
    where = "".join(f", '{field}', {quoted(name)}" for field, name in origins.items())
    aside = (
        f"CASE WHEN {BROKEN} != 0 THEN named_struct('{ROW}', {ROW_TEXT}, '{MASK}', {BROKEN}, "
        f"'{HASH}', CASE WHEN {FATE} = {SET_ASIDE} THEN xxhash64({ROW_TEXT}, {BROKEN}) END{where}) END AS {ASIDE}"
    )
    return told.selectExpr(*(_kept(name, sieve) for name in shown), FATE, aside)


ROW_TEXT = f"{HIDDEN}row"


def row_json(raw: Mapping[str, str]) -> str:
    """Write the row as it came as JSON: its columns by name, each found in the frame under another, or its line."""
    parts = ", ".join(f"{sql_text(name)}, {quoted(at)}" for name, at in raw.items() if at != UNREAD)
    columns = f"to_json(named_struct({parts}), {JSON_OPTIONS_SQL})"
    if UNREAD not in raw.values():
        return columns
    line = f"to_json(named_struct({sql_text(UNREAD_AS)}, {UNREAD}), {JSON_OPTIONS_SQL})"
    return f"CASE WHEN {UNREAD} IS NULL THEN {columns} ELSE {line} END"


def marks_text(sieve: Sieve) -> str:
    """Write the bits of what a row breaks, the key left aside."""
    plain = [(1 << at, mesh) for at, mesh in enumerate(sieve.meshes) if mesh.holds]
    marks = [f"CASE WHEN ({mesh.holds}) THEN 0L ELSE {bit}L END" for bit, mesh in plain if not mesh.is_alone]
    text = " | ".join(marks) or "0L"
    for bit, mesh in plain:
        text = f"CASE WHEN ({mesh.holds}) THEN {text} ELSE {bit}L END" if mesh.is_alone else text
    return text


def _kept(name: str, sieve: Sieve) -> str:
    """Write a column; of what is dropped no value is written, only that it was."""
    if not sieve.drops or name == TIMELABEL:
        return quoted(name)
    return f"CASE WHEN {FATE} != {DROPPED} THEN {quoted(name)} END AS {quoted(name)}"


def first_text(sieve: Sieve) -> str:
    """Write the bit of the first demand for which a row that is marked is taken out; 0 of one that stays."""
    out = sieve.bits(SET_ASIDE, DROPPED)
    return f"(({BROKEN} & {out}L) & -({BROKEN} & {out}L))"


def fate_text(sieve: Sieve) -> str:
    """Write what becomes of a row that is marked."""
    out, dropping = sieve.bits(SET_ASIDE, DROPPED), sieve.bits(DROPPED)
    first = first_text(sieve)
    gone = f"CASE WHEN {first} & {dropping}L != 0 THEN {DROPPED} ELSE {SET_ASIDE} END" if dropping else str(SET_ASIDE)
    return f"CASE WHEN {BROKEN} & {out}L = 0 THEN {STAYS} ELSE {gone} END"


def _beside_past(marked: DataFrame, through: Through, names: Sequence[str]) -> DataFrame:
    """Put the keys of the past among the rows, so that one exchange brings both together; they hold nothing else."""
    if through.past is None:
        return marked
    keys = {quoted(key).lower(): quoted(key) for key in through.sieve.keys}
    types = {quoted(field.name): sql_type(field.dataType.jsonValue()) for field in marked.schema.fields}
    nothing = [
        f"{keys[name.lower()]} AS {name}" if name.lower() in keys else f"CAST(NULL AS {types[name]}) AS {name}"
        for name in names[:-1]
    ]
    past = through.past.selectExpr(*nothing, f"0L AS {BROKEN}", f"TRUE AS {_IS_PAST}")
    return marked.selectExpr(*names, f"FALSE AS {_IS_PAST}").unionAll(past)


def _key_mark(sieve: Sieve, tie: str, *, has_label: bool, has_past: bool) -> str:
    """Write the marks of a row whose key is NULL, or of which, among the rows of its label that stay, another does.

    Without an order none stays of several. A key of the past is a mark of its own, and no row of it is any other's.
    """
    last = len(sieve.meshes) - 1
    bit, out = 1 << last, sieve.bits(SET_ASIDE, DROPPED) & ~(1 << last)
    lacking = " OR ".join(f"{quoted(key)} IS NULL" for key in sieve.keys)
    alone = sum(1 << at for at, mesh in enumerate(sieve.meshes) if mesh.is_alone)
    lacking = f"({BROKEN} & {alone}L = 0 AND ({lacking}))" if alone else lacking
    if not sieve.is_unique:
        return f"CASE WHEN {lacking} THEN {bit}L ELSE 0L END"
    # rows with a past are of one label
    by = ", ".join([*([TIMELABEL] if has_label and not has_past else []), *map(quoted, sieve.keys)])
    stays = f"({BROKEN} & {out}L = 0" + (f" AND NOT {_IS_PAST})" if has_past else ")")
    others = f"count_if({stays}) OVER (PARTITION BY {by}) > 1"
    if sieve.order:
        order = ", ".join([f"{stays} DESC", *sieve.order, tie])
        others = f"row_number() OVER (PARTITION BY {by} ORDER BY {order}) > 1"
    marks = f"WHEN {stays} AND {others} THEN {bit}L"
    if has_past:
        marks = f"WHEN bool_or({_IS_PAST}) OVER (PARTITION BY {by}) THEN {1 << last - 1}L {marks}"
    return f"CASE WHEN {lacking} THEN {bit}L {marks} ELSE 0L END"


def masks_in(folder: str, files: Sequence[DataFile]) -> Counter[int]:
    """Count the rows of files that broke something, by what they broke. Cost: one column of each file, no Spark job."""
    found: Counter[int] = Counter()
    for file in files:
        with pq.ParquetFile(readable(at(folder, file.path), file.size)) as parquet:
            column = parquet.read(columns=[_MASK_LEAF]).column(ASIDE)
        masks = pc.drop_null(pc.struct_field(column, MASK))
        for each in pc.value_counts(masks).to_pylist():
            found[each["values"]] += each["counts"]
    return found


def aside_digest(folder: str, files: Sequence[DataFile]) -> str:
    """Digest the rows that were set aside, as a slice's own rows are: their number and sums of their hashes."""
    rows = high = low = 0
    for file in files:
        with pq.ParquetFile(readable(at(folder, file.path), file.size)) as parquet:
            column = parquet.read(columns=[_HASH_LEAF]).column(ASIDE)
        hashes = pc.struct_field(column, HASH)
        rows += len(hashes)
        high += pc.sum(pc.shift_right(hashes, 32)).as_py()
        low += pc.sum(pc.bit_wise_and(hashes, _LOW)).as_py()
    return f"{rows}:{high}:{low}" if rows else ""
