"""Dropping windows by hand beside a rebuild of all tables, and beside a running batch; no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.tiny import CONNECTIONS, TOML, day
from waterclock.batches.records import ClaimRequest
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.opening import apply_flow, open_workplace
from waterclock.engine.run_context import RunContext
from waterclock.engine.upkeep.dropping import Droppable, drop, look
from waterclock.engine.upkeep.rebuild_lock import refuse_beside_rebuild
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.selection import Labels

FLOW = "COLLECT web.clicks PARTITIONED (id BIGINT) FROM land.acme.clicks EVERY DAY START '2020-01-01' BY ARRIVAL TIME;"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[RunContext]:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML.format(name="tiny", storage=".waterclock"))
    (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + FLOW)
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        apply_flow(work, day(5))
        yield work


def test_nothing_is_dropped_while_all_tables_are_made_anew(work: RunContext) -> None:
    table = work.flow.tables["web.clicks"]
    work.ledger.keeping.begin_rebuilding("t", runner="another", who="ann", lease_seconds=60)
    with pytest.raises(WaterclockError, match="all tables are being rebuilt") as refused:
        look(work, table, Labels(), day(5))
    assert refused.value.code == "E644"
    # begun while somebody was asked: what was dropped would be moved in again
    with pytest.raises(WaterclockError, match="all tables are being rebuilt"):
        drop(work, Droppable(table, day(2), (day(1),), 1), why="")


def test_nothing_is_dropped_beside_a_batch_that_began_while_the_user_was_asked(work: RunContext) -> None:
    """It may make one of the windows again, and commit it after the drop."""
    table = work.flow.tables["web.clicks"]
    request = ClaimRequest(
        table=table.name,
        labels=(day(1),),
        code="c",
        flow=work.flow.fingerprint,
        runner="another",
        who="ann",
        now=day(5),
        lease_seconds=600,
        target_version=-1,
    )
    work.ledger.claims.take(request)
    with pytest.raises(WaterclockError, match="is being written") as refused:
        drop(work, Droppable(table, day(2), (day(1),), 1), why="")
    assert refused.value.code == "E436"
    assert work.ledger.keeping.drop_boundary(table.name, by=day(9)) is None


def test_a_rebuild_that_slept_past_its_lease_does_not_move_in_what_was_dropped_since() -> None:
    clock = [day(9)]
    with Ledger.open("sqlite://", clock=lambda: clock[0]) as ledger:
        work = SimpleNamespace(ledger=ledger, settings=SimpleNamespace(who="ann"), real_now=lambda: clock[0])
        ledger.keeping.begin_rebuilding("t", runner="another", who="ann", lease_seconds=60)
        clock[0] += timedelta(seconds=61)
        refuse_beside_rebuild(cast("RunContext", work))
        with pytest.raises(WaterclockError, match="lost its lock"):
            ledger.keeping.begin_moving("t")
