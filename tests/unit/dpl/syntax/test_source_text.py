"""Excerpts of a source, with carets below a position."""

from __future__ import annotations

import pytest

from waterclock.dpl.syntax.source_text import SourceText


@pytest.mark.parametrize("sign", ["\t", "\f", "\v", "\x85", "\u2028", "\xa0", "\u3000"])
def test_an_excerpt_is_one_line_whatever_spaces_it_has(sign: str) -> None:
    text = f"SELECT{sign}a,{sign}b"
    assert SourceText("a.dpl", text).excerpt(10, 11) == "1 | SELECT a, b\n  |           ^"
