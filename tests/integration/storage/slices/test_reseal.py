"""A slice without a manifest is sealed again with the measures of its table's mode."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from waterclock.flow.merge_settings import Merge
from waterclock.storage.lake import Lake
from waterclock.storage.schema_types import fields_of, schema_text, widen_schema
from waterclock.storage.slices.manifest import MANIFEST
from waterclock.storage.slices.reseal import RecordedSlice, reseal
from waterclock.storage.slices.writer import write_slices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_slice_that_is_older_than_columns_of_the_merge_is_sealed_again(spark: SparkSession, tmp_path: Path) -> None:
    lake, label = Lake(str(tmp_path)), datetime(2018, 3, 5, 8, tzinfo=UTC)
    folder = lake.folder("web.clicks")
    made = write_slices(spark.range(3), folder=folder, claim=7, labels=[label], lake=lake, code="c1").manifests[0]
    (Path(folder) / made.slice_path / MANIFEST).unlink()
    known = RecordedSlice("web.clicks", label, 7, made.slice_path, 3, made.digest, "c1", {})
    later = schema_text(spark.sql("SELECT '' AS op, 1 AS version, '' AS id").schema)
    again = reseal(
        spark,
        folder,
        known,
        Merge(("id",), ("version",), "op = 'd'"),
        otherwise=None,
        complete=lambda schema: widen_schema(schema, later) or schema,
    )
    assert again is not None
    assert (list(fields_of(again.schema)), again.digest) == (["timelabel", "id"], made.digest)
    assert (again.has_deletes, again.order_high, again.delete_high) == (False, '{"o0":null}', None)
