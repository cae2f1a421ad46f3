"""Cells of compared rows show invisible characters and those that would reverse the text."""

from __future__ import annotations

import pytest

from waterclock.ui.pages.label_rows import _cell_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\u202egnp.exe", r"a\u202egnp.exe"),
        ("a\x1b[2J", r"a\x1b[2J"),
        ("a\u200bb", r"a\u200bb"),
        ("Zoë\nb", "Zoë\nb"),
        (None, "NULL"),
    ],
)
def test_characters_that_are_not_visible_are_escaped(value: str | None, text: str) -> None:
    assert _cell_text(value) == text


def test_a_long_text_is_cut_before_it_is_escaped() -> None:
    assert len(_cell_text("\x00" * 10_000_000)) == 120
