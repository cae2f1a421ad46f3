"""Brings rows of a PostgreSQL database into a Spark frame, in bounded memory and of one moment.

A small result is handed to Spark as it is. A big one is read by Python workers of Spark side by side, each its part:
all of them see the moment that the first transaction saw, which stays open and lends them its snapshot.

Rows travel as COPY writes them, CSV, which Arrow reads: both sides in C.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from waterclock.connectors.column_matching import Taken
from waterclock.connectors.interface import Collected
from waterclock.connectors.local_times import instants_of
from waterclock.connectors.postgres.database import Database, quoted
from waterclock.connectors.values import EPOCH_UNITS, Misfit, Times, arrow_type, column
from waterclock.connectors.windowing import NO_TIME
from waterclock.errors import WaterclockError
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.connectors.postgres.database import Connection

DIRECT_ROWS = 50_000
ROWS_A_PART = 500_000
MOST_PARTS = 64
_BATCH_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"
_MARK = "waterclock-error:"
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_ARRAY = re.compile(r"array\s*<(.+)>", re.IGNORECASE)
# what a time is read from, by the database's type of it
_NEAR_TIMES: Mapping[str, Callable[[], Any]] = {
    "timestamp": lambda: arrow_type("timestamp_ntz"),
    **dict.fromkeys(("int2", "int4", "int8"), lambda: arrow_type("bigint")),
    **dict.fromkeys(("float4", "float8"), lambda: arrow_type("double")),
}
_TIMES = frozenset({"timestamp", "timestamptz", "date", "int2", "int4", "int8"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A column that is taken; `kind` is the database's type of it, that of its elements for an array."""

    taken: Taken
    kind: str
    is_array: bool


@dataclass(frozen=True, slots=True)
class WindowFilter:
    """Rows are wanted whose `time_column`, of the database's type `kind`, lies in one of the windows, which ascend."""

    time_column: str
    kind: str
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class Extract:
    """All that is needed to read some rows, here or in a Python worker of Spark.

    `part` is a condition in SQL that bounds a part, `most` a number of rows; `snapshot` the moment that all parts see.
    """

    database: Database
    where: str
    source: str
    wanted: tuple[Wanted, ...]
    times: Times
    by_window: WindowFilter | None = None
    part: str | None = None
    snapshot: str | None = None
    most: int | None = None


def collected(
    spark: SparkSession,
    connection: Connection,
    close: Callable[[], None],
    extract: Extract,
    left_out: tuple[str, ...],
    *,
    partitions: int | None = None,
) -> Collected:
    """Read what `extract` asks for within the open transaction if it is small, else leave it to Spark's workers.

    `close` ends the transaction: here for a small result, else when the counts of `set_aside` are asked for, which is
    after the frame was evaluated.
    """
    import pyarrow as pa

    counts = set_aside(connection, extract)
    came = [0]  # before those are left out that lie in no window: the server's bounds are wider than windows with gaps
    read = list(batches(connection, replace(extract, most=DIRECT_ROWS + 1), came))
    rows = sum(batch.num_rows for batch in read)
    source: dict[str, Any] = {"database": extract.database.name}
    if came[0] <= DIRECT_ROWS:
        close()
        frame = spark.createDataFrame(pa.Table.from_batches(read, _schema(extract)))
        return Collected(frame, lambda: counts, left_out, {**source, "rows": rows}, is_empty=not rows)

    def counts_at_the_end() -> Mapping[str, int]:
        close()
        return counts

    parts = _parts(connection, extract, partitions)
    frame = _by_workers(spark, connection, extract, parts)
    return Collected(frame, counts_at_the_end, left_out, {**source, "parts": len(parts)})


def carried(error: BaseException) -> WaterclockError | None:
    """Find the error that a Python worker met in what Spark says of it."""
    found = re.search(re.escape(_MARK) + r"(\{.*\})", str(error))
    return WaterclockError(**json.loads(found[1])) if found else None


def _by_workers(
    spark: SparkSession, connection: Connection, extract: Extract, parts: Sequence[str | None]
) -> DataFrame:
    row = connection.execute("SELECT pg_export_snapshot()").fetchone()
    extracts = [replace(extract, part=part, snapshot=row[0] if row else None) for part in parts]

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from _carrying(extracts[number])

    fields = [(one.taken.name, one.taken.type) for one in extract.wanted]
    if extract.by_window:
        fields.append((TIMELABEL, "STRING"))
    ddl = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in fields)
    return spark.range(0, len(extracts), 1, len(extracts)).mapInArrow(read, ddl)


def _carrying(extract: Extract) -> Iterator[pa.RecordBatch]:
    """Read in a worker; errors go home within Spark's."""
    try:
        with extract.database.reading(extract.where, snapshot=extract.snapshot) as connection:
            yield from batches(connection, extract)
    except WaterclockError as error:
        raise RuntimeError(_MARK + json.dumps(_of_one_moment(error, extract).to_dict())) from error


def _of_one_moment(error: WaterclockError, extract: Extract) -> WaterclockError:
    if extract.snapshot is None or "snapshot" not in (error.why or ""):
        return error
    return WaterclockError(
        "E814",
        "the database ended the moment that its parts are read at",
        where=extract.where,
        why=error.why,
        fix="it is tried again; with OPTIONS (partitions 1) it is read in one transaction",
        transient=True,
    )


def _parts(connection: Connection, extract: Extract, partitions: int | None) -> list[str | None]:
    """Bound the parts that are read side by side: spans of time for windows, blocks of a table else.

    Their number is said, or follows from how many rows the server expects.
    """
    count = partitions or min(MOST_PARTS, -(-_expected_rows(connection, extract) // ROWS_A_PART))
    if count <= 1:
        return [None]
    if extract.by_window:
        return list(_spans(extract.by_window, extract.times, count))
    return list(_blocks(connection, extract.source, count))


def _expected_rows(connection: Connection, extract: Extract) -> int:
    row = connection.execute(f"EXPLAIN (FORMAT JSON) {_query(extract)}").fetchone()
    return int(row[0][0]["Plan"]["Plan Rows"]) if row else 0


def _spans(by_window: WindowFilter, times: Times, count: int) -> Iterator[str]:
    start, end = by_window.windows[0].start - _DAY, by_window.windows[-1].end + _DAY
    name = quoted(by_window.time_column)
    cuts = [start + (end - start) * at / count for at in range(1, count)]
    if by_window.kind in {"timestamp", "date"}:
        # where an hour comes twice, local times do not ascend with instants: any cuts that ascend part the rows
        rules = nominal_zone(times.zone)
        literals = [_local(cut) for cut in sorted({cut.astimezone(rules).replace(tzinfo=None) for cut in cuts})]
    else:
        literals = list(dict.fromkeys(_bound(cut, by_window.kind, times) for cut in cuts))
    yield f"{name} < {literals[0]}"
    for low, high in pairwise(literals):
        yield f"{name} >= {low} AND {name} < {high}"
    yield f"{name} >= {literals[-1]}"


def _blocks(connection: Connection, source: str, count: int) -> Iterator[str | None]:
    """Cut a table by its blocks: within one moment each row lies where it lies."""
    asked = "SELECT relkind, pg_relation_size(oid) / 8192 FROM pg_class WHERE oid = to_regclass(%s)"
    row = None if source.startswith("(") else connection.execute(asked, (source,)).fetchone()
    if row is None or row[0] not in {"r", "m"} or row[1] < count:
        yield None
        return
    # nobody rewrites it meanwhile: what was read of it before holds a lock until the transaction ends
    step = -(-int(row[1]) // count)
    for at in range(count):
        above = f"ctid >= '({at * step},0)'" if at else "true"
        below = f"ctid < '({(at + 1) * step},0)'" if at < count - 1 else "true"
        yield f"{above} AND {below}"


def _schema(extract: Extract) -> pa.Schema:
    import pyarrow as pa

    fields = [pa.field(one.taken.name, _arrow_type(one)) for one in extract.wanted]
    if extract.by_window:
        fields.append(pa.field(TIMELABEL, pa.string()))
    return pa.schema(fields)


def _arrow_type(one: Wanted) -> pa.DataType:
    import pyarrow as pa

    found = _ARRAY.fullmatch(one.taken.type.strip())
    return pa.list_(arrow_type(found[1])) if found and one.is_array else arrow_type(one.taken.type)


def _query(extract: Extract) -> str:
    conditions = [extract.part] if extract.part else []
    selected = [_selected(one) for one in extract.wanted]
    if extract.by_window:
        selected.append(_micros(extract.by_window))
        conditions.append(_within(extract.by_window, extract.times))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    limit = f" LIMIT {extract.most}" if extract.most else ""
    return f"SELECT {', '.join(selected) or '1'} FROM {extract.source}{where}{limit}"


def _selected(one: Wanted) -> str:
    name = quoted(one.taken.source)
    return f"array_to_json({name})" if one.is_array and _ARRAY.fullmatch(one.taken.type.strip()) else name


def _micros(by_window: WindowFilter) -> str:
    """Write a row's time as a number: microseconds since 1970, of a time without a zone as if it were in UTC."""
    name = quoted(by_window.time_column)
    if by_window.kind.startswith("int"):
        return name
    return f"(extract(epoch FROM {name}) * 1000000)::bigint"


def _within(by_window: WindowFilter, times: Times) -> str:
    """Bound what the server looks at, so that it can use an index; which window a row is in is decided here."""
    name = quoted(by_window.time_column)
    start, end = by_window.windows[0].start, by_window.windows[-1].end
    if by_window.kind == "timestamptz" or by_window.kind.startswith("int"):
        return f"{name} >= {_bound(start, by_window.kind, times)} AND {name} < {_bound(end, by_window.kind, times)}"
    low, high = _local_bounds(start, end, times.zone)
    return f"{name} >= {_local(low)} AND {name} < {_local(high)}"


def _bound(at: datetime, kind: str, times: Times) -> str:
    if kind.startswith("int"):
        return str(-(-(at - EPOCH) // EPOCH_UNITS[times.epoch]))
    if kind == "timestamptz":
        return f"'{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00'::timestamptz"
    return _local(at.astimezone(nominal_zone(times.zone)))


def _local(at: datetime) -> str:
    return f"'{at:%Y-%m-%d %H:%M:%S.%f}'::timestamp"


def _local_bounds(start: datetime, end: datetime, zone: str) -> tuple[datetime, datetime]:
    """Bound the zone-less times of a span; a day wider where the zone's offset may change nearby."""
    rules = nominal_zone(zone)
    offsets = {at.astimezone(rules).utcoffset() for at in (start - _DAY, start, end, end + _DAY)}
    margin = timedelta(0) if len(offsets) == 1 and end - start <= 7 * _DAY else _DAY
    # a date is midnight of its day: the first instant of a window is above it or it
    return (start - margin).astimezone(rules), (end + margin).astimezone(rules) + (_SECOND if margin else timedelta(0))


def batches(connection: Connection, extract: Extract, came: list[int] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows wanted, with their labels where they are wanted by window, some megabytes at a time.

    `came` counts the rows that the server sent, those too that turn out to lie in no window.
    Raises  E812 for a value that does not fit its column's type
    """
    schema = _schema(extract)
    with connection.cursor().copy(f"COPY ({_query(extract)}) TO STDOUT (FORMAT csv)") as copy:
        for text in _chunks(copy):
            batch = _parsed(text, extract, schema, came)
            if batch.num_rows:
                yield batch


def _chunks(rows: Iterable[Any]) -> Iterator[bytes]:
    """Join rows, each of which comes alone, to some megabytes: no row is cut."""
    held, size = [], 0
    for row in rows:
        held.append(bytes(row))
        size += len(held[-1])
        if size >= _BATCH_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _parsed(text: bytes, extract: Extract, schema: pa.Schema, came: list[int] | None) -> pa.RecordBatch:
    import pyarrow as pa
    from pyarrow import csv

    if not extract.wanted and not extract.by_window:
        return pa.RecordBatch.from_arrays([], schema=schema)
    kinds = [_read_as(one) for one in extract.wanted] + ([pa.int64()] if extract.by_window else [])
    names = [str(at) for at in range(len(kinds))]
    try:
        table = csv.read_csv(
            io.BytesIO(_BOM + text if text.startswith(_BOM) else text),  # Arrow drops one that begins a text
            read_options=csv.ReadOptions(column_names=names, block_size=len(text) + 4, use_threads=False),
            # a row of one NULL is an empty line
            parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=dict(zip(names, kinds, strict=True)),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )
    except pa.ArrowInvalid as error:
        raise _misfit(error, extract) from error
    if came is not None:
        came[0] += table.num_rows
    columns = [table.column(at).combine_chunks() for at in range(len(kinds))]
    if not extract.by_window:
        arrays = [_converted(column, one, extract) for column, one in zip(columns, extract.wanted, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    labels, kept = _labels(columns.pop(), extract.by_window, extract.times)
    arrays = [
        _converted(column.filter(kept), one, extract) for column, one in zip(columns, extract.wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*arrays, labels.filter(kept)], schema=schema)


def _read_as(one: Wanted) -> pa.DataType:
    """Return the Arrow type as which a column's text is read first: its own where Arrow reads that, else near it."""
    import pyarrow as pa

    kind = one.taken.type.strip().lower()
    if one.is_array or kind == "binary":
        return pa.string()
    if kind.startswith("timestamp"):
        is_instant = one.kind == "timestamptz" and kind != "timestamp_ntz"
        return pa.timestamp("us", tz="UTC") if is_instant else _NEAR_TIMES.get(one.kind, pa.string)()
    if kind == "boolean" and one.kind != "bool":
        return pa.string()
    return arrow_type(one.taken.type)


def _converted(values: pa.Array, one: Wanted, extract: Extract) -> pa.Array:
    """Turn what was read into the column's type, where Arrow could not read it as that."""
    import pyarrow as pa

    wanted = _arrow_type(one)
    if values.type == wanted:
        return _whole(values, one, extract)
    try:
        if pa.types.is_list(wanted):
            items = [None if text is None else json.loads(text) for text in values.to_pylist()]
            cut = _first_fraction(items) if pa.types.is_integer(wanted.value_type) else None
            return pa.array(items, wanted) if cut is None else _refuse(cut)
        if pa.types.is_binary(wanted) and one.kind == "bytea":
            return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in values.to_pylist()], wanted)
        if pa.types.is_timestamp(wanted) and wanted.tz and pa.types.is_timestamp(values.type):
            return _instants(values, extract.times)
        return column(values.to_pylist(), one.taken.type, extract.times)
    except Misfit as misfit:
        raise _refused(one, str(misfit.value), extract) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
        raise _refused(one, str(error), extract) from error


def _whole(values: pa.Array, one: Wanted, extract: Extract) -> pa.Array:
    """Refuse decimals of more digits than their type has: Arrow reads them, and Spark breaks off at them."""
    import pyarrow as pa

    if pa.types.is_decimal(values.type):
        try:
            values.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _refused(one, str(error), extract) from error
    return values


def _refuse(value: object) -> NoReturn:
    raise Misfit(value)


def _first_fraction(items: Sequence[Any]) -> object | None:
    """Return the first number that Arrow would cut to a whole one without a word."""
    return next((each for item in items if item for each in item if isinstance(each, float)), None)


def _instants(local: pa.Array, times: Times) -> pa.Array:
    """Read times without a zone in the zone: a repeated hour as its first pass, a skipped time moved on by the gap.

    Raises  Misfit for one that is no instant between the years 1 and 9999
    """
    import pyarrow as pa

    is_known = local.is_valid()
    micros = local.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    found = pa.array(instants_of(micros, times.zone), pa.int64(), mask=~is_known.to_numpy(zero_copy_only=False))
    return found.cast(pa.timestamp("us", tz="UTC"))


def _labels(micros: pa.Array, by_window: WindowFilter, times: Times) -> tuple[pa.Array, pa.Array]:
    """Return each row's label, and whether it lies in a window at all."""
    import numpy as np
    import pyarrow as pa

    if by_window.kind.startswith("int"):
        unit = EPOCH_UNITS[times.epoch] // timedelta(microseconds=1)
        instants = micros.to_numpy(zero_copy_only=False).astype("int64") * unit
    elif by_window.kind == "timestamptz":
        instants = micros.to_numpy(zero_copy_only=False).astype("int64")
    else:
        local = _instants(micros.cast(pa.timestamp("us")), times)
        instants = local.cast(pa.int64()).to_numpy(zero_copy_only=False).astype("int64")
    starts = np.array([_micros_of(window.start) for window in by_window.windows], dtype="int64")
    ends = np.array([_micros_of(window.end) for window in by_window.windows], dtype="int64")
    at = np.searchsorted(starts, instants, side="right") - 1
    kept = (at >= 0) & (instants < ends[at])
    texts = pa.array([window.label for window in by_window.windows], pa.string())
    return texts.take(pa.array(np.maximum(at, 0))), pa.array(kept)


def _micros_of(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def _misfit(error: Exception, extract: Extract) -> WaterclockError:
    """Tell which column Arrow could not read."""
    said = str(error)
    place = re.search(r"In CSV column #(\d+): (.*)", said, re.DOTALL)
    at = int(place[1]) if place else len(extract.wanted)
    if at >= len(extract.wanted):
        return WaterclockError("E812", "a row cannot be read", where=extract.where, why=said)
    value = re.search(r"invalid value '(.*)'|string '(.*?)'", said, re.DOTALL)
    what = next((each for each in value.groups() if each is not None), "") if value else (place[2] if place else said)
    return _refused(extract.wanted[at], what, extract)


def _refused(one: Wanted, value: str, extract: Extract) -> WaterclockError:
    shown = value if len(value) <= 80 else f"{value[:77]}…"
    return WaterclockError(
        "E812",
        f"{one.taken.source} holds {shown!r}, which is no {one.taken.type}",
        where=extract.where,
        why="a value must be of its column's type, and none is rounded, cut or left out unseen",
        fix=f"mend the value at the source, convert it in a QUERY, or collect the column as {one.taken.name} STRING",
    )


def set_aside(connection: Connection, extract: Extract) -> Mapping[str, int]:
    """Count the rows without a time, which no window will ever take; an index on it finds them."""
    if extract.by_window is None:
        return {}
    name = quoted(extract.by_window.time_column)
    row = connection.execute(f"SELECT count(*) FROM {extract.source} WHERE {name} IS NULL").fetchone()
    missing = int(row[0]) if row else 0
    return {NO_TIME: missing} if missing else {}


def require_time(time_column: str, kind: str, where: str) -> None:
    """Refuse a column that says no time.

    Raises  E815 for a text or another type
    """
    if kind in _TIMES:
        return
    raise WaterclockError(
        "E815",
        f"{time_column} is of type {kind}, which is no time",
        where=where,
        why="BY DATA TIME needs a timestamp, a date, or a number since 1970, by which an index can find the rows",
        fix=f"collect a QUERY that casts it: SELECT *, {time_column}::timestamptz AS at FROM …",
    )
