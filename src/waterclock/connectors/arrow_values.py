"""Converts Python values from a database to Arrow columns of declared Spark types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from waterclock.connectors.local_times import local_column_to_instants
from waterclock.connectors.type_mismatch import FIRST_MICROS, LAST_MICROS, TypeMismatch
from waterclock.errors import WaterclockError
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    import pyarrow as pa

EPOCH_UNITS: Mapping[str, timedelta] = {
    "seconds": timedelta(seconds=1),
    "milliseconds": timedelta(milliseconds=1),
    "microseconds": timedelta(microseconds=1),
}

_DECIMAL_CONTEXT = Context(prec=76)  # Python's default of 28 digits is less than a DECIMAL has
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*(?:\(\s*([0-9]+)\s*(?:,\s*([0-9]+)\s*)?\))?")
_TEXT = re.compile(r"(?:string|(?:var)?char\s*\(\s*[0-9]+\s*\))")
_SIMPLE = {
    "tinyint": "int8",
    "byte": "int8",
    "smallint": "int16",
    "short": "int16",
    "int": "int32",
    "integer": "int32",
    "bigint": "int64",
    "long": "int64",
    "float": "float32",
    "real": "float32",
    "double": "float64",
    "boolean": "bool_",
    "binary": "binary",
    "date": "date32",
}


_BOOLEAN_TEXTS = {"1": True, "0": False, "true": True, "false": False, "t": True, "f": False, "yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Times:
    """Rules for parsing time values. A time without a zone is in `zone`; a number counts `epoch` units since 1970."""

    zone: str = "UTC"
    epoch: str = "seconds"


def arrow_type(type_name: str) -> pa.DataType:
    """Return the Arrow type of a scalar Spark type. Raises E815 for a nested or unknown type."""
    import pyarrow as pa

    kind = type_name.strip().lower()
    if kind in _SIMPLE:
        made: pa.DataType = getattr(pa, _SIMPLE[kind])()
        return made
    if kind in ("timestamp", "timestamp_ltz"):
        return pa.timestamp("us", tz="UTC")
    if kind == "timestamp_ntz":
        return pa.timestamp("us")
    if _TEXT.fullmatch(kind):
        return pa.string()
    if match := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(match[1] or 10), int(match[2] or 0))
    raise WaterclockError(
        "E815",
        f"a database value cannot become {type_name}",
        why="a column read from a database has a plain type: number, text, binary, boolean, date, timestamp",
        fix="collect it as STRING, and parse it in a transform with from_json",
    )


def is_plain(type_name: str) -> bool:
    """Return whether a Spark type is a scalar that `arrow_type` supports: no array, struct, map or VARIANT."""
    kind = type_name.strip().lower()
    is_time = kind in ("timestamp", "timestamp_ltz", "timestamp_ntz")
    return is_time or kind in _SIMPLE or bool(_TEXT.fullmatch(kind) or _DECIMAL.fullmatch(kind))


def column(values: Sequence[Any], type_name: str, times: Times) -> pa.Array:
    """Convert Python values to an Arrow column of a Spark type.

    Raises TypeMismatch for the first value that does not fit the type.
    """
    import pyarrow as pa

    wanted = arrow_type(type_name)
    if (read := _convert_with_arrow(values, wanted, times)) is not None:
        return read
    convert = _converter(wanted, times)
    if convert is None and pa.types.is_integer(wanted) and any(isinstance(value, float | Decimal) for value in values):
        convert = _to_integer  # Arrow would cut the fraction off silently
    if convert is None:
        try:
            return pa.array(values, type=wanted)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            convert = _lossless_converter(wanted)
    converted = [None if value is None else _convert_value(convert, value) for value in values]
    try:
        return pa.array(converted, type=wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise TypeMismatch(_find_refused_value(values, converted, wanted)) from None


def instant_of(value: object, times: Times) -> datetime | None:
    """Convert a time, date, text or number to an instant in UTC; None if it is not a valid time."""
    try:
        if isinstance(value, datetime):
            return _to_utc(value, times)
        if isinstance(value, str):
            return _to_utc(datetime.fromisoformat(value.strip()), times)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return EPOCH + value * EPOCH_UNITS[times.epoch]
        if isinstance(value, date):
            return _to_utc(datetime(value.year, value.month, value.day), times)  # noqa: DTZ001 (its zone is `times`')
    except (ValueError, OverflowError):
        return None
    return None


def instants(values: Sequence[Any], times: Times) -> pa.Array:
    """Convert values to an Arrow column of instants, as `instant_of` does; a value that is not a time becomes NULL."""
    import pyarrow as pa

    wanted = arrow_type("timestamp")
    read = _convert_with_arrow(values, wanted, times)
    return pa.array([instant_of(value, times) for value in values], wanted) if read is None else read


def _convert_with_arrow(values: Sequence[Any], wanted: pa.DataType, times: Times) -> pa.Array | None:
    """Convert whole numbers, or texts of times and dates, with Arrow; None if the values must be converted one by one.

    Arrow would cut fractions off silently, so values with fractions are converted one by one.
    """
    import pyarrow as pa

    is_whole, is_day = pa.types.is_integer(wanted), pa.types.is_date32(wanted)
    if not is_whole and not is_day and not pa.types.is_timestamp(wanted):
        return None
    try:
        found = pa.array(values)
        if is_whole:
            return found.cast(wanted) if pa.types.is_integer(found.type) else None
        if not pa.types.is_string(found.type):
            return None
        read = _parse_texts(found, wanted, times)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeMismatch):
        return None
    return read if is_in_calendar(read) else None


def _parse_texts(texts: pa.Array, wanted: pa.DataType, times: Times) -> pa.Array:
    import pyarrow as pa

    try:
        return texts.cast(wanted)
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(wanted) or not wanted.tz:
            raise
        return local_column_to_instants(
            texts.cast(pa.timestamp("us")), times.zone
        )  # this cast fails if a text has a zone


def is_in_calendar(times: pa.Array) -> bool:
    """Return whether all dates or times are between the years 1 and 9999, which Python supports. Arrow has no limit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        bounds = pc.min_max(times.cast(pa.timestamp("us")).cast(pa.int64()))
    except pa.ArrowInvalid:  # too far even for 64 bits
        return False
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is None or (low >= FIRST_MICROS and high <= LAST_MICROS)


def _to_utc(value: datetime, times: Times) -> datetime:
    """Return the instant in UTC. Raises OverflowError if it is beyond the years 1 to 9999."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=nominal_zone(times.zone), fold=0)
    return aware.astimezone(UTC)


def _convert_value(convert: Callable[[Any], Any], value: object) -> Any:
    try:
        converted = convert(value)
    except (ValueError, TypeError, ArithmeticError, InvalidOperation):
        converted = None
    if converted is None:
        raise TypeMismatch(value)
    return converted


def _find_refused_value(values: Sequence[Any], converted: Sequence[Any], wanted: pa.DataType) -> object:
    import pyarrow as pa

    for value, one in zip(values, converted, strict=True):
        try:
            pa.array([one], type=wanted)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return value
    return None


def _converter(wanted: pa.DataType, times: Times) -> Callable[[Any], Any] | None:
    """Return the function that converts a value for an Arrow type; None if Arrow accepts most values unchanged."""
    import pyarrow as pa

    if pa.types.is_timestamp(wanted):
        if wanted.tz:
            return lambda value: instant_of(value, times)
        return lambda value: _to_local_time(value, times)
    if pa.types.is_date32(wanted):
        return _to_date
    if pa.types.is_decimal(wanted):
        return lambda value: _to_decimal(value, wanted.scale)
    if pa.types.is_boolean(wanted):
        return _to_boolean
    return None


def _lossless_converter(wanted: pa.DataType) -> Callable[[Any], Any]:
    import pyarrow as pa

    if pa.types.is_integer(wanted):
        return _to_integer
    if pa.types.is_floating(wanted):
        return _to_float
    if pa.types.is_binary(wanted):
        return lambda value: value if isinstance(value, bytes) else str(value).encode()
    return lambda value: value.decode() if isinstance(value, bytes) else str(value)


def _to_integer(value: object) -> int:
    if isinstance(value, str) and "_" in value:  # only Python reads 1_000 as a number
        raise ValueError(value)
    number = int(value) if isinstance(value, str) else Decimal(str(value))
    if number != int(number):
        raise ValueError(value)
    return int(number)


def _to_float(value: Any) -> float:
    if isinstance(value, str) and "_" in value:  # only Python reads 1_000 as a number
        raise ValueError(value)
    return float(value)


def _to_decimal(value: object, scale: int) -> Decimal:
    exact = Decimal(value) if isinstance(value, int) else Decimal(str(value))
    rounded = exact.quantize(Decimal(1).scaleb(-scale), context=_DECIMAL_CONTEXT)
    if isinstance(value, float):  # a binary fraction is inexact anyway
        return rounded
    if rounded != exact or (isinstance(value, str) and "_" in value):
        raise ValueError(value)
    return rounded


def _to_boolean(value: object) -> bool | None:
    return _BOOLEAN_TEXTS.get(str(value).strip().lower())


def _to_date(value: object) -> date | None:
    if isinstance(value, str):
        return datetime.fromisoformat(value.strip()).date()
    return value if isinstance(value, date) else None


def _to_local_time(value: object, times: Times) -> datetime | None:
    if isinstance(value, str):
        parsed = datetime.fromisoformat(value.strip())
        return parsed if parsed.tzinfo is None else None
    instant = instant_of(value, Times("UTC", times.epoch))
    return instant.replace(tzinfo=None) if instant else None
