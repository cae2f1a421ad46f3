"""A glob finds the files that pathlib finds, by both implementations."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.files.file_name_matching import _glob_paths

_FILES = ("a.csv", "b.CSV", "web/a.csv", "web/b.csv.gz", "web/click/a.csv", ".hid.csv", "web/.x/a.csv", "we[b]/a.csv")


@pytest.mark.parametrize(
    "pattern",
    ["*.csv", "web/*.csv*", "*/a.csv", "we?/[ab].csv", "we[[]b]/*.csv", "**/*.csv", "web/**/*.csv", "./web/*.csv",
     "web//*.csv", "web", "nothing/*.csv", "web/a.csv"],
)  # fmt: skip
def test_a_glob_finds_the_same_visible_files_as_pathlib(pattern: str, tmp_path: Path) -> None:
    for name in _FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob(pattern)}
    shown = {name for name in found if not any(part.startswith(".") for part in name.split("/"))}
    assert shown <= set(_glob_paths(tmp_path, pattern)) <= found


def test_a_folder_that_is_not_there_matches_nothing(tmp_path: Path) -> None:
    assert _glob_paths(tmp_path / "gone", "*.csv") == _glob_paths(tmp_path / "gone", "**/*.csv") == []
