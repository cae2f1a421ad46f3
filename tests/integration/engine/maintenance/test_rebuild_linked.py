"""`rebuild --all` of a project that collects another one's tables keeps the record of the versions read there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.test_linked_projects import projects
from tests.tiny import Tiny, day, described, labels
from waterclock.engine.maintenance.rebuild_all import forecast_rebuild, rebuild_all
from waterclock.errors import WaterclockError
from waterclock.storage import symlink_manifests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HERE = """
CREATE CONNECTION upstream TYPE waterclock;
COLLECT here.orders PARTITIONED FROM upstream.shop.orders EVERY 12 HOURS START '2020-01-01' BY DATA TIME timelabel;
COLLECT here.totals FROM upstream.shop.totals EVERY 12 HOURS START '2020-01-01';
TRANSFORM marts.sums PARTITIONED OPTIONS (manifest 'symlink') AS SELECT sum(cents) AS cents FROM here.orders;
TRANSFORM marts.newest AS SELECT cents FROM here.totals;
"""
DAILY = HERE.replace("EVERY 12 HOURS", "EVERY DAY")
SUMS = "SELECT cents FROM marts.sums ORDER BY timelabel"


def as_regular(dpl: str) -> str:
    """Return the flow with another type of the table that collects slices, so that its rows are adopted by links."""
    return dpl.replace("here.orders PARTITIONED", "here.orders").replace("timelabel;", "timelabel APPEND;")


def ran(*tinies: Tiny, now: int = 3) -> None:
    for tiny in tinies:
        outcome = tiny.run(day(now))
        assert not outcome.failed, described(outcome)


def remade(tiny: Tiny, now: int = 3) -> None:
    with tiny.opened() as work:
        rebuild_all(work, day(now))


@pytest.mark.soak
def test_linked_tables_rebuilt_with_a_new_cadence_still_follow_restatements(
    tmp_path: Path, spark: SparkSession
) -> None:
    upstream, here = projects(tmp_path, spark)
    here.declare(HERE)
    ran(upstream, here)
    here.declare(DAILY)
    remade(here)
    assert (
        symlink_manifests.find_stale_symlink_manifests(str(here.root / here.storage / "tables" / "marts" / "sums"))
        == []
    )
    assert here.done("here.orders") == labels(1, 2)
    assert here.rows("SELECT timelabel, id FROM here.orders ORDER BY id") == [
        (labels(1)[0], 1), (labels(2)[0], 2), (labels(1)[0], 9),
    ]  # fmt: skip
    assert here.rows(SUMS) == [(109,), (200,)]
    assert here.rows("SELECT cents FROM here.totals") == [(309,)]
    assert here.rows("SELECT cents FROM marts.newest") == [(309,)]
    assert here.run(day(3)).done == 0

    here.declare(as_regular(DAILY))
    remade(here)
    assert here.run(day(3)).done == 0
    upstream.shop("UPDATE orders SET cents = 150 WHERE id = 1")
    ran(upstream, now=4)
    ran(here, now=4)
    assert here.rows(SUMS) == [(159,), (359,), (659,)]  # of a regular table, all rows
    assert here.rows("SELECT cents FROM marts.newest") == [(659,)]

    here.declare(as_regular(HERE))
    with (
        here.opened() as work,
        pytest.raises(WaterclockError, match=r"was collected from upstream.shop.orders") as told,
    ):
        forecast_rebuild(work, day(4))
    assert told.value.code == "E431"
    here.declare(as_regular(DAILY).replace("shop.totals EVERY DAY", "shop.totals EVERY 12 HOURS"))
    remade(here, now=4)
    assert here.rows("SELECT cents FROM here.totals") == [(659,)]
