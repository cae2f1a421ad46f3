"""Sessions in a process that already has a Spark context, as in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from waterclock.engine.spark.session import Sessions
from waterclock.engine.spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_context_that_is_there_is_used_and_not_stopped(spark: SparkSession, tmp_path: Path) -> None:
    sessions = Sessions(work_folder=tmp_path, settings=SparkSettings(confs={"spark.sql.shuffle.partitions": "5"}))
    assert sessions.own().sparkContext.applicationId == spark.sparkContext.applicationId
    assert sessions.own().conf.get("spark.sql.shuffle.partitions") == "5"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1", "the setting is unchanged"
    sessions.close()
    assert spark.sql("SELECT 1 AS one").collect()[0].one == 1
