from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.systems import SqliteDatabase, query_of, setting_of, unit_of
from waterclock.connectors.sqlite.collection import SqliteCollector
from waterclock.connectors.sqlite.database import database_of, spark_type
from waterclock.errors import WaterclockError


@pytest.fixture
def database(tmp_path: Path) -> SqliteDatabase:
    made = SqliteDatabase(tmp_path)
    made.run(
        "CREATE TABLE planes (tailnum TEXT PRIMARY KEY, year INTEGER, seats SMALLINT, price DECIMAL(12,2), speed REAL,"
        " is_retired BOOLEAN, built DATE, updated_at TIMESTAMP, photo BLOB, rest)"
    )
    return made


def collector(database: SqliteDatabase) -> SqliteCollector:
    return SqliteCollector(database_of(database.setting))


def failing(database: SqliteDatabase, path: str = "planes") -> WaterclockError:
    with pytest.raises(WaterclockError) as caught:
        collector(database).schema(unit_of("ops", path))
    return caught.value


def test_types_follow_the_declared_ones(database: SqliteDatabase) -> None:
    assert collector(database).schema(unit_of("ops", "planes")) == {
        "tailnum": "STRING",
        "year": "BIGINT",
        "seats": "BIGINT",
        "price": "DECIMAL(12,2)",
        "speed": "DOUBLE",
        "is_retired": "BOOLEAN",
        "built": "DATE",
        "updated_at": "TIMESTAMP",
        "photo": "BINARY",
        "rest": "STRING",
    }


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("VARCHAR(20)", "STRING"),
        ("UNSIGNED BIG INT", "BIGINT"),
        ("numeric(40, 2)", "DECIMAL(38,2)"),
        ("NUMERIC(10)", "DECIMAL(10,0)"),
        ("NUMERIC", "DOUBLE"),
        ("datetime", "TIMESTAMP"),
        ("", None),
    ],
)
def test_usual_names_of_types_are_known(declared: str, expected: str | None) -> None:
    assert spark_type(declared) == expected


def test_a_query_has_the_types_of_its_selected_columns(database: SqliteDatabase) -> None:
    schema = collector(database).schema(query_of("ops", "SELECT year, price AS cost, year + 1 AS next FROM planes;"))
    assert schema == {"year": "BIGINT", "cost": "DECIMAL(12,2)", "next": "STRING"}


def test_a_view_is_a_table(database: SqliteDatabase) -> None:
    database.run("CREATE VIEW old_planes AS SELECT tailnum, year FROM planes WHERE year < 1990")
    assert collector(database).schema(unit_of("ops", "main.old_planes")) == {"tailnum": "STRING", "year": "BIGINT"}


def test_a_table_that_is_not_there_is_named_with_the_nearest(database: SqliteDatabase) -> None:
    error = failing(database, "plane")
    assert (error.code, error.where, error.fix) == ("E804", "ops.plane", "did you mean planes?")
    assert not error.transient


def test_a_missing_database_is_reported_and_not_created(database: SqliteDatabase) -> None:
    database.remove()
    error = failing(database)
    assert (error.code, error.where, error.transient) == ("E810", "ops.planes", False)
    assert not database.path.exists()


def test_a_file_that_is_not_a_database_is_reported(database: SqliteDatabase) -> None:
    database.path.write_bytes(b"no database at all, though long enough to be looked at" * 20)
    assert failing(database).code == "E810"


def test_a_locked_database_is_transient(database: SqliteDatabase) -> None:
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        error = failing(database)
    assert (error.code, error.where, error.transient) == ("E811", "ops.planes", True)


def test_an_invalid_query_is_reported_with_the_databases_message(database: SqliteDatabase) -> None:
    with pytest.raises(WaterclockError) as caught:
        collector(database).schema(query_of("ops", "SELECT yeer FROM planes"))
    assert caught.value.code == "E813"
    assert "no such column: yeer" in str(caught.value.why)


def test_reading_never_waits_for_a_writer_in_wal_mode(database: SqliteDatabase) -> None:
    database.run("PRAGMA journal_mode = WAL")
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE later (x)")
        assert collector(database).schema(unit_of("ops", "planes"))


def test_nothing_is_written_by_reading(database: SqliteDatabase) -> None:
    before = database.path.read_bytes()
    collector(database).schema(query_of("ops", "SELECT * FROM planes"))
    assert database.path.read_bytes() == before


def test_a_connection_without_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WaterclockError, match="E803"):
        database_of(setting_of("ops", tmp_path))
