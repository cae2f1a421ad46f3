"""Queries that tried to run commands, or to read files and the environment, on a project with real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day
from waterclock.errors import ProjectErrors, WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
HIDDEN = (
    "SELECT TRANSFORM('x') USING 'touch {marker}' AS (x STRING)",
    "SELECT value AS x FROM text.`{secret}`",
    "SELECT reflect('java.lang.System', 'getenv', 'WATERCLOCK_CANARY') AS x",
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("hostile"), spark)
    tiny.source("sales", "id INTEGER, at TEXT", [(1, "2020-01-01 10:00:00")])
    tiny.declare(
        "COLLECT shop.sales PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;\n"
        "TRANSFORM shop.priced PARTITIONED AS SELECT id, 'price ${amount}' AS price, '${env:WATERCLOCK_CANARY}' AS c\n"
        "  FROM shop.sales -- a comment that ends with \\\n  WHERE id > 0 /* and */;"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WATERCLOCK_CANARY", "canary")
        tiny.run(day(2))
    return tiny


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_comment_that_spark_would_continue_hides_no_code(hidden: str, tiny: Tiny, tmp_path: Path) -> None:
    secret, marker = tmp_path / "secret.txt", tmp_path / "marker"
    secret.write_text("canary", encoding="utf-8")
    code = hidden.format(secret=secret, marker=marker)
    query = f"SELECT 'a' AS x -- \\\n/*\nUNION ALL {code}\n-- \\\n*/"
    assert tiny.rows(query) == [("a",)]
    assert not marker.exists()
    with pytest.raises((ProjectErrors, WaterclockError)):
        tiny.rows(f"SELECT 'a' AS x UNION ALL {code}")
    assert not marker.exists()


def test_functions_of_the_flow_and_of_waterclock_are_no_code_of_strangers(tiny: Tiny) -> None:
    tiny_rows = tiny.rows("SELECT mask_text('Ab1', 0, 0), format_attribute(' a ') FROM shop.sales WHERE id IN (1)")
    assert tiny_rows == [("Xxn", "a")]
    with pytest.raises(WaterclockError, match="E730"):
        tiny.rows("SELECT nope FROM shop.sales")


def test_texts_are_kept_as_written(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_CANARY", "canary")
    assert tiny.rows("SELECT price, c FROM shop.priced") == [("price ${amount}", "${env:WATERCLOCK_CANARY}")]
    for name in ("env:WATERCLOCK_CANARY", "system:java.home", "spark.app.name", "amount"):
        assert tiny.rows(f"SELECT '${{{name}}}'") == [(f"${{{name}}}",)]


@pytest.mark.parametrize(
    "text", ["SELECT a://b", "SELECT reﬂect(1) FROM shop.sales", "SELECT $$ a $$", "SELECT 'it''s'"]
)
def test_text_that_spark_reads_differently_is_refused(text: str, tiny: Tiny) -> None:
    with pytest.raises((ProjectErrors, WaterclockError)):
        tiny.rows(text)
