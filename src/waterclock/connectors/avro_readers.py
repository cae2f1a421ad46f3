"""Chooses Avro readers that malicious data can neither crash nor stall, and that never round decimals.

fastavro's compiled reader calls itself for each level, without a limit, so deep values overflow the stack of C and kill
the process. Its reader in Python decodes the same values, and raises a RecursionError instead. It is slower, so only
recursive types are read with it. Values of other types are as deep as their schema, which `is_recursive` limits.

fastavro rounds a decimal to the precision of its type, and converts bytes of any length, in quadratic time. So decimals
get a logical type of this module, whose reader raises an error for a value that does not fit its type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import cache
from typing import Any

DECIMAL = "waterclock-decimal"
"""The logical type that `set_decimals` gives to the decimals of a schema."""
_PLAIN = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"})
MOST_TYPES = 10_000
"""The maximum number of types in a schema, once its named types are expanded."""
_FASTAVRO_MARKS = frozenset({"__fastavro_parsed", "__named_schemas"})
_SIZES = {"null": 0, "float": 4, "double": 8}
_MOST_DIGITS = 1_000
_EXACT_CONTEXT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def parse_schema(text: str) -> Any:
    """Parse an Avro schema with fastavro. Marks by which a file could claim that it is already parsed are removed."""
    import fastavro

    return fastavro.parse_schema(json.loads(text, object_hook=_remove_fastavro_marks))


def _remove_fastavro_marks(read: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in read.items() if key not in _FASTAVRO_MARKS}


def is_recursive(schema: Any, known: set[str] | None = None) -> bool:
    """Return whether a parsed schema uses a named type within its own definition, so that values have no maximum depth.

    `known` are the names of types whose definition is complete.
    Raises RecursionError for a schema that is too deep for either reader.
    """
    known = set(_PLAIN) if known is None else known
    if isinstance(schema, str):
        return schema not in known
    if isinstance(schema, list):
        return any(is_recursive(each, known) for each in schema)
    if is_recursive(_inner_types(schema), known):
        return True
    if "name" in schema:
        known.add(schema["name"])
    return False


def readers_of(*, recursive: bool) -> Any:
    """Return fastavro's module of readers: the one in Python for recursive types, the compiled one for all others."""
    from fastavro import _read_py, read

    return _read_py if recursive else read


def set_decimals(schema: Any) -> None:
    """Replace the decimals of a parsed schema, in place, with a logical type that is read exactly.

    Raises ValueError for a decimal without a precision, or with a precision or a scale that is not an integer.
    """
    from fastavro.logical_readers import LOGICAL_READERS

    LOGICAL_READERS.update({f"{kind}-{DECIMAL}": _read_decimal for kind in ("bytes", "fixed")})
    _set_decimals(schema)


def _set_decimals(schema: Any) -> None:
    if isinstance(schema, list):
        for each in schema:
            _set_decimals(each)
    elif isinstance(schema, dict):
        if schema.get("logicalType") == DECIMAL:
            del schema["logicalType"]  # a file must not use this name itself: its digits would not be checked
        elif schema.get("logicalType") == "decimal" and schema["type"] in ("bytes", "fixed"):
            digits_of(schema)
            schema["logicalType"] = DECIMAL
        _set_decimals(_inner_types(schema))


def digits_of(schema: Mapping[str, Any]) -> tuple[int, int]:
    """Return the precision and the scale of a decimal. Raises ValueError if one of them is not an integer."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        raise ValueError("the precision or the scale of a decimal is not an integer")
    return precision, scale


def _read_decimal(data: bytes, written: Mapping[str, Any] | None, read_as: object = None) -> Decimal:
    """Read an Avro decimal from its bytes, without rounding.

    `written` is the type in the writer's schema; `read_as` the one in the reader's, which may have fewer digits.
    Raises ValueError for a value that does not fit both types. Too many bytes are refused before they are converted.
    """
    precision, scale = digits_of(written or {})
    if len(data) > _MOST_BYTES:
        data = _without_padding(data)
    is_long = len(data) > _MOST_BYTES
    unscaled = 0 if is_long else int.from_bytes(data, "big", signed=True)
    if is_long or abs(unscaled) >= _bound_of(min(precision, _MOST_DIGITS)):
        most = f"; at most {_MOST_DIGITS} are read" if precision > _MOST_DIGITS else ""
        raise ValueError(f"a decimal has more digits than its precision of {precision}{most}")
    value = Decimal(unscaled).scaleb(-scale, _EXACT_CONTEXT)
    if isinstance(read_as, Mapping) and read_as.get("logicalType") == DECIMAL:
        _check_fit(value, *digits_of(read_as))
    return value


def _without_padding(data: bytes) -> bytes:
    """Remove the redundant leading sign bytes of a number in two's complement."""
    padding = b"\xff" if data[0] & 0x80 else b"\0"
    return padding + data.lstrip(padding)


def _check_fit(value: Decimal, precision: int, scale: int) -> None:
    """Raise ValueError for a decimal that does not fit a precision and a scale without rounding."""
    unscaled = value.scaleb(scale, _EXACT_CONTEXT)
    if unscaled and (unscaled.adjusted() >= precision or unscaled != unscaled.to_integral_value()):
        raise ValueError(f"the decimal {value} does not fit DECIMAL({precision}, {scale}) of the schema that reads it")


@cache
def _bound_of(precision: int) -> int:
    return int(10**precision)


_MOST_BYTES = (_bound_of(_MOST_DIGITS).bit_length() + 7) // 8 + 1


def least_size(schema: Any, most: int = MOST_TYPES) -> int:
    """Return the minimum number of bytes of an encoded value of a parsed type.

    Raises ValueError for arrays of items that may take no bytes, and for a type with more than `most` values that take
    no bytes. Otherwise a short input could decode to any number of values.
    """
    return _least_size(schema, {}, most)[0]


def _least_size(schema: Any, known: dict[str, tuple[int, int]], most: int) -> tuple[int, int]:
    """Return the minimum size of a value in bytes, and the number of values in it that take no bytes.

    `known` has the results for named types.
    """
    if isinstance(schema, list):
        for each in schema:
            _least_size(each, known, most)
        return 1, 0
    if not isinstance(schema, Mapping):
        size = _SIZES.get(str(schema), 1)
        return known.get(str(schema), (size, int(not size)))
    kind = schema["type"]
    if kind in ("array", "map"):
        (inner,) = _inner_types(schema)
        if not _least_size(inner, known, most)[0] and kind == "array":
            raise ValueError("it has arrays of items without any bytes, so their length is unlimited")
        return 1, 0
    if kind not in ("record", "error", "fixed"):
        return _least_size(kind, known, most)
    name = str(schema.get("name"))
    known[name] = 1, 0  # within itself the type can only occur in a union, array or map, which takes a byte
    if kind == "fixed":
        sizes = [(int(schema["size"]), 0)]
    else:
        sizes = [_least_size(each, known, most) for each in _inner_types(schema)]
    size, count = sum(each for each, _ in sizes), sum(count for _, count in sizes)
    known[name] = size, count + int(not size)
    if count > most:
        raise ValueError(f"it has a type with more than {most} values without any bytes")
    return known[name]


def _inner_types(schema: Mapping[str, Any]) -> list[Any]:
    """Return the types that a parsed type contains, or its own name if it contains none."""
    kind = schema["type"]
    if kind in ("record", "error"):
        return [field["type"] for field in schema["fields"]]
    return [schema[{"array": "items", "map": "values"}[kind]] if kind in ("array", "map") else kind]
