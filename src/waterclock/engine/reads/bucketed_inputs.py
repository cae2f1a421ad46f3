"""Reads sealed slices of a table with BUCKET BY through Spark's catalogue, which knows their buckets.

A table of the session's catalogue has the pinned slices as its partitions. Spark then joins, groups and ranks by the
columns of the buckets without an exchange. The table is dropped when the attempt has ended; its files stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from waterclock.engine.spark.connect import is_remote
from waterclock.files.filesystem import entry_path
from waterclock.flow.column_types import text_of_type, type_of_json
from waterclock.spark_sql import INTERNAL_PREFIX, ddl_of, quote_name, sql_text
from waterclock.storage.lake import STAGE
from waterclock.storage.log.delta_log import table_of
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.buckets import bucket_of
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import require_sizes
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CATALOGUE = "spark.sql.catalogImplementation"
_MOST_SLICES = 200
_NUMBERS = count()
_reasons_of: WeakKeyDictionary[SparkSession, list[str]] = WeakKeyDictionary()
_tables: WeakKeyDictionary[SparkSession, list[str]] = WeakKeyDictionary()


def bucketed_frame(
    spark: SparkSession, folder: str, manifests: Sequence[Manifest], schema: StructType
) -> DataFrame | None:
    """Return the rows of slices as a table in buckets, or None if Spark cannot read them so.

    Raises E605 for a file whose size differs from that in its manifest. Cost: no job; a listing of each slice.
    """
    why = _unusable_session(spark) or no_buckets_why(manifests, schema)
    if why:
        _reasons_of.setdefault(spark, []).append(f"{table_of(folder)} is read without its buckets: {why}")
        return None
    require_sizes(folder, [file for manifest in manifests for file in manifest.files])
    name = f"{INTERNAL_PREFIX}buckets_{uuid4().hex}_{next(_NUMBERS)}"
    by = ", ".join(map(quote_name, manifests[0].bucketed_by))
    columns = ddl_of((field.name, text_of_type(type_of_json(json.loads(field.dataType.json())))) for field in schema)
    _tables.setdefault(spark, []).append(name)
    spark.sql(
        f"CREATE TABLE spark_catalog.default.{name} ({columns}) USING parquet PARTITIONED BY ({quote_name(TIMELABEL)}) "
        f"CLUSTERED BY ({by}) SORTED BY ({by}) INTO {manifests[0].buckets} BUCKETS "
        f"LOCATION {sql_text(str(entry_path(folder, STAGE, name)))}"
    )
    parts = " ".join(
        f"PARTITION ({quote_name(TIMELABEL)} = {sql_text(label_of(each.label))}) "
        f"LOCATION {sql_text(str(entry_path(folder, each.slice_path)))}"
        for each in manifests
        if each.files
    )
    if parts:
        spark.sql(f"ALTER TABLE spark_catalog.default.{name} ADD {parts}")
    # Spark takes a table without statistics for a very large one: it would not broadcast it, nor read it in one task
    spark.sql(f"ANALYZE TABLE spark_catalog.default.{name} COMPUTE STATISTICS NOSCAN")
    rows = spark.table(f"spark_catalog.default.{name}")
    return rows.select(*(quote_name(field.name) for field in schema))


def reasons_without_buckets(spark: SparkSession) -> list[str]:
    """Return why reads of a session did not use the buckets of their tables."""
    return list(dict.fromkeys(_reasons_of.get(spark, [])))


def drop_bucketed_tables(spark: SparkSession) -> None:
    """Drop the catalogue tables that a session's reads have made. Their files stay. A dead JVM has none."""
    for name in _tables.pop(spark, []):
        with suppress(Exception):
            spark.sql(f"DROP TABLE IF EXISTS spark_catalog.default.{name}")


def _unusable_session(spark: SparkSession) -> str:
    if is_remote(spark):
        return "over Spark Connect, the catalogue may be shared with others"
    # a table in a metastore would be seen by others, and stay if this process is killed
    is_own = spark.conf.get(_CATALOGUE, "in-memory") == "in-memory"
    return "" if is_own else "the session's catalogue is a metastore"


def no_buckets_why(manifests: Sequence[Manifest], schema: StructType) -> str:
    """Return why slices cannot be read in buckets, or "" if they can."""
    return next(_reasons(manifests, schema), "")


def _reasons(manifests: Sequence[Manifest], schema: StructType) -> Iterator[str]:
    first = manifests[0]
    if len(manifests) > _MOST_SLICES:
        yield f"{len(manifests)} labels are read, more than {_MOST_SLICES}"
    wanted = {field.name: json.loads(field.dataType.json()) for field in schema}
    for manifest in manifests:
        label = label_of(manifest.label)
        if not manifest.buckets or any(bucket_of(file.path) is None for file in manifest.files):
            yield f"label {label} is not in buckets"
        if (manifest.bucketed_by, manifest.buckets) != (first.bucketed_by, first.buckets):
            yield f"label {label} is in buckets by other columns, or in another number of them"
        own = _types(manifest.schema)
        if any(own.get(name, type_) != type_ for name, type_ in wanted.items()):
            yield f"label {label} has columns of other types"


def _types(schema: str) -> Mapping[str, Any]:
    return {name: field["type"] for name, field in fields_of(schema).items()}
