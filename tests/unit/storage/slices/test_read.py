"""A file with another size than recorded is never read. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.slices import commit, hour, new_table, rows_of, sealed
from waterclock.errors import WaterclockError
from waterclock.storage.lake import Lake
from waterclock.storage.slices import read
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.quarantine_reading import quarantined_frame
from waterclock.storage.slices.read import frame_at, frame_of_slices

NO_SPARK: Any = None
EMPTY = b""
SHORTER = b"PAR1 and then nothing PAR1"


@pytest.mark.parametrize("content", [EMPTY, SHORTER])
def test_a_sealed_file_of_another_size_is_not_read(tmp_path: Path, content: bytes) -> None:
    folder = new_table(tmp_path)
    manifest = sealed(folder, hour(0), 7, rows_of(1, 2))
    [file] = manifest.files
    Path(folder, file.path).write_bytes(content)
    with pytest.raises(WaterclockError) as raised:
        frame_of_slices(NO_SPARK, folder, [manifest])
    found = raised.value
    assert (found.code, found.where) == ("E605", f"{folder}/{file.path}")
    assert found.what == "web.clicks@20180305080000 is damaged"
    assert found.why == f"part-00000.parquet has {len(content)} bytes, but was written with {file.size} bytes"
    assert found.fix == "run `waterclock recompute web.clicks@20180305080000`"


def test_quarantined_rows_in_a_file_of_another_size_are_not_read(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    whole = sealed(folder, hour(0), 7, rows_of(1))
    manifest = Manifest(**{**_fields_of(whole), "files": (), "aside": whole.files})
    Path(folder, whole.files[0].path).write_bytes(SHORTER)
    with pytest.raises(WaterclockError, match="E605"):
        quarantined_frame(NO_SPARK, folder, [manifest])


@pytest.mark.parametrize("most_read_directly", [500, 0])
def test_a_live_file_of_another_size_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_read_directly: int
) -> None:
    monkeypatch.setattr(read, "FILES_READ_DIRECTLY", most_read_directly)  # beyond it, Spark reads by the log
    folder = new_table(tmp_path)
    version = commit(folder, 7, {hour(0): rows_of(1)})
    file = next(Path(folder, "_stage").rglob("*.parquet"))
    file.write_bytes(SHORTER)
    with pytest.raises(WaterclockError, match="E605"):
        frame_at(NO_SPARK, folder, version, is_partitioned=False)


def test_a_file_of_a_publish_stage_names_the_publish(tmp_path: Path) -> None:
    folder = Lake(str(tmp_path)).folder("publish/shop.clicks")
    manifest = sealed(folder, hour(0), 7, rows_of(1))
    Path(folder, manifest.files[0].path).write_bytes(SHORTER)
    with pytest.raises(WaterclockError) as raised:
        frame_of_slices(NO_SPARK, folder, [manifest])
    assert raised.value.what == "shop.clicks@20180305080000 is damaged"


def test_file_sizes_in_a_bucket_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = new_table(tmp_path)
    manifest = sealed(folder, hour(0), 7, rows_of(1))
    asked: list[str] = []
    monkeypatch.setattr(read, "os", _Asked(asked.append))
    monkeypatch.setattr(read, "_frame_of_paths", lambda *_: None)
    frame_of_slices(NO_SPARK, "s3://lake/flights/tables/web/clicks", [manifest])
    assert not asked


class _Asked:
    def __init__(self, stat: Callable[[str], object]) -> None:
        self.stat = stat


def _fields_of(manifest: Manifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in Manifest.__dataclass_fields__}
