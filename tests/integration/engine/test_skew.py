"""The skew of each batch is measured from Spark's metrics, recorded and shown; relevant skew is a warning (PT-26)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.batches import skew as skews
from waterclock.batches.skew import SKEW, TaskSkew, skew_words
from waterclock.engine.spark import shuffle_reads
from waterclock.engine.spark.shuffle_reads import find_largest_skew

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FACTS = "COLLECT raw.facts PARTITIONED (id BIGINT, v BIGINT, at TIMESTAMP) FROM shop.facts EVERY DAY BY DATA TIME at;\n"
ROWS = 20_000
# 70 % of the rows have one key, and 128 incompressible characters
SKEWED = f"SELECT if(id % 10 < 7, 1, id % 1000) AS k, sha2(string(id), 512) AS v FROM range({ROWS})"
EVEN = f"SELECT id AS k, sha2(string(id), 512) AS v FROM range({ROWS})"


def written(spark: SparkSession, path: Path, query: str, partitions: int = 8) -> TaskSkew | None:
    """Write the rows of a query, with a number of partitions that adaptive execution does not join."""
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", str(partitions))
    own.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    own.sql(SKEWED).createOrReplaceTempView("skewed")
    own.sql(EVEN).createOrReplaceTempView("even")
    own.sql(query).write.parquet(str(path / f"{abs(hash((query, partitions)))}"))
    return find_largest_skew(own, str(path / f"{abs(hash((query, partitions)))}"))


def test_the_largest_partition_and_the_median_are_those_of_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    found = written(spark, tmp_path, "SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM skewed")
    counted = spark.sql(f"SELECT pmod(hash(k), 8) AS p, count(*) AS n FROM ({SKEWED}) GROUP BY 1").collect()
    rows = sorted(row.n for row in counted)
    assert found is not None
    assert (found.exchange, found.tasks) == ("OVER (PARTITION BY k) (Exchange by k)", 8)
    assert found.largest / found.median == pytest.approx(rows[-1] / rows[4], rel=0.15)
    assert rows[-1] / rows[4] > 15
    assert 0 < found.seconds < 100


def test_of_several_exchanges_the_most_uneven_one_is_named(spark: SparkSession, tmp_path: Path) -> None:
    joined = "SELECT /*+ MERGE(s) */ s.v, max(e.v) AS m FROM skewed s JOIN even e ON s.k = e.k GROUP BY s.v"
    found = written(spark, tmp_path, joined)
    assert found is not None
    assert found.exchange == "a JOIN on k (Exchange by k)"
    assert found.largest > 5 * found.median


def test_sums_of_a_frequent_key_are_even_since_spark_combines_its_rows_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = written(spark, tmp_path, "SELECT k, count(*) AS n FROM skewed GROUP BY k")
    assert found is not None
    assert found.exchange == "GROUP BY k (Exchange by k)"
    assert found.largest < 2 * found.median


def test_of_two_tasks_the_smaller_one_is_the_median(spark: SparkSession, tmp_path: Path) -> None:
    found = written(spark, tmp_path, "SELECT *, sum(length(v)) OVER (PARTITION BY k) AS n FROM skewed", 2)
    rows = Counter(row.p for row in spark.sql(f"SELECT pmod(hash(k), 2) AS p FROM ({SKEWED})").collect())
    assert found is not None
    assert found.tasks == 2
    assert found.largest / found.median == pytest.approx(max(rows.values()) / min(rows.values()), rel=0.15)


def test_no_exchange_has_no_skew_and_one_task_has_it_only_with_many_bytes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert written(spark, tmp_path, "SELECT k, v FROM skewed") is None
    one_key = "SELECT /*+ REPARTITION(8, one) */ * FROM (SELECT *, length(v) AS one FROM even)"
    assert written(spark, tmp_path / "few", one_key) is None
    monkeypatch.setattr(shuffle_reads, "LARGE", 1000)
    found = written(spark, tmp_path / "many", one_key)
    assert found is not None
    assert (found.tasks, found.median, found.exchange) == (1, 0, "a REPARTITION (Exchange by one)")
    assert found.largest > ROWS * 64


def test_a_write_that_spark_does_not_know_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="forgotten"):
        find_largest_skew(spark, str(tmp_path / "never written"))


def fill(tiny: Tiny, *days: int) -> None:
    keys = [(1 if key % 10 < 9 else key, key) for key in range(400)]
    rows = [(*key, f"2020-01-{number:02d} 08:00:00") for number in days for key in keys]
    tiny.source("facts", "id INTEGER, v INTEGER, at TEXT", rows)


def run(tiny: Tiny, number: int) -> None:
    outcome = tiny.run(day(number))
    assert not outcome.failed, described(outcome)


def measures(tiny: Tiny, table: str, number: int) -> dict[str, Any]:
    with tiny.ledger() as ledger:
        made = ledger.past.audit(table, day(number)).current
    assert made is not None
    assert made.revision is not None
    return dict(made.revision.measures)


def test_each_batch_of_a_transform_records_its_skew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, 1, 2)
    tiny.declare(
        FACTS
        + "TRANSFORM made.spread PARTITIONED AS SELECT /*+ REPARTITION(4, id) */ id, v FROM raw.facts;\n"
        + "TRANSFORM made.plain PARTITIONED AS SELECT id, v FROM raw.facts;\n"
        + "TRANSFORM made.none PARTITIONED SHUFFLE NONE AS SELECT id, v FROM raw.facts;\n"
    )
    run(tiny, 3)
    for number in (1, 2):
        found = measures(tiny, "made.spread", number)
        assert found[SKEW]["exchange"] == "a REPARTITION (Exchange by id)"
        assert found[SKEW]["largest"] > found[SKEW]["median"] > 0
        assert found["warnings"] == []  # the skew of 400 rows does not matter
        for table in ("raw.facts", "made.plain", "made.none"):
            assert SKEW not in measures(tiny, table, number)
    monkeypatch.setattr(skews, "LARGE", 100)
    monkeypatch.setattr(skews, "MOST_RATIO", 1.5)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("made.spread", [day(2)], "recompute", who="a test")
    run(tiny, 3)
    found = measures(tiny, "made.spread", 2)
    assert found["warnings"] == [f"skew: {skew_words(found)}"]
    assert "a REPARTITION (Exchange by id)" in found["warnings"][0]
    assert tiny.done("made.spread") == labels(1, 2)


def test_a_session_that_shows_no_metrics_is_recorded_as_unknown(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, 1)
    tiny.declare(FACTS + "TRANSFORM made.sums PARTITIONED AS SELECT id, sum(v) AS v FROM raw.facts GROUP BY id;\n")
    monkeypatch.setattr(shuffle_reads, "is_remote", lambda _: True)
    run(tiny, 2)
    found = measures(tiny, "made.sums", 1)
    assert skew_words(found) == "unknown: Spark Connect does not show the metrics of tasks"
    assert found["warnings"] == []
