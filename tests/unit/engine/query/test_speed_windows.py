"""The open windows that the views of tables with CONTINUOUS show."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch, LedgerSnapshot, TableFacts
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.query.speed_windows import choose_open_labels
from waterclock.flow.declarations import Flow
from waterclock.storage.commit.speed_tables import SpeedState
from waterclock.timelabel.intervals import IntervalSet

START = datetime(2020, 1, 1, tzinfo=UTC)
FLOW = """
CREATE CONNECTION land TYPE files OPTIONS (path 'landing');
COLLECT web.clicks PARTITIONED (id BIGINT) FROM land.clicks EVERY HOUR START '2020-01-01' BY ARRIVAL TIME
  CONTINUOUS 10 SECONDS;
TRANSFORM web.sums PARTITIONED CONTINUOUS AS SELECT count(*) AS n FROM web.clicks;
TRANSFORM web.days PARTITIONED EVERY DAY CONTINUOUS AS SELECT sum(n) AS n FROM web.sums;
TRANSFORM web.recent PARTITIONED CONTINUOUS AS SELECT count(*) AS n FROM PAST(web.clicks, '2 hours');
"""


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    root = tmp_path_factory.mktemp("views")
    (root / "waterclock.toml").write_text('[project]\nname = "views"\n[env.dev]\nstorage = ".waterclock"\n')
    (root / "flows").mkdir()
    (root / "flows" / "flow.dpl").write_text(FLOW)
    return load_project(Path(root), capabilities=capabilities()).flow


def hour(number: int) -> datetime:
    return START + timedelta(hours=number)


def facts(*, held: int | None = None, done: int | None = None) -> TableFacts:
    troubles = {} if held is None else {hour(held): FailedBatch(BatchStatus.HELD, 1, 1, "", is_transient=False)}
    covered = IntervalSet.from_intervals([] if done is None else [(hour(done), hour(done + 1))])
    return TableFacts(START, covered, troubles)


def shown(flow: Flow, table: str, hours: tuple[int, ...], **of: TableFacts) -> list[datetime]:
    states: Mapping[str, SpeedState] = {table: SpeedState(slices={hour(each): str(each) for each in hours})}
    snapshot = LedgerSnapshot({f"web.{name}": each for name, each in of.items()})
    return list(choose_open_labels(flow, states, snapshot)[table])


def test_labels_of_a_held_input_are_not_shown_before_a_tick_removes_them(flow: Flow) -> None:
    assert shown(flow, "web.clicks", (1, 2), clicks=facts(held=1)) == [hour(2)]
    assert shown(flow, "web.sums", (1, 2), clicks=facts(held=1)) == [hour(2)]
    assert shown(flow, "web.recent", (0, 1, 2, 3), clicks=facts(held=1)) == [hour(0), hour(3)]
    assert shown(flow, "web.days", (0, 24), clicks=facts(held=1)) == [hour(24)]
    assert shown(flow, "web.days", (0, 24), clicks=facts(held=30)) == [hour(0)]
    assert shown(flow, "web.sums", (1, 2), clicks=facts()) == [hour(1), hour(2)]


def test_a_revision_that_is_held_hides_nothing_made_from_the_done_one(flow: Flow) -> None:
    assert shown(flow, "web.sums", (1, 2), clicks=facts(held=1, done=1)) == [hour(1), hour(2)]
