"""Reads statistics from a Parquet file's footer, in the format of Delta's `stats`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

from waterclock.files.filesystem import arrow_source, files_below, remove_file, stat_file
from waterclock.storage.slices.manifest import DataFile
from waterclock.storage.slices.row_filter import is_hidden

USUAL_LEAVES = 32
"""Spark uses the statistics of a table's first 32 leaves only, unless a property of the table has another number."""
_MAX_TEXT = 32
_LAST_CODE_POINT = "\U0010ffff"
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAST_DAY = date.max.toordinal()
_DAY_MICROS = 86_400_000_000

Bound = str | int | float | bool | Decimal | None
_Path = tuple[str, ...]


@dataclass(slots=True)
class _Leaf:
    """The statistics of one leaf column over the row groups read so far. None means unknown."""

    type: pa.DataType
    nulls: int | None = 0
    low: Any = None
    high: Any = None
    is_bounded: bool = True


def read_file(folder: Path, path: str, size: int | None = None, *, also: Collection[str] = ()) -> DataFile:
    """Read the footer of the file at `path` below the table's folder; `size` if it is known. Cost: a millisecond.

    Bounds are left out if they would not be exact, or if Spark and delta-rs would interpret them differently. The
    statistics are those of the first 32 leaves, and of the columns `also`.
    """
    file = folder / path
    with pq.ParquetFile(arrow_source(file, size)) as parquet:
        metadata, schema = parquet.metadata, parquet.schema_arrow
    # hidden columns, such as those of quarantined rows, are not columns of the table
    leaves = {path: leaf for path, leaf in _collect_leaves(metadata, schema).items() if not is_hidden(path[0])}
    rows = int(metadata.num_rows)
    return DataFile(
        path=path,
        size=stat_file(file).size if size is None else size,
        rows=rows,
        stats=_dump_exact(_build_stats(leaves, rows, also)),
        nulls={path[0]: leaf.nulls for path, leaf in leaves.items() if len(path) == 1 and leaf.nulls is not None},
        types=_read_types(schema),
    )


def read_files(folder: Path, path: str, *, also: Collection[str] = ()) -> tuple[DataFile, ...]:
    """Read the footers of the files that Spark wrote into the folder `path`, and remove files without rows.

    `also` names columns whose statistics are needed although they may not be among the first 32 leaves.
    """
    found = []
    for file in sorted(files_below(folder / path), key=lambda file: file.path):
        if "/" in file.path or not file.path.endswith(".parquet"):
            continue
        read = read_file(folder, f"{path}/{file.path}", file.size, also=also)
        if read.rows:
            found.append(read)
        else:
            remove_file(folder / path / file.path)  # Spark writes one file even for no rows
    return tuple(found)


def _read_types(schema: pa.Schema) -> dict[str, Any]:
    fields = json.loads(Schema.from_arrow(schema.remove_metadata()).to_json())["fields"]
    return {field["name"]: field["type"] for field in fields if not is_hidden(field["name"])}


def _build_stats(leaves: Mapping[_Path, _Leaf], rows: int, also: Collection[str]) -> dict[str, Any]:
    stats: dict[str, Any] = {"numRecords": rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    names = {name.lower() for name in also}
    for index, (path, leaf) in enumerate(leaves.items()):
        if index >= USUAL_LEAVES and path[0].lower() not in names:
            continue
        if leaf.nulls is not None:
            _set_nested(stats["nullCount"], path, leaf.nulls)
        low, high = _format_bounds(leaf)
        if low is not None:
            _set_nested(stats["minValues"], path, low)
        if high is not None:
            _set_nested(stats["maxValues"], path, high)
    return stats


def _set_nested(tree: dict[str, Any], path: _Path, value: Bound) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _collect_leaves(metadata: pq.FileMetaData, schema: pa.Schema) -> dict[_Path, _Leaf]:
    found = {index: (path, _Leaf(type_)) for index, path, type_ in _flat_leaves(metadata, schema)}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        if not row_group.num_rows:
            continue
        for index, (_, leaf) in found.items():
            _add_statistics(leaf, row_group.column(index).statistics, row_group.num_rows)
    return dict(found.values())


def _flat_leaves(metadata: pq.FileMetaData, schema: pa.Schema) -> Iterator[tuple[int, _Path, pa.DataType]]:
    """Yield the leaves that are not repeated: index in the file, path, type. Statistics of nested items are useless."""
    index = 0
    for field in schema:
        for path, type_ in _walk_leaves((field.name,), field.type):
            if metadata.schema.column(index).max_repetition_level == 0 and not pa.types.is_nested(type_):
                yield index, path, type_
            index += 1


def _walk_leaves(path: _Path, type_: pa.DataType) -> Iterator[tuple[_Path, pa.DataType]]:
    if pa.types.is_struct(type_):
        for field in type_:
            yield from _walk_leaves((*path, field.name), field.type)
    elif pa.types.is_map(type_):
        yield from _walk_leaves((*path, "key"), type_.key_type)
        yield from _walk_leaves((*path, "value"), type_.item_type)
    elif pa.types.is_list(type_):
        yield from _walk_leaves((*path, "element"), type_.value_type)
    else:
        yield path, type_


def _add_statistics(leaf: _Leaf, statistics: pq.Statistics | None, rows: int) -> None:
    if statistics is None or not statistics.has_null_count:
        leaf.nulls = None
    elif leaf.nulls is not None:
        leaf.nulls += statistics.null_count
    if statistics is not None and statistics.has_min_max:
        low, high = _parse_bound(leaf.type, statistics.min_raw), _parse_bound(leaf.type, statistics.max_raw)
        if low is None or high is None or _is_nan(low) or _is_nan(high):
            leaf.is_bounded = False
        elif leaf.is_bounded:
            leaf.low = low if leaf.low is None else min(leaf.low, low)
            leaf.high = high if leaf.high is None else max(leaf.high, high)
    elif statistics is None or not statistics.has_null_count or statistics.null_count < rows:
        leaf.is_bounded = False  # rows with values that the footer does not bound


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _parse_bound(type_: pa.DataType, raw: Any) -> Any:
    """Convert a raw bound to a value that compares as in Spark. Return None if that is impossible."""
    if pa.types.is_decimal(type_):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        return Decimal(unscaled).scaleb(-type_.scale, _EXACT_CONTEXT)
    if pa.types.is_string(type_):
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return None
    return raw


def _format_bounds(leaf: _Leaf) -> tuple[Bound, Bound]:
    if not leaf.is_bounded or leaf.low is None or leaf.high is None:
        return None, None
    for matches, write in _FORMATTERS:
        if matches(leaf.type):
            return write(leaf.type, leaf.low, leaf.high)
    return None, None


def _keep_bounds(_: pa.DataType, low: Any, high: Any) -> tuple[Bound, Bound]:
    return low, high


def _format_floats(type_: pa.DataType, low: float, high: float) -> tuple[Bound, Bound]:
    del type_
    # a zero of either sign may stand for both, and JSON has no infinity
    return (
        None if math.isinf(low) else (-0.0 if low == 0 else low),
        None if math.isinf(high) else (0.0 if high == 0 else high),
    )


def _format_strings(type_: pa.DataType, low: str, high: str) -> tuple[Bound, Bound]:
    del type_
    if len(high) <= _MAX_TEXT:
        return low[:_MAX_TEXT], high
    is_topped = high[_MAX_TEXT] == _LAST_CODE_POINT
    return low[:_MAX_TEXT], None if is_topped else high[:_MAX_TEXT] + _LAST_CODE_POINT


def _format_dates(type_: pa.DataType, low: int, high: int) -> tuple[Bound, Bound]:
    del type_
    return _format_date(low), _format_date(high)


def _format_date(days: int) -> str | None:
    ordinal = days + _EPOCH_DAY
    return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= _LAST_DAY else None


def _format_timestamps(type_: pa.DataType, low: int, high: int) -> tuple[Bound, Bound]:
    if type_.unit != "us":
        return None, None
    zone = "Z" if type_.tz else ""
    return _instant(low, zone), _instant(high, zone)


def _instant(micros: int, zone: str) -> str | None:
    days, rest = divmod(micros, _DAY_MICROS)
    day = _format_date(days)
    if day is None:
        return None
    seconds, fraction = divmod(rest, 1_000_000)
    time = str(timedelta(seconds=seconds)).rjust(8, "0")
    return f"{day}T{time}.{fraction:06d}{zone}"


_EXACT_CONTEXT = Context(prec=76)
_FORMATTERS: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, Any, Any], tuple[Bound, Bound]]], ...
] = (
    (pa.types.is_signed_integer, _keep_bounds),
    (pa.types.is_decimal, _keep_bounds),
    (pa.types.is_floating, _format_floats),
    (pa.types.is_string, _format_strings),
    (pa.types.is_date, _format_dates),
    (pa.types.is_timestamp, _format_timestamps),
)


def _dump_exact(value: Any) -> str:
    """Return JSON in which decimals are bare numbers with all their digits: `json` would convert them to floats."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(key)}:{_dump_exact(item)}" for key, item in value.items()) + "}"
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value)
