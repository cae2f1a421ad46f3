"""The number of shuffle partitions of a batch's session follows the size of its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.batch.transform import transform_parts
from waterclock.engine.reads.pin import pin
from waterclock.engine.reads.sizes import bytes_read, count_live_bytes, set_shuffle_partitions
from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner import Runner
from waterclock.storage import spark_settings
from waterclock.storage.spark_settings import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.engine.run_context import RunContext

pytestmark = pytest.mark.spark
FLOW = """
COLLECT raw.sales PARTITIONED (id INT, k STRING, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;
COLLECT raw.kinds (k STRING KEY, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at MERGE ORDER BY at;
"""
LATER = """
TRANSFORM marts.twice PARTITIONED AS
  SELECT s.k, count(*) AS n FROM raw.sales s JOIN raw.kinds USING (k) JOIN raw.sales o USING (id) GROUP BY s.k;
"""


def files_of(tiny: Tiny, table: str) -> int:
    folder = tiny.root / ".waterclock" / "tables" / table.replace(".", "/")
    return sum(file.stat().st_size for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts)


def test_the_input_size_of_a_group_sets_its_number_of_shuffle_partitions(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("sales", "id INT, k TEXT, at TEXT", [(n, "ab"[n % 2], f"2020-01-0{n} 12:00:00") for n in (1, 2)])
    tiny.declare(FLOW)
    tiny.run(day(2))
    assert not tiny.run(day(3)).failed
    tiny.declare(FLOW + LATER)
    set_to: list[str | None] = []
    with tiny.opened() as work:
        (group,) = Runner(work).plan(day(3)).groups
        pins = pin(work.ledger, work.lake, work.flow, group.batches).values()
        state = count_live_bytes(work.lake.folder("raw.kinds"))
        size = bytes_read(work.lake, work.flow, pins)
        assert size == files_of(tiny, "raw.sales") + state
        assert state > 0
        assert count_live_bytes(work.lake.folder("raw.none")) == 0
        monkeypatch.setattr(spark_settings, "_BYTES_A_PARTITION", size // 20)

        def watched(work: RunContext, session: SparkSession, *rest: Any) -> Any:
            set_to.append(session.conf.get(PARTITIONS))
            return transform_parts(work, session, *rest)

        monkeypatch.setattr("waterclock.engine.batch.transform_slices.transform_parts", watched)
        apply_flow(work, day(3))
        outcome = Runner(work).run_once(day(3))
        assert not outcome.failed, described(outcome)
    assert set_to == [str(-(-size // (size // 20)))]


def test_shuffle_partitions_set_in_a_session_are_never_lowered(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set(PARTITIONS, "40")
    set_shuffle_partitions(session, 2**30)
    assert session.conf.get(PARTITIONS) == "64"
    session.conf.set(PARTITIONS, "400")
    set_shuffle_partitions(session, 2**30)
    assert session.conf.get(PARTITIONS) == "400"
    session.conf.set(PARTITIONS, "4")
    set_shuffle_partitions(session, 2**20)
    assert session.conf.get(PARTITIONS) == "4"
