"""Collecting from a SQLite database, compared with reading every row in plain Python."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.systems import SqliteDatabase
from waterclock.connectors import spark_frames
from waterclock.connectors.arrow_values import Times
from waterclock.connectors.column_matching import CollectedColumn
from waterclock.connectors.sql.columns import SqlColumn, SqlRequestedColumn
from waterclock.connectors.sql.window_bounds import WindowFilter
from waterclock.connectors.sqlite import collection
from waterclock.connectors.sqlite.collection import SqliteExtract, batches, count_excluded_rows
from waterclock.connectors.sqlite.database import SqliteFile
from waterclock.errors import WaterclockError
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import resolve_local

HOUR = timedelta(hours=1)
ZONE = "America/New_York"
FALL_BACK = datetime(2013, 11, 3, 6, tzinfo=UTC)
SPRING_FORWARD = datetime(2013, 3, 10, 7, tzinfo=UTC)

# a time as some program may have written it, and its meaning
instants = st.builds(
    lambda base, seconds, micros: base + timedelta(seconds=seconds, microseconds=micros),
    st.sampled_from([FALL_BACK, SPRING_FORWARD, datetime(2013, 6, 1, 12, tzinfo=UTC)]),
    st.integers(-4 * 3600, 4 * 3600),
    st.sampled_from([0, 0, 1, 999_999, 500_000]),
)
naive = instants.map(lambda instant: instant.replace(tzinfo=None) - 4 * HOUR)


def zoneless(local: datetime, sign: str) -> tuple[object, datetime]:
    return local.isoformat(sep=sign), resolve_local(local, ZONE)


def zoned(instant: datetime, offset: int, sign: str) -> tuple[object, datetime]:
    local = (instant + offset * HOUR).replace(tzinfo=None).isoformat(sep=sign)
    return f"{local}{offset:+03d}:00", instant


told = st.one_of(
    st.builds(zoneless, naive, st.sampled_from(" T")),
    st.builds(zoned, instants, st.integers(-12, 12), st.sampled_from(" T")),
    st.builds(lambda instant: (instant.isoformat().replace("+00:00", "Z"), instant), instants),
    st.builds(lambda instant: (instant.strftime("%Y-%m-%d %H:%M:%S+0000"), instant.replace(microsecond=0)), instants),
    st.builds(lambda instant: (int(instant.timestamp()), instant.replace(microsecond=0)), instants),
    st.builds(
        lambda day: (f"2013-{day}", resolve_local(datetime.fromisoformat(f"2013-{day}"), ZONE)),
        st.sampled_from(["03-10", "11-03", "06-01"]),
    ),
)


def extract_of(path: Path, windows: list[Window], taken: tuple[CollectedColumn, ...] = ()) -> SqliteExtract:
    wanted = taken or (CollectedColumn("id", "id", "BIGINT", is_typed=True),)
    columns = tuple(SqlRequestedColumn(one, SqlColumn(one.source, "", one.type)) for one in wanted)
    by_window = WindowFilter("at", "any", tuple(windows))
    return SqliteExtract(SqliteFile(str(path)), "ops.t", '"t"', columns, Times(ZONE), by_window)


def read(path: Path, extract: SqliteExtract) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        return [row for batch in batches(connection, extract) for row in batch.to_pylist()]


@given(
    st.lists(told, max_size=12),
    st.sampled_from([FALL_BACK, SPRING_FORWARD, datetime(2013, 6, 1, 12, tzinfo=UTC)]),
    st.lists(st.integers(-6, 6), min_size=1, max_size=6, unique=True),
)
def test_windows_take_exactly_the_rows_of_their_time(
    rows: list[tuple[object, datetime]], base: datetime, hours: list[int]
) -> None:
    windows = [Window(base + at * HOUR, base + (at + 1) * HOUR) for at in sorted(hours)]
    expected = {
        at: window.label
        for at, (_, instant) in enumerate(rows)
        for window in windows
        if window.start <= instant < window.end
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE t (id INTEGER, at)")
            connection.executemany("INSERT INTO t VALUES (?, ?)", [(at, value) for at, (value, _) in enumerate(rows)])
        together = read(path, extract_of(path, windows))
        alone = [row for window in windows for row in read(path, extract_of(path, [window]))]
    assert {row["id"]: row["timelabel"] for row in together} == expected
    assert {row["id"]: row["timelabel"] for row in alone} == expected
    assert len(together) == len(alone) == len(expected)


def test_rows_that_no_window_can_take_are_counted_by_reason(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    database.run("CREATE TABLE t (id INTEGER, at)")
    times = [None, None, "yesterday", "03/05/2018", "20130101", b"x", "2013-13-45 00:00:00", "2013-01-01 05:00:00"]
    database.run("INSERT INTO t VALUES (?, ?)", list(enumerate(times)))
    extract = extract_of(database.path, [Window(FALL_BACK, FALL_BACK + HOUR)])
    with closing(sqlite3.connect(database.path)) as connection:
        assert count_excluded_rows(connection, extract) == {
            "rows without a data time": 2,
            "rows whose data time cannot be read": 5,
        }


@pytest.mark.parametrize(
    ("text", "is_time"),
    [
        ("2013-02-30", False),
        ("2013-04-31 05:00:00.5", False),
        ("2013-02-29T23:00:00+01:00", False),
        ("2013-06-01 25:00", False),
        ("2013-06-01 24:00:00", False),
        ("2013-06-01T05:00:00 noon", False),
        ("2012-02-29", True),
        ("2013-06-01T23:30:00-05:00", True),
        ("2013-06-01 00:30+05:00", True),
        ("2013-06-01T05:00:00.123456Z", True),
        ("2013-06-01T05", True),
    ],
)
def test_a_time_is_read_or_counted(tmp_path: Path, text: str, is_time: bool) -> None:
    database = SqliteDatabase(tmp_path)
    database.run("CREATE TABLE t (id INTEGER, at)")
    database.run("INSERT INTO t VALUES (?, ?)", [(1, text)])
    extract = extract_of(database.path, [Window(datetime(2012, 1, 1, tzinfo=UTC), datetime(2014, 1, 1, tzinfo=UTC))])
    with closing(sqlite3.connect(database.path)) as connection:
        counted = count_excluded_rows(connection, extract)
    assert counted == ({} if is_time else {"rows whose data time cannot be read": 1})
    assert len(read(database.path, extract)) == is_time


def test_a_large_table_is_not_scanned_for_times_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "_MOST_SCANNED", 3)
    database = SqliteDatabase(tmp_path)
    database.run("CREATE TABLE t (id INTEGER, at)")
    extract = extract_of(database.path, [Window(FALL_BACK, FALL_BACK + HOUR)])
    database.run("INSERT INTO t VALUES (?, ?)", [(1, None), (2, "yesterday"), (3, "2013-01-01 05:00:00")])
    with closing(sqlite3.connect(database.path)) as connection:
        assert count_excluded_rows(connection, extract) == {
            "rows without a data time": 1,
            "rows whose data time cannot be read": 1,
        }
    database.run("INSERT INTO t VALUES (?, ?)", [(4, "tomorrow")])
    asked: list[str] = []
    with closing(sqlite3.connect(database.path)) as connection:
        connection.set_trace_callback(asked.append)
        assert count_excluded_rows(connection, extract) == {"rows without a data time": 1}
    assert not any("julianday" in text for text in asked)


def test_an_index_on_the_time_column_is_used(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    database.run("CREATE TABLE t (id INTEGER, at TEXT)")
    database.run("CREATE INDEX t_at ON t (at)")
    seen: list[str] = []
    with closing(sqlite3.connect(database.path)) as connection:
        connection.set_trace_callback(seen.append)
        list(batches(connection, extract_of(database.path, [Window(FALL_BACK, FALL_BACK + HOUR)])))
        plan = connection.execute(f"EXPLAIN QUERY PLAN {seen[0]}").fetchall()
    assert any("USING INDEX t_at" in str(row) for row in plan), plan


class Session:
    """A fake of Spark: receives a table, or the number of parts that workers read."""

    def __init__(self) -> None:
        self.parts = 0

    def createDataFrame(self, table: object) -> object:  # noqa: N802 - Spark's own name
        return table

    def range(self, start: int, end: int, step: int, parts: int) -> Session:
        del start, end, step
        self.parts = parts
        return self

    def mapInArrow(self, read: object, ddl: str) -> Session:  # noqa: N802 - Spark's own name
        del read, ddl
        return self


@pytest.mark.parametrize("by_window", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 5, 6])
def test_rows_are_read_here_or_by_workers_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, *, by_window: bool
) -> None:
    for module in (collection, spark_frames):
        monkeypatch.setattr(module, "DIRECT_ROWS", 5)
    database = SqliteDatabase(tmp_path)
    database.run("CREATE TABLE t (id INTEGER, at)")
    others = [(at, "2012-01-01") for at in range(6)] if by_window else []
    for some in ([(at, FALL_BACK.isoformat()) for at in range(rows)], others):
        if some:
            database.run("INSERT INTO t VALUES (?, ?)", some)
    extract = extract_of(database.path, [Window(FALL_BACK, FALL_BACK + HOUR)])
    extract = extract if by_window else replace(extract, by_window=None)
    asked: list[str] = []
    spark: Any = Session()
    with closing(sqlite3.connect(database.path)) as connection:
        connection.set_trace_callback(asked.append)
        found = collection.collect_rows(spark, connection, extract, ())
    assert spark.parts == (1 if rows > 5 else 0)
    assert found.source.get("rows") == (None if rows > 5 else rows)
    assert found.is_empty == (rows == 0)
    assert sum('SELECT "id"' in text for text in asked) == (0 if rows > 5 else 1)


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ("TABLE t (id INTEGER, at, rowid INT)", 2),
        ("TABLE t (id INTEGER, at, RowId INT, _rowid_ INT)", 2),
        ("TABLE t (id INTEGER, at, rowid INT, _rowid_ INT, oid INT)", 1),
        ("TABLE t (id INTEGER PRIMARY KEY, at, rowid INT) WITHOUT ROWID", 1),
        ("VIEW t AS SELECT id, at, iif(id % 3, id, NULL) AS rowid FROM own", 1),
    ],
)
def test_parts_hold_every_row_once_whatever_column_has_the_name_of_the_rowid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, parts: int
) -> None:
    monkeypatch.setattr(collection, "DIRECT_ROWS", 5)
    database = SqliteDatabase(tmp_path)
    database.run("CREATE TABLE own (id INTEGER, at)")
    database.run(f"CREATE {table}")
    target = "own" if table.startswith("VIEW") else "t"
    database.run(f"INSERT INTO {target} (id, at) VALUES (?, ?)", [(at, "2012-01-01") for at in range(9)])
    if target == "t":
        database.run("UPDATE t SET rowid = id WHERE id % 3")
    extract = replace(extract_of(database.path, [Window(FALL_BACK, FALL_BACK + HOUR)]), by_window=None)
    handed: list[SqliteExtract] = []
    monkeypatch.setattr(collection, "read_by_workers", lambda _, extracts, *__: handed.extend(extracts))
    spark: Any = Session()
    with closing(sqlite3.connect(database.path)) as connection:
        collection.collect_rows(spark, connection, extract, (), partitions=2)
        ids = sorted(row["id"] for part in handed for batch in batches(connection, part) for row in batch.to_pylist())
    assert (len(handed), ids) == (parts, list(range(9)))


def test_rows_that_turn_out_to_be_of_many_bytes_are_left_to_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_frames, "DIRECT_BYTES", 8)
    database = SqliteDatabase(tmp_path)
    database.run("CREATE TABLE t (id INTEGER, at)")
    database.run("INSERT INTO t VALUES (?, ?)", [(at, FALL_BACK.isoformat()) for at in range(9)])
    spark: Any = Session()
    with closing(sqlite3.connect(database.path)) as connection:
        collection.collect_rows(spark, connection, extract_of(database.path, [Window(FALL_BACK, FALL_BACK + HOUR)]), ())
    assert spark.parts == 1


def test_a_value_that_does_not_fit_names_table_column_and_value(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    database.run("CREATE TABLE t (id INTEGER, at)")
    database.run("INSERT INTO t VALUES (?, ?)", [(1, FALL_BACK.isoformat()), ("two", FALL_BACK.isoformat())])
    with pytest.raises(WaterclockError) as caught:
        read(database.path, extract_of(database.path, [Window(FALL_BACK, FALL_BACK + HOUR)]))
    assert caught.value.code == "E812"
    assert caught.value.what == "id holds 'two', which is not BIGINT"
    assert "id BIGINT ELSE QUARANTINE" in (caught.value.fix or "")
    assert caught.value.where == "ops.t"
