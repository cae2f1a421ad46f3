"""Quarantined rows of a person are found by the typed column and by the JSON of the row; those of others stay."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from waterclock.storage.folds.slices_without_rows import Persons, find_rows
from waterclock.storage.slices.manifest import DataFile, Manifest
from waterclock.storage.slices.row_filter import INPUT, QUARANTINE_DETAILS, ROW

ROWS = (
    (42, '{"buyer": "042", "n": "x"}', None),  # another form of the number
    (42, '{"_raw": "42,7,8"}', None),  # a line with too many fields
    (None, '{"buyer": "42", "n": "x"}', None),
    (43, '{"buyer": "43", "n": "42"}', None),
    (None, '{"id": "42", "n": "x"}', "raw.people"),  # a row of an input, by the columns of the input
    (None, '{"buyer": "42"}', "raw.people"),
)


def test_a_quarantined_row_is_found_in_each_form(tmp_path: Path) -> None:
    path = tmp_path / "kept-00000.parquet"
    details = [{ROW: text, INPUT: read} for _, text, read in ROWS]
    pq.write_table(
        pa.table({"buyer": pa.array([who for who, _, _ in ROWS], pa.int64()), QUARANTINE_DETAILS: details}), path
    )
    file = DataFile(path.name, path.stat().st_size, len(ROWS), "{}")
    at = datetime(2020, 1, 1, tzinfo=UTC)
    manifest = Manifest(
        table="raw.orders", label=at, claim=1, slice_path="", files=(), rows=0, bytes=0, digest=None, schema="{}",
        code="", source={}, sealed_at=at, aside=(file,),
    )  # fmt: skip
    found = find_rows(str(tmp_path), manifest, Persons(("Buyer",), frozenset({"42"}), {"raw.people": ("id",)}))
    assert found.aside[path.name].to_pylist() == [0, 1, 2, 4]
