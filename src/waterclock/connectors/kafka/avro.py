"""Converts Avro values of Kafka records to JSON.

A value starts with a zero byte and the id of its schema in the registry. If the collect declares a schema file, values
may have no such prefix. Records that were written with an older schema are converted to the newest one: the latest
version of `<topic>-value` in the registry, or the file.
"""

from __future__ import annotations

import base64
import io
import json
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from datetime import time as time_of_day
from pathlib import Path
from typing import Any
from urllib.parse import quote

from waterclock.connectors.avro_memory import MOST_MEMORY, MemoryCost, cost_of, memory_of_defaults
from waterclock.connectors.avro_readers import is_recursive, least_size, parse_schema, readers_of, set_decimals
from waterclock.connectors.slice_rows import without_nan
from waterclock.errors import WaterclockError
from waterclock.http.client import NoResponse, ResponseTooLargeError, send_once

_MAGIC = 0
_REFUSED_STATUSES = frozenset({401, 403})
_DECODING_ERRORS = (
    ValueError, EOFError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError,
    struct.error,
)  # fmt: skip
_PREFIX = struct.Struct(">bI")
_TYPES = {
    "string": "STRING", "bytes": "BINARY", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "boolean": "BOOLEAN", "enum": "STRING", "fixed": "BINARY", "null": "STRING",
}  # fmt: skip
_LOGICAL = {
    "date": "DATE", "timestamp-millis": "TIMESTAMP", "timestamp-micros": "TIMESTAMP", "uuid": "STRING",
    "local-timestamp-millis": "TIMESTAMP_NTZ", "local-timestamp-micros": "TIMESTAMP_NTZ",
    "time-millis": "STRING", "time-micros": "STRING",
}  # fmt: skip
_MOST_DIGITS = 38
_MOST_EMPTY = 100
"""The maximum number of values without any bytes that a type may contain."""
_MOST_SCHEMAS = 100
"""The maximum number of writers' schemas that are cached."""
_MOST_BYTES = 16 * 1024 * 1024
"""The maximum size of a response of a registry."""
_TOO_LARGE = f"it may take more than {MOST_MEMORY >> 30} GiB of memory when decoded"
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _ParsedSchema:
    schema: Any
    is_recursive: bool
    cost: MemoryCost


@dataclass(slots=True)
class Decoder:
    """Decodes the Avro values of a topic, in Spark's workers. Each worker requests a schema only once.

    `reader` is the schema to which values are converted, as JSON; `registry` has the registry's address, user and
    password. `known` are writers' schemas by id.
    """

    topic: str
    where: str
    reader: str
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    known: dict[int, _ParsedSchema] = field(default_factory=dict, repr=False)
    parsed: _ParsedSchema | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Omit parsed schemas when the decoder is sent to a worker."""
        return Decoder, (self.topic, self.where, self.reader, dict(self.registry))

    def json_of(self, value: bytes | None, partition: int, offset: int) -> bytes | None:
        """Decode a value to JSON; None for a tombstone. Raises E857, with partition and offset, if it is invalid."""
        from fastavro.read import SchemaResolutionError
        from fastavro.schema import SchemaParseException

        if value is None:
            return None
        try:
            if self.parsed is None:
                self.parsed = _parse(self.reader)
            writer, body = self._split_value(value, self.parsed)
            # the types of the reader may take more memory, such as STRING instead of bytes
            if max(each.cost.memory_of(len(value)) for each in (writer, self.parsed)) > MOST_MEMORY:
                raise unreadable(self.where, self.topic, partition, offset, _TOO_LARGE)
            readers = readers_of(recursive=writer.is_recursive or self.parsed.is_recursive)
            read = readers.schemaless_reader(body, writer.schema, self.parsed.schema)
            text = json.dumps(without_nan(read), default=_json_default, ensure_ascii=False)
        except RecursionError as error:
            raise unreadable(self.where, self.topic, partition, offset, "it is nested too deep") from error
        except (*_DECODING_ERRORS, SchemaResolutionError, SchemaParseException) as error:
            raise unreadable(self.where, self.topic, partition, offset, f"not Avro of its schema: {error}") from error
        return text.encode()

    def columns(self) -> dict[str, str]:
        """Return the fields of the schema with their Spark types. Nested fields are STRING and contain JSON."""
        fields = json.loads(self.reader).get("fields", ())
        return {each["name"]: _spark_type(each["type"]) for each in fields}

    def _split_value(self, value: bytes, parsed: _ParsedSchema) -> tuple[_ParsedSchema, io.BytesIO]:
        if not self.registry:
            return parsed, io.BytesIO(value)
        magic, number = _PREFIX.unpack_from(value)
        if magic != _MAGIC:
            raise ValueError(f"it begins with the byte {magic}, not 0")
        found = self.known.pop(number, None)
        if found is None:
            answer = _request_registry(self.registry, f"/schemas/ids/{number}", self.where)
            found = _parse(answer["schema"], memory_of_defaults(parsed.schema))
        if len(self.known) >= _MOST_SCHEMAS:
            del self.known[next(iter(self.known))]
        self.known[number] = found  # ordered by use: the last entry is the most recently used
        return found, io.BytesIO(value[_PREFIX.size :])


def decoder_of(topic: str, where: str, registry: Mapping[str, str], file: Path | None) -> Decoder:
    """Build the decoder of a topic's values, with the schema of a file or the newest one of the registry.

    Raises E857 if there is no schema, or it cannot be read.
    """
    if file is not None:
        try:
            text = json.dumps(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise _schema_error(where, f"{file}: {error}") from error
        return Decoder(topic, where, _require_schema(text, where, str(file)), registry)
    if not registry:
        raise _schema_error(where, "the connection has no registry, and the collect has no schema")
    answer = _request_registry(registry, f"/subjects/{quote(topic, safe='')}-value/versions/latest", where)
    text = _require_schema(answer.get("schema"), where, registry["registry"])
    return Decoder(topic, where, text, registry)


def _parse(text: str, added: int = 0) -> _ParsedSchema:
    """Parse a schema. `added` is the memory that the schema of the reader adds to each record."""
    schema = parse_schema(text)
    recursive = is_recursive(schema)
    least_size(schema, _MOST_EMPTY)
    set_decimals(schema)
    return _ParsedSchema(schema, recursive, cost_of(schema, added))


def _require_schema(text: Any, where: str, origin: str) -> str:
    """Check that a schema is a record whose values can be decoded, and return its text. Raises E857 otherwise.

    `origin` is the file or registry with the schema, for the error.
    """
    from fastavro.schema import SchemaParseException

    try:
        schema = json.loads(text)
        _parse(text)
    except (*_DECODING_ERRORS, SchemaParseException) as error:
        raise _schema_error(where, f"{origin}: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _schema_error(where, f"{origin}: the schema of a value must be a record, whose fields become columns")
    fields = schema.get("fields", [])
    if not isinstance(fields, list) or not all(isinstance(each["name"], str) for each in fields):
        raise _schema_error(where, f"{origin}: the names of its fields are no texts")
    return str(text)


def unreadable(where: str, topic: str, partition: int | str, offset: int | str, why: str) -> WaterclockError:
    """Build the error for a record that cannot be read."""
    return WaterclockError(
        "E857",
        f"a record of {topic} cannot be read",
        where=where,
        why=f"partition {partition}, offset {offset}: {why}",
        fix="check its sender; or collect with format 'raw', which takes any record, and parse it in a transform",
    )


def _request_registry(registry: Mapping[str, str], path: str, where: str) -> Mapping[str, Any]:
    address = registry["registry"].rstrip("/") + path
    headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
    if "registry_user" in registry:
        credentials = f"{registry['registry_user']}:{registry.get('registry_password', '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
    try:
        file = registry.get("registry_ca")
        trusted = None if file is None else ssl.create_default_context(cafile=file)
        answer = send_once("GET", address, most=_MOST_BYTES, timeout=_SECONDS, headers=headers, trusted=trusted)
        document = json.loads(answer.content) if answer.status == 200 else None
    except ResponseTooLargeError:
        raise _schema_error(where, f"{address}: its response has more than {_MOST_BYTES >> 20} MiB") from None
    except NoResponse as error:
        if not error.certificate:
            raise _schema_error(where, f"{address}: {error.why}", transient=True) from None
        fix = "set registry_ca to a file with the certificate of the authority that signed the registry's certificate"
        raise _schema_error(where, f"{address}: {error.certificate}", fix=fix) from None
    except RecursionError:
        raise _schema_error(where, f"{address}: its response is nested too deep") from None
    except (OSError, ValueError) as error:
        raise _schema_error(where, f"{address}: {error}", transient=True) from error
    if isinstance(document, dict):
        return document
    if answer.status == 200:
        raise _schema_error(where, f"{address}: its response is no JSON object")
    fix = ""
    if answer.status in _REFUSED_STATUSES:
        fix = "check registry_user and registry_password; a changed secret is read at the next try"
    is_passing = answer.status in {*_REFUSED_STATUSES, 429} or answer.status >= 500
    raise _schema_error(where, f"{address}: it answered {answer.status}", fix=fix, transient=is_passing)


def _schema_error(where: str, why: str, *, fix: str = "", transient: bool = False) -> WaterclockError:
    return WaterclockError(
        "E857",
        "the schema of Avro values cannot be read",
        where=where,
        why=why,
        fix=fix or "set `registry` on the connection, or OPTIONS (schema 'file.avsc') on the collect",
        transient=transient,
    )


def _spark_type(kind: Any) -> str:
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        return _spark_type(others[0]) if len(others) == 1 else "STRING"
    if isinstance(kind, dict):
        logical = kind.get("logicalType")
        if logical == "decimal":
            return _decimal(kind.get("precision"), kind.get("scale", 0))
        return _LOGICAL.get(str(logical)) or _spark_type(kind["type"])
    return _TYPES.get(str(kind), "STRING")


def _decimal(precision: Any, scale: Any) -> str:
    """Return the Spark type of an Avro decimal, or STRING if its precision or scale is invalid or too large.

    They come from a schema of another system and become part of a query, so they are checked.
    """
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
        return "STRING"
    return f"DECIMAL({precision}, {scale})" if precision <= _MOST_DIGITS else "STRING"


def _json_default(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time_of_day):
        return value.isoformat()
    return str(value)
