"""Reading an endless view of an untrusted database is stopped."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.systems import FirebirdDatabase
from waterclock.connectors.duckdb import database as of_duckdb
from waterclock.connectors.firebird import database as of_firebird
from waterclock.connectors.sqlite import database as of_sqlite
from waterclock.errors import WaterclockError

RECURSION = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n % 1000 FROM r)"
ENDLESS = f"CREATE VIEW v AS {RECURSION} SELECT n FROM r WHERE n < 0"


def _open_duckdb(path: str) -> AbstractContextManager[Any]:
    with closing(duckdb.connect(path)) as made:
        made.execute(ENDLESS)
    return of_duckdb.DuckdbDatabase(path).open_for_reading("db.v")


def _open_sqlite(path: str) -> AbstractContextManager[Any]:
    with closing(sqlite3.connect(path)) as made:
        made.execute(ENDLESS)
    return of_sqlite.SqliteFile(path).open_for_reading("db.v")


@pytest.mark.parametrize("opened", [_open_duckdb, _open_sqlite])
def test_a_view_without_an_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[str], AbstractContextManager[Any]]
) -> None:
    for module in (of_duckdb, of_sqlite):
        monkeypatch.setattr(module, "LONGEST_QUERY_SECONDS", 1)
    begun = time.monotonic()
    with (
        pytest.raises(WaterclockError, match="the query was not over within") as refused,
        opened(str(tmp_path / "db")) as connection,
    ):
        connection.execute("SELECT count(*) FROM v").fetchall()
    assert refused.value.code == "E813"
    assert time.monotonic() - begun < 20
    assert not [each for each in threading.enumerate() if isinstance(each, threading.Timer)]


def test_a_read_that_was_over_in_time_leaves_no_limit_behind(tmp_path: Path) -> None:
    with _open_sqlite(str(tmp_path / "db")) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert not [each for each in threading.enumerate() if isinstance(each, threading.Timer)]


@pytest.mark.slow
def test_a_view_of_firebird_with_too_many_rows_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal of an AWAIT, and the windows of a LOOKBACK, are read completely."""
    database = FirebirdDatabase(tmp_path)
    pairs = " CROSS JOIN ".join(f"rdb$fields AS f{number}" for number in range(6))
    database.run(f"CREATE VIEW endless AS SELECT f0.rdb$field_name AS n FROM {pairs}")
    monkeypatch.setattr(of_firebird, "_MOST_BYTES", 1 << 20)
    opened = of_firebird.database_of(database.setting).open_for_reading("ops.endless")
    with pytest.raises(WaterclockError, match="rejected") as refused, opened as connection:
        connection.in_session().first_of("SELECT * FROM endless")
    assert refused.value.code == "E813"
    assert "more than 1 MiB" in str(refused.value.why)
