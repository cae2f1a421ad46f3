"""SHUFFLE NONE: a batch with an exchange in its executed plan is refused, and the error names the exchange (PT-27)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from tests.tiny import Tiny, day, described, labels
from waterclock.engine.batch import shuffles
from waterclock.engine.spark.exchanges import Exchange, exchanges_in, final_plan, first_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FACTS = "COLLECT raw.facts PARTITIONED (id BIGINT, v BIGINT, at TIMESTAMP) FROM shop.facts EVERY DAY BY DATA TIME at;\n"
ONE_TASK = "(SELECT /*+ COALESCE(1) */ * FROM raw.facts)"
# the input of a CTE is unknown without Spark
SUMS = "WITH f AS (SELECT * FROM {}) SELECT id, sum(v) AS v FROM f GROUP BY id"


def fill(tiny: Tiny, *days: int) -> None:
    rows = [(key % 5, key, f"2020-01-{number:02d} 08:00:00") for number in days for key in range(40)]
    tiny.source("facts", "id INTEGER, v INTEGER, at TEXT", rows)


def run(tiny: Tiny, number: int) -> None:
    outcome = tiny.run(day(number))
    assert not outcome.failed, described(outcome)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The final plans of all batches that are checked."""
    found: list[str] = []

    def note(spark: SparkSession, path: str) -> str | None:
        plan = final_plan(spark, path)
        found.append(plan or "")
        return plan

    monkeypatch.setattr(shuffles, "final_plan", note)
    return found


def test_batches_without_exchange_have_the_rows_of_those_with_one(
    spark: SparkSession, tmp_path: Path, plans: list[str]
) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, 1, 2, 3)
    ranked = "SELECT *, row_number() OVER (PARTITION BY id ORDER BY v) AS n FROM {}"
    joined = "SELECT f.id, f.v + s.v AS v FROM {} f JOIN made.sums s ON f.id = s.id"
    queries = {
        "plain": ("SELECT id, v * 2 AS v FROM {}", "raw.facts"),
        "sums": (SUMS, ONE_TASK),
        "ranked": (ranked, ONE_TASK),
        "joined": (joined, ONE_TASK),
        "kept": ("SELECT id, v FROM {}", "raw.facts"),
        "keyed": ("SELECT id, v FROM {}", ONE_TASK),
    }
    columns = {
        "kept": "(id BIGINT, v BIGINT EXPECT (v > 3) ELSE QUARANTINE) EXPECT sum(v) > 3 MEASURE sum(v) AS total",
        "keyed": "(id BIGINT KEY ORDER BY (v) ELSE DROP, v BIGINT)",
    }
    head, tail = "TRANSFORM {}.{} PARTITIONED {} {} AS ", ";\n"
    tiny.declare(
        FACTS
        + "".join(
            head.format("made", name, columns.get(name, ""), "SHUFFLE NONE") + query.format(rows) + tail
            for name, (query, rows) in queries.items()
        )
        + "".join(
            head.format("free", name, columns.get(name, ""), "") + query.format("raw.facts") + tail
            for name, (query, _) in queries.items()
        )
    )
    run(tiny, 4)
    assert len(plans) == 3 * len(queries)  # a job for each label
    assert any("isFinalPlan=true" in plan for plan in plans)
    assert [exchanges_in(plan) for plan in plans] == [[]] * len(plans)
    assert all("InsertIntoHadoopFsRelationCommand" in plan for plan in plans)
    digests = tiny.digests()
    for name in queries:
        assert tiny.done(f"made.{name}") == labels(1, 2, 3)
        for label in labels(1, 2, 3):
            assert digests[f"made.{name}", label] == digests[f"free.{name}", label]


def test_a_batch_with_exchanges_is_refused_before_its_rows_are_written_and_names_them(
    spark: SparkSession, tmp_path: Path, plans: list[str]
) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, 1)
    dpl = FACTS + "TRANSFORM made.sums PARTITIONED SHUFFLE NONE AS {};\n"
    tiny.declare(dpl.format(SUMS.format("raw.facts") + " ORDER BY v DESC"))
    [report] = tiny.run(day(2)).failed
    assert report.error is not None
    assert report.error.render().splitlines()[:1] == ["E775 the batch would shuffle its rows 2 times"]
    assert report.error.why == (
        "Spark moves rows between tasks for ORDER BY v DESC (Exchange by v DESC); for GROUP BY id (Exchange by id)"
    )
    assert report.error.fix is not None
    assert "`waterclock retry made.sums@20200101000000`" in report.error.fix
    assert plans == []  # no row was written
    assert tiny.batches()["made.sums", labels(1)[0]] == "failed"
    assert tiny.rows("SELECT * FROM made.sums") == []
    tiny.declare(dpl.format(SUMS.format(ONE_TASK)))
    with tiny.ledger() as ledger:
        ledger.decisions.retry("made.sums", [day(1)], who="a test")
    run(tiny, 2)
    assert [exchanges_in(plan) for plan in plans] == [[]]
    assert tiny.rows("SELECT count(*), sum(v) FROM made.sums") == [(5, sum(range(40)))]


def test_a_batch_is_refused_by_its_final_plan_before_it_is_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plans: list[str]
) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, 1)
    tiny.declare(FACTS + f"TRANSFORM made.sums PARTITIONED SHUFFLE NONE AS {SUMS.format('raw.facts')};\n")
    monkeypatch.setattr(shuffles, "first_plan", lambda _: "== Physical Plan ==\nProject (1)\n\n\n")
    [report] = tiny.run(day(2)).failed
    assert report.error is not None
    assert (report.error.code, report.error.why) == (
        "E775",
        "Spark moves rows between tasks for GROUP BY id (Exchange by id)",
    )
    [plan] = plans  # Spark 4.2 marks it as final only sometimes, when its last stage is the write
    assert len(exchanges_in(plan)) == 1
    assert tiny.rows("SELECT * FROM made.sums") == []


CAUSES = {
    "distinct": ("WITH f AS (SELECT * FROM raw.facts) SELECT DISTINCT id FROM f", "DISTINCT or GROUP BY id"),
    "joined": ("SELECT /*+ MERGE(g) */ f.id FROM raw.facts f JOIN raw.facts g ON f.id = g.v", "a JOIN on id"),
    "scalar": ("SELECT id, v - (SELECT max(v) FROM raw.facts) AS v FROM raw.facts", "an aggregate of all rows"),
    "some": ("WITH f AS (SELECT * FROM raw.facts) SELECT id FROM f LIMIT 3", "LIMIT"),
    "least": ("WITH f AS (SELECT * FROM raw.facts) SELECT id FROM f ORDER BY id, v LIMIT 3", "ORDER BY with LIMIT"),
    "hinted": ("SELECT /*+ REPARTITION(3) */ id FROM raw.facts", "a REPARTITION"),
    "keyed": ("SELECT id, v FROM raw.facts", "OVER (PARTITION BY id"),
}


def test_the_part_of_the_query_is_named(spark: SparkSession, tmp_path: Path) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, 1)
    columns = {"keyed": "(id BIGINT KEY ORDER BY (v) ELSE DROP, v BIGINT)"}
    tiny.declare(
        FACTS
        + "".join(
            f"TRANSFORM made.{name} PARTITIONED {columns.get(name, '')} SHUFFLE NONE AS {query};\n"
            for name, (query, _) in CAUSES.items()
        )
    )
    failed = {report.group.table: report.error for report in tiny.run(day(2)).failed}
    assert sorted(failed) == sorted(f"made.{name}" for name in CAUSES)
    for name, (_, cause) in CAUSES.items():
        error = failed[f"made.{name}"]
        assert error is not None
        assert error.code == "E775"
        assert f"rows between tasks for {cause}" in (error.why or "")


def test_the_rows_of_a_shared_view_are_part_of_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    tiny = Tiny(tmp_path, spark)
    fill(tiny, 1)
    view = f"CREATE VIEW stg.sums SHARED AS {SUMS.format('raw.facts')};\n"
    head = "TRANSFORM made.{} PARTITIONED {} AS SELECT id, v FROM stg.sums;\n"
    tiny.declare(FACTS + view + head.format("a", "SHUFFLE NONE") + head.format("b", "") + head.format("c", ""))
    [report] = tiny.run(day(2)).failed
    assert (report.error is not None and report.error.code, report.group.table) == ("E775", "made.a")
    assert [tiny.done(f"made.{name}") for name in "bc"] == [labels(1)] * 2


def test_of_an_adaptive_plan_the_final_form_counts(spark: SparkSession, tmp_path: Path) -> None:
    left = spark.range(0, 1000, 1, 2).selectExpr("id % 10 AS k", "id AS v")
    right = left.groupBy("k").agg(F.max("v").alias("m"))
    rows = left.hint("merge").join(right, "k")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        path = str(tmp_path / "rows")
        first = exchanges_in(first_plan(rows))
        rows.write.parquet(path)
        plan: Any = final_plan(spark, path)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert "Initial Plan" in plan
    assert exchanges_in(plan) == first
    assert first == [Exchange("Exchange", "k", "a JOIN on k"), Exchange("Exchange", "k", "GROUP BY k")]
    assert final_plan(spark, str(tmp_path / "other")) is None


NO_METRICS = "Spark Connect does not show the metrics of tasks"
CONNECT = """
import sys
from pyspark.sql import SparkSession
from waterclock.engine.spark.exchanges import exchanges_in, final_plan, first_plan
from waterclock.engine.spark.shuffle_reads import find_largest_skew

spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(0, 100, 1, 2).selectExpr("id % 7 AS k", "id AS v")
print([str(each) for each in exchanges_in(first_plan(rows.groupBy("k").sum("v")))])
print([str(each) for each in exchanges_in(first_plan(rows.coalesce(1).groupBy("k").sum("v")))])
rows.write.mode("overwrite").parquet(sys.argv[1])
print(final_plan(spark, sys.argv[1]), [each.name for each in spark.catalog.listTables()])
try:
    print(find_largest_skew(spark, sys.argv[1]))
except LookupError as unknown:
    print(unknown)
spark.stop()
"""


@pytest.mark.slow
def test_over_connect_the_plan_before_the_batch_decides(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CONNECT, str(tmp_path / "rows")],
        capture_output=True,
        check=False,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['GROUP BY k (Exchange by k)']", "[]", "None []", NO_METRICS]
