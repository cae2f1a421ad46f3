"""A slice that another table adopts gets its own files, also if those of the other table are links."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from tests.slices import hour, rows_of, sealed
from waterclock.storage.lake import Lake
from waterclock.storage.slices.hard_links import seal_linked_slice
from waterclock.storage.slices.manifest import Manifest


def seal_again(found: Manifest, source: Path, target: Path, label: datetime) -> Manifest:
    return seal_linked_slice(
        found,
        str(source),
        folder=str(target),
        lake=Lake(str(target.parent)),
        claim=8,
        label=label,
        code="x",
        name="t",
        source={},
    )


@pytest.fixture
def base(tmp_path: Path) -> tuple[Path, Manifest]:
    """Return a table with a slice, and a second one with links to its files, as a branch has."""
    found = sealed(str(tmp_path / "base"), hour(0), 7, rows_of(1, 2), files=2)
    for file in found.files:
        link = tmp_path / "branch" / file.path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(tmp_path / "base" / file.path)
    return tmp_path, found


def test_a_promoted_slice_of_links_is_not_made_of_links(base: tuple[Path, Manifest]) -> None:
    root, found = base
    linked = seal_again(found, root / "branch", root / "prod", hour(0))
    contents = [(root / "base" / file.path).read_bytes() for file in found.files]
    for file in found.files:  # the base removes its earlier version
        (root / "base" / file.path).unlink()
    assert [(root / "prod" / file.path).is_symlink() for file in linked.files] == [False, False]
    assert [(root / "prod" / file.path).read_bytes() for file in linked.files] == contents


def test_a_slice_of_links_that_a_branch_adopts_makes_no_second_name_for_files_of_its_base(
    base: tuple[Path, Manifest],
) -> None:
    root, found = base
    linked = seal_again(found, root / "branch", root / "branch", hour(0))
    assert all((root / "branch" / file.path).is_symlink() for file in linked.files)
    assert {(root / "base" / file.path).stat().st_nlink for file in found.files} == {1}
