"""Writes one Avro file from Arrow batches with fastavro, block by block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import IO, TYPE_CHECKING, Any

from waterclock.connectors.drivers import missing_library_error
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def write_avro(file: IO[bytes], schema: pa.Schema, batches: Iterator[pa.RecordBatch], codec: str) -> int:
    """Write batches to an Avro file with nullable columns, and return the number of rows.

    Instants are timestamp-micros, times without a zone local-timestamp-micros.
    Raises E888 if fastavro is missing; E889 for a column name or type that Avro does not support.
    """
    try:
        import fastavro
    except ImportError as error:
        raise missing_library_error("Avro", "fastavro", "avro", is_of_workers=False) from error
    numbers = count(1)
    fields = [_field(field, numbers) for field in schema]
    rows = 0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            yield from batch.to_pylist(maps_as_pydicts="lossy")

    avro_schema = {"type": "record", "name": "row", "namespace": "waterclock", "fields": fields}
    fastavro.writer(file, fastavro.parse_schema(avro_schema), records(), codec=codec)
    return rows


def _field(field: pa.Field, numbers: Iterator[int]) -> dict[str, Any]:
    if not _NAME.fullmatch(field.name):
        raise WaterclockError(
            "E889",
            f"Avro does not allow a column named {field.name}",
            why="Avro names consist of ASCII letters, digits and _",
            fix="rename it in a transform, or publish as parquet, json or csv",
        )
    return {"name": field.name, "type": ["null", _type(field.type, numbers)], "default": None}


def _type(kind: pa.DataType, numbers: Iterator[int]) -> Any:
    import pyarrow as pa

    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        return {"type": "array", "items": ["null", _type(kind.value_type, numbers)]}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _type(kind.item_type, numbers)]}
    if types.is_struct(kind):
        fields = [_field(kind.field(at), numbers) for at in range(kind.num_fields)]
        return {"type": "record", "name": f"record_{next(numbers)}", "fields": fields}
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    for is_kind, avro_type in (
        (types.is_boolean, "boolean"),
        (types.is_int64, "long"),
        (types.is_integer, "int"),
        (types.is_float32, "float"),
        (types.is_float64, "double"),
        (types.is_string, "string"),
        (types.is_large_string, "string"),
        (types.is_binary, "bytes"),
        (types.is_large_binary, "bytes"),
        (types.is_date, {"type": "int", "logicalType": "date"}),
    ):
        if is_kind(kind):
            return avro_type
    raise WaterclockError(
        "E889",
        f"Avro has no type for {kind}",
        why="Avro has numbers, texts, bytes, dates and timestamps, and lists, records and maps with text keys",
        fix="cast the column in a transform, or publish as parquet",
    )
