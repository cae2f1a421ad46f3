"""Held batches lose the rows of erased persons, and can be released then. After a kill they are complete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.erasing.test_erasing import ERASED, OTHER, erased, found, killed, places_with
from tests.keys import DECLARED, VARIABLES
from tests.tiny import Tiny, day
from waterclock.engine.batch.lifecycle import run_group
from waterclock.engine.batch.releasing import group_to_release

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = (
    DECLARED
    + """
COLLECT raw.orders PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, at TIMESTAMP, amount BIGINT)
  FROM shop.orders EVERY DAY BY DATA TIME at LOOKBACK 2 DAYS
  EXPECT amount >= 0 AS positive ELSE QUARANTINE, max(buyer) > 0 AND count(*) < 4 AS few ELSE HOLD;
TRANSFORM marts.sold PARTITIONED EXPECT count(*) < 2 AS few ELSE HOLD AS SELECT buyer AS client, id FROM raw.orders;
"""
)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def project(root: Path, spark: SparkSession) -> Tiny:
    """Return a project whose first day is done, but held in the table below, and whose second day is held."""
    tiny = Tiny(root, spark)
    tiny.declare(FLOW)
    rows = [(1, 1, ERASED), (2, 1, OTHER), *((number, 2, who) for number in (3, 4, 5) for who in (ERASED, OTHER))]
    rows.append((6, 2, -ERASED))
    tiny.source(
        "orders",
        "id INT, buyer INT, at TEXT, amount INT",
        [(number, abs(who), f"2020-01-{of:02d} 10:00:00", 1 if who > 0 else -1) for number, of, who in rows],
    )
    tiny.run(day(3))
    assert tiny.batches()["raw.orders", "20200102000000"] == "held"
    assert tiny.batches()["marts.sold", "20200101000000"] == "held"
    return tiny


def release(tiny: Tiny, table: str, number: int) -> None:
    with tiny.opened() as work:
        group = group_to_release(work, work.flow.tables[table], day(number), day(3), "checked")
        assert run_group(work, group, day(3)).error is None


@pytest.mark.parametrize("point", ["", "erase.held_replaced"])
def test_erasing_removes_held_rows_of_a_person_and_the_others_can_be_released(
    point: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = project(tmp_path, spark)
    assert set(found(tiny, ERASED)) == {"raw.orders", "marts.sold"}
    with killed(point, monkeypatch) as struck:
        erased(tiny, ERASED)
    assert struck == [point] * bool(point)
    if point:
        assert tiny.rows("SELECT id FROM raw.orders_held WHERE _row IS NULL ORDER BY id") == [(3,), (4,), (5,)]
        assert erased(tiny, ERASED, continues=True).left == ()
    assert found(tiny, ERASED) == []
    assert list(places_with(tiny, ERASED)) == []
    assert tiny.rows("SELECT id, _row IS NULL FROM raw.orders_held ORDER BY id") == [(3, True), (4, True), (5, True)]
    assert tiny.rows("SELECT id FROM marts.sold_held") == [(2,)]
    release(tiny, "raw.orders", 2)
    assert tiny.rows("SELECT id FROM raw.orders WHERE timelabel = '20200102000000' ORDER BY id") == [(3,), (4,), (5,)]
    with tiny.ledger() as ledger:
        current = ledger.past.audit("raw.orders", day(2)).current
    assert current is not None
    revision = current.revision
    assert revision is not None
    assert revision.rows == 3
    assert "quarantined" not in revision.measures
