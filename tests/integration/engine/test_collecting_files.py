"""Files that several batches of a table read, by data time and as snapshots, stay in place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening, labels

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run(tiny: Tiny, now: datetime) -> None:
    outcome = tiny.run(now)
    assert not outcome.failed, described(outcome)
    assert tiny.open_claims() == 0


def test_windows_that_share_a_file_each_take_their_own_rows(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(
        "COLLECT web.visits PARTITIONED (id INT, at TIMESTAMP) FROM land.acme.visits EVERY DAY "
        "BY DATA TIME at LOOKBACK 1 DAY;"
    )
    tiny.land("visits", evening(1), "id,at\n1,2020-01-01 10:00:00\n2,\n")
    tiny.land("visits", evening(2), "id,at\n3,2020-01-02 10:00:00\n4,2020-01-01 11:00:00\n")
    run(tiny, day(3))
    tiny.land("visits", evening(3), "id,at\n5,2020-01-03 10:00:00\n6,2020-01-02 11:00:00\n")
    run(tiny, day(4))
    assert tiny.done("web.visits") == labels(1, 2, 3)
    assert sorted(tiny.rows("SELECT id, timelabel FROM web.visits")) == [
        (1, labels(1)[0]), (3, labels(2)[0]), (4, labels(1)[0]), (5, labels(3)[0]), (6, labels(2)[0])
    ]  # fmt: skip


def test_a_snapshot_without_a_new_file_reads_the_newest_one_again(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare("COLLECT web.lands (code KEY, land) FROM land.acme.lands EVERY DAY TEMPORAL;")
    tiny.land("lands", evening(1), "code,land\nd,Germany\nf,France\n")
    run(tiny, day(2))
    tiny.land("lands", evening(3), "code,land\nd,Germany\nf,\n")
    run(tiny, day(3))  # a replay: the file of the third day exists already, and is ignored
    run(tiny, day(4))
    assert tiny.done("web.lands") == labels(1, 2, 3)
    assert sorted(tiny.rows("SELECT code, land, rec_is_current FROM web.lands"), key=str) == [
        ("d", "Germany", True), ("f", "France", False), ("f", None, True)
    ]  # fmt: skip
    with tiny.ledger() as ledger:
        made = [ledger.past.audit("web.lands", day(number)).current for number in (1, 2, 3)]
    names = [each.revision.source["read"][0]["name"] for each in made if each and each.revision]
    assert [name[:21] for name in names] == ["acme_lands_2020_01_01", "acme_lands_2020_01_01", "acme_lands_2020_01_03"]
