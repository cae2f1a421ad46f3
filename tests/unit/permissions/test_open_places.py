from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.permissions.open_places import find_open_places


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder whose parents every user can enter, independent of the test run's folders."""
    lets_in = "waterclock.permissions.open_places._lets_in"
    monkeypatch.setattr(
        lets_in, lambda folder, bits: not folder.is_relative_to(tmp_path) or bool(folder.stat().st_mode & bits)
    )
    tmp_path.chmod(0o755)
    monkeypatch.setattr("waterclock.permissions.open_places.is_private_group", lambda *_: False)
    return tmp_path


def made(folder: Path, mode: int) -> Path:
    folder.mkdir()
    folder.chmod(mode)
    return folder


@pytest.mark.parametrize(
    ("mode", "who"),
    [
        (0o700, None),
        (0o755, "every user of this machine"),
        (0o701, "every user of this machine"),
        (0o750, "its group"),
        (0o2770, None),
        (0o2775, "every user of this machine"),
    ],
)
def test_a_folder_is_open_by_its_mode(root: Path, mode: int, who: str | None) -> None:
    folder = made(root / "storage", mode)
    assert [(each.path, each.who) for each in find_open_places([folder])] == ([(folder, who)] if who else [])


def test_a_closed_folder_above_protects_a_file(root: Path) -> None:
    above = made(root / "closed", 0o700)
    file = above / "ledger.db"
    file.write_text("x")
    file.chmod(0o644)
    assert list(find_open_places([file])) == []
    above.chmod(0o711)
    assert [each.mode for each in find_open_places([file])] == [0o644]


def test_a_file_in_a_folder_with_setgid_may_be_its_groups(root: Path) -> None:
    above = made(root / "shared", 0o2770)
    file = above / "ledger.db"
    file.write_text("x")
    file.chmod(0o660)
    assert list(find_open_places([file])) == []
    above.chmod(0o770)
    assert [each.who for each in find_open_places([file])] == ["its group"]


def test_the_private_group_of_the_owner_is_the_owner(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(root / "own", 0o770)
    monkeypatch.setattr("waterclock.permissions.open_places.is_private_group", lambda *_: True)
    assert list(find_open_places([folder])) == []


def test_missing_places_are_not_reported(root: Path) -> None:
    assert list(find_open_places([root / "none", root / "none" / "below"])) == []
