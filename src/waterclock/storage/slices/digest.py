"""Computes digests of rows: the row count and the sums of row hashes, independent of the order of rows.

A row's hash is `xxhash64` over (is it null, value) of every column, in the order of the columns' names. The names and
types are its seed, so a value that moves to another column changes the hash. Nested values are hashed as JSON with
nulls and all their digits. `timelabel` is left out. Each hash is split into its high and low half, whose sums cannot
overflow below 4 billion rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import StructType

from waterclock.spark_sql import quote_name, sql_text
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_LABEL_COLUMN = "_label"
ROWS, HIGH, LOW = "_waterclock_rows", "_waterclock_high", "_waterclock_low"
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    # JSON's default formats truncate to milliseconds, and would miss a change of microseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
JSON_OPTIONS_SQL = "map(" + ", ".join(sql_text(part) for option in JSON_OPTIONS.items() for part in option) + ")"
_NESTED = ("struct", "array", "map", "variant")


def row_hash(schema: StructType) -> Column:
    """Return the hash of a row with the columns of `schema`, without `timelabel`."""
    return F.expr(row_hash_text(schema))


def digest_columns(schema: StructType) -> list[Column]:
    """Return the aggregates that form a digest: row count, sum of the high halves, sum of the low halves of hashes."""
    return [F.expr(text) for text in digest_texts(row_hash_text(schema))]


def digest_texts(hashed: str, *, suffix: str = "") -> list[str]:
    """Return the digest's aggregates as SQL over the hash expression `hashed`, which is NULL in rows to leave out."""
    return [
        f"count({hashed}) AS {ROWS}{suffix}",
        f"sum(shiftright({hashed}, 32)) AS {HIGH}{suffix}",
        f"sum({hashed} & 4294967295L) AS {LOW}{suffix}",
    ]


def digest_of_row(row: Mapping[str, Any]) -> str:
    """Format the values of a digest's aggregates as its text: 'rows:high:low'."""
    return f"{row[ROWS]}:{row[HIGH] or 0}:{row[LOW] or 0}"


def rows_of(digest: str) -> int:
    """Return the row count of a digest."""
    return int(digest.split(":", 1)[0])


def add_digests(left: str, right: str) -> str:
    """Return the digest of the rows of two digests together."""
    return ":".join(str(int(one) + int(other)) for one, other in zip(left.split(":"), right.split(":"), strict=True))


def digests(
    frame: DataFrame, measures: Sequence[tuple[str, Column]] = (), *, names: Container[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Compute a digest for each label of a frame, and further aggregates, in one scan. Labels without rows are absent.

    The result maps each label's text to the values of the digest's columns and of the measures, by their names.
    `names` are the columns of the digest, by default all.
    """
    schema = frame.schema if names is None else StructType([each for each in frame.schema if each.name in names])
    columns = [*digest_columns(schema), *(column.alias(name) for name, column in measures)]
    rows = frame.groupBy(F.col(TIMELABEL).alias(_LABEL_COLUMN)).agg(*columns).collect()
    return {row[_LABEL_COLUMN]: {name: row[name] for name in row.asDict() if name != _LABEL_COLUMN} for row in rows}


def row_hash_text(schema: StructType) -> str:
    """Return the SQL text of a row's hash without timelabel; column functions would take 2 ms per column."""
    fields = sorted((field for field in schema.fields if field.name.lower() != TIMELABEL), key=lambda f: f.name)
    shape = json.dumps([(field.name, field.dataType.simpleString()) for field in fields])
    seed = int.from_bytes(hashlib.blake2b(shape.encode(), digest_size=8).digest(), "big", signed=True)
    parts = [f"CAST('{seed}' AS BIGINT)"]
    for field in fields:
        name = quote_name(field.name)
        parts += [f"isnull({name})", f"to_json({name}, {JSON_OPTIONS_SQL})" if _is_nested(field.dataType) else name]
    return f"xxhash64({', '.join(parts)})"


def _is_nested(type_: DataType) -> bool:
    return type_.typeName() in _NESTED
