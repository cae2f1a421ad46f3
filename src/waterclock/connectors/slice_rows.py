"""Reads sealed slices for delivery in batches of limited size, and converts their values to common types."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.connectors.arrow_values import arrow_type, is_plain
from waterclock.connectors.deliverable_values import require_deliverable_values
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import arrow_source
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData
    from sqlglot import exp

BATCH_ROWS = 20_000
_BATCH_BYTES = 64 << 20


def batches_of(files: Sequence[Path], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the named columns of Parquet files, at most `BATCH_ROWS` rows at a time, or fewer if rows are wide.

    Raises E822 for unreadable files.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in files:
        try:
            with pq.ParquetFile(arrow_source(path)) as file:
                missing = [name for name in names if name not in file.schema_arrow.names]
                if missing:
                    raise _unreadable_slice_error(path, f"it has no column {', '.join(missing)}")
                for batch in file.iter_batches(batch_size=_batch_rows(file.metadata), columns=list(names)):
                    yield batch.select(list(names))
        except (OSError, pa.ArrowInvalid) as error:
            raise _unreadable_slice_error(path, str(error)) from error


def _batch_rows(metadata: FileMetaData) -> int:
    """Return the number of rows for a batch of some `_BATCH_BYTES`, if rows are as wide as the file's average."""
    rows: int = metadata.num_rows
    size: int = sum(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups))
    return max(1, min(BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))


def deliverable_batches_of(
    files: Sequence[Path], names: Sequence[str], *, takes_far_times: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of `batches_of`, after `require_deliverable_values` has checked them. Raises E812 and E822."""
    for batch in batches_of(files, names):
        require_deliverable_values(batch, takes_far_times=takes_far_times)
        yield batch


def stored_type(spark_type: str) -> pa.DataType:
    """Return the Arrow type in which a slice stores a Spark type. Raises E815 if there is none, as for VARIANT."""
    if is_plain(spark_type):
        return arrow_type(spark_type)
    # its parser takes long to import, and `check` imports this module
    from waterclock.connectors.nested_decimals import parse_nested_type

    return _nested_type(parse_nested_type(spark_type))


def _nested_type(kind: exp.DataType) -> pa.DataType:
    import pyarrow as pa
    from sqlglot import exp

    if kind.this is exp.DataType.Type.STRUCT:
        return pa.struct([pa.field(field.name, _nested_type(field.args["kind"])) for field in kind.expressions])
    if kind.this is exp.DataType.Type.ARRAY:
        return pa.list_(_nested_type(kind.expressions[0]))
    if kind.this is exp.DataType.Type.MAP:
        return pa.map_(*map(_nested_type, kind.expressions))
    return arrow_type(kind.sql(dialect="spark"))


def add_timelabel(batches: Iterator[pa.RecordBatch], label: str) -> Iterator[pa.RecordBatch]:
    """Add the column `timelabel` with the value `label` after the columns of each batch."""
    import pyarrow as pa

    for batch in batches:
        yield batch.append_column(TIMELABEL, pa.repeat(pa.scalar(label), batch.num_rows))


def _unreadable_slice_error(path: Path, why: str) -> WaterclockError:
    return WaterclockError(
        "E822",
        f"the sealed slice {path.name} cannot be delivered",
        where=str(path),
        why=why,
        fix="run the batch again: `waterclock retry` makes its slice again",
    )


def to_portable_types(column: pa.Array, spark_type: str, *, mark: str = "") -> pa.Array:
    """Convert a column to types that most systems accept: times, dates and decimals to text, nested values to JSON.

    Instants are in UTC, followed by the text `mark`, such as Z. Other columns are returned unchanged.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind):
        text = _time_texts(column)
        return pc.binary_join_element_wise(text, mark, "") if mark and kind.tz else text
    if pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if not is_plain(spark_type):
        values = column.to_pylist(maps_as_pydicts="lossy")
        return pa.array([None if value is None else to_json_text(value) for value in values], pa.string())
    return column


def _time_texts(column: pa.Array) -> pa.Array:
    """Format times as `2013-01-01 05:00:00`, with a fraction if one has a fraction. Instants are in UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    zoneless = column.cast(pa.timestamp(column.type.unit, "UTC")) if column.type.tz else column
    zoneless = zoneless.cast(pa.timestamp(column.type.unit))
    try:
        return zoneless.cast(pa.timestamp("s")).cast(pa.string())
    except pa.ArrowInvalid:  # some have a fraction
        return pc.replace_substring_regex(zoneless.cast(pa.string()), pattern=r"\.0+$", replacement="")


def to_json_text(value: Any) -> str:
    """Encode a value as JSON text: instants in UTC with a Z; decimals, NaN and infinity as texts; bytes in base64.

    Keys of maps become texts in the same way.
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError):
        return json.dumps(without_nan(value), default=_json_default, ensure_ascii=False)


def base64_text(value: bytes) -> str:
    """Encode bytes as base64, the form in which Spark writes BINARY to JSON and collects of files read it."""
    return b64encode(value).decode()


def instant_text(value: datetime) -> str:
    """Format a time as `2013-01-01 05:00:00`, with its fraction if it has one.

    A time with a zone is converted to UTC.
    """
    zoneless = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return zoneless.isoformat(sep=" ")


def _json_default(value: object) -> object:
    if isinstance(value, datetime):
        return instant_text(value) + ("Z" if value.tzinfo else "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64_text(value)
    return str(value)


def _json_key(key: object) -> object:
    return key if isinstance(key, str | int | float) else _json_default(key)


# one encoder for all calls: json.dumps would create one for each, in a quarter of the time for a small row
_ENCODER = json.JSONEncoder(default=_json_default, ensure_ascii=False, allow_nan=False)


def without_nan(value: object) -> object:
    """Replace NaN, Infinity and -Infinity, and keys that JSON does not have, by texts, at any depth."""
    if isinstance(value, dict):
        return {_json_key(key): without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
