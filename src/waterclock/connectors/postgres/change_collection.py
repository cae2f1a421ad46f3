"""Collects a PostgreSQL table by its changes: first all rows as of the creation of a slot, then changes from the log.

Each collect has its own replication slot. The server keeps the changes of a batch in its log until the batch confirms
them after its commit, or the next batch does. The rows and the position after them are committed together, so each
change is collected once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from waterclock.connectors.change_collector import ChangeRequest, ChangesRead
from waterclock.connectors.column_matching import ColumnMatch, map_column_types, match
from waterclock.connectors.interface import Collected
from waterclock.connectors.postgres import wal2json
from waterclock.connectors.postgres.collection import collect_rows
from waterclock.connectors.postgres.database import PostgresDatabase
from waterclock.connectors.postgres.dialect import quote_identifier
from waterclock.connectors.postgres.extract import PostgresExtract, PostgresRequestedColumn
from waterclock.connectors.postgres.log_changes import Op, position_text
from waterclock.connectors.postgres.server_log import LogEnd, read_log_end, require_same_log
from waterclock.connectors.postgres.slot_reading import (
    FollowedTable,
    LogRange,
    LogRow,
    LogScanSummary,
    batches_of,
    carried_state,
    ends_of,
    events_of,
    log_schema,
    rows_in,
    unreadable,
)
from waterclock.connectors.postgres.slots import (
    Slot,
    SlotStart,
    SlotState,
    advance,
    create_slot,
    drop,
    has_lost_log,
    is_in_use,
    is_option_unknown,
    mark_of_publication,
    read_clock,
    removed_log_error,
    require_published,
    require_unchanged_table,
    require_whole,
    state_of,
    untrusted_plugin_error,
)
from waterclock.connectors.postgres.table_facts import (
    PostgresTableFacts,
    UnfitDecoder,
    facts_of,
    mark_of_schema,
    namesakes_of,
    require_followable,
    require_logged,
    require_same,
)
from waterclock.connectors.postgres.types import columns_of
from waterclock.connectors.spark_frames import DIRECT_ROWS, read_by_workers
from waterclock.connectors.sql.collector import times_of
from waterclock.connectors.sql.columns import require_declared_types
from waterclock.errors import WaterclockError
from waterclock.flow.changes import AT, LSN, MISSING, OP, SEQ, XID
from waterclock.flow.declarations import Columns, Unit
from waterclock.spark_sql import ddl_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.connectors.postgres.database import Connection
    from waterclock.connectors.postgres.types import PostgresColumn

_TROUBLED = frozenset({"extended", "unreserved"})


@dataclass(frozen=True, slots=True)
class TableFollower:
    """Reads the rows and the logged changes of one table, for one collect."""

    database: PostgresDatabase
    unit: Unit
    columns: Columns
    zone: str

    @property
    def where(self) -> str:
        """The name of the table in error messages."""
        return str(self.unit)

    def read(self, spark: SparkSession, request: ChangeRequest) -> ChangesRead:
        """Read the whole table if there is no earlier batch or a new snapshot is requested; else read its changes."""
        since = request.since
        decoder = self.unit.options.get("decoder")
        if since is None or since["snapshot"] != self._requested_snapshot or decoder not in {None, since["plugin"]}:
            return self._read_whole_table(spark, request)
        return self._read_changes(spark, request, since)

    @property
    def _requested_snapshot(self) -> str:
        return str(self.unit.options.get("snapshot", ""))

    # ---- the first batch

    def _read_whole_table(self, spark: SparkSession, request: ChangeRequest) -> ChangesRead:
        held = ExitStack()
        try:
            with self.database.open_for_reading(self.where) as connection:
                facts = facts_of(connection, self.unit)
                there, matched = self._columns(connection)
            plugins = self._output_plugins(there, matched)
            name = request.name()
            table = f"{quote_identifier(facts.schema)}.{quote_identifier(facts.name)}"
            start = self._create_slot(
                held, facts, matched, request.keys, [Slot(name, plugin) for plugin in plugins], table
            )
            connection = held.enter_context(self.database.open_for_reading(self.where, snapshot=start.snapshot))
            require_unchanged_table(connection, table, self.where)
            now = facts_of(connection, self.unit)
            there, matched = self._columns(connection)
            noted = self._build_source_state(connection, start.slot, now, matched, None)
            extract = self._extract(there, matched, f"{quote_identifier(now.schema)}.{quote_identifier(now.name)}")
            partitions = self.unit.options.get("partitions")
            read = collect_rows(
                spark, connection, held.close, extract, matched.left_out,
                partitions=None if partitions is None else max(1, int(str(partitions))),
            )  # fmt: skip
            place = self._read_log_end()
            with self.database.open_connection(self.where) as other_connection:
                state = state_of(other_connection, start.slot)
        except BaseException:
            held.__exit__(*sys.exc_info())
            raise
        noted |= self._build_position(start.position, start.at, place)
        frame = _add_change_columns(read.frame, start.position, start.at)
        # the lock on the slot's name is kept until the batch ends, even if the rows were read earlier
        whole = replace(
            read, frame=frame, source_columns=map_column_types(it.source_column for it in there), close=held.close
        )
        return ChangesRead(whole, noted, name, (start.position, start.at), messages=self._warn_unbounded_log(state))

    def _output_plugins(self, there: Sequence[PostgresColumn], matched: ColumnMatch) -> list[str]:
        """Return the declared output plugin, or those to try: pgoutput, and wal2json unless it would lose numbers."""
        decoder = self.unit.options.get("decoder")
        if decoder is not None:
            return [str(decoder)]
        taken = {each.source for each in matched.taken}
        loses = any(it.name in taken and it.kind in wal2json.LOSES and not it.is_array for it in there)
        return ["pgoutput"] if loses else ["pgoutput", "wal2json"]

    def _create_slot(
        self,
        held: ExitStack,
        facts: PostgresTableFacts,
        matched: ColumnMatch,
        keys: Sequence[str],
        slots: Sequence[Slot],
        table: str,
    ) -> SlotStart:
        """Create the first of the slots that the server accepts. If it accepts none, raise the error of the first one.

        The error is E861 or E862.
        """
        refused: list[UnfitDecoder] = []
        for slot in slots:
            try:
                self._require_followable(facts, matched, keys, slot.plugin)
                return held.enter_context(create_slot(self.database, self.where, slot, table))
            except UnfitDecoder as error:
                refused.append(error)
        raise refused[0]

    def _warn_unbounded_log(self, state: SlotState | None) -> tuple[str, ...]:
        with self.database.open_connection(self.where) as connection:
            row = connection.execute("SHOW max_slot_wal_keep_size").fetchone()
        if state is None or row is None or row[0] != "-1":
            return ()
        warning = f"{self.where}: the server keeps its log without limit until it is collected: "
        return (f"{warning}set max_slot_wal_keep_size there, so that a stopped project does not fill its disk",)

    # ---- later batches

    def _read_changes(self, spark: SparkSession, request: ChangeRequest, since: Mapping[str, Any]) -> ChangesRead:
        slot, (low, newest) = Slot(str(since["slot"]), str(since["plugin"])), carried_state(since)
        with self.database.open_connection(self.where) as connection:
            place = read_log_end(connection, self.where)
            state = state_of(connection, slot)
            require_whole(state, slot, low, self.where)
            require_same_log(self.database, since, place, self.where)
            facts = facts_of(connection, self.unit)
            require_published(connection, slot, facts.oid, since, self.where)
            there, matched = self._columns(connection)
            place = read_log_end(
                connection, self.where
            )  # this end is after all changes of the table's definition that were read above
            taken = [each.source for each in matched.taken]
            require_same(facts, since, self.unit, taken, slot.plugin)
            self._require_followable(facts, matched, request.keys, slot.plugin)
            extract = self._extract(there, matched, "")
            keys = self._source_keys(matched, request.keys)
            columns = facts.columns_since(since, low, taken)
            mark = mark_of_schema(connection, facts)
            is_named = slot.plugin == "wal2json"
            namesakes = namesakes_of(connection, facts, since, self.unit, mark) if is_named else None
            followed = FollowedTable(slot, facts.oid, facts.schema, facts.name, extract, keys, columns, namesakes)
            span = LogRange(low, place.end, newest, read_clock(connection))
            frame, seen = self._frame_of_range(spark, connection, followed, span, request.until)
            noted = self._build_source_state(connection, slot, facts, matched, since, place.end)
            if is_named:
                doubt = require_logged(facts, since, self.unit, place.end, seen.high, seen.truncated_by)
                noted |= {} if doubt is None else {"file": since["file"], "doubt": doubt}
                # a mark from before the log was read; the old one until all changes before the new one were read
                noted["schema"] = since["schema"] if namesakes is not None and seen.high < place.end else mark
        noted |= self._build_position(seen.high, seen.newest or newest, place)
        noted |= {"from": low, "rows": seen.rows, "held_bytes": state.held if state else 0}
        names = {each.source: each.name for each in matched.taken}
        read = Collected(
            frame,
            left_out=matched.left_out,
            source={"database": self.database.name},
            is_empty=not seen.rows,
            close=partial(_unpersist, frame) if seen.rows > DIRECT_ROWS else _do_nothing,
            source_columns=map_column_types(it.source_column for it in there),
        )
        return ChangesRead(
            read,
            noted,
            slot.name,
            missing=tuple(names[name] for name in seen.missing),
            missing_of_deletes=tuple(names[name] for name in seen.missing_of_deletes),
            has_truncates=seen.has_truncates,
            has_moved=seen.has_moved,
            messages=self._warn_slot_status(slot, state),
        )

    def _frame_of_range(
        self,
        spark: SparkSession,
        connection: Connection,
        followed: FollowedTable,
        span: LogRange,
        until: datetime,
    ) -> tuple[DataFrame, LogScanSummary]:
        """Return the changes in a range of the log as a frame, with a summary of the range.

        Few rows are passed to Spark directly. For many, a worker reads the slot once more, in bounded memory.
        """
        import pyarrow as pa

        extract = followed.extract
        first, seen = _read_log_range(connection, followed, span, until)
        fields = [(one.taken.name, one.taken.type) for one in extract.wanted]
        fields += [(OP, "STRING"), (LSN, "BIGINT"), (XID, "BIGINT"), (SEQ, "BIGINT"), (AT, "TIMESTAMP")]
        fields += [(MISSING, "ARRAY<STRING>")]
        if not first:
            return spark.createDataFrame([], ddl_of(fields)), seen
        if len(first) <= DIRECT_ROWS:
            rows = pa.Table.from_batches(list(batches_of(first, extract)), log_schema(extract))
            return spark.createDataFrame(rows), seen
        settled = replace(span, high=seen.high)
        # persisted, as a slot has one reader at a time, and each read decodes the log again
        return read_by_workers(spark, [settled], partial(_read_log_rows, followed), fields).persist(), seen

    def _warn_slot_status(self, slot: Slot, state: SlotState | None) -> tuple[str, ...]:
        if state is None or state.status not in _TROUBLED:
            return ()
        warning = f"{self.where}: its slot {slot.name} held back {state.held} bytes of the log ({state.status}): "
        return (
            f"{warning}collect it more often, or raise max_slot_wal_keep_size, before the server removes new changes",
        )

    # ---- shared

    def _columns(self, connection: Connection) -> tuple[list[PostgresColumn], ColumnMatch]:
        there = columns_of(connection, self.unit)
        matched = match(self.columns, [column.source_column for column in there], where=self.where)
        require_declared_types(matched, there, self.unit)
        return there, matched

    def _extract(self, there: Sequence[PostgresColumn], matched: ColumnMatch, source: str) -> PostgresExtract:
        by_name = {column.name: column for column in there}
        wanted = tuple(PostgresRequestedColumn(taken, by_name[taken.source]) for taken in matched.taken)
        return PostgresExtract(self.database, self.where, source, wanted, times_of(self.unit, self.zone))

    @staticmethod
    def _source_keys(matched: ColumnMatch, keys: Sequence[str]) -> tuple[str, ...]:
        sources = {each.name.lower(): each.source for each in matched.taken}
        return tuple(sources.get(key.lower(), key) for key in keys)

    def _require_followable(
        self, facts: PostgresTableFacts, matched: ColumnMatch, keys: Sequence[str], plugin: str
    ) -> None:
        taken = [each.source for each in matched.taken]
        require_followable(facts, self.unit, self._source_keys(matched, keys), taken, plugin)

    def _read_log_end(self) -> LogEnd:
        with self.database.open_connection(self.where) as connection:
            return read_log_end(connection, self.where)

    def _build_source_state(
        self,
        connection: Connection,
        slot: Slot,
        facts: PostgresTableFacts,
        matched: ColumnMatch,
        since: Mapping[str, Any] | None,
        end: int = 0,
    ) -> dict[str, Any]:
        """Return the facts by which the next batch checks the slot and the table. `end` is the end of the log."""
        noted: dict[str, Any] = {"slot": slot.name, "plugin": slot.plugin, "snapshot": self._requested_snapshot}
        noted |= {"taken": [each.source for each in matched.taken]}
        if slot.plugin == "pgoutput":
            noted["publication"] = mark_of_publication(connection, slot, facts.oid)
        else:
            noted["schema"] = mark_of_schema(connection, facts)
        return noted | facts.to_record(since, end)

    @staticmethod
    def _build_position(high: int, newest: datetime, place: LogEnd) -> dict[str, Any]:
        """Return the log position at which the next batch starts; `at` has it in the server's notation."""
        return {"to": high, "at": position_text(high), "newest": newest.isoformat(), "timeline": place.timeline}


def confirm(database: PostgresDatabase, unit: Unit, noted: Mapping[str, Any]) -> None:
    """Advance the slot past the committed changes. If the slot no longer exists, the next batch reports it."""
    with database.open_connection(str(unit)) as connection:
        advance(connection, Slot(str(noted["slot"]), str(noted["plugin"])), int(noted["to"]))


def drop_slots(database: PostgresDatabase, unit: Unit, names: Sequence[str]) -> tuple[str, ...]:
    """Drop slots, except those that a running batch uses. Return the names of those that no longer exist."""
    if not names:
        return ()
    with database.open_connection(str(unit)) as connection:
        return tuple(name for name in names if drop(connection, name))


def _add_change_columns(frame: DataFrame, position: int, at: datetime) -> DataFrame:
    """Add the columns that describe a change to each row of a snapshot."""
    columns = {OP: f"'{Op.SNAPSHOT.value}'", LSN: f"{position}L", XID: "CAST(NULL AS BIGINT)", SEQ: "0L"}
    columns |= {AT: f"TIMESTAMP '{at.isoformat()}'", MISSING: "CAST(array() AS ARRAY<STRING>)"}
    return frame.selectExpr("*", *(f"{value} AS {name}" for name, value in columns.items()))


def _read_log_range(
    connection: Connection, followed: FollowedTable, span: LogRange, until: datetime
) -> tuple[list[LogRow], LogScanSummary]:
    """Read a range of the log up to the window's end.

    Return its first rows, at most DIRECT_ROWS + 1, and a summary of the range.
    """
    for end in ends_of(span, until, datetime.now(UTC)):
        seen = LogScanSummary()
        with _LogErrorTranslator(followed), closing(events_of(connection, followed, end)) as events:
            rows = rows_in(events, replace(span, high=end), followed, until, seen)
            first = list(islice(rows, DIRECT_ROWS + 1))
            for _ in rows:
                pass
        if seen.high < end:
            break
    return first, seen


def _read_log_rows(followed: FollowedTable, span: LogRange) -> Iterator[pa.RecordBatch]:
    """Yield the changes in a range of the log with a known end. Raises E866, transient, if the slot is in use."""
    with (
        followed.extract.database.open_connection(followed.extract.where) as connection,
        _LogErrorTranslator(followed),
        closing(events_of(connection, followed, span.high)) as events,
    ):
        yield from batches_of(rows_in(events, span, followed, None, LogScanSummary()), followed.extract)


def _unpersist(frame: DataFrame) -> None:
    frame.unpersist()


def _do_nothing() -> None:
    pass


class _LogErrorTranslator:
    """Translates errors that are raised while the log is read to Waterclock errors."""

    def __init__(self, followed: FollowedTable) -> None:
        self._followed = followed

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, WaterclockError):
            return
        if isinstance(error, ValueError | KeyError | UnicodeDecodeError) or is_option_unknown(error):
            raise unreadable(error, self._followed) from error
        where = self._followed.extract.where
        if untrusted := untrusted_plugin_error(error, self._followed.slot, where):
            raise untrusted from error
        if is_in_use(error):
            raise WaterclockError(
                "E866",
                f"the replication slot {self._followed.slot.name} is being read",
                where=where,
                why=str(error).strip(),
                fix="it is tried again; if it continues, find its reader in pg_stat_activity",
                transient=True,
            ) from error
        if has_lost_log(error):
            raise removed_log_error(self._followed.slot, str(error).strip(), where) from error
