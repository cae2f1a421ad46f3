"""A slice with quarantined rows is sealed again. No Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.slices import SCHEMA, hour, schema_json, sealed
from waterclock.storage.slices.manifest import MANIFEST, Manifest, read_manifest, seal
from waterclock.storage.slices.reseal import RecordedSlice, reseal
from waterclock.storage.slices.row_filter import HASH, QUARANTINE, QUARANTINE_DETAILS
from waterclock.storage.slices.rule_marks import quarantine_digest
from waterclock.storage.slices.statistics import read_files

NOTHING = "0:0:0"


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Return the manifest of a slice without rows and with two files of quarantined ones."""
    empty = sealed(str(tmp_path), hour(1), 7, [])
    place = tmp_path / empty.slice_path / QUARANTINE
    place.mkdir()
    for number in (1, 2):
        rows = pa.table({QUARANTINE_DETAILS: pa.array([{HASH: 5 * number}], pa.struct([(HASH, pa.int64())]))})
        pq.write_table(rows, place / f"part-{number}.parquet")
    aside = read_files(tmp_path, f"{empty.slice_path}/{QUARANTINE}")
    digest = quarantine_digest(str(tmp_path), aside)
    full = replace(empty, aside=aside, aside_schema="{}", aside_rules=("kind",), aside_digest=digest, digest=NOTHING)
    (tmp_path / empty.slice_path / MANIFEST).unlink()
    seal(str(tmp_path), full)
    return full


def again(folder: Path, manifest: Manifest) -> Manifest | None:
    known = RecordedSlice(manifest.table, manifest.label, 7, manifest.slice_path, 0, NOTHING, "c0", {})
    return reseal(cast("Any", None), str(folder), known, None, otherwise=schema_json(SCHEMA), complete=str)


def test_quarantined_rows_whose_files_are_intact_are_kept(tmp_path: Path, manifest: Manifest) -> None:
    """The manifest can be read, and one file of the quarantine is missing."""
    (tmp_path / manifest.aside[0].path).unlink()
    made = again(tmp_path, manifest)
    assert made is not None
    assert (made.aside, made.aside_rules, made.aside_digest) == (manifest.aside[1:], ("kind",), "1:0:10")
    assert read_manifest(str(tmp_path), manifest.slice_path) == made


def test_a_slice_whose_manifest_is_lost_has_no_quarantine(tmp_path: Path, manifest: Manifest) -> None:
    (tmp_path / manifest.slice_path / MANIFEST).write_text("{")
    made = again(tmp_path, manifest)
    assert made is not None
    assert made.aside == ()
