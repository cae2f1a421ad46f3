"""Collects entities: the rows as of the end of each window, from the history of changes alone.

A read records the end of its newest window as sealed, in a writing transaction. Every later change gets a time at or
after it, whatever the clock shows then, so a window that was read never changes. The rows themselves are read by the
collectors of SQLite and PostgreSQL, by a query of batches that are complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.connectors.forms.database import BATCHES, CHANGES, CLOCK, FormsDatabase, FormsSession, to_text
from waterclock.connectors.forms.erasure import erase_persons, search_database
from waterclock.connectors.forms.history import last_batch_before
from waterclock.connectors.interface import Collected, WindowRequest
from waterclock.connectors.original_erasure import OriginalErasure, Subjects
from waterclock.connectors.sqlite.collection import SqliteCollector
from waterclock.connectors.sqlite.database import SqliteFile
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns, Unit
from waterclock.spark_sql import quote_name
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.connectors.postgres.connector import PostgresCollector
    from waterclock.storage.search.byte_search import ByteSearch

_TIME = "_waterclock_window"


@dataclass(frozen=True, slots=True)
class FormsCollector:
    """Collects the entities of a forms connection."""

    database: FormsDatabase

    def clock(self, unit: Unit) -> datetime:
        """Return the time of the database's clock."""
        with self.database.open_for_reading(str(unit)) as session:
            return self.database.now(session)

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return None: the column list of the COLLECT declares the columns."""
        del unit
        return None

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Return the error of a worker that read rows, or of a stored text that is not of the column's type."""
        if "CAST_INVALID_INPUT" in str(error) or "CAST_OVERFLOW" in str(error):
            return WaterclockError(
                "E895",
                f"a stored value of {unit} is not of its column's type",
                where=str(unit),
                why=str(error).partition("\n")[0],
                fix="the type of the column has changed since the value was saved: restore it, or correct the row with "
                "`waterclock edit`, and skip the labels before",
            )
        return self._reader.explain(unit, columns, error)

    def read_states(
        self,
        spark: SparkSession,
        unit: Unit,
        windows: Sequence[Window],
        columns: Columns,
        last: Mapping[str, Any] | None = None,
    ) -> Collected:
        """Read the rows as of the end of each window, each with the window's label.

        Rows that lack a required value are not returned; a note names their number. Raises E896 (transient) for a
        window that is not over by the database's clock, and E878 if the database lacks the newest changes of `last`.
        """
        named = [column for column in columns.named if column.metadata_field is None]
        required = [column.name for column in named if column.is_key or column.is_not_null]
        with self.database.open_for_writing(str(unit)) as session:
            self._require_last_read(session, unit, last or {})
            self._seal(session, unit, windows[-1].end)
            ceilings = {window: last_batch_before(session, window.end) for window in windows}
            newest = ceilings[windows[-1]]
            waiting = _count_waiting(session, unit.path, newest, required)
            source = {"database": self.database.name, "batch": newest, "batch_at": _time_of_batch(session, newest)}
            query = _states_query(session, unit.path, ceilings, [column.name for column in named], required)
        texts = replace(columns, named=tuple(replace(column, type="STRING") for column in named))
        request = WindowRequest(_TIME, windows)
        read = self._reader.read_windows(spark, replace(unit, query=query, path="", options={}), request, texts, "UTC")
        casts = [
            f"CAST({quote_name(it.name)} AS {it.type}) AS {quote_name(it.name)}" if it.type else quote_name(it.name)
            for it in named
        ]
        notes = (f"{waiting} rows of {unit} lack a required value, and are not collected",) if waiting else ()
        return replace(
            read,
            frame=read.frame.selectExpr(*casts, TIMELABEL),
            left_out=(),
            source_columns={column.name: column.type or "STRING" for column in named},
            source={**source, "waiting": waiting},
            notes=notes,
        )

    def erase_originals(
        self,
        unit: Unit,
        columns: Columns,
        subjects: Subjects,
        *,
        is_dry_run: bool = False,
        requested: Sequence[str] = (),
    ) -> Iterator[OriginalErasure]:
        """Remove rows of erased persons from the form: all their versions in its history, current rows and hints."""
        del columns, requested
        yield from erase_persons(self.database, unit, subjects, is_dry_run=is_dry_run)

    def search_originals(self, unit: Unit, search: ByteSearch) -> None:
        """Search the database of the form for values of persons."""
        search_database(self.database, unit, search)

    @property
    def _reader(self) -> SqliteCollector | PostgresCollector:
        if isinstance(self.database.database, SqliteFile):
            return SqliteCollector(self.database.database)
        from waterclock.connectors.postgres.connector import PostgresCollector

        return PostgresCollector(self.database.database)

    def _require_last_read(self, session: FormsSession, unit: Unit, last: Mapping[str, Any]) -> None:
        """Raise E878 unless the newest batch of changes of an earlier read is in the database, with its time."""
        number, at = last.get("batch"), last.get("batch_at")
        if at is None or (found := _time_of_batch(session, number)) == at:
            return
        raise WaterclockError(
            "E878",
            f"the forms of {unit} no longer have batch {number} of {at}",
            where=str(unit),
            why=f"the newest label was made from it; {self.database.name} has "
            + (f"a batch {number} of {found}" if found else f"no batch {number}")
            + ", so it is an older copy or another database",
            fix="restore the newest copy, then `waterclock retry`; if it is lost, `waterclock reset` of the table "
            "makes all labels from this one",
        )

    def _seal(self, session: FormsSession, unit: Unit, end: datetime) -> None:
        """Record that windows up to `end` are read, so that no later change gets an earlier time."""
        now = self.database.now(session)
        if now < end:
            raise WaterclockError(
                "E896",
                f"the window of {unit} until {end:%Y-%m-%d %H:%M} UTC is not over",
                where=str(unit),
                why=f"the clock of its database shows {now:%Y-%m-%d %H:%M:%S} UTC",
                fix="wait, or correct the clocks",
                transient=True,
            )
        session.execute(f"UPDATE {CLOCK} SET sealed_at = ? WHERE sealed_at < ?", (to_text(end), to_text(end)))


def _time_of_batch(session: FormsSession, number: Any) -> str | None:
    row = session.first_of(f"SELECT at FROM {BATCHES} WHERE id = ?", (number,))
    return None if row is None else str(row[0])


def _latest(session: FormsSession, entity: str, ceilings: str) -> str:
    """Return the SQL of the newest change of each key for each row `(start, ceiling)` of `ceilings`."""
    del session
    return (
        f"SELECT w.start_of, c.key, max(c.id) AS id FROM ({ceilings}) AS w JOIN {CHANGES} AS c"
        f" ON c.entity = '{entity}' AND c.batch <= w.ceiling GROUP BY w.start_of, c.key"
    )


def _states_query(
    session: FormsSession, entity: str, ceilings: Mapping[Window, int], columns: Sequence[str], required: Sequence[str]
) -> str:
    """Return the query of all rows of all windows, with the start of the window in the column `_TIME`."""
    pairs = " UNION ALL ".join(
        f"SELECT '{window.start:%Y-%m-%d %H:%M:%S}' AS start_of, {ceiling} AS ceiling"
        for window, ceiling in ceilings.items()
    )
    listed = ", ".join(f'{session.json_field("c.after", name)} AS "{name}"' for name in columns)
    start = "m.start_of::timestamp" if session.is_server else "m.start_of"
    complete = "".join(f" AND {session.json_field('c.after', name)} IS NOT NULL" for name in required)
    return (
        f'SELECT {listed}, {start} AS "{_TIME}" FROM ({_latest(session, entity, pairs)}) AS m'
        f" JOIN {CHANGES} AS c ON c.id = m.id WHERE c.after IS NOT NULL{complete}"
    )


def _count_waiting(session: FormsSession, entity: str, ceiling: int, required: Sequence[str]) -> int:
    if not required:
        return 0
    lacks = " OR ".join(f"{session.json_field('c.after', name)} IS NULL" for name in required)
    latest = _latest(session, entity, f"SELECT '' AS start_of, {ceiling} AS ceiling")
    there = f"FROM ({latest}) AS m JOIN {CHANGES} AS c ON c.id = m.id WHERE c.after IS NOT NULL"
    return int(session.first_of(f"SELECT count(*) {there} AND ({lacks})")[0])
