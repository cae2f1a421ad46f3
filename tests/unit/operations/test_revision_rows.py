"""Revisions are compared only if their values fit into memory: a small file may have large values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.slices import hour, rows_of, sealed
from waterclock.operations import revision_rows
from waterclock.storage.slices.manifest import Manifest

LONGEST = 10_000


def write_slice(folder: Path, rows: int) -> Manifest:
    """Seal a slice with the same long text in each row."""
    found = sealed(str(folder), hour(0), 7, rows_of(1))
    path = folder / found.files[0].path
    pq.write_table(pa.table({"id": range(rows), "text": ["x" * LONGEST] * rows}), path)
    file = replace(found.files[0], size=path.stat().st_size, rows=rows)
    return replace(found, files=(file,), rows=rows)


def test_values_beyond_the_limit_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revision_rows, "MOST_COMPARED_BYTES", 50 * LONGEST)
    monkeypatch.setattr(revision_rows, "_ROWS_AT_ONCE", 10)
    large, small = write_slice(tmp_path / "large", 1000), write_slice(tmp_path / "small", 20)
    assert large.files[0].size < 50 * LONGEST
    assert revision_rows._read_all_rows(str(tmp_path / "large"), large) is None
    loaded = sum(part.num_rows for part in revision_rows._read_columns(str(tmp_path / "large"), large, 1000))
    assert loaded <= 60
    read = revision_rows._read_all_rows(str(tmp_path / "small"), small)
    assert read is not None
    columns, rows = read
    assert (columns, [row[0] for row in rows]) == (("id", "text"), [*range(20)])


def test_the_first_rows_of_a_large_slice_are_shown(tmp_path: Path) -> None:
    found = write_slice(tmp_path, 100)
    parts = revision_rows._read_columns(str(tmp_path), found, revision_rows.MOST_SHOWN)
    assert len(revision_rows._convert(parts)[1]) == revision_rows.MOST_SHOWN
