"""The manifest seals a slice: it is written last and once, and read back unchanged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.slices import SCHEMA, hour, rows_of, schema_json, sealed
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.storage.slices.manifest import MANIFEST, Manifest, is_sealed, read_manifest, seal


def test_a_manifest_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    manifest = sealed(str(tmp_path), hour(0), 7, rows_of(1, 2, 3), files=2)
    full = replace(
        manifest,
        digest="3:-4:5",
        source={"file": "a.csv", "position": 3},
        has_deletes=True,
        order_high='{"o0":1}',
        order_low='{"o0":null}',
        delete_high='{"o0":1}',
        measured_for='[["n"], null]',
    )
    assert Manifest.from_json(full.to_json()) == full
    assert read_manifest(str(tmp_path), manifest.slice_path) == manifest
    assert (manifest.rows, len(manifest.files), manifest.schema) == (3, 2, schema_json(SCHEMA))


def test_a_slice_without_a_manifest_is_not_sealed(tmp_path: Path) -> None:
    manifest = sealed(str(tmp_path), hour(0), 7, rows_of(1))
    assert is_sealed(str(tmp_path), manifest.slice_path)
    (tmp_path / manifest.slice_path / MANIFEST).unlink()
    assert not is_sealed(str(tmp_path), manifest.slice_path)
    with pytest.raises(WaterclockError, match="E605 the slice is not sealed"):
        read_manifest(str(tmp_path), manifest.slice_path)


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"label": "20180305080000"}'])
def test_an_unreadable_manifest_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(WaterclockError, match="E605 the slice's manifest cannot be read"):
        read_manifest(str(tmp_path), "")


def test_a_slice_is_sealed_once(tmp_path: Path) -> None:
    manifest = sealed(str(tmp_path), hour(0), 7, rows_of(1))
    with pytest.raises(WaterclockError, match="E604 the slice is sealed already"):
        seal(str(tmp_path), manifest)


def test_a_crash_before_the_manifest_leaves_the_slice_unsealed(tmp_path: Path) -> None:
    def strike(point: str) -> None:
        if point == "seal":
            raise RuntimeError(point)

    with inject_faults(strike), pytest.raises(RuntimeError):
        sealed(str(tmp_path), hour(0), 7, rows_of(1))
    leaf = next(tmp_path.rglob("c=7"))
    assert [path.name for path in leaf.iterdir()] == ["part-00000.parquet"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/a.parquet", "a/../../b", "file:///etc/passwd", "s3://b/x"])
@pytest.mark.parametrize("is_aside", [False, True])
def test_a_manifest_that_leads_out_of_its_folder_is_refused(tmp_path: Path, path: str, is_aside: bool) -> None:
    manifest = sealed(str(tmp_path), hour(0), 7, rows_of(1))
    out = (replace(manifest.files[0], path=path),)
    leading = replace(manifest, aside=out) if is_aside else replace(manifest, files=out)
    (tmp_path / manifest.slice_path / MANIFEST).write_text(leading.to_json())
    with pytest.raises(WaterclockError, match="leads out of the table's folder"):
        read_manifest(str(tmp_path), manifest.slice_path)
    with pytest.raises(WaterclockError, match="leads out of the table's folder"):
        read_manifest(str(tmp_path), path)
