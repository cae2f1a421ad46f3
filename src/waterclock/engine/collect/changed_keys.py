"""Completes rows of a change log whose key changed: large unchanged values are copied from the row of the old key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - F is the usual name
from pyspark.sql.types import StructField, StructType

from waterclock.flow.changes import LSN, MISSING, OP, SEQ
from waterclock.spark_sql import quote_name, sql_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_WAS, _MOVED = "_waterclock_was", "_waterclock_moved"
_Key = tuple[Any, ...]
_Place = tuple[int, int]


def complete_moved_rows(rows: DataFrame, own: DataFrame | None, keys: Sequence[str], names: Sequence[str]) -> DataFrame:
    """Fill missing values in log rows whose key was changed. `names` are the columns that may be missing.

    The values are those of the old key's row: in the log if that row was changed there too, even by several key
    changes, or else in the table's `own` rows. Cost: rows of the old keys are collected to the driver and processed one
    by one.
    """
    moved = rows.where(f"{OP} = 'insert' AND size({MISSING}) > 0").select(LSN, SEQ, MISSING)
    old = rows.where(f"{OP} = 'delete'").select(
        LSN, (F.col(SEQ) + 1).alias(SEQ), *(F.col(quote_name(key)).alias(f"{_WAS}{at}") for at, key in enumerate(keys))
    )
    asked = {(row[LSN], row[SEQ]): row for row in moved.join(old, [LSN, SEQ]).collect()}
    if not asked:
        return rows
    spark = rows.sparkSession
    by_name = {field.name.lower(): field for field in rows.schema.fields}
    key_fields = [by_name[key.lower()] for key in keys]
    given_up = {_key_values(row, [f"{_WAS}{at}" for at, _ in enumerate(keys)]) for row in asked.values()}
    known = F.broadcast(spark.createDataFrame(list(given_up), StructType(key_fields)))
    there = rows.join(known, list(keys), "left_semi").select(LSN, SEQ, OP, MISSING, *map(quote_name, [*keys, *names]))
    found = _moved_values(asked, there.collect(), _own_values(own, known, keys, names), keys, names)
    fields = [by_name[LSN], by_name[SEQ], *(StructField(f"{_MOVED}{at}", by_name[name.lower()].dataType)
              for at, name in enumerate(names))]  # fmt: skip
    values = spark.createDataFrame(
        [(*place, *(carried.get(name) for name in names)) for place, carried in found.items()], StructType(fields)
    ).withColumn(_MOVED, F.expr("true"))
    joined = rows.join(F.broadcast(values), [LSN, SEQ], "left")
    made = {
        name: f"CASE WHEN {_MOVED} AND array_contains({MISSING}, {sql_text(name)}) THEN {_MOVED}{at} "
        f"ELSE {quote_name(name)} END AS {quote_name(name)}"
        for at, name in enumerate(names)
    }
    made[MISSING] = f"CASE WHEN {_MOVED} THEN CAST(array() AS ARRAY<STRING>) ELSE {MISSING} END AS {MISSING}"
    return joined.selectExpr(*(made.get(name, quote_name(name)) for name in rows.columns))


def _own_values(
    own: DataFrame | None, known: DataFrame, keys: Sequence[str], names: Sequence[str]
) -> dict[_Key, dict[str, Any]]:
    if own is None:
        return {}
    there = {name.lower(): name for name in own.columns}
    present = [name for name in names if name.lower() in there]
    rows = own.join(known, list(keys), "left_semi").select(*map(quote_name, [*keys, *present])).collect()
    return {_key_values(row, keys): {name: row[there[name.lower()]] for name in present} for row in rows}


def _moved_values(
    asked: Mapping[_Place, Row],
    rows: Sequence[Row],
    held: dict[_Key, dict[str, Any]],
    keys: Sequence[str],
    names: Sequence[str],
) -> dict[_Place, dict[str, Any]]:
    """Return the missing values of each moved row, by its place in the log. The changes are processed in log order.

    `held` has the current values of each key. A deleted key stays in it, for rows that moved away from it.
    """
    found: dict[_Place, dict[str, Any]] = {}
    by_place = {(row[LSN], row[SEQ]): row for row in rows}
    for place in sorted({*asked, *by_place}):
        row, moved = by_place.get(place), asked.get(place)
        if moved is not None:
            before = held.get(_key_values(moved, [f"{_WAS}{at}" for at, _ in enumerate(keys)]), {})
            found[place] = {name: before.get(name) for name in moved[MISSING]}
        if row is None or row[OP] in {"delete", "truncate"}:
            continue
        lacks = set(row[MISSING])
        own = {name: row[name] for name in names if name not in lacks}
        held[_key_values(row, keys)] = {**held.get(_key_values(row, keys), {}), **own, **found.get(place, {})}
    return found


def _key_values(row: Row, names: Sequence[str]) -> _Key:
    return tuple(bytes(value) if isinstance(value := row[name], bytearray) else value for name in names)
