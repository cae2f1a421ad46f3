"""Reads Avro files with fastavro: the columns from the header, and the rows as Arrow batches on Spark's workers."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import time
from itertools import count
from typing import IO, TYPE_CHECKING, Any

from waterclock.connectors.avro_memory import MOST_OF_A_BATCH, cost_of, records_in
from waterclock.connectors.avro_readers import (
    DECIMAL,
    MOST_TYPES,
    digits_of,
    is_recursive,
    least_size,
    readers_of,
    set_decimals,
)
from waterclock.connectors.column_matching import SourceColumn
from waterclock.connectors.drivers import missing_library_error
from waterclock.connectors.files.avro_blocks import check_block, check_header
from waterclock.connectors.files.python_readers import NUMBER
from waterclock.spark_sql import quote_name

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 10_000
_MOST_EMPTY_ROWS = 1_000_000
_MOST_DIGITS = 38
_LONGEST_SCHEMA = 4 << 20
_BROKEN = (RecursionError, TypeError, AttributeError, ArithmeticError, MemoryError, struct.error, zlib.error)
_PLAIN = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "fixed": "BINARY",
}
_LOGICAL = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
    "time-millis": "STRING",
    "time-micros": "STRING",
    "uuid": "STRING",
}
_WIDENED = ({"int", "long"}, "BIGINT"), ({"float", "double"}, "DOUBLE")


class _NamedTypes(dict[str, Any]):
    """The named types of a schema, by name, and a counter of all types that the schema contains.

    Named types may contain each other, so a short schema may expand to any number of types.
    """

    def __init__(self, counter: Iterator[int], known: Mapping[str, Any] | None = None) -> None:
        super().__init__(known or {})
        self.counter = counter

    def count_type(self) -> None:
        """Count one type. Raises ValueError if there are more than `MOST_TYPES`."""
        if next(self.counter) >= MOST_TYPES:
            raise ValueError(f"its schema has more than {MOST_TYPES} types once its named types are expanded")


def columns_of(file: IO[bytes]) -> tuple[SourceColumn, ...]:
    """Return the columns of an Avro file. A recursive type, and most unions of several types, become STRING.

    Nested values of a STRING column are read as JSON.
    Raises ValueError for a file that is not Avro, whose values are not records, or that needs a compression library
    that is not installed.
    """
    reader = _open_reader(file)
    schema = reader.writer_schema
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise ValueError("its values are not records, so it has no columns")
    try:
        next(_blocks_of(file, reader), None)
        counter = count()
        return tuple(
            SourceColumn(_name_of(field), _type_of(field["type"], _NamedTypes(counter), ()))
            for field in schema["fields"]
        )
    except _BROKEN as error:
        raise ValueError(f"it is broken: {type(error).__name__}: {error}") from error


def reader_of(columns: tuple[SourceColumn, ...]) -> Callable[[IO[bytes]], Iterator[pa.RecordBatch]]:
    """Return a function that reads an Avro file with these columns into Arrow batches, in bounded memory.

    The columns of a batch are `c0`, `c1`, … and `NUMBER`, the row number in the file, from 1.
    """

    def batches(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        reader = _open_reader(file)
        fields = reader.writer_schema["fields"]
        counter = count()
        converters = [_build_converter(field["type"], _NamedTypes(counter), ()) for field in fields]
        read = 0
        for records in _batches_of(_records_of(file, reader)):
            arrays = [
                pa.array(_convert_values([row[field["name"]] for row in records], make), kind)
                for field, (make, kind) in zip(fields, converters, strict=True)
            ]
            arrays.append(pa.array(range(read + 1, read + len(records) + 1), pa.int64()))
            read += len(records)
            del records
            names = [f"c{at}" for at in range(len(columns))]
            yield pa.RecordBatch.from_arrays(arrays, names=[*names, NUMBER])

    return batches


def _convert_values(values: list[Any], make: Callable[[Any], Any]) -> list[Any]:
    return values if make is _keep_value else [None if value is None else make(value) for value in values]


def _keep_value(value: Any) -> Any:
    return value


def _open_reader(file: IO[bytes]) -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise missing_library_error("Avro", "fastavro", "avro", is_of_workers=True) from error
    check_header(file)
    try:
        reader = fastavro.block_reader(file)
        if is_recursive(reader.writer_schema):
            file.seek(0)
            reader = readers_of(recursive=True).block_reader(file)
        set_decimals(reader.writer_schema)
    except (*_BROKEN, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise ValueError(f"it is broken: {type(error).__name__}: {error}") from error
    if len(reader.metadata.get("avro.schema", "")) > _LONGEST_SCHEMA:
        raise ValueError(f"its schema is longer than {_LONGEST_SCHEMA} characters")
    return reader


def _batches_of(records: Iterator[tuple[Any, int]]) -> Iterator[list[Any]]:
    """Yield lists of records, which are limited in number and memory. Each record comes with its memory in bytes."""
    batch: list[Any] = []
    memory = 0
    for record, size in records:
        batch.append(record)
        memory += size
        if len(batch) == _BATCH or memory >= MOST_OF_A_BATCH:
            yield batch
            batch, memory = [], 0
    if batch:
        yield batch


def _records_of(file: IO[bytes], reader: Any) -> Iterator[tuple[Any, int]]:
    """Yield the records of an Avro file that `reader` has opened, each with an upper bound of its memory in bytes.

    Raises ValueError as `_blocks_of`, and for records that are too large or nested too deep.
    """
    cost = cost_of(reader.writer_schema)
    for block in _blocks_of(file, reader):
        try:
            yield from records_in(block, cost)
        except RecursionError as error:
            raise ValueError("it has a record that is nested too deep") from error


def _blocks_of(file: IO[bytes], reader: Any) -> Iterator[Any]:
    """Yield the unpacked blocks of an Avro file that `reader` has opened.

    Raises ValueError for a block that is too large, and for more than `_MOST_EMPTY_ROWS` records without any bytes: a
            small file could contain any number of these.
    """
    least = least_size(reader.writer_schema)
    read = 0
    while True:
        check_block(file, reader.codec)
        block = next(reader, None)
        if block is None:
            return
        read += block.num_records
        if not least and read > _MOST_EMPTY_ROWS:
            raise ValueError(f"it has more than {_MOST_EMPTY_ROWS} rows without any bytes")
        yield block


def _name_of(field: Mapping[str, Any]) -> str:
    if not isinstance(field["name"], str):
        raise ValueError("a field's name is not a text")  # noqa: TRY004 - of the file, as other errors of it
    return field["name"]


def _resolve_schema(schema: Any, named: dict[str, Any]) -> Any:
    """Replace the name of a type by its definition; return any other type unchanged.

    A definition with a name is added to `named`.
    """
    if isinstance(schema, str) and schema in named:
        return named[schema]
    if isinstance(schema, Mapping) and schema.get("name"):
        named[schema["name"]] = schema
    return schema


def _type_name(schema: Any) -> str:
    found = schema["type"] if isinstance(schema, Mapping) else schema
    return str(found)


def _non_null_types(schema: Any) -> list[Any]:
    return [each for each in schema if each != "null"] if isinstance(schema, list) else [schema]


def _type_of(schema: Any, named: _NamedTypes, within: tuple[str, ...]) -> str:  # noqa: PLR0911 - one return per type
    """Return the Spark type of an Avro type. `within`: the names of the records that contain it."""
    named.count_type()
    branches = _non_null_types(schema)
    if len(branches) != 1:
        kinds = {_type_name(each) for each in branches}
        return next((wide for narrow, wide in _WIDENED if kinds == narrow), "STRING")
    known = _resolve_schema(branches[0], named)
    kind = _type_name(known)
    logical = known.get("logicalType") if isinstance(known, Mapping) else None
    if logical == DECIMAL:
        precision, scale = digits_of(known)
        return f"DECIMAL({precision},{scale})" if scale <= precision <= _MOST_DIGITS else "STRING"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "array":
        return f"ARRAY<{_type_of(known['items'], named, within)}>"
    if kind == "map":
        return f"MAP<STRING, {_type_of(known['values'], named, within)}>"
    if kind == "record":
        if known["name"] in within or not known["fields"]:
            return "STRING"
        inner = (*within, known["name"])
        fields = (
            f"{quote_name(_name_of(field))}: {_type_of(field['type'], named, inner)}" for field in known["fields"]
        )
        made = f"STRUCT<{', '.join(fields)}>"
        return "STRING" if any(_is_recursive(field["type"], named, inner) for field in known["fields"]) else made
    return _PLAIN.get(kind, "STRING")


def _is_recursive(schema: Any, named: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Return whether a type contains one of the records `names`, which enclose it."""
    for branch in _non_null_types(schema):
        known = _resolve_schema(branch, named)
        kind = _type_name(known)
        if kind == "record" and known["name"] in names:
            return True
        inner = known.get("items", known.get("values")) if kind in ("array", "map") else None
        if inner is not None and _is_recursive(inner, named, names):
            return True
    return False


def _build_converter(
    schema: Any, named: _NamedTypes, within: tuple[str, ...]
) -> tuple[Callable[[Any], Any], pa.DataType]:
    """Return a function that converts values of an Avro type for Arrow, and the Arrow type that matches `_type_of`."""
    import pyarrow as pa

    from waterclock.connectors.arrow_values import arrow_type

    type_text = _type_of(schema, _NamedTypes(count(), named), within)
    named.count_type()
    branches = _non_null_types(schema)
    if type_text == "STRING" and branches == ["string"]:
        return _keep_value, pa.string()
    if type_text == "STRING":
        return _value_text, pa.string()
    known = _resolve_schema(branches[0], named)
    kind = _type_name(known)
    if type_text.startswith("ARRAY<"):
        each, item = _build_converter(known["items"], named, within)
        return (lambda value: [None if one is None else each(one) for one in value]), pa.list_(item)
    if type_text.startswith("MAP<"):
        each, item = _build_converter(known["values"], named, within)
        pairs = lambda value: [(key, None if one is None else each(one)) for key, one in value.items()]  # noqa: E731
        return pairs, pa.map_(pa.string(), item)
    if kind == "record":
        inner = {
            field["name"]: _build_converter(field["type"], named, (*within, known["name"])) for field in known["fields"]
        }

        def struct(value: Mapping[str, Any]) -> dict[str, Any]:
            return {name: None if value[name] is None else make(value[name]) for name, (make, _) in inner.items()}

        return struct, pa.struct([pa.field(name, kind_of) for name, (_, kind_of) in inner.items()])
    return _keep_value, arrow_type(type_text)


def _value_text(value: Any) -> str:
    """Convert a value to text: nested values to JSON, in which bytes are hexadecimal."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list | bool | int | float):
        return json.dumps(value, default=lambda one: one.hex() if isinstance(one, bytes) else str(one))
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, time) else str(value)
