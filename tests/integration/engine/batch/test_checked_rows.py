"""Rules check the rows of their own label once, for every way of writing a slice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.cli.actions.release import release_batches
from waterclock.engine.batch.checked_rows import measure_again
from waterclock.storage.slices.manifest import read_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OF_STATE = """
COLLECT shop.people (id BIGINT KEY, age BIGINT) FROM shop.people EVERY DAY;
PUBLISH shop.people TO out.people MERGE
  EXPECT age > 0 AS is_born ELSE HOLD, count(*) < 2 AS few ELSE WARN, count(*) FILTER (WHERE age < 0) = 0 ELSE WARN;
"""
OF_LABELS = """
COLLECT shop.sent PARTITIONED (id BIGINT, v INT, at TIMESTAMP) FROM shop.sent EVERY DAY BY DATA TIME at;
PUBLISH shop.sent TO out.sent MERGE ON (id) EXPECT v < 100 AS small ELSE WARN, count(*) < 2 AS few ELSE WARN;
"""


def warnings_of(tiny: Tiny, table: str, number: int) -> list[str]:
    with tiny.ledger() as ledger:
        current: Any = ledger.past.audit(table, day(number)).current
        return list(current.revision.measures["warnings"])


def test_a_rule_of_a_delivery_does_not_check_rows_to_delete(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(OF_STATE)
    tiny.source("people", "id INTEGER, age INTEGER", [(1, 10), (2, -5)])
    assert len(tiny.run(day(2)).failed) == 1
    release_batches(tmp_path, None, "out.people", "he is to be born", None, yes=True, is_json=False)
    tiny.shop("UPDATE people SET age = 11 WHERE id = 1")
    tiny.shop("DELETE FROM people WHERE id = 2")
    assert not (outcome := tiny.run(day(3))).failed, described(outcome)
    assert tiny.delivered("SELECT id, age FROM people") == [(1, 11)]
    assert warnings_of(tiny, "out.people", 2) == []
    # regression: rows of a task that ran twice were counted twice
    with tiny.opened() as work:
        table = work.flow.tables["out.people"]
        [piece] = work.ledger.reads.slices("out.people", day(1), day(2))
        sealed = replace(read_manifest(work.folder(table), piece.slice_path), digest=None)
        found = measure_again(spark, table, work.folder(table), sealed, {"expect:is_born": 2, "batch:few": True})
    assert (found["expect:is_born"], found["batch:few"]) == (1, False)


@pytest.mark.soak
def test_a_rule_of_a_delivery_does_not_check_rows_of_older_labels(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(OF_LABELS)
    older = [(1, 500, "2020-01-01 10:00:00")]
    tiny.source("sent", "id INTEGER, v INTEGER, at TEXT", [*older, (1, 7, "2020-01-02 10:00:00")])
    assert not (outcome := tiny.run(day(3))).failed, described(outcome)
    assert warnings_of(tiny, "out.sent", 1) == ["small: 1 of 1 rows violate (v < 100)"]
    tiny.source("sent", "id INTEGER, v INTEGER, at TEXT", [*older, (3, 7, "2020-01-02 10:00:00")])
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.sent", [day(2)], "recollect", who="ann")
    assert not (outcome := tiny.run(day(3))).failed, described(outcome)
    assert tiny.delivered("SELECT timelabel, id, v FROM sent ORDER BY id") == [
        (labels(1)[0], 1, 500),
        (labels(2)[0], 3, 7),
    ]
    assert warnings_of(tiny, "out.sent", 2) == []
