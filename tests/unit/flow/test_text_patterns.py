"""Patterns of LIKE and RLIKE that forms search: which are translated, and that no text makes a search take long."""

from __future__ import annotations

import time

import pytest

from waterclock.connectors.forms.pattern_search import matches
from waterclock.flow.text_patterns import translate_like, translate_regex


@pytest.mark.parametrize(
    ("pattern", "found", "missing"),
    [
        ("^[A-Z]{2}-[0-9]{4}$", ["AB-1000", "AB-1000\n"], ["AB-10000", "ab-1000", "\nAB-1000"]),
        ("^(?:raw|finished)$", ["raw", "finished"], ["raws", ""]),
        ("a.c", ["abc", "xa\U0001f600c"], ["a\nc", "a\u2028c", "ac"]),
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        ("[^a-c_-]", ["d"], ["a-_"]),
        ("x{2,3}?y", ["xxy"], ["xy"]),
    ],
)
def test_a_regular_expression_is_searched(pattern: str, found: list[str], missing: list[str]) -> None:
    translated = translate_regex(pattern)
    assert translated is not None
    assert [text for text in found + missing if matches(translated, text)] == found


@pytest.mark.parametrize(
    "pattern",
    [r"\d", "(?i)a", "(?=a)", "a++", "a**", "*a", "a|*b", "a{2,1}", "a{,3}", "a{1000}", "[]a]", "[a&&b]", "[[a]]",
     "[a-c-e]", "[c-a]", "(x$)", "x$y", "(a", "a)", "a]", "a}", "^*", "(?<n>a)", "x" * 1001],
)  # fmt: skip
def test_parts_that_may_mean_something_else_are_left_to_spark(pattern: str) -> None:
    assert translate_regex(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "found", "missing"),
    [
        ("A_%", ["AB", "A\nB", "A\U0001f600"], ["A", "xAB"]),
        ("%.csv", ["a.csv", ".csv"], ["a.csvx", "acsv"]),
        ("", [""], ["a"]),
    ],
)
def test_a_like_pattern_is_searched(pattern: str, found: list[str], missing: list[str]) -> None:
    translated = translate_like(pattern)
    assert translated is not None
    assert [text for text in found + missing if matches(translated, text)] == found
    assert translate_like(rf"{pattern}\%") is None


def test_no_text_makes_a_search_take_long() -> None:
    begin = time.process_time()
    for pattern in ("^(a+)+$", "(a|a)*b", "a*a*a*a*b"):
        translated = translate_regex(pattern)
        assert translated is not None
        assert not matches(translated, "a" * 9_999 + "!")
    assert time.process_time() - begin < 2


def test_a_pattern_beyond_the_limits_of_the_search_is_refused() -> None:
    translated = translate_regex("((a{100}){100}){100}")
    assert translated is not None
    with pytest.raises(ValueError, match="Invalid regular expression"):
        matches(translated, "")
