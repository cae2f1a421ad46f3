"""AWAIT with a query that returns whether a window is complete."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.systems import SqliteDatabase, unit_of
from waterclock.connectors.sqlite.collection import SqliteCollector
from waterclock.connectors.sqlite.database import database_of
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.enums import WindowSignal
from waterclock.timelabel.window import Window

HOUR = Window(datetime(2024, 3, 31, 0, 30, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, tzinfo=UTC))


@pytest.fixture
def database(tmp_path: Path) -> SqliteDatabase:
    made = SqliteDatabase(tmp_path)
    made.run("CREATE TABLE loads (upto TEXT, label TEXT)")
    return made


def says(database: SqliteDatabase, query: str, zone: str = "UTC") -> bool:
    awaits = Awaits(WindowSignal.QUERY, query)
    return SqliteCollector(database_of(database.setting)).has_sign(unit_of("ops", "a"), awaits, HOUR, zone)


@pytest.mark.parametrize(
    ("value", "is_there"),
    [
        ("1", True),
        ("2.5", True),
        ("'true'", True),
        ("'1'", True),
        ("0", False),
        ("NULL", False),
        ("''", False),
        ("'false'", False),
        ("'0'", False),
        ("'running'", False),
        ("0.0", False),
    ],
)
def test_an_await_query_is_fulfilled_only_by_a_true_value(
    database: SqliteDatabase, value: str, *, is_there: bool
) -> None:
    assert says(database, f"SELECT {value}") is is_there


def test_no_row_is_no_sign(database: SqliteDatabase) -> None:
    assert not says(database, "SELECT 1 FROM loads")


@pytest.mark.parametrize(
    ("zone", "start", "end"),
    [
        ("UTC", "2024-03-31 00:30:00", "2024-03-31 01:30:00"),
        ("Europe/Berlin", "2024-03-31 01:30:00", "2024-03-31 03:30:00"),  # clocks go forward between
    ],
)
def test_an_await_query_gets_the_window_in_the_tables_time_zone(
    database: SqliteDatabase, zone: str, start: str, end: str
) -> None:
    database.run(f"INSERT INTO loads VALUES ('{end}', '{HOUR.label}')")
    assert says(database, f"SELECT :window_start = '{start}'", zone)
    assert says(database, "SELECT count(*) > 0 FROM loads WHERE upto >= :window_end AND label = :timelabel", zone)


def test_an_await_query_that_writes_or_is_invalid_is_refused(database: SqliteDatabase) -> None:
    for wrong in ("DELETE FROM loads", "SELECT nothing FROM loads"):
        with pytest.raises(WaterclockError) as raised:
            says(database, wrong)
        assert raised.value.code in {"E813", "E821", "E811"}
