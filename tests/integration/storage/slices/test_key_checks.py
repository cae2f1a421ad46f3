"""Keys are checked for any column names, also those that a check uses internally."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.slices import hour
from waterclock.errors import WaterclockError
from waterclock.flow.merge_settings import Merge
from waterclock.storage.lake import Lake
from waterclock.storage.slices.key_checks import duplicate_keys, require_one_row_per_order
from waterclock.storage.slices.writer import write_slices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_keys_may_have_any_names(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    folder = lake.folder("raw.keys")
    schema = "`count` DOUBLE, count_all INT, _hash INT, _least INT, _most INT, _order INT, v INT"
    rows = [(1.5, 1, 1, 1, 1, 1, 1), (1.5, 1, 1, 1, 1, 1, 2), (2.5, 2, 2, 2, 2, 2, 3)]
    [manifest] = write_slices(
        spark.createDataFrame(rows, schema).coalesce(1),
        folder=folder,
        claim=1,
        labels=[hour(0)],
        lake=lake,
        code="c",
        name="raw.keys",
    ).manifests
    assert duplicate_keys(spark, folder, manifest, ["count_all"]) == [(1,)]
    assert duplicate_keys(spark, folder, manifest, ["count"]) == [(1.5,)]
    keys = ("_hash", "_least", "_most", "_order")
    with pytest.raises(WaterclockError, match="_hash = 1, _least = 1, _most = 1, _order = 1") as raised:
        require_one_row_per_order(spark, folder, manifest, Merge(keys, ("_order",)))
    assert raised.value.code == "E620"
