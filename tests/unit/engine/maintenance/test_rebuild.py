"""A table is rebuilt while other runners are active. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slices import ids
from tests.tiny import day
from tests.unit.engine.maintenance import test_reset
from tests.unit.engine.maintenance.test_reset import APPENDED, CLICKS, NOW, declare, facts, make, start_over
from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.maintenance import maintain, rebuild, user_drop
from waterclock.engine.maintenance.repair import find_slices
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.storage.commit.pointers import commit_slices

Meanwhile = Callable[[Callable[[], None]], None]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunContext]:
    """Yield a project with two done days."""
    declare(tmp_path, APPENDED)
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        apply_flow(work, NOW)
        for number in (1, 2):
            make(work, CLICKS, number, (2 * number, 2 * number + 1))
        monkeypatch.setattr(type(work.sessions), "own", lambda _: None)
        monkeypatch.setattr(rebuild, "register_functions", lambda *_: None)
        yield work


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Return a function that runs a call after a rebuild has read the slices, and before its commit."""

    def put(deed: Callable[[], None]) -> None:
        def found(*arguments: Any) -> Any:
            deed()
            return find_slices(*arguments)

        monkeypatch.setattr(rebuild, "find_slices", found)

    return put


def rebuilt(work: RunContext) -> None:
    rebuild.rebuild_table(work, CLICKS, rebuild.plan_rebuild(work, [CLICKS])[CLICKS])


def edit(work: RunContext) -> None:
    """Remove a file from the table's log, as another writer would, so that there is something to rebuild."""
    from deltalake import DeltaTable

    DeltaTable(work.folder(work.flow.tables[CLICKS])).delete("id = 2")


def test_no_batch_is_claimed_between_the_reading_of_the_slices_and_the_commit(
    work: RunContext, meanwhile: Meanwhile
) -> None:
    """Its rows would be removed from the table, although the ledger records it as done."""
    refused: list[str] = []

    def claim() -> None:
        try:
            make(work, CLICKS, 3, (6, 7))
        except (WaterclockError, AssertionError) as error:
            refused.append(str(error))

    edit(work)
    meanwhile(claim)
    rebuilt(work)
    assert facts(work, CLICKS).paused is None
    if refused:
        assert "being rebuilt" in refused[0]
        make(work, CLICKS, 3, (6, 7))
    assert ids(work.folder(work.flow.tables[CLICKS])) == [2, 3, 4, 5, 6, 7]


def test_a_rebuild_that_fails_leaves_the_table_as_it_was(work: RunContext, meanwhile: Meanwhile) -> None:
    def fail() -> None:
        raise WaterclockError("E752", "a slice is gone")

    work.ledger.decisions.pause_tables([CLICKS], who="bob", why="the source lies")
    meanwhile(fail)
    with pytest.raises(WaterclockError, match="a slice is gone"):
        rebuilt(work)
    paused = facts(work, CLICKS).paused
    assert paused is not None
    assert (paused.who, paused.why) == ("bob", "the source lies")


@pytest.mark.parametrize("how", ["rebuild", "reset"])
def test_a_rebuild_that_was_killed_leaves_the_table_paused_until_it_is_finished(
    work: RunContext, meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def kill() -> None:
        raise KeyboardInterrupt

    edit(work)
    with monkeypatch.context() as patch:
        patch.setattr(rebuild, "_end_hold", lambda *_: None)
        meanwhile(kill)
        with pytest.raises(KeyboardInterrupt):
            rebuilt(work)
    assert "`waterclock rebuild web.clicks` finishes it" in str(facts(work, CLICKS).paused)
    with pytest.raises(WaterclockError, match="is being rebuilt") as refused:
        work.ledger.decisions.resume_tables([CLICKS], who="bob")
    assert refused.value.fix == "`waterclock rebuild web.clicks` finishes it"
    meanwhile(lambda: None)
    (rebuilt if how == "rebuild" else start_over)(work)
    assert facts(work, CLICKS).paused is None
    if how == "rebuild":
        assert ids(work.folder(work.flow.tables[CLICKS])) == [2, 3, 4, 5]


def test_a_running_batch_refuses_a_rebuild(work: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = rebuild.plan_rebuild(work, [CLICKS])[CLICKS]

    def killed(*arguments: Any, **named: Any) -> None:
        commit_slices(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(test_reset, "commit_slices", killed)
    with pytest.raises(KeyboardInterrupt):
        make(work, CLICKS, 3, (6, 7))
    with pytest.raises(WaterclockError) as refused:
        rebuild.rebuild_table(work, CLICKS, changes)
    assert refused.value.code == "E407"
    assert facts(work, CLICKS).paused is None
    assert ids(work.folder(work.flow.tables[CLICKS])) == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("how", ["rebuild", "reset"])
def test_a_rebuild_of_all_tables_is_refused_beside_that_of_one(
    work: RunContext, meanwhile: Meanwhile, how: str
) -> None:
    """The older rows of the first would be committed after the newer rows of the second were published."""
    refused: list[WaterclockError] = []

    def begin(*_: object) -> None:
        try:
            work.ledger.maintenance.begin_rebuilding("t", runner="another", who="bob", lease_seconds=60)
        except WaterclockError as error:
            refused.append(error)

    if how == "rebuild":
        edit(work)
        meanwhile(begin)
        rebuilt(work)
    else:
        with inject_faults(lambda at: begin() if at == "reset.paused" else None):
            start_over(work)
    [error] = refused
    assert error.code == "E407"
    assert f"`waterclock {how} web.clicks` finishes it" in str(error.fix)
    begin()
    assert len(refused) == 1


def test_no_window_is_dropped_beside_a_rebuild(work: RunContext, meanwhile: Meanwhile) -> None:
    """The rebuild has read its slices, and would show them again."""
    found = user_drop.WindowsToDrop(work.flow.tables[CLICKS], day(2), (day(1),), 2, NOW)
    refused: list[str] = []

    def drop() -> None:
        try:
            user_drop.drop(work, found, why="old")
        except WaterclockError as error:
            refused.append(f"{error.code} {error.what}")

    edit(work)
    meanwhile(drop)
    rebuilt(work)
    assert refused == ["E436 web.clicks is being rebuilt"]
    assert work.ledger.maintenance.drop_boundary(CLICKS, by=FOREVER) is None
    assert ids(work.folder(work.flow.tables[CLICKS])) == [2, 3, 4, 5]


def test_maintenance_leaves_a_table_alone_that_is_being_rebuilt(work: RunContext, meanwhile: Meanwhile) -> None:
    found: list[bool] = []

    def look() -> None:
        [before] = maintain.find_maintenance(work, [CLICKS], NOW)
        later = maintain.TableMaintenance(CLICKS)
        maintain.maintain_table(work, later, NOW)
        found.extend([before.is_busy, later.is_busy])

    edit(work)
    meanwhile(look)
    rebuilt(work)
    assert found == [True, True]
    [after] = maintain.find_maintenance(work, [CLICKS], NOW)
    assert not after.is_busy


def test_a_rebuild_that_slept_while_another_one_ended_commits_nothing(work: RunContext, meanwhile: Meanwhile) -> None:
    """A batch that was made since is missing from the slices that it has read."""

    def overtake() -> None:
        meanwhile(lambda: None)
        rebuilt(work)
        make(work, CLICKS, 3, (6, 7))

    edit(work)
    meanwhile(overtake)
    with pytest.raises(WaterclockError) as refused:
        rebuilt(work)
    assert refused.value.code == "E630"
    assert ids(work.folder(work.flow.tables[CLICKS])) == [2, 3, 4, 5, 6, 7]
    assert facts(work, CLICKS).paused is None
