"""Reads the changes of a table from its replication slot, in a range of the log.

A range ends at the current end of the log, or at the first transaction that was committed at or after the window's end.
Reading does not advance the slot. It is advanced after the rows are committed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from waterclock.connectors.postgres import pgoutput, wal2json
from waterclock.connectors.postgres.array_texts import json_of_array
from waterclock.connectors.postgres.extract import ARRAY, PostgresExtract
from waterclock.connectors.postgres.log_changes import Begin, Event, LogChange, Op, position_text
from waterclock.connectors.postgres.logged_columns import LoggedColumns
from waterclock.connectors.postgres.rows import parse_texts, schema_of
from waterclock.connectors.postgres.slots import Slot
from waterclock.connectors.postgres.table_facts import AGAIN, moved_schema_error
from waterclock.errors import WaterclockError
from waterclock.flow.changes import AT, LSN, MISSING, OP, SEQ, XID

if TYPE_CHECKING:
    import pyarrow as pa

    from waterclock.connectors.postgres.database import Connection

_ROWS_A_BATCH = 10_000
_SHORTEST_READ = 64 << 20  # bytes of a log that are decoded in one pass
_MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class LogRange:
    """A range of commit positions `[low, high)`. `newest` is the latest commit time before the range.

    `clock` is the server's time, read after `high`. A commit time later than `clock` was recorded before the server's
    clock was set back.
    """

    low: int
    high: int
    newest: datetime
    clock: datetime | None = None


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table whose changes are collected: its slot, its oid and its name in the log.

    `extract` has the requested columns. `keys` are the columns that identify rows, as the source spells them. `columns`
    are those whose names may be in the log. `namesakes` are None, unless the table's schema may have had another name
    for a while. Then changes of tables with the same name are refused, except in these schemas.
    """

    slot: Slot
    oid: int
    schema: str
    table: str
    extract: PostgresExtract
    keys: tuple[str, ...]
    columns: LoggedColumns | None = None
    namesakes: frozenset[str] | None = None


@dataclass(slots=True)
class LogScanSummary:
    """A summary of a range of the log: its rows, the columns that are missing in some of them, and its truncates.

    `truncated_by` is the transaction of the last truncate. `has_moved`: an update that changed a key had missing
    values. `high` is the end of the range, and `newest` the latest commit time before it.
    """

    rows: int = 0
    missing: tuple[str, ...] = ()
    missing_of_deletes: tuple[str, ...] = ()
    has_truncates: bool = False
    truncated_by: int | None = None
    has_moved: bool = False
    high: int = 0
    newest: datetime | None = None


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row of the collect that was made from a change. `values` are by source column.

    `missing` are columns that the change does not contain.
    """

    op: Op
    begin: Begin
    at: datetime
    seq: int
    values: Mapping[str, str | None]
    missing: tuple[str, ...] = ()


def events_of(connection: Connection, followed: FollowedTable, high: int) -> Generator[Event]:
    """Yield the events of the slot before the position `high`, in log order.

    The connection is free for other statements once the generator is closed.
    Cost: a pass over the log from the slot's position.
    """
    slot = followed.slot
    if slot.plugin == "wal2json":
        options = wal2json.options(followed.schema if followed.namesakes is None else None, followed.table)
        lines = _peek_changes(connection, followed, high, options, "text")
        return wal2json.events(lines, followed.schema, followed.table, followed.namesakes or frozenset())
    options = {**pgoutput.options(slot.publication), "messages": "false"}
    return pgoutput.events(_peek_changes(connection, followed, high, options, "bytea"), followed.oid)


def _peek_changes(
    connection: Connection, followed: FollowedTable, high: int, options: Mapping[str, str], kind: str
) -> Iterator[Any]:
    from psycopg.sql import SQL, Literal

    function = "pg_logical_slot_peek_changes" if kind == "text" else "pg_logical_slot_peek_binary_changes"
    given = [Literal(text) for pair in options.items() for text in pair]
    query = SQL("COPY (SELECT data FROM {}({}, {}, NULL, {})) TO STDOUT (FORMAT binary)").format(
        SQL(function), Literal(followed.slot.name), Literal(position_text(high)), SQL(", ").join(given)
    )
    left_out: list[str] = []

    def record_left_out(diagnostic: Any) -> None:
        if not left_out and str(diagnostic.message_primary).startswith(wal2json.LEFT_OUT):
            left_out.append(str(diagnostic.message_primary))

    connection.execute("SET client_min_messages = warning")
    connection.add_notice_handler(record_left_out)
    try:
        with connection.cursor().copy(query) as copy:
            copy.set_types([kind])
            rows = copy.rows()
            first = next(rows, None)
            if left_out:  # the server decodes everything before it writes the first row
                why = f"it had no replica identity for a while, and changes are missing in its log: {left_out[0]}"
                raise _incomplete_log_error(followed, why)
            for row in () if first is None else chain((first,), rows):
                yield row[0]
    finally:
        connection.remove_notice_handler(record_left_out)


def ends_of(span: LogRange, until: datetime, now: datetime) -> Iterator[int]:
    """Yield increasing positions up to which to read the log until the window's end is found. The last is `span.high`.

    The server decodes everything up to a position before it returns a row. If the log contains many windows, decoding
    all of it for each window would take long. So the first position is an estimate: where the window ends if the log
    grew evenly since the last batch, plus a margin. Each further position is twice as far.
    """
    length = span.high - span.low
    share = (until - span.newest) / (now - span.newest) if now > span.newest else 1.0
    reach = max(_SHORTEST_READ, int(length * max(share, 0.0) * _MARGIN))
    while reach < length:
        yield span.low + reach
        reach *= 2
    yield span.high


def _incomplete_log_error(followed: FollowedTable, why: str) -> WaterclockError:
    what = f"{followed.table} has changes that its log does not fully describe"
    return WaterclockError("E863", what, where=followed.extract.where, why=why, fix=AGAIN)


def rows_in(
    events: Iterable[Event], span: LogRange, followed: FollowedTable, until: datetime | None, seen: LogScanSummary
) -> Iterator[LogRow]:
    """Yield the rows of the changes in a range, and update its summary `seen`.

    The first transaction that was committed at or after `until` ends the range; `seen.high` is then its position. The
    times of rows never decrease, even if the server's clock was set back. A commit time after the server's current time
    is ignored, as it would end all ranges until that time. An update that changes the key becomes a delete and, at the
    next `seq`, an insert, in which unchanged large values may be missing.

    Raises E863 for a change without the key of its row, with values under another column's name, or of another schema.
    """
    seen.high, seen.newest = span.high, span.newest
    kept = None
    names = [one.taken.source for one in followed.extract.wanted]
    seq, checked = 0, set[tuple[tuple[str, int | None], ...]]()
    for event in events:
        begin = event if isinstance(event, Begin) else event.begin
        if not span.low <= begin.committed_at < span.high:
            continue
        if span.clock is None or begin.at <= span.clock:
            if until is not None and begin.at >= until:
                seen.high = begin.committed_at
                return
            seen.newest = max(seen.newest, begin.at)
        if isinstance(event, Begin):
            seq, kept = 0, seen.newest
            continue
        if event.other_schema is not None:
            found = f"a change of {event.other_schema}.{followed.table} in the log"
            raise moved_schema_error(followed.extract.where, followed.schema, found)
        if event.columns and event.columns not in checked:
            _require_own_names(event, followed)
            checked.add(event.columns)
        for op, values, is_moved in _split_key_update(event, followed):
            # an insert from before a column was added does not contain the column, which was NULL then
            has_all_columns = op is Op.TRUNCATE or (op is Op.INSERT and not is_moved)
            missing = () if has_all_columns else tuple(name for name in names if name not in values)
            seen.rows += 1
            if op is Op.TRUNCATE:
                seen.has_truncates, seen.truncated_by = True, begin.xid
            if missing and op is Op.DELETE:
                seen.missing_of_deletes = tuple(dict.fromkeys((*seen.missing_of_deletes, *missing)))
            elif missing:
                seen.missing = tuple(dict.fromkeys((*seen.missing, *missing)))
                seen.has_moved |= is_moved
            yield LogRow(op, begin, kept or seen.newest, seq, values, missing)
            seq += 1


def _require_own_names(change: LogChange, followed: FollowedTable) -> None:
    is_whole = followed.slot.plugin == "pgoutput"
    if followed.columns is None or followed.columns.has_own_names(change.columns, is_whole=is_whole):
        return
    raise WaterclockError(
        "E863",
        f"columns of {followed.table} were renamed and renamed back while changes were logged",
        where=followed.extract.where,
        why=f"a row was changed while they were {', '.join(name for name, _ in change.columns)}, and the log has the"
        " values under those names",
        fix=AGAIN,
    )


def _split_key_update(
    change: LogChange, followed: FollowedTable
) -> Iterator[tuple[Op, Mapping[str, str | None], bool]]:
    """Yield (operation, values, is_moved): one for a change, but a delete and a moved insert for an update of the key.

    Raises E863 for a change without the key of its row.
    """
    before, after = change.before or {}, change.after or {}
    if change.op in {Op.INSERT, Op.TRUNCATE}:
        yield change.op, after, False
        return
    if absent := [key for key in followed.keys if key not in before]:
        why = f"its log identified rows by {', '.join(before) or 'nothing'} for a while, and not by {', '.join(absent)}"
        raise _incomplete_log_error(followed, why)
    if change.op is Op.DELETE:
        yield change.op, before, False
        return
    whole = {**before, **after}
    is_moved = any(before[key] != whole[key] for key in followed.keys)
    if is_moved:
        yield Op.DELETE, before, False
    yield Op.INSERT if is_moved else Op.UPDATE, whole, is_moved


def batches_of(rows: Iterable[LogRow], extract: PostgresExtract) -> Iterator[pa.RecordBatch]:
    """Convert rows to Arrow batches, with the columns of a change.

    Raises E812 for values that do not fit their type.
    """
    remaining = iter(rows)
    while chunk := list(islice(remaining, _ROWS_A_BATCH)):
        yield _build_batch(chunk, extract)


def _build_batch(rows: Sequence[LogRow], extract: PostgresExtract) -> pa.RecordBatch:
    import pyarrow as pa

    wanted = [(one.taken.source, one.kind if _is_json(one) else None) for one in extract.wanted]
    texts = [[_convert_text(row.values.get(name), kind) for name, kind in wanted] for row in rows]
    columns: list[Any] = list(parse_texts(texts, extract).columns) if wanted else []
    targets = {one.taken.source: one.taken.name for one in extract.wanted}
    change_values = [
        [row.op.value for row in rows],
        [row.begin.committed_at for row in rows],
        [row.begin.xid for row in rows],
        [row.seq for row in rows],
        [row.at for row in rows],
        [[targets[name] for name in row.missing] for row in rows],
    ]
    schema = log_schema(extract)
    kinds = schema.types[len(columns) :]
    columns += [pa.array(values, kind) for values, kind in zip(change_values, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_json(one: Any) -> bool:
    return bool(one.is_array and ARRAY.fullmatch(one.taken.type.strip()))


def _convert_text(text: str | None, array_of: str | None) -> str | None:
    return text if text is None or array_of is None else json_of_array(text, array_of)


def log_schema(extract: PostgresExtract) -> pa.Schema:
    """Return the Arrow schema of log rows: the wanted columns, and the columns that describe the change."""
    import pyarrow as pa

    change_fields = [
        (OP, pa.string()),
        (LSN, pa.int64()),
        (XID, pa.int64()),
        (SEQ, pa.int64()),
        (AT, pa.timestamp("us", tz="UTC")),
        (MISSING, pa.list_(pa.string())),
    ]
    return pa.schema([*schema_of(replace(extract, by_window=None)), *(pa.field(*each) for each in change_fields)])


def carried_state(noted: Mapping[str, Any]) -> tuple[int, datetime]:
    """Return the log position and the latest commit time that the last batch reached, from its record `noted`."""
    return int(noted["to"]), datetime.fromisoformat(str(noted["newest"]))


def unreadable(error: BaseException, followed: FollowedTable) -> WaterclockError:
    """Build the error for a log that the decoder cannot parse."""
    return WaterclockError(
        "E865",
        "the log cannot be read",
        where=followed.extract.where,
        why=f"{followed.slot.plugin} wrote an invalid message: {error}",
        fix="check its version on the server; or use the other plugin, OPTIONS (decoder '…'), with a new snapshot",
    )
