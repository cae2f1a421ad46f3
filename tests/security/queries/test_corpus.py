"""Four hundred hostile queries are refused twice: by the checks of the text, and by those of Spark's plan alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from tests.security.queries.corpus import hostile_queries
from tests.tiny import Tiny, day
from waterclock.engine.query.query import query
from waterclock.engine.spark.queries import build_query_frame
from waterclock.errors import ProjectErrors, WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
CANARY = "canary-7391"
# these read during planning, or are invisible in the plan: only the checks of the text refuse them
_BEFORE_THE_PLAN = ("range(CAST(reflect", "IDENTIFIER(reflect", "from_xml(", "from_avro(", "from_protobuf(")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("corpus"), spark)
    tiny.source("sales", "id INTEGER, at TEXT", [(1, "2020-01-01 10:00:00")])
    tiny.declare("COLLECT shop.sales PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;")
    tiny.run(day(2))
    return tiny


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("paths")
    (folder / "secret.txt").write_text(f"x\n{CANARY}\n", encoding="utf-8")
    spark.sql(f"SELECT '{CANARY}' AS id").write.format("delta").save(str(folder / "delta"))
    return {"secret": str(folder / "secret.txt"), "marker": str(folder / "marker"), "delta": str(folder / "delta")}


@pytest.fixture(autouse=True)
def _canary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_CANARY", CANARY)


def test_each_is_refused_by_its_text(tiny: Tiny, paths: dict[str, str]) -> None:
    answered, late, told = list[tuple[str, Any]](), list[tuple[str, str]](), list[str]()
    with tiny.opened() as work:
        for text in hostile_queries(**paths):
            try:
                answer = query(work, text, limit=10)
            except ProjectErrors as errors:
                told += [text] if CANARY in str(errors) else []
            except WaterclockError as error:
                late.append((text, error.code))
            else:
                answered.append((text, answer.rows))
    is_comment = [(text, rows) for text, rows in answered if text.startswith(("SELECT 'a' AS x -- \\", "SELECT /*+"))]
    assert [each for each in answered if each not in is_comment] == []
    assert CANARY not in str(answered)
    assert (late, told) == ([], [])
    assert not Path(paths["marker"]).exists()


def test_each_is_refused_by_its_plan(spark: SparkSession, paths: dict[str, str]) -> None:
    session = spark.newSession()
    session.range(2).createOrReplaceTempView("sales")
    refused, ran, answered = list[str](), list[str](), list[Any]()
    for text in hostile_queries(**paths):
        if any(piece in text for piece in _BEFORE_THE_PLAN):
            continue
        try:
            rows = build_query_frame(session, text.replace("shop.sales", "sales"), {})
        except (WaterclockError, PySparkException) as error:
            refused.append(getattr(error, "code", ""))
        else:
            ran.append(text)
            answered += rows.limit(10).collect()
    assert CANARY not in str(answered)
    assert not Path(paths["marker"]).exists()
    assert {row[0] for row in spark.read.format("delta").load(paths["delta"]).collect()} == {CANARY}
    assert set(refused) == {"E733", ""}
    assert all("system.builtin.range" in text or "/* /* */" in text for text in ran), ran


def test_there_are_at_least_three_hundred() -> None:
    assert len(set(hostile_queries(secret="s", marker="m", delta="d"))) > 300


def test_the_environment_holds_the_word() -> None:
    assert os.environ["WATERCLOCK_CANARY"] == CANARY
