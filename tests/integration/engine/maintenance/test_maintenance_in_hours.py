"""A watching run maintains tables in the hours of [maintenance], once a day, within a limit, next to batches."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.maintenance.maintenance_in_hours import MaintenanceInHours
from waterclock.ledger.read.source_events import MAINTENANCE
from waterclock.storage import file_maintenance
from waterclock.storage.file_maintenance import find_joinable_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.notes (id INT, at TIMESTAMP) FROM shop.notes EVERY DAY BY DATA TIME at APPEND;
COLLECT shop.others PARTITIONED (id INT, at TIMESTAMP) FROM shop.notes EVERY DAY BY DATA TIME at;
"""


@pytest.fixture(scope="module")
def four_days(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return four days of a table whose files are joined, and of one with a file per day, which are not."""
    tiny = Tiny(tmp_path_factory.mktemp("four_days"), spark)
    tiny.declare(FLOW)
    tiny.source("notes", "id INT, at TEXT")
    for of_day in range(1, 5):
        tiny.shop(f"INSERT INTO notes VALUES ({of_day}, '2020-01-{of_day:02d} 10:00:00')")
        outcome = tiny.run(day(of_day + 1))
        assert not outcome.failed, described(outcome)
    return tiny


@pytest.fixture
def tiny(four_days: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tiny:
    """Return a copy of the project in its own folder."""
    monkeypatch.setattr(file_maintenance, "_MANY_IN_TABLE", 4)
    shutil.copytree(four_days.root, tmp_path / "project")
    return Tiny(tmp_path / "project", four_days.spark)


def declare_hours(tiny: Tiny, join: str = "1 GB") -> None:
    """Declare maintenance hours that include the current time."""
    file = tiny.root / "waterclock.toml"
    text = file.read_text(encoding="utf-8").partition("[maintenance]")[0]
    file.write_text(f'{text}\n[maintenance]\nhours = "00:00-00:00"\njoin = "{join}"\n', encoding="utf-8")


def maintain(tiny: Tiny, times: int = 1) -> list[str]:
    """Run maintenance as a watching run does in its hours; return the messages."""
    tiny.heard.said_.clear()
    with tiny.opened() as work:
        due = MaintenanceInHours(work)
        for _ in range(times):
            due.maintain_due(work.real_now())
    return list(tiny.heard.said_)


def joinable(tiny: Tiny) -> int:
    with tiny.opened() as work:
        return find_joinable_files(work.lake.folder("shop.notes")).files


def events(tiny: Tiny) -> list[str]:
    with tiny.ledger() as ledger:
        return [row["table"] for row in ledger.past.rows("events") if row["kind"] == MAINTENANCE]


def test_nothing_is_maintained_without_hours_or_outside_of_them(tiny: Tiny) -> None:
    assert maintain(tiny) == []
    declare_hours(tiny)
    file = tiny.root / "waterclock.toml"
    hour = datetime.now(UTC).hour
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("00:00-00:00", f"{(hour + 3) % 24:02d}:00-{(hour + 4) % 24:02d}:00"), encoding="utf-8")
    assert maintain(tiny) == []
    assert joinable(tiny) == 4


def test_tables_are_maintained_once_and_the_work_is_recorded(tiny: Tiny) -> None:
    declare_hours(tiny)
    before = tiny.rows("SELECT id, at FROM shop.notes ORDER BY ALL")
    assert maintain(tiny, times=2) == ["maintained shop.notes: 4 files joined, 0 removed"]
    assert joinable(tiny) == 0
    assert events(tiny) == ["shop.notes"]
    assert tiny.rows("SELECT id, at FROM shop.notes ORDER BY ALL") == before
    assert list((tiny.root / tiny.storage / "ledger").glob("*.jsonl.gz"))


def test_tables_maintained_by_another_runner_in_the_same_hours_are_left_out(tiny: Tiny) -> None:
    declare_hours(tiny)
    with tiny.opened() as work:
        work.ledger.past.add_event(MAINTENANCE, who="other", table="shop.notes", data={"joined": 1, "freed": 0})
    assert maintain(tiny) == []
    assert joinable(tiny) == 4


def test_no_more_is_joined_than_the_limit_allows(tiny: Tiny) -> None:
    declare_hours(tiny, join="0 MB")
    [said] = maintain(tiny)
    assert said.startswith("shop.notes: only some of its small files are joined, or none")
    assert joinable(tiny) == 4
    assert events(tiny) == []


def test_bytes_joined_in_other_tables_count_towards_the_limit(tiny: Tiny) -> None:
    declare_hours(tiny, join="1 MB")
    with tiny.opened() as work:
        data = {"joined": 999_900, "freed": 0}
        work.ledger.past.add_event(MAINTENANCE, who="other", table="shop.others", data=data)
    maintain(tiny)
    assert joinable(tiny) == 4


def test_a_table_with_a_running_batch_is_tried_again(tiny: Tiny) -> None:
    declare_hours(tiny)
    with tiny.opened() as work:
        claim = tiny.claim(work, "shop.notes", 5)
        due = MaintenanceInHours(work)
        due.maintain_due(work.real_now())
        assert joinable(tiny) == 4
        work.ledger.claims.close_lost(claim, "its runner ended")
        due.maintain_due(work.real_now())
    assert joinable(tiny) == 0
