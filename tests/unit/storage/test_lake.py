"""Locations in the storage, and whether the storage supports a latch."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import put_if_absent
from waterclock.storage.lake import Lake, require_put_if_absent


def test_tables_publish_stages_and_slices_have_their_places() -> None:
    lake = Lake("/data/")
    assert lake.folder("web.clicks") == "/data/tables/web/clicks"
    assert lake.location("web.clicks") == "tables/web/clicks"
    assert lake.folder("publish/ops.delays") == "/data/publish/ops.delays"
    label = datetime(2018, 3, 5, 8, tzinfo=UTC)
    assert lake.slice_path(label, 7) == "_stage/y=2018/m=03/d=05/h=08/n=00/c=7"


def test_a_local_folder_supports_put_if_absent_and_is_left_clean(tmp_path: Path) -> None:
    require_put_if_absent(str(tmp_path / "new"))
    assert list((tmp_path / "new").iterdir()) == []


def test_a_storage_that_creates_a_file_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", shutil.copyfile)
    with pytest.raises(WaterclockError, match="E602 the storage cannot create a file only if it does not exist"):
        require_put_if_absent(str(tmp_path))


def test_a_storage_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: object) -> None:
        raise OSError(1, "operation not permitted")

    monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(WaterclockError, match="E602") as refused:
        require_put_if_absent(str(tmp_path))
    assert "not permitted" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_storage_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WaterclockError, match="E603 the storage cannot be written"):
        require_put_if_absent(str(tmp_path / "file"))


def test_a_file_is_put_once(tmp_path: Path) -> None:
    assert put_if_absent(tmp_path / "f", "one")
    assert not put_if_absent(tmp_path / "f", "two")
    assert (tmp_path / "f").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
