"""The files of a project are read, and each folder is checked once for all files in it."""

from __future__ import annotations

from pathlib import Path

from tests.counting import calls_named
from waterclock.dpl.project_files import read_sources


def test_each_folder_of_many_files_is_checked_once(tmp_path: Path) -> None:
    folder = tmp_path / "flows" / "shop" / "orders"
    folder.mkdir(parents=True)
    for at in range(20):
        (folder / f"{at}.dpl").write_text("-- nothing\n")
    (read, errors), checks = calls_named(
        lambda: read_sources(tmp_path, ["flows/**/*.dpl"]), "require_trusted_subfolder"
    )
    assert (len(read), errors) == (20, [])
    assert checks == 3
