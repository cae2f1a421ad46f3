from __future__ import annotations

import pytest

from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.tokens import statements_despite_errors, statements_of, words_of
from waterclock.errors import WaterclockError


def texts(source: SourceText) -> list[str]:
    statements, _ = statements_of(source)
    return [statement.span.text for statement in statements]


def test_statements_end_at_semicolons_outside_of_strings_and_comments() -> None:
    source = SourceText("a.dpl", "A ';' b; -- c;\nD /* ; */ \"e;\" `f;` r'\\';; ;G")
    assert texts(source) == ["A ';' b", "D         \"e;\" `f;` r'\\'", "G"]


@pytest.mark.parametrize(
    ("broken", "column"),
    [("B 'x", 9), ('B "x', 9), ("B `x", 9), ("B /* x", 9), ("B X'GG'", 9), ("B r'x", 10), ("B /* /* */ x", 9)],
)
def test_an_unclosed_token_hides_no_statement_after_the_next_semicolon(broken: str, column: int) -> None:
    source = SourceText("a.dpl", f"A 'é'; {broken};\n C;\nD 'it\\'s'")
    statements, errors = statements_despite_errors(source)
    assert [statement.span.text for statement in statements] == ["A 'é'", "C", "D 'it\\'s'"]
    assert [error.where for error in errors] == [f"a.dpl:1:{column + 1}"]
    assert statements[2].span.place.line == 3


def test_two_broken_statements_are_two_errors() -> None:
    source = SourceText("a.dpl", "A;\nB X'0G';\nC;\nD 'x")
    statements, errors = statements_of(source)
    assert [statement.span.text for statement in statements] == ["A", "C"]
    assert [error.where for error in errors] == ["a.dpl:2:3", "a.dpl:4:3"]


def test_offsets_count_characters_beyond_the_basic_plane() -> None:
    source = SourceText("a.dpl", "A '\U0001f600'\n  B")
    statements, _ = statements_of(source)
    words = words_of(source, statements[0].tokens)
    assert source.text[words[2].start : words[2].end] == "B"
    assert str(source.place(words[2].start)) == "a.dpl:2:3"


def test_by_clauses_are_two_words_however_they_are_written() -> None:
    source = SourceText("a.dpl", "PARTITION BY ORDER   BY CLUSTER /* x */ BY SORT\nBY PARTITIONED BY")
    statements, _ = statements_of(source)
    words = words_of(source, statements[0].tokens)
    assert [word.upper for word in words] == (
        ["PARTITION", "BY", "ORDER", "BY", "CLUSTER", "BY", "SORT", "BY", "PARTITIONED", "BY"]
    )
    assert all(source.text[word.start : word.end].upper() == word.upper for word in words)


def test_a_query_begins_behind_the_as_outside_of_brackets() -> None:
    source = SourceText("a.dpl", "T a.b (c AS (SELECT)) EXPECT x AS y AS WITH z AS (SELECT 1) SELECT 2")
    statement = statements_of(source)[0][0]
    assert statement.query_at is not None
    assert source.text[statement.tokens[statement.query_at].start :].startswith("WITH z")


def test_touching_strings_are_refused_and_spaced_ones_are_not() -> None:
    source = SourceText("a.dpl", "A 'x' 'y'; B 'it''s'")
    first, second = statements_of(source)[0]
    assert len(words_of(source, first.tokens)) == 3
    with pytest.raises(WaterclockError, match="have no space between"):
        words_of(source, second.tokens)


def test_an_excerpt_of_a_long_line_is_cut_around_its_carets() -> None:
    source = SourceText("a.dpl", "x" * 300 + " here " + "y" * 300)
    line, carets = source.excerpt(301, 305).splitlines()
    assert len(line) < 140
    assert line[carets.index("^") :].startswith("here")


def test_places_and_offsets_are_each_others_inverse() -> None:
    source = SourceText("a.py", "ab\ncd\n", line=7, column=12)
    assert [str(source.place(offset)) for offset in (0, 1, 3)] == ["a.py:7:12", "a.py:7:13", "a.py:8:1"]
    assert [source.offset(source.place(offset)) for offset in range(6)] == list(range(6))
