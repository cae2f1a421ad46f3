"""Labels of dropped windows keep no table behind a view, except the newest delivered one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.ledgers import day, table
from tests.systems import SqliteDatabase, unit_of
from tests.unit.engine.fakes import group
from waterclock.batches.records import Slice
from waterclock.connectors.delivering import Delivery
from waterclock.connectors.sql.versioned_views import BEHIND
from waterclock.connectors.sqlite.connector import CONNECTOR
from waterclock.engine.batch.destinations import require_last_delivery
from waterclock.engine.batch.label_tables import drop_label_tables, find_dropped_labels
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Kind, Mode
from waterclock.timelabel.label import label_of

NAME, UNIT = "ops.totals", unit_of("ops", "totals", behind="view")
PUBLISH = replace(table(NAME, kind=Kind.PUBLISH, partitioned=True), destination=UNIT)


@pytest.fixture
def work(tmp_path: Path) -> Any:
    """Return a run whose publish delivered the days 1 to 3."""
    deliverer = CONNECTOR.deliverer(SqliteDatabase(tmp_path).setting)
    path = tmp_path / "part.parquet"
    pq.write_table(pa.table({"id": ["a"]}), path)
    for number in (1, 2, 3):
        delivery = Delivery(
            project="demo",
            publish=NAME,
            claim=number,
            label=day(number),
            label_text=label_of(day(number)),
            mode=Mode.APPEND,
            is_from_partitioned=True,
            columns=(("id", "STRING"),),
            files=(path,),
            note=BEHIND,
        )
        deliverer.deliver(UNIT, [delivery])
    newest = Slice(NAME, day(3), day(4), 3, -1, 1, 0, None, "", None)
    reads = SimpleNamespace(newest=lambda _: newest, last_recorded=lambda _: newest)
    return SimpleNamespace(
        ledger=SimpleNamespace(reads=reads),
        connections=SimpleNamespace(resolve_unit=lambda unit: unit, deliverer=lambda _: deliverer),
        flow=Flow(project="demo", tables={NAME: PUBLISH}, order=(NAME,)),
        project=SimpleNamespace(delivers=lambda _: True),
    )


@pytest.mark.parametrize(("before", "dropped"), [(1, []), (3, [1, 2]), (4, [1, 2])])
def test_a_publish_continues_after_its_old_labels_were_dropped(work: Any, before: int, dropped: list[int]) -> None:
    found = find_dropped_labels(work, PUBLISH, day(before))
    assert list(found) == [label_of(day(number)) for number in dropped]
    drop_label_tables(work, PUBLISH, found)
    require_last_delivery(work, PUBLISH, group(NAME, 4))  # it would report a destination that was changed by hand
