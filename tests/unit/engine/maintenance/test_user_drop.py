"""A user drops windows during a rebuild of all tables. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.slices import ids
from tests.tiny import CONNECTIONS, TOML, day
from tests.unit.engine.maintenance import test_reset
from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.batches.records import ClaimRequest
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.maintenance import maintain, user_drop
from waterclock.engine.maintenance.rebuild_lock import require_no_running_rebuild
from waterclock.engine.maintenance.user_drop import WindowsToDrop, drop, find_droppable_windows
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.ledger.ledger import Ledger
from waterclock.selection import Labels

FLOW = "COLLECT web.clicks PARTITIONED (id BIGINT) FROM land.acme.clicks EVERY DAY START '2020-01-01' BY ARRIVAL TIME;"


def test_drop_is_refused_while_all_tables_are_rebuilt(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML.format(name="tiny", storage=".waterclock"))
    (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + FLOW)
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        apply_flow(work, day(5))
        table = work.flow.tables["web.clicks"]
        work.ledger.maintenance.begin_rebuilding("t", runner="another", who="ann", lease_seconds=60)
        with pytest.raises(WaterclockError, match="all tables are being rebuilt") as refused:
            find_droppable_windows(work, table, Labels(), day(5))
        assert refused.value.code == "E644"
        # started while the user was asked: the rebuild would restore the dropped rows
        with pytest.raises(WaterclockError, match="all tables are being rebuilt"):
            drop(work, WindowsToDrop(table, day(2), (day(1),), 1, day(5)), why="")


@pytest.mark.parametrize("what", ["is being written", "is still read"])
def test_drop_is_refused_if_a_batch_started_to_read_the_windows_after_the_confirmation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    test_reset.declare(tmp_path, test_reset.COLLECT.format("BY ARRIVAL TIME APPEND"))
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        apply_flow(work, test_reset.NOW)
        for number in (1, 2):
            test_reset.make(work, test_reset.CLICKS, number, (2 * number, 2 * number + 1))
        table = work.flow.tables[test_reset.CLICKS]
        found = find_droppable_windows(work, table, Labels.from_range(day(1), day(1)), test_reset.NOW)
        assert found.labels == (day(1),)
        if what == "is still read":
            monkeypatch.setattr(user_drop, "_find_oldest_needed", lambda *_: day(1))
        else:
            request = ClaimRequest(
                table.name, (day(3),), "c", work.flow.fingerprint, "desk:2", "bob", day(4), 60, target_version=3
            )
            work.ledger.claims.take(request)
        with pytest.raises(WaterclockError, match=what) as refused:
            drop(work, found, why="old")
        assert refused.value.code == "E436"
        assert ids(work.folder(table)) == [2, 3, 4, 5]


def test_a_rebuild_that_outlived_its_lease_cannot_move_in_tables_after_a_drop() -> None:
    clock = [day(9)]
    with Ledger.open("sqlite://", clock=lambda: clock[0]) as ledger:
        work = SimpleNamespace(ledger=ledger, settings=SimpleNamespace(who="ann"), real_now=lambda: clock[0])
        ledger.maintenance.begin_rebuilding("t", runner="another", who="ann", lease_seconds=60)
        clock[0] += timedelta(seconds=61)
        require_no_running_rebuild(cast("RunContext", work))
        with pytest.raises(WaterclockError, match="lost its lock"):
            ledger.maintenance.begin_moving("t")


@pytest.fixture
def clicks(tmp_path: Path) -> Iterator[RunContext]:
    """Return a project with two done days."""
    test_reset.declare(tmp_path, test_reset.COLLECT.format("BY ARRIVAL TIME APPEND"))
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        apply_flow(work, test_reset.NOW)
        for number in (1, 2):
            test_reset.make(work, test_reset.CLICKS, number, (2 * number, 2 * number + 1))
        yield work


def test_windows_are_recorded_as_dropped_before_they_are_removed(clicks: RunContext) -> None:
    """Otherwise a rebuild that starts in between would show them again."""
    table, maintenance = clicks.flow.tables[test_reset.CLICKS], clicks.ledger.maintenance
    found = find_droppable_windows(clicks, table, Labels.from_range(day(1), day(1)), test_reset.NOW)
    seen: list[object] = []

    def begin(at: str) -> None:
        if at == "drop.recorded":
            maintenance.begin_rebuilding("t", runner="another", who="bob", lease_seconds=60)
            seen.append((maintenance.drop_boundary(table.name, by=FOREVER), ids(clicks.folder(table))))

    with inject_faults(begin):
        drop(clicks, found, why="old")
    assert seen == [(day(2), [2, 3, 4, 5])]
    assert ids(clicks.folder(table)) == [4, 5]


@pytest.mark.parametrize("beside", ["a rebuild", "a batch"])
def test_nothing_is_dropped_where_something_began_since_the_last_check(
    clicks: RunContext, monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    table, maintenance = clicks.flow.tables[test_reset.CLICKS], clicks.ledger.maintenance
    found = find_droppable_windows(clicks, table, Labels.from_range(day(1), day(1)), test_reset.NOW)

    def begin(*_: object) -> None:
        if beside == "a rebuild":
            maintenance.begin_rebuilding("t", runner="another", who="bob", lease_seconds=60)
        else:
            flow = clicks.flow.fingerprint
            clicks.ledger.claims.take(ClaimRequest(table.name, (day(3),), "c", flow, "desk:2", "bob", day(4), 60, 3))

    monkeypatch.setattr(user_drop, "require_log", begin)
    with pytest.raises(WaterclockError) as refused:
        drop(clicks, found, why="old")
    assert refused.value.code == ("E644" if beside == "a rebuild" else "E407")
    assert maintenance.drop_boundary(table.name, by=FOREVER) is None
    assert ids(clicks.folder(table)) == [2, 3, 4, 5]


def test_maintenance_finishes_a_drop_that_was_killed(clicks: RunContext) -> None:
    table = clicks.flow.tables[test_reset.CLICKS]
    found = find_droppable_windows(clicks, table, Labels.from_range(day(1), day(1)), test_reset.NOW)

    def kill(at: str) -> None:
        if at == "drop.recorded":
            raise KeyboardInterrupt

    with inject_faults(kill), pytest.raises(KeyboardInterrupt):
        drop(clicks, found, why="old")
    [left] = maintain.find_maintenance(clicks, [table.name], test_reset.NOW)
    assert (left.drop_before, left.dropped.count) == (day(2), 1)
    maintain.maintain_table(clicks, left, test_reset.NOW)
    assert (left.failed, ids(clicks.folder(table))) == ([], [4, 5])
    [after] = maintain.find_maintenance(clicks, [table.name], test_reset.NOW)
    assert (after.drop_before, after.dropped.count) == (None, 0)
    [event] = [each for each in clicks.ledger.past.rows("events") if each["kind"] == "dropped"]
    assert event["who"] == clicks.settings.who
