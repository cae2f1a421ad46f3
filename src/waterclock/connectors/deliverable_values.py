"""Refuses values in the rows of a slice that most destinations cannot receive, before any row is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from waterclock.connectors.arrow_values import is_in_calendar
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    import pyarrow as pa


def require_deliverable_values(batch: pa.RecordBatch, *, takes_far_times: bool = False) -> None:
    """Raise E812 for a text that is not UTF-8, a time outside of the years 1 to 9999, or a map with nested keys.

    `takes_far_times`: columns of dates and timestamps are sent as such, so only nested values are limited to these
    years. Cost: one pass over texts, times and nested values in memory.
    """
    import pyarrow as pa

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        is_nested = pa.types.is_nested(column.type)
        for values in _leaves(name, column):
            if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                _require_valid_text(name, values)
            elif pa.types.is_temporal(values.type) and (is_nested or not takes_far_times):
                _require_near_times(name, values)


def _leaves(name: str, values: pa.Array) -> Iterator[pa.Array]:
    """Yield the plain values in a column, at any depth."""
    import pyarrow as pa

    if pa.types.is_map(values.type) and pa.types.is_nested(values.type.key_type):
        raise _undeliverable_value_error(
            f"{name} has a map with nested keys",
            "nested values are sent as JSON, in which a key is a text",
            "use an array of structs instead of the map in the transform",
        )
    if pa.types.is_map(values.type):
        first, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        for child in (values.keys, values.items):
            yield from _leaves(name, child.slice(first, end - first))
    elif pa.types.is_struct(values.type):
        for child in values.flatten():
            yield from _leaves(name, child)
    elif pa.types.is_nested(values.type):
        yield from _leaves(name, values.flatten())
    else:
        yield values


def _require_valid_text(name: str, texts: pa.Array) -> None:
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _undeliverable_value_error(
            f"{name} has a text that is not UTF-8",
            str(error),
            "use `try_validate_utf8` or `make_valid_utf8` in the transform, or publish the bytes as BINARY",
        ) from None


def _require_near_times(name: str, times: pa.Array) -> None:
    if not is_in_calendar(times):
        raise _undeliverable_value_error(
            f"{name} has a time outside of the years 1 to 9999",
            "the destination receives times as texts, in which a year has four digits",
            "replace such times in the transform, or leave their rows out",
        )


def _undeliverable_value_error(what: str, why: str, fix: str) -> WaterclockError:
    return WaterclockError("E812", what, why=f"{why}; nothing was delivered", fix=fix)
