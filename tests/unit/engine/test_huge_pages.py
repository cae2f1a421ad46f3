"""The JVM requests huge pages only if the kernel provides them."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.engine.spark.session import _offers_huge_pages


@pytest.mark.parametrize(
    ("said", "offers"),
    [("always [madvise] never\n", True), ("[always] madvise never\n", True), ("always madvise [never]\n", False)],
)
def test_huge_pages_are_offered_unless_the_kernel_setting_is_never(said: str, offers: bool, tmp_path: Path) -> None:
    (tmp_path / "enabled").write_text(said, encoding="ascii")
    assert _offers_huge_pages(tmp_path / "enabled") is offers


def test_other_systems_have_none(tmp_path: Path) -> None:
    assert not _offers_huge_pages(tmp_path / "enabled")
