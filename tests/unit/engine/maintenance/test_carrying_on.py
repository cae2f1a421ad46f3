"""After a killed rebuild of all tables, the next process continues it. No Spark."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.tiny import CONNECTIONS, TOML, Heard, day
from waterclock.cli.actions import run
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.maintenance import rebuild_all, table_set_move
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.runner_name import runner_name
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults

FLOW = "COLLECT web.clicks PARTITIONED (id BIGINT) FROM land.acme.clicks EVERY DAY START '2020-01-01' BY ARRIVAL TIME;"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[RunContext]:
    """Return a project with a rebuild that was started by a process that has ended."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML.format(name="tiny", storage=".waterclock"))
    (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + FLOW)
    with open_workplace(load_project(tmp_path, capabilities=capabilities()), listener=Heard()) as work:
        apply_flow(work, day(5))
        ended = runner_name().replace(f":{os.getpid()}:", ":4194304:")
        work.ledger.maintenance.begin_rebuilding("t", runner=ended, who="ann", lease_seconds=6000)
        yield work


def test_of_two_that_carry_a_move_on_the_later_one_finds_it_done(
    work: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.ledger.maintenance.begin_moving("t")

    def overtaken(_: RunContext) -> tuple[str, ...]:
        work.ledger.maintenance.record_set("t", [], who="another")
        raise WaterclockError("E645", "`rebuild --all` cannot finish replacing the tables")

    monkeypatch.setattr(rebuild_all, "finish_move", overtaken)
    assert rebuild_all.finish_killed_rebuild(work) == ()


def test_a_killed_move_that_cannot_be_finished_is_reported(work: RunContext) -> None:
    work.ledger.maintenance.begin_moving("t")
    with pytest.raises(WaterclockError, match="cannot finish") as told:
        rebuild_all.finish_killed_rebuild(work)
    assert told.value.code == "E645"


@pytest.mark.parametrize("is_moving", [False, True])
def test_a_watch_does_not_wait_for_ever_for_a_rebuild_that_was_killed(
    work: RunContext, monkeypatch: pytest.MonkeyPatch, *, is_moving: bool
) -> None:
    if is_moving:
        work.ledger.maintenance.begin_moving("t")

        def carried(_: RunContext) -> tuple[str, ...]:
            work.ledger.maintenance.record_set("t", [], who="ann")
            return ("web.clicks",)

        monkeypatch.setattr(rebuild_all, "finish_move", carried)
    looked: list[object] = []

    def watch(*arguments: Any, **_: Any) -> None:
        reloaded = cast("Callable[[], object]", arguments[-1])
        looked.append(reloaded())

    monkeypatch.setattr(run, "watch", watch)
    asked = run.RunOptions("run", watch_seconds=60)
    run._drive_run(cast("Any", None), work, cast("Any", work.listener), asked, day(5), None, threading.Event())
    assert looked == [None]
    known = work.ledger.maintenance.current_rebuilding()
    assert known is None or known.is_done


def test_files_of_a_rebuild_that_began_since_are_not_removed(work: RunContext) -> None:
    maintenance, place = work.ledger.maintenance, Path(work.lake.root) / "rebuild"
    maintenance.begin_moving("t")
    place.mkdir()
    (place / "moving.json").write_text(json.dumps({"token": "t", "asked_again": [], "tables": []}))

    def begin(at: str) -> None:
        if at == "rebuild.recorded":
            maintenance.begin_rebuilding("u", runner="another", who="bob", lease_seconds=60)

    with inject_faults(begin):
        assert table_set_move.finish_move(work) == ()
    assert place.exists()
    rebuild_all.remove_leftovers(work, "t")
    assert place.exists()
    rebuild_all.remove_leftovers(work, "u")
    assert not place.exists()
