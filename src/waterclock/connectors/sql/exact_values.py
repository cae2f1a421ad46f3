"""Refuses values that a destination's column would not store exactly, as databases round, cut and convert silently.

A connector describes each column from the database's catalog (`StoredColumn`). The check runs on the Arrow columns
before they are sent. It costs nothing for a column whose type can store every value. Fractions are compared by their
decimal notation: 0.1 as a DECIMAL equals 0.1 as a DOUBLE. Whole numbers, and a DOUBLE in a FLOAT column, must be equal
to the last bit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    import pyarrow as pa

_DAY = 86_400_000_000
_DIGITS = 6  # of a second, in microseconds
_EXACT_UP_TO = {24: 2**24, 53: 2**53}  # whole numbers, by the bits of a binary fraction
_DIGITS_OF = {24: 6, 53: 15}  # decimal digits that every such fraction preserves
_MOST_WHOLE = 2**63
_WIDE = Context(prec=1000)  # more digits than any number of a database has
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_FRACTION = r"^\s*[+-]?[0-9]*\.[0-9]+\s*$"
_WHOLE_OR_FRACTION = r"^\s*[+-]?[0-9]*\.?[0-9]+\s*$"
_DATE = r"[0-9]{4}-[0-9]{1,2}-[0-9]|[0-9]/[0-9]|^\s*[0-9]{8}(T|\s|$)"
_OFFSET = r":[0-9.]+\s*[+-][0-9:]*[1-9]"
_ZONE = re.compile(r":[0-9.]+\s*([A-Za-z][A-Za-z/_]+)\s*$")
_OF_UTC = frozenset({"utc", "gmt", "zulu", "am", "pm", "ad"})
_CLOCK = re.compile(r"(?:[0-9]T|[0-9]\s+)([0-9]+(?::[0-9:.]+)?)")


class ValueKind(StrEnum):
    """The kind of values that a column stores, which determines how values are checked."""

    DECIMAL = "decimal"
    FLOAT = "binary fraction"
    DATE = "date"
    TIME = "time of day"
    TIMESTAMP = "date and time"
    INTERVAL = "interval"
    TEXT = "text"
    NUMBER_OR_TEXT = "number, or a text that is none"


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of a destination, as its catalog describes it. `type_name` is the type as the database writes it.

    - `holds`: the kind of values to check. None: the column stores every value exactly, or the database refuses it.
    - `is_array`: the column has arrays, and all other attributes describe their elements.
    - `places`: the number of digits after the point, of a number or of a second; None without a limit.
    - `bits`: the bits of a binary fraction's significand, 24 or 53.
    - `has_zone`: a time keeps the offset of its text.
    - `length`: the maximum length of a text, in characters or in bytes (`is_in_bytes`); longer texts are cut.
    - `forgets_blanks`: blanks at the end of a text are dropped.
    - `digits`: the number of digits of a DOUBLE that are kept if it is stored as text.
    - `unknown`: which of `nan` and `inf` the column does not support.
    - `refuses`: the reason why no value can be stored exactly; empty if some can.
    - `takes_json`: nested values, which are sent as JSON, can be stored.
    - `null_becomes`: the value that the database stores instead of NULL, in words; empty if it stores or refuses NULL.
    """

    name: str
    type_name: str
    is_array: bool = False
    holds: ValueKind | None = None
    places: int | None = None
    bits: int | None = None
    has_zone: bool = True
    length: int | None = None
    is_in_bytes: bool = False
    forgets_blanks: bool = False
    digits: int | None = None
    unknown: tuple[str, ...] = ()
    refuses: str = ""
    takes_json: bool = True
    null_becomes: str = ""


def require_exact_values(values: pa.Array, into: StoredColumn, where: str) -> None:
    """Raise E812 for the first value that the column would not store exactly.

    The elements of arrays are checked too.
    """
    import pyarrow as pa

    if into.holds is None and not into.unknown and not into.refuses and into.takes_json:
        return
    is_text_of_array = into.is_array and _is_text(values.type)
    while into.is_array and (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        values = values.flatten()
    if values.null_count == len(values):
        return
    if pa.types.is_nested(values.type):  # sent as JSON
        if into.is_in_bytes:
            raise inexact_value_error(into, values.drop_null()[0].as_py(), f"keeps {into.length} bytes", where)
        if not into.takes_json:
            raise inexact_value_error(
                into, values.drop_null()[0].as_py(), "does not accept JSON, as which nested values are sent", where
            )
        return
    if is_text_of_array:
        why = "parses the text as an array, whose elements are not checked"
        raise inexact_value_error(into, values.drop_null()[0].as_py(), why, where)
    if into.refuses:
        raise inexact_value_error(into, values.drop_null()[0].as_py(), into.refuses, where)
    if into.unknown and pa.types.is_floating(values.type):
        _require_finite_numbers(values, into, where)
    found = _number_for_time(values, into) if into.holds in _READ_AS else None
    if found is None and into.holds is not None:
        found = _CHECKS[into.holds](values, into)
    if found is not None:
        raise inexact_value_error(into, *found, where)


def require_stored_nulls(batch: pa.RecordBatch, stored: Iterable[StoredColumn], where: str) -> None:
    """Raise E812 for NULL in a column in which the database stores another value instead."""
    by_name = {name.lower(): values for name, values in zip(batch.schema.names, batch.columns, strict=True)}
    for into in stored:
        if into.null_becomes and (values := by_name.get(into.name.lower())) is not None and values.null_count:
            raise inexact_value_error(into, None, f"stores {into.null_becomes} instead", where)


def inexact_value_error(into: StoredColumn, value: object, why: str, where: str) -> WaterclockError:
    """Build the error for a value that a destination's column would change."""
    return WaterclockError(
        "E812",
        f"{into.name} cannot store {'NULL' if value is None else repr(value) if isinstance(value, str) else value}",
        where=where,
        why=f"the destination's column is {into.type_name}, which {why}; nothing was delivered",
        fix="allow NULL in that column, or replace NULL in the transform"
        if value is None
        else "widen the column at the destination, or round or cast it in the transform",
    )


_InexactValue = tuple[object, str]


def _require_finite_numbers(values: pa.Array, into: StoredColumn, where: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    finite = pc.is_finite(values).fill_null(True)  # noqa: FBT003 - Arrow's
    if pc.all(finite).as_py():
        return
    for value in values.filter(pc.invert(finite)).cast(pa.string()).to_pylist():
        if value.lstrip("-") in into.unknown:
            raise inexact_value_error(into, float(value), f"has no {'NaN' if value == 'nan' else 'infinity'}", where)


def _find_inexact_decimal(values: pa.Array, into: StoredColumn) -> _InexactValue | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, places = values.type, into.places
    if places is None:
        return None
    if pa.types.is_decimal(kind):
        if kind.scale <= places or _can_cast(values, pa.decimal128(kind.precision, places)):
            return None
    elif pa.types.is_floating(kind) or _is_text(kind):
        texts = values.cast(pa.string())
        if len(empty := _filter_matching(texts, r"^\s*$")):
            return empty[0].as_py(), "reads an empty text as a number"
        values = texts if places < 0 else _filter_matching(texts, rf"\.[0-9]{{{places}}}[0-9]*[1-9]|[0-9.][eE]")
    elif not pa.types.is_integer(kind) or places >= 0:
        return None
    cut = (value for value in pc.unique(values).to_pylist() if _has_more_places(value, places))
    return next(((value, f"keeps {_describe_places(places)}") for value in cut), None)


def _can_cast(values: pa.Array, kind: pa.DataType) -> bool:
    """Return whether Arrow can cast the values to another type without loss."""
    import pyarrow as pa

    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _has_more_places(value: Any, places: int) -> bool:
    number = _parse_number(value)
    if number is None:  # a text that most databases refuse, while money rounds `1,000.005` and `(1.005)`
        return value is not None
    if not number.is_finite():  # the database refuses it, or stores it unchanged
        return False
    scaled = number.scaleb(places, _WIDE)
    return scaled != scaled.to_integral_value()


def _describe_places(places: int) -> str:
    if places < 0:
        return f"multiples of {10**-places}"
    return "whole numbers" if places == 0 else f"{places} digit{'' if places == 1 else 's'} after the point"


def _find_inexact_float(values: pa.Array, into: StoredColumn) -> _InexactValue | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, bits = values.type, into.bits or 53
    why = f"keeps only {_DIGITS_OF[bits]} digits exactly"
    if pa.types.is_integer(kind):
        ends = pc.min_max(values).as_py()
        if max(abs(ends["min"]), abs(ends["max"])) <= _EXACT_UP_TO[bits]:
            return None
    elif pa.types.is_decimal(kind):
        if kind.precision <= _DIGITS_OF[bits]:
            return None
    elif pa.types.is_floating(kind):
        return _find_wider_double(values, why) if pa.types.is_float64(kind) and bits == 24 else None
    elif _is_text(kind):
        values = _filter_matching(values, rf"[0-9.]{{{_DIGITS_OF[bits] + 1},}}|[0-9.][eE]")
    else:
        return None
    inexact = (value for value in pc.unique(values).to_pylist() if not _is_exact_float(value, bits))
    return next(((value, why) for value in inexact), None)


def _find_wider_double(values: pa.Array, why: str) -> _InexactValue | None:
    """Return the first DOUBLE that a FLOAT cannot store exactly, with the reason `why`; None if there is none."""
    import numpy as np

    doubles = values.drop_null().to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        inexact = np.flatnonzero((doubles.astype(np.float32) != doubles) & ~np.isnan(doubles))
    return (float(doubles[inexact[0]]), why) if len(inexact) else None


def _is_exact_float(value: Any, bits: int) -> bool:
    """Return whether a binary fraction with this many bits can represent a number.

    A whole number must be equal exactly. Another number must have the same decimal notation.
    """
    import numpy as np

    number = _parse_number(value)
    if number is None or not number.is_finite():  # no number: the database refuses it, or stores it unchanged
        return True
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(float(number)) if bits == 24 else np.float64(float(number))
    if not np.isfinite(near):
        return False
    is_whole = number == number.to_integral_value()
    return Decimal(float(near)) == number if is_whole else Decimal(str(near)) == number


def _parse_number(value: Any) -> Decimal | None:
    if value is None:
        return None
    try:
        return Decimal(value.strip() if isinstance(value, str) else value)
    except InvalidOperation:
        return None


def _number_for_time(values: pa.Array, into: StoredColumn) -> _InexactValue | None:
    """Return the first number that would be written to a column of times, with the reason for refusing it, or None.

    Databases would convert it without an error: 1.005 to a day of the year 1.
    """
    import pyarrow as pa

    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return values.drop_null()[0].as_py(), f"reads a number as {_READ_AS[into.holds]}"
    pattern = (
        _WHOLE_OR_FRACTION if into.holds is ValueKind.TIME else _FRACTION
    )  # 20130228 is a date, but 7 is not a time
    if _is_text(kind) and into.holds is not ValueKind.INTERVAL and len(found := _filter_matching(values, pattern)):
        return found[0].as_py(), f"reads a number as {_READ_AS[into.holds]}"
    return None


def _find_inexact_timestamp(values: pa.Array, into: StoredColumn) -> _InexactValue | None:
    import pyarrow as pa

    places = _DIGITS if into.places is None else into.places
    if pa.types.is_timestamp(values.type):
        return (
            _find_unaligned_time(values, 10 ** (_DIGITS - places), _describe_second_digits(places))
            if places < _DIGITS
            else None
        )
    return _find_inexact_clock_text(values, places, has_zone=into.has_zone) if _is_text(values.type) else None


def _find_inexact_time(values: pa.Array, into: StoredColumn) -> _InexactValue | None:
    import pyarrow as pa

    places = _DIGITS if into.places is None else into.places
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        return values.drop_null()[0].as_py().isoformat(), "keeps no date"
    if not _is_text(values.type):
        return None
    dated = _filter_matching(values, _DATE)
    if len(dated):
        return dated[0].as_py(), "keeps no date"
    return _find_inexact_clock_text(values, places, has_zone=into.has_zone)


def _find_inexact_date(values: pa.Array, into: StoredColumn) -> _InexactValue | None:
    import pyarrow as pa

    del into
    why = "keeps no time of day"
    if pa.types.is_timestamp(values.type):
        return _find_unaligned_time(values, _DAY, why)
    if not _is_text(values.type):
        return None
    for value in _filter_matching(values, r"[0-9]:[0-9]|[0-9]T[0-9]").to_pylist():
        if any(re.search("[1-9]", clock) for clock in _CLOCK.findall(value)) or re.search(_OFFSET, value):
            return value, why
    return None


def _find_inexact_interval(values: pa.Array, into: StoredColumn) -> _InexactValue | None:
    places = _DIGITS if into.places is None else into.places
    return _find_inexact_clock_text(values, places, has_zone=True) if _is_text(values.type) else None


def _find_inexact_clock_text(values: pa.Array, places: int, *, has_zone: bool) -> _InexactValue | None:
    """Return the first text of a time that the column would change, with the reason, or None.

    Such a text has more digits of a second than `places`, or an offset or a zone that the column does not store.
    """
    found = _filter_matching(values, rf"[.,][0-9]{{{places}}}[0-9]*[1-9]")
    if len(found):
        return found[0].as_py(), _describe_second_digits(places)
    if has_zone:
        return None
    offset = _filter_matching(values, _OFFSET)
    if len(offset):
        return offset[0].as_py(), "keeps no zone"
    for value in _filter_matching(values, r":[0-9.]+\s*[A-Za-z]{2,}").to_pylist():
        if (zone := _ZONE.search(value)) and zone[1].lower() not in _OF_UTC:
            return value, "keeps no zone"
    return None


def _describe_second_digits(places: int) -> str:
    return f"keeps {places} digit{'' if places == 1 else 's'} of a second" if places else "keeps whole seconds"


def _find_unaligned_time(values: pa.Array, unit: int, why: str) -> _InexactValue | None:
    """Return the first time that is not a multiple of `unit` microseconds, with the reason `why`, or None."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    micros = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).fill_null(0)
    unaligned = np.flatnonzero(micros.to_numpy(zero_copy_only=False) % unit)
    if not len(unaligned):
        return None
    return pc.strftime(values, format="%Y-%m-%d %H:%M:%S")[int(unaligned[0])].as_py(), why


def _find_inexact_text(values: pa.Array, into: StoredColumn) -> _InexactValue | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if into.digits is not None and pa.types.is_floating(values.type):
        numbers = values.drop_null().to_pylist()
        inexact = (value for value in numbers if math.isfinite(value) and float(f"{value:.{into.digits}g}") != value)
        return next(((value, f"keeps {into.digits} digits of a number") for value in inexact), None)
    # a database refuses a time that is too long, unless it cuts by bytes
    is_cut = into.is_in_bytes or not pa.types.is_temporal(values.type)
    if into.length is not None and is_cut and not pa.types.is_binary(values.type):
        texts = values if _is_text(values.type) else values.cast(pa.string())
        lengths = pc.binary_length(texts) if into.is_in_bytes else pc.utf8_length(texts)
        long = texts.filter(pc.greater(lengths, into.length))
        if len(long):
            return long[0].as_py(), f"keeps {into.length} {'bytes' if into.is_in_bytes else 'characters'}"
    if into.forgets_blanks and _is_text(values.type):
        blank = values.filter(pc.ends_with(values, " "))
        return (blank[0].as_py(), "drops blanks at the end") if len(blank) else None
    return None


def _find_converted_number(values: pa.Array, into: StoredColumn) -> _InexactValue | None:
    """Return the first value that a column would change, if it converts texts of numbers to numbers; else None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_text(values.type):
        if pa.types.is_decimal(values.type) and not values.type.scale and not into.bits:
            big = (value for value in pc.unique(values).to_pylist() if value is not None and abs(value) >= _MOST_WHOLE)
            return next(((value, "keeps whole numbers of 64 bits") for value in big), None)
        return _find_inexact_float(values, into) if pa.types.is_decimal(values.type) or into.bits else None
    for value in pc.unique(_filter_matching(values, _NUMBER)).to_pylist():
        if value not in _returned_texts(value, is_float=into.bits is not None):
            return value, "converts a text that looks like a number"
    return None


def _returned_texts(value: str, *, is_float: bool) -> Iterable[str]:
    """Yield the texts that the database may return after it has converted the text of a number to a number."""
    number = Decimal(value.strip())
    is_whole = number == number.to_integral_value()
    if is_whole and not is_float and abs(number) < _MOST_WHOLE:
        yield str(int(number))
    elif not is_whole or is_float:
        yield repr(float(number))


def _filter_matching(values: pa.Array, pattern: str) -> pa.Array:
    import pyarrow.compute as pc

    return values.filter(pc.match_substring_regex(values, pattern).fill_null(False))  # noqa: FBT003 - Arrow's


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


_CHECKS: Mapping[ValueKind, Callable[[Any, StoredColumn], _InexactValue | None]] = {
    ValueKind.DECIMAL: _find_inexact_decimal,
    ValueKind.FLOAT: _find_inexact_float,
    ValueKind.DATE: _find_inexact_date,
    ValueKind.TIME: _find_inexact_time,
    ValueKind.TIMESTAMP: _find_inexact_timestamp,
    ValueKind.INTERVAL: _find_inexact_interval,
    ValueKind.TEXT: _find_inexact_text,
    ValueKind.NUMBER_OR_TEXT: _find_converted_number,
}
_READ_AS: Mapping[ValueKind | None, str] = {
    ValueKind.DATE: "a date",
    ValueKind.TIME: "a time of day",
    ValueKind.TIMESTAMP: "a time",
    ValueKind.INTERVAL: "seconds",
}
