"""Labels that choose between queries: each is made by its own query, with its inputs, and records the choice."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.model.flows import cadence, condition
from tests.tiny import Tiny, day, described, labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT raw.old PARTITIONED (id BIGINT, cents BIGINT, at TIMESTAMP) FROM shop.old EVERY DAY
  START '2020-01-01' BY DATA TIME at LOOKBACK 7 DAYS;
COLLECT raw.new PARTITIONED (id BIGINT, dollars DOUBLE, at TIMESTAMP) FROM shop.new EVERY DAY
  START '2020-01-03' BY DATA TIME at;
TRANSFORM core.orders PARTITIONED (id BIGINT, cents BIGINT, label STRING)
  WHEN WINDOW_START() < '2020-01-03' AS SELECT id, cents, TIMELABEL() AS label FROM raw.old
  WHEN dayofweek(WINDOW_START()) = 1
    AS SELECT id, -1 AS cents, TIMELABEL() AS label FROM raw.new
    UNION ALL BY NAME SELECT 0L AS id, 0 AS cents, '' AS label
  ELSE AS SELECT id, CAST(dollars * 100 AS BIGINT) AS cents, TIMELABEL() AS label FROM raw.new;
TRANSFORM marts.total (n BIGINT, days BIGINT)
  WHEN WINDOW_START() = '2020-01-01' AS SELECT count(*) AS n, 1 AS days FROM raw.old
  ELSE AS SELECT p.n + o.n AS n, p.days + 1 AS days
    FROM PREVIOUS(marts.total) p CROSS JOIN (SELECT count(*) AS n FROM core.orders) o;
"""


def test_each_label_is_made_by_its_own_query(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source(
        "old", "id INTEGER, cents INTEGER, at TEXT", [(1, 100, "2020-01-01 09:00"), (2, 200, "2020-01-02 09:00")]
    )
    new = [(10 + each, each / 2, f"2020-01-0{each} 09:00") for each in (3, 4, 5, 6)]
    tiny.source("new", "id INTEGER, dollars REAL, at TEXT", new)
    tiny.declare(FLOW)
    outcome = tiny.run(day(7))
    assert not outcome.failed, described(outcome)
    assert tiny.done("core.orders") == labels(1, 2, 3, 4, 5, 6)
    one, two, three, four, five, six = labels(1, 2, 3, 4, 5, 6)
    assert tiny.rows("SELECT id, cents, label FROM core.orders ORDER BY timelabel, id") == [
        (1, 100, one), (2, 200, two), (13, 150, three), (14, 200, four), (0, 0, ""), (15, -1, five), (16, 300, six),
    ]  # fmt: skip
    assert tiny.rows("SELECT n, days FROM marts.total") == [(7, 6)]
    assert {
        label: made_of(tiny, "core.orders", number) for number, label in enumerate(labels(1, 2, 3, 4, 5, 6), 1)
    } == {
        one: ("WHEN WINDOW_START() < '2020-01-03'", ["raw.old"]),
        two: ("WHEN WINDOW_START() < '2020-01-03'", ["raw.old"]),
        three: ("ELSE", ["raw.new"]),
        four: ("ELSE", ["raw.new"]),
        five: ("WHEN dayofweek(WINDOW_START()) = 1", ["raw.new"]),
        six: ("ELSE", ["raw.new"]),
    }
    before = tiny.runs_of("core.orders")
    tiny.shop("INSERT INTO old VALUES (3, 300, '2020-01-02 10:00'), (4, 400, '2020-01-06 10:00')")
    outcome = tiny.run(day(8))
    assert not outcome.failed, described(outcome)
    # the late row of the second day restates that day; the one of the sixth is in a table that is not read there any
    # more
    assert tiny.runs_of("core.orders") == before + 2
    assert tiny.rows("SELECT id FROM core.orders WHERE timelabel < '20200103' ORDER BY id") == [(1,), (2,), (3,)]
    assert tiny.rows("SELECT count(*) FROM core.orders WHERE id = 4") == [(0,)]


def made_of(tiny: Tiny, table: str, number: int) -> tuple[str, list[str]]:
    with tiny.ledger() as ledger:
        current = ledger.past.audit(table, day(number)).current
    assert current is not None
    assert current.revision is not None
    return current.revision.source["choice"], [each.table for each in current.inputs]


SAID = [
    *(f"{part}(WINDOW_START()) = {part}(WINDOW_END())" for part in ("year", "month", "day", "weekofyear", "quarter")),
    *(f"dayofweek(WINDOW_START()) = {value}" for value in range(1, 8)),
    *(f"weekday(WINDOW_START()) = {value}" for value in range(7)),
    *(f"weekofyear(WINDOW_START()) = {value}" for value in (1, 9, 52, 53)),
    "dayofyear(WINDOW_START()) IN (1, 60, 366)", "hour(WINDOW_START()) BETWEEN 6 AND 12", "minute(WINDOW_END()) <> 0",
    "WINDOW_START() < '2020-02-29'", "WINDOW_END() >= DATE '2020-02-29'", "date(WINDOW_START()) = '2020-12-31'",
    "TIMESTAMP '2020-02-29 06:00:00' = WINDOW_START()", "NOT (WINDOW_START() > '2020-03-01 06:00' OR NULL)",
    "NULL IN (1, 2)", "1 NOT IN (2, NULL)", "-7 % 3 = -1", "NULL <=> NULL", "(WINDOW_START() < NULL) IS NULL",
    "TIMELABEL() < '20200229060000'", "mod(day(WINDOW_START()), 2) = 1", "NOT month(WINDOW_START()) = 2",
    "month(WINDOW_START()) * 31 + day(WINDOW_START()) > 90 AND TRUE IS NOT FALSE",
]  # fmt: skip


def test_conditions_on_windows_evaluate_as_in_spark(spark: SparkSession) -> None:
    """In UTC, which is the zone of every session."""
    for first in (day(1), day(1).replace(month=2, day=28), day(31).replace(month=12)):
        for window in cadence("6 HOURS").windows(first, first + timedelta(days=2)):
            values = {
                "WINDOW_START()": f"TIMESTAMP '{window.start:%Y-%m-%d %H:%M:%S}'",
                "WINDOW_END()": f"TIMESTAMP '{window.end:%Y-%m-%d %H:%M:%S}'",
                "TIMELABEL()": f"'{window.label}'",
            }
            texts = SAID.copy()
            for name, value in values.items():
                texts = [text.replace(name, value) for text in texts]
            row = spark.sql("SELECT " + ", ".join(f"({text}) AS c{at}" for at, text in enumerate(texts))).collect()[0]
            assert {said: condition(said).is_true_for(window) for said in SAID} == {
                said: row[at] is True for at, said in enumerate(SAID)
            }, window.label
