"""Refuses values that a destination's column would cut without a word: database servers round what they are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    import pyarrow as pa

_DAY = 86_400_000_000
_DIGITS = 6  # of a second, in microseconds


@dataclass(frozen=True, slots=True)
class Kept:
    """What a column of a destination keeps of a number or of a second: digits behind the point; a date keeps -1.

    `by` names the database.
    """

    name: str
    places: int
    by: str


def refuse_rounded(column: pa.Array, there: Kept, where: str) -> None:
    """Refuse decimals and times of which the destination's column keeps less; DOUBLE and FLOAT are near to begin with.

    Raises  E812
    """
    import pyarrow as pa

    if pa.types.is_decimal(column.type) and column.type.scale > there.places:
        _refuse_cut(column, pa.decimal128(column.type.precision, there.places), there, where)
    elif pa.types.is_timestamp(column.type):
        unit = _DAY if there.places < 0 else 10 ** (_DIGITS - there.places)
        _refuse_beside(column, unit, there, where)


def _refuse_cut(column: pa.Array, kept: pa.DataType, there: Kept, where: str) -> None:
    import pyarrow as pa

    try:
        column.cast(kept)
    except pa.ArrowInvalid as error:
        cut = (value for value in column.to_pylist() if value is not None and value != round(value, there.places))
        raise _refused(next(cut), there, where) from error


def _refuse_beside(column: pa.Array, unit: int, there: Kept, where: str) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).fill_null(0)
    beside = np.flatnonzero(micros.to_numpy(zero_copy_only=False) % unit)
    if len(beside):
        raise _refused(pc.strftime(column, format="%Y-%m-%d %H:%M:%S")[int(beside[0])].as_py(), there, where)


def _refused(value: object, there: Kept, where: str) -> WaterclockError:
    places = "a date" if there.places < 0 else f"{there.places} digits behind the point"
    return WaterclockError(
        "E812",
        f"{there.name} is to take {value}, and keeps no more than {places}",
        where=where,
        why=f"{there.by} would round it without a word; nothing was delivered",
        fix="widen the column at the destination, or round or cast it in the transform",
    )
