"""Texts that pass the checks have, for Spark's own lexer, the same quotations and no comments."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.spark_lexer import differences
from waterclock.dpl.syntax.tokens import check_adjacent_strings, statements_of
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTACK = "SELECT 'a' AS x -- \\\n/*\nUNION ALL SELECT TRANSFORM('x') USING 'id' AS (x STRING)\n-- \\\n*/"
SEEDS = (
    ATTACK,
    "SELECT /*+ BROADCAST(`a b`, c) */ r'\\d' AS d, R\"x\", br'c', 'it\\'s', \"q\\\"\", `n``m` FROM a.b -- end\\\n, c",
    "WITH t AS (SELECT 1e5, 1.5BD, .5D, 3L, X'0AFF', x -> y, :late, a::INT /* one /* two */ */) SELECT * FROM t",
    "FROM a |> WHERE b <=> 'c' |> SELECT d://e, \u017fum(f), $$g$$, {h}, ${i}, @j, '\\\\', 'k''l'",
)
PIECES = (
    *"'\"`\\-/*+\n\r\t ;#$:@rRxXbB1eEa\u017f\u0131|(){}[]<>=!%&\u00a0\u2028é😀",
    "--", "/*", "*/", "/*+", "\\\n", "\\'", '\\"', "''", '""', "``", "://", "r'", 'R"', "x'", "$$", "${a}",
    "USING 'id'", "SELECT", "text.`/etc/passwd`", "reflect(", "\r\n", "-- \\\n", "/*/*", "*/*/",
)  # fmt: skip
QUOTED = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER})
Lexer = Callable[[str], list[tuple[int, int]]]


@pytest.fixture(scope="module")
def spark_tokens(spark: SparkSession) -> Lexer:
    """Return a function that returns (start, end) of each token that Spark's lexer finds, blanks included."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    lexer_of = jvm.org.apache.spark.sql.catalyst.parser.SqlBaseLexer
    stream_of = jvm.org.apache.spark.sql.catalyst.parser.UpperCaseCharStream
    characters = jvm.org.antlr.v4.runtime.CharStreams
    token = re.compile(r"@-1,(\d+):(\d+)=")

    def tokens(text: str) -> list[tuple[int, int]]:
        lexer = lexer_of(stream_of(characters.fromString(text)))
        lexer.removeErrorListeners()
        found: list[tuple[int, int]] = []
        for match in token.finditer(lexer.getAllTokens().toString()):
            start, last = int(match[1]), int(match[2])
            if start == (found[-1][1] if found else 0):
                found.append((start, last + 1))
        return found

    return tokens


def mutations(count: int, seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(count):
        text = chance.choice(SEEDS)
        for _ in range(chance.randint(1, 6)):
            at, piece = chance.randrange(len(text) + 1), chance.choice(PIECES)
            text = text[:at] + piece + text[at + chance.choice((0, 0, 1, 2)) :]
        yield text


def require_same(text: str, spark_tokens: Lexer) -> bool:
    """Compare a text that passes the checks, token by token; return whether it passes."""
    statements, errors = statements_of(SourceText("query", text))
    if errors or len(statements) != 1:
        return False
    try:
        check_adjacent_strings(statements[0].source, statements[0].tokens)
    except WaterclockError:
        return False
    clean, tokens = statements[0].source.text, statements[0].tokens
    of_spark = spark_tokens(clean)
    assert of_spark[-1][1] == len(clean), text
    pieces = [(at, end, clean[at:end]) for at, end in of_spark]
    assert not [it for it in pieces if it[2].startswith("--") or re.match(r"/\*(?!\+)", it[2])], text
    opening = {(at, end) for at, end, it in pieces if it[0] in "'\"`" or it[:2].lower() in {"r'", 'r"'}}
    mine = {(token.start, token.end + 1) for token in tokens}
    prefixed = {(token.start + 1, token.end + 1) for token in tokens if token.token_type is TokenType.HEX_STRING}
    hints = [(token.start, token.end + 1) for token in tokens if token.token_type is TokenType.HINT]
    outside = {each for each in opening if not any(at <= each[0] < end for at, end in hints)}
    assert outside <= mine | prefixed, text
    written = [clean[token.start : token.end + 1] for token in tokens]  # 0x1F is a hex literal without quotes
    quoted = [token for token, it in zip(tokens, written, strict=True) if any(sign in it for sign in "'\"`")]
    assert {(token.start, token.end + 1) for token in quoted if token.token_type in QUOTED} <= opening, text
    return True


@pytest.mark.spark
def test_spark_finds_the_tokens_that_were_checked(spark_tokens: Lexer) -> None:
    passed = sum(require_same(text, spark_tokens) for text in (*SEEDS, *mutations(3_000, 1)))
    assert passed > 50


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_spark_finds_the_tokens_of_a_million_mutated_texts(seed: int, spark_tokens: Lexer) -> None:
    assert sum(require_same(text, spark_tokens) for text in mutations(100_000, 100 + seed)) > 1_000


def test_a_comment_that_spark_would_continue_ends_with_its_line() -> None:
    [statement], errors = statements_of(SourceText("query", ATTACK))
    assert errors == []
    assert statement.source.text.split() == ["SELECT", "'a'", "AS", "x"]
    assert statement.source.excerpt(0, 6).startswith("1 | SELECT 'a' AS x -- \\")


@pytest.mark.parametrize("text", ["SELECT a://b", "SELECT \u017fum(a)", "SELECT /*+ x('*/') */ 1", "SELECT r'a\\'b'"])
def test_text_that_spark_splits_differently_is_refused(text: str) -> None:
    try:
        _, errors = statements_of(SourceText("query", text))
    except TokenError:
        return
    assert {error.code for error in errors} & {"E279", "E201"}


def test_a_text_without_tokens_has_no_differences() -> None:
    assert list(differences("  \n ", [])) == []
