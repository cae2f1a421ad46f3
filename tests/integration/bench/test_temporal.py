from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.bench]

BENCH = Path(__file__).parents[3] / "bench"


def test_waterclock_and_duckdb_agree_and_polars_finds_equal_row_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    data, peers, temporal = (importlib.import_module(name) for name in ("temporal_data", "temporal_peers", "temporal"))
    data.write_all(tmp_path, data.Sizes(5_000))
    bench: Any = temporal.Bench(spark, tmp_path)

    bench.compare()

    assert peers.polars_versions(tmp_path, "even") == bench.versions().count()
    assert peers.polars_as_of(tmp_path, "facts_even", "at", "even") == 10_000
    assert peers.polars_as_of(tmp_path, "child", "rec_eff_time", "even") == bench.children(exact=False).count()
    assert peers.polars_texts(tmp_path) == 10_000
