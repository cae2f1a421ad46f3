"""Ticks whose sources cannot be read, or have nothing new, which need no Spark: rows stay, and outages are recorded."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from tests.slices import rows_of
from tests.ticking import CLICKS, Ticking, today, yesterday
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.interface import Listing
from waterclock.engine.collect.open_items import find_labels_to_keep
from waterclock.engine.continuous.table_reads import TableReads
from waterclock.engine.continuous.tick import TickRows, run_tick
from waterclock.flow.declarations import Unit
from waterclock.storage.commit.speed_tables import TableCheck, read_check, read_state

USERS = "web.users"
FLOW = """
CREATE CONNECTION land TYPE files;
CREATE CONNECTION other TYPE files OPTIONS (path 'others');
COLLECT web.clicks PARTITIONED (id BIGINT NOT NULL, name STRING) FROM land.acme.clicks EVERY DAY BY ARRIVAL TIME
  CONTINUOUS 1 SECOND;
COLLECT web.users PARTITIONED (id BIGINT NOT NULL, name STRING) FROM other.acme.users EVERY DAY BY ARRIVAL TIME
  CONTINUOUS 1 SECOND;
"""


class Runs:
    """Ticks of one run, with a clock that shows a minute more at each."""

    def __init__(self, ticking: Ticking) -> None:
        self.ticking, self.seconds = ticking, 0.0
        self.said: list[str] = []
        self.reads: TableReads[TickRows] = TableReads(self.said.append, most_seconds=60, clock=lambda: self.seconds)

    def tick(self) -> int | None:
        """Make a tick, and return its number; reads in the background have ended."""
        self.seconds += 60
        with self.ticking.opened() as work:
            found = run_tick(work, None, self.reads)
            assert not work.sessions.is_open
        self.reads.close()
        return found

    def check(self, table: str = CLICKS) -> TableCheck:
        return read_check(self.ticking.spd_folder(table))


def test_a_folder_that_cannot_be_listed_keeps_its_rows_and_its_time_until_it_can(tmp_path: Path) -> None:
    ticking = Ticking(tmp_path / "clicks", FLOW, start=yesterday())
    (ticking.folder / "others" / "new").mkdir(parents=True)
    read_at = datetime.now(UTC) - timedelta(minutes=5)
    ticking.tick({yesterday(): rows_of(1)}, at=read_at)  # the day is over, and its batch is not done
    before = read_state(ticking.spd_folder())
    runs, began, arrivals = Runs(ticking), datetime.now(UTC), FilesCollector.arrivals

    def refuse(collector: FilesCollector, unit: Unit, taken: Collection[str] = ()) -> Listing:
        if "clicks" in str(unit):
            raise PermissionError(13, "Permission denied", "landing/new")
        return arrivals(collector, unit, taken)

    with patch.object(FilesCollector, "arrivals", refuse):
        for _ in range(3):
            assert runs.tick() is None
    assert read_state(ticking.spd_folder()).slices == before.slices
    check = runs.check()
    assert (check.at, [each.table for each in check.outages]) == (read_at, [CLICKS])
    assert check.outages[0].since >= began
    users = runs.check(USERS)
    assert users.outages == ()
    assert users.at is not None
    assert users.at >= began
    assert [each.split(":")[0] for each in runs.said] == [f"open windows of {CLICKS} are not up to date"]

    runs.tick()  # the read in the background succeeds
    runs.tick()
    assert runs.said[1:] == [f"open windows of {CLICKS} are up to date again"]
    check = runs.check()
    assert check.outages == ()
    assert check.at is not None
    assert check.at >= began


def test_rows_of_a_source_that_cannot_be_read_leave_if_another_label_took_their_items(tmp_path: Path) -> None:
    ticking = Ticking(tmp_path / "clicks", start=yesterday())
    with ticking.opened() as work:
        table, windows = work.flow.tables[CLICKS], [work.flow.tables[CLICKS].cadence.window_of(today())]
        items = {today(): [{"name": "new/a.csv"}], yesterday(): [{"name": "new/b.csv"}]}
        covered = work.ledger.reads.covered_windows(CLICKS)
        assert find_labels_to_keep(work, table, windows, items, yesterday(), covered) == {today(), yesterday()}
        with patch.object(type(work.ledger.reads), "find_collected_items", lambda *_: {"new/a.csv": {}}):
            assert find_labels_to_keep(work, table, windows, items, yesterday(), covered) == {yesterday()}
