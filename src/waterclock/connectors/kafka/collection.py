"""Reads the records of a topic into a Spark frame: few in this process, many by Spark's workers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from waterclock.connectors import worker_errors
from waterclock.connectors.column_matching import CollectedColumn, ColumnMatch, SourceColumn, map_column_types, match
from waterclock.connectors.interface import Collected
from waterclock.connectors.kafka.avro import unreadable
from waterclock.connectors.kafka.reading import RAW, KafkaExtract, batches, schema
from waterclock.connectors.nested_decimals import narrow_value, type_to_read
from waterclock.connectors.spark_frames import DIRECT_ROWS, are_few, read_by_workers, read_if_few
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns
from waterclock.spark_sql import ddl_of, quote_name, sql_text
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ERROR_MARK = "waterclock-record:"
_NESTED = ("STRUCT", "ARRAY", "MAP", "TIMESTAMP", "BINARY", "VARIANT")
_DIGITS = ("VARIANT", "STRING")
_EXACT = ("DECIMAL", "DEC", "NUMERIC")
METADATA_COLUMNS = {f"kafka_{name}": name for name in RAW if name != "value"}
"""The columns that the option `metadata` adds, with the columns of a record from which they are copied."""


def collect_records(
    spark: SparkSession, extract: KafkaExtract, shape: TopicShape, columns: Columns, zone: str
) -> Collected:
    """Read the records of an extract into a frame with the columns of their format."""
    frame = _read_records(spark, extract)
    found = shape.find_columns(frame, extract, columns)
    matched = match(columns, found, where=extract.where)
    return Collected(
        shape.select_columns(frame, matched, zone),
        left_out=matched.left_out,
        is_empty=not extract.parts,
        source_columns=map_column_types(found) if extract.parts else {},
        may_miss_columns=shape.kind == "json",
    )


def find_worker_error(error: BaseException, where: str, topic: str) -> WaterclockError | None:
    """Return the Waterclock error in a Spark error, from a worker or for an unreadable record; None if it has none."""
    if decoded := worker_errors.decode_error(error):
        return decoded
    message = str(error)
    if found := re.search(re.escape(_ERROR_MARK) + r"(\d+)/(\d+)/([^\n\]]*?)(?:\s+SQLSTATE|$|\n)", message):
        return unreadable(where, topic, found[1], found[2], found[3])
    return None


class TopicShape:
    """Maps records to columns: all columns of the record (`raw`), its value (`text`), or the fields of its value."""

    def __init__(self, kind: str, *, has_metadata: bool, typed: Mapping[str, str] | None = None) -> None:
        """Set the format of values. `typed` are the fields of the schema with their types; None without a schema."""
        self.kind = kind
        self.has_metadata = has_metadata
        self.typed = typed

    def list_fixed_columns(self) -> dict[str, str] | None:
        """Return the columns with their types if they are known without reading records; else None."""
        metadata = {name: RAW[of] for name, of in METADATA_COLUMNS.items()} if self.has_metadata else {}
        if self.kind == "raw":
            return dict(RAW)
        if self.kind == "text":
            return {"value": "STRING", **metadata}
        return None if self.typed is None else {**self.typed, **metadata}

    def find_columns(self, frame: DataFrame, extract: KafkaExtract, columns: Columns) -> list[SourceColumn]:
        """Return the columns of the records. For JSON, declared columns are included, as any object may omit them.

        Cost: for JSON, one pass over the records, even if all columns are declared.
        """
        fixed = self.list_fixed_columns()
        if fixed is not None:
            return [SourceColumn(name, kind) for name, kind in fixed.items()]
        metadata = [SourceColumn(name, RAW[of]) for name, of in METADATA_COLUMNS.items()] if self.has_metadata else []
        own = {name.name.lower() for name in metadata}
        declared = [it.name for it in columns.named if it.metadata_field is None and it.name.lower() not in own]
        keys: list[str] = []
        if extract.parts:
            objects = frame.selectExpr(f"explode(json_object_keys({_value_text_sql(is_object=True)})) AS name")
            keys = sorted(row[0] for row in objects.distinct().collect())
        known = {name.lower() for name in keys}
        keys += [name for name in declared if name.lower() not in known]
        return [*(SourceColumn(name) for name in keys), *metadata]

    def select_columns(self, frame: DataFrame, matched: ColumnMatch, zone: str) -> DataFrame:
        """Select the columns that the collect reads, with their types, and the label."""
        if self.kind in {"raw", "text"}:
            own = {"value": _value_text_sql(is_object=False)} if self.kind == "text" else {}
            taken = [
                f"{own.get(it.source, quote_name(METADATA_COLUMNS.get(it.source, it.source)))} AS {quote_name(it.name)}"
                for it in matched.taken
            ]
            return frame.selectExpr(*taken, TIMELABEL)
        fields = [it for it in matched.taken if it.source not in METADATA_COLUMNS or not self.has_metadata]
        parsed, texts = (ddl_of((it.source, _type_to_read(it.type, digits)) for it in fields) for digits in _DIGITS)
        options = f"map('mode', 'FAILFAST', 'timeZone', {sql_text(zone)})"
        read = f"CAST(from_json({_value_text_sql(is_object=True)}, {sql_text(parsed)}, {options}) AS STRUCT<{texts}>)"
        read = read if fields else "NULL"
        names = {it.source for it in fields}
        taken = [
            f"{_typed_field_sql(it)} AS {quote_name(it.name)}"
            if it.source in names
            else f"{quote_name(METADATA_COLUMNS[it.source])} AS {quote_name(it.name)}"
            for it in matched.taken
        ]
        return frame.selectExpr("*", f"{read} AS _waterclock_read").selectExpr(*taken, TIMELABEL)


def _type_to_read(kind: str, digits: str) -> str:
    """Return the type with which a field is parsed: `digits` for a DECIMAL, STRING for other scalar types.

    Scalar values are cast later. Spark would convert a number to a STRING through a double. A VARIANT preserves its
    digits, and is then cast to a STRING.
    """
    if kind.upper().startswith(_EXACT):
        return digits
    return type_to_read(kind, digits) if kind.upper().startswith(_NESTED) else "STRING"


def _typed_field_sql(taken: CollectedColumn) -> str:
    """Return SQL that converts a field to its declared type, or else to the type in the schema."""
    read = f"_waterclock_read.{quote_name(taken.source)}"
    found = _type_to_read(taken.type, "STRING")
    if "<" in found and found != taken.type:
        why = f"{taken.source} is not {taken.type}"
        wrong = f"CASE WHEN {read} IS NOT NULL THEN {_raise_error_sql(sql_text(why))} END"
        return f"coalesce({narrow_value(read, taken.type)}, {wrong})"
    is_read = taken.is_typed or found == taken.type
    return read if is_read else f"CAST({read} AS {taken.type})"


def _value_text_sql(*, is_object: bool) -> str:
    """Return SQL for a record's value as text, which raises an error with the record's position for an invalid value.

    A value is invalid if it is not UTF-8 or, with `is_object`, not a JSON object.
    """
    text = "CAST(value AS STRING)"
    checks = [(f"NOT is_valid_utf8({text})", "its value is not UTF-8 text")]
    if is_object:
        checks.append(
            (
                f"{text} NOT RLIKE '^[ \\t\\r\\n]*[{{]' OR try_parse_json({text}) IS NULL",
                "its value is not a JSON object",
            )
        )
    cases = " ".join(
        f"WHEN value IS NOT NULL AND ({check}) THEN {_raise_error_sql(sql_text(why))}" for check, why in checks
    )
    return f"CASE {cases} ELSE {text} END"


def _raise_error_sql(why: str) -> str:
    """Return SQL that raises an error with the position of a record and the reason `why` (also SQL)."""
    return f"raise_error(concat('{_ERROR_MARK}', partition, '/', offset, '/', {why}))"


def _read_records(spark: SparkSession, extract: KafkaExtract) -> DataFrame:
    import pyarrow as pa

    read = read_if_few(batches(extract)) if are_few(extract.most) else None
    if read is None:
        fields = (*RAW.items(), (TIMELABEL, "STRING"))
        return read_by_workers(spark, extract.split_into_bundles(DIRECT_ROWS), batches, fields)
    nothing = pa.record_batch([pa.array([], field.type) for field in schema()], schema=schema())
    rows = pa.Table.from_batches([*read, nothing], schema())
    return spark.createDataFrame(rows.sort_by([("partition", "ascending"), ("offset", "ascending")]))
