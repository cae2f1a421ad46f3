"""Change scans of SQLite find the windows with changed rows, for times in any format."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.ledgers import SOMEWHERE
from waterclock.connectors.interface import ChangedWindows, ChangeScanRequest, Mark, Setting
from waterclock.connectors.sqlite.connector import CONNECTOR
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns, Unit
from waterclock.timelabel.window import Window


def day(number: int, hour: float = 0) -> datetime:
    return datetime(2020, 1, number, tzinfo=UTC) + timedelta(hours=hour)


WINDOWS = tuple(Window(day(number), day(number + 1)) for number in (1, 2, 3))


class Source:
    """A table of orders that is scanned repeatedly."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.path = folder / "shop.sqlite"
        self.collector = CONNECTOR.collector(Setting("shop", {"path": str(self.path)}, folder, folder))
        self.unit = Unit("shop", "orders", None, options, SOMEWHERE)
        self.marks: dict[datetime, Mark] = {}
        self.say("CREATE TABLE orders (id INTEGER, at, changed)")

    def say(self, sql: str, rows: Iterable[tuple[Any, ...]] = ((),)) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.executemany(sql, rows)

    def put(self, *rows: tuple[int, Any, Any]) -> None:
        self.say("INSERT INTO orders VALUES (?, ?, ?)", rows)

    def look(self, zone: str = "UTC", column: str = "changed") -> ChangedWindows:
        request = ChangeScanRequest("at", column, WINDOWS, self.marks)
        return self.collector.scan_changes(_no_spark, self.unit, request, Columns(), zone)

    def changed(self, zone: str = "UTC") -> list[int]:
        """Scan, store the notes, and return the days that changed since the previous scan."""
        looked = self.look(zone)
        self.marks = {w.start: Mark(looked.of_all, looked.of_window.get(w.start)) for w in WINDOWS}
        return sorted(start.day for start in looked.changed)


def _no_spark() -> Any:
    raise AssertionError("a database is scanned without Spark")


def test_windows_of_new_or_changed_rows_are_reported_once(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.put((1, "2020-01-01 05:00:00", "2020-01-01 05:00:00"), (2, "2020-01-02 05:00:00", "2020-01-02 05:00:00"))
    assert source.changed() == [], "there was no earlier scan, which the caller knows"
    source.put((3, "2020-01-01 06:00:00", "2020-01-04 00:00:00"))
    assert source.changed() == [1]
    assert source.changed() == []
    source.say("UPDATE orders SET changed = '2020-01-05 00:00:00' WHERE id = 2")
    assert source.changed() == [2]


def test_new_rows_with_the_same_time_as_the_last_seen_row_are_found(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.put((1, "2020-01-01 05:00:00", "2020-01-04 00:00:00"))
    source.changed()
    source.put((2, "2020-01-02 05:00:00", "2020-01-04 00:00:00"))
    assert source.changed() == [2]
    assert source.changed() == []


def test_late_commits_are_found_within_the_change_slack(tmp_path: Path) -> None:
    source = Source(tmp_path, change_slack=600)
    source.put((1, "2020-01-01 05:00:00", "2020-01-04 00:00:00"))
    source.changed()
    source.put((2, "2020-01-02 05:00:00", "2020-01-03 23:50:00"), (3, "2020-01-03 05:00:00", "2020-01-03 23:49:00"))
    assert source.changed() == [2], "the third was changed more than ten minutes before the newest change"


def test_a_time_in_the_future_hides_no_change(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.put((1, "2020-01-01 05:00:00", "2999-01-01 00:00:00"), (2, "2020-01-02 05:00:00", "2020-01-02 05:00:00"))
    source.changed()
    source.put((3, "2020-01-03 05:00:00", "2020-01-03 05:00:00"))
    assert source.changed() == [3]


def test_a_row_changed_twice_within_the_second_of_the_scan_is_found(tmp_path: Path) -> None:
    source = Source(tmp_path)
    for number in range(20):  # until one second contains both scans, on a busy machine too
        now = datetime.now(UTC)
        source.put((number, "2020-01-01 05:00:00", f"{now:%Y-%m-%d %H:%M:%S}"))
        source.changed()
        again = source.changed()
        if datetime.now(UTC).replace(microsecond=0) == now.replace(microsecond=0):
            break
    assert again == [1], "another change of it would have the same time"


def test_a_row_without_a_time_of_change_is_found_where_it_is_new(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.put((1, "2020-01-01 05:00:00", None), (2, "2020-01-02 05:00:00", "2020-01-02 05:00:00"))
    source.changed()
    source.put((3, "2020-01-01 06:00:00", None))
    assert source.changed() == [1]
    assert source.changed() == []


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("2020-01-02T05:00:00Z", "2020-01-04T00:00:00.250+01:00"),
        (1_577_941_200, 1_578_096_000.5),
        ("2020-01-02 05:00", "2020-01-04"),
    ],
)
def test_times_of_change_are_read_in_any_form(tmp_path: Path, first: Any, later: Any) -> None:
    source = Source(tmp_path)
    source.put((1, "2020-01-01 05:00:00", first))
    source.changed("Europe/Berlin")
    source.put((2, 1_577_944_800, later))  # 06:00 of the second
    assert source.changed("Europe/Berlin") == [2]
    assert source.changed("Europe/Berlin") == []


def test_a_change_in_the_repeated_hour_of_a_clock_change_is_found(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.put((1, "2020-01-01 05:00:00", "2020-10-25 02:59:00"))
    source.changed("Europe/Berlin")
    source.put((2, "2020-01-02 05:00:00", "2020-10-25 02:01:00"))  # two minutes later, by a clock that was set back
    assert source.changed("Europe/Berlin") == [2]


def test_a_row_that_moves_to_another_window_is_found_in_the_new_window(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.put((1, "2020-01-01 05:00:00", "2020-01-01 05:00:00"), (9, "2020-01-03 05:00:00", "2020-01-03 05:00:00"))
    source.changed()
    source.say("UPDATE orders SET at = '2020-01-02 05:00:00', changed = '2020-01-04 00:00:00' WHERE id = 1")
    assert source.changed() == [2]


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("changd", "2020-01-01", "shop.orders has no column changd"),
        ("changed", "soon", "changed holds 'soon', which is not a time"),
    ],
)
def test_a_change_column_that_is_missing_or_no_time_is_refused(
    tmp_path: Path, column: str, value: str, what: str
) -> None:
    source = Source(tmp_path)
    source.put((1, "2020-01-01 05:00:00", value))
    with pytest.raises(WaterclockError, match=what) as refused:
        source.look(column=column)
    assert refused.value.code == "E827"
    assert refused.value.fix
