"""LOOKBACK reads past windows once more, and makes only changed windows and their readers again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening, labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = "id INTEGER, amount INTEGER, at TEXT"
FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at LOOKBACK 2 DAYS;
TRANSFORM sales.revenue PARTITIONED AS SELECT sum(amount) AS revenue FROM shop.orders;
"""


def test_late_rows_within_the_lookback_restate_their_own_window_and_its_readers_alone(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", ORDERS, [(n, 10, f"2020-01-{n:02d} 12:00:00") for n in range(1, 5)])
    tiny.declare(FLOW)
    first = tiny.run(day(4))
    assert not first.failed, described(first)
    before = tiny.digests()

    tiny.shop("INSERT INTO orders VALUES (11, 5, '2020-01-01 13:00:00')")  # beyond the LOOKBACK of the 4th
    tiny.shop("INSERT INTO orders VALUES (13, 7, '2020-01-03 13:00:00')")  # within it
    second = tiny.run(day(5))
    assert not second.failed, described(second)

    after = tiny.digests()
    changed = sorted(key for key in before if after[key] != before[key])
    assert changed == [("sales.revenue", labels(3)[0]), ("shop.orders", labels(3)[0])]
    assert tiny.rows("SELECT timelabel, revenue FROM sales.revenue ORDER BY timelabel") == list(
        zip(labels(1, 2, 3, 4), (10, 10, 17, 10), strict=True)
    )
    assert second.done == 3  # the 4th, and its reader for the 3rd and 4th: the 2nd was read again and is unchanged


@pytest.mark.parametrize(
    "lookback", ["", pytest.param("LOOKBACK 2 DAYS", marks=pytest.mark.soak)], ids=["without LOOKBACK", "LOOKBACK"]
)
def test_a_window_of_files_that_is_collected_again_keeps_the_rows_that_batches_made_together_found(
    lookback: str, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(
        "COLLECT land.visits PARTITIONED (id BIGINT, at TIMESTAMP) FROM land.acme.visits\n"
        f"  EVERY DAY START '2020-01-01' BY DATA TIME at {lookback};"
    )
    first = 1 if lookback else 3
    if lookback:
        for number in (1, 2):
            tiny.land("visits", evening(number), f"id,at\n{number},2020-01-{number:02d} 12:00:00\n")
        tiny.run(day(3))
    for number in (3, 4, 5):
        tiny.land("visits", evening(number), f"id,at\n{number},2020-01-{number:02d} 12:00:00\n")
    tiny.land("visits", day(5, 12), f"id,at\n9,2020-01-{first:02d} 13:00:00\n")
    tiny.run(day(6))  # one group of three labels, after an outage
    ids, known = "SELECT id FROM land.visits ORDER BY id", [(n,) for n in range(first, 6)]
    assert tiny.rows(ids) == [*known, (9,)]
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("land.visits", [day(first)], "recollect", who="ann")
    outcome = tiny.run(day(6))
    assert (outcome.done, tiny.rows(ids)) == (1, [*known, (9,)])
