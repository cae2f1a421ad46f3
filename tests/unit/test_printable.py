"""Invisible characters are printed visibly, and confusable texts are found."""

from __future__ import annotations

import pytest

from waterclock.printable import look_alike, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("pass\u00adword \u2060\u3164", r"pass\xadword \u2060\u3164"),
        ("id\U000e0041\U000e007f", r"id\U000e0041\U000e007f"),
        ("a\u200db \u200cc", r"a\u200db \u200cc"),
        ("a\ufe0fb", r"a\ufe0fb"),
        ("\u061ca", r"\u061ca"),
    ],
)
def test_invisible_characters_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "\U0001f468\u200d\U0001f469",
        "\u2764\ufe0f\u200d\U0001f525",
        "1\ufe0f\u20e3",
        "\u845b\U000e0100",
    ],
)
def test_joiners_that_a_script_needs_are_kept(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a", "b", False),
        ("a", "a ", True),
        ("p\u0430y", "pay", True),
        ("2020\u201301", "2020-01", True),
        ("\u845b\U000e0100", "\u845b", True),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u062e", True),
        ("M\u00fcller", "Muller", False),
        ("10", "l0", False),
        ("\u4e2d", "\ud55c", False),
    ],
)
def test_texts_that_readers_cannot_distinguish_are_found(one: str, other: str, *, expected: bool) -> None:
    assert look_alike(one, other) is expected
