"""Two contents have the same digest exactly if they are equal (docs/decisions/digests-are-sums.md)."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from waterclock.storage.slices.digest import digest_of_row, digests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def digest_of(spark: SparkSession, query: str) -> str:
    """Digest the rows of a query without a timelabel."""
    found = digests(spark.sql(f"SELECT '0' AS timelabel, * FROM ({query})"))
    return digest_of_row(found["0"]) if found else "0:0:0"


def test_random_contents_have_equal_digests_exactly_where_they_are_equal(spark: SparkSession) -> None:
    dice = random.Random(7)

    def row() -> tuple[Any, ...]:
        return dice.choice([None, 0, 1]), dice.choice([None, 0, 1]), dice.choice([None, "", "a"])

    contents = [[row() for _ in range(dice.randrange(4))] for _ in range(600)]
    rows = [(str(number), *values) for number, content in enumerate(contents) for values in content]
    dice.shuffle(rows)
    frame = spark.createDataFrame(rows, "timelabel string, a int, b int, c string").repartition(3)
    found = digests(frame)
    by_content: dict[frozenset[Any], set[str]] = {}
    for number, content in enumerate(contents):
        digest = digest_of_row(found[str(number)]) if str(number) in found else "0:0:0"
        by_content.setdefault(frozenset(Counter(content).items()), set()).add(digest)
    assert all(len(same) == 1 for same in by_content.values())
    assert len({digest for same in by_content.values() for digest in same}) == len(by_content) > 100


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT 1 AS a, CAST(NULL AS INT) AS b", "SELECT CAST(NULL AS INT) AS a, 1 AS b"),
        ("SELECT 1 AS a", "SELECT 1 AS a UNION ALL SELECT 1"),
        ("SELECT 1 AS a, 2 AS b", "SELECT 2 AS a, 1 AS b"),
        ("SELECT 1 AS a", "SELECT 1 AS b"),
        ("SELECT 1 AS a", "SELECT 1L AS a"),
        ("SELECT 1.0 AS a", "SELECT 10 / 1.00 AS a"),
        ("SELECT '' AS a", "SELECT CAST(NULL AS STRING) AS a"),
        ("SELECT named_struct('x', 1, 'y', NULL) AS a", "SELECT named_struct('x', NULL, 'y', 1) AS a"),
        ("SELECT array(1, NULL) AS a", "SELECT array(NULL, 1) AS a"),
        ("SELECT array(1, NULL) AS a", "SELECT array(1) AS a"),
        ("SELECT map('a', 1) AS a", "SELECT map('a', 2) AS a"),
        ("SELECT array(TIMESTAMP'2018-01-01 00:00:00.000001') AS a", "SELECT array(TIMESTAMP'2018-01-01') AS a"),
        (
            "SELECT array(TIMESTAMP_NTZ'2018-01-01 00:00:00.000001') AS a",
            "SELECT array(TIMESTAMP_NTZ'2018-01-01') AS a",
        ),
        ("SELECT parse_json('{\"a\":1}') AS a", "SELECT parse_json('{\"a\":2}') AS a"),
        ("SELECT X'00' AS a", "SELECT X'0000' AS a"),
        ("SELECT array(X'00') AS a", "SELECT array(X'01') AS a"),
        ("SELECT CAST('NaN' AS DOUBLE) AS a", "SELECT CAST(NULL AS DOUBLE) AS a"),
        ("SELECT array('a,b') AS a", "SELECT array('a', 'b') AS a"),
    ],
)
def test_a_change_changes_the_digest(spark: SparkSession, one: str, other: str) -> None:
    assert digest_of(spark, one) != digest_of(spark, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT 1 AS a, 2 AS b", "SELECT 2 AS b, 1 AS a"),
        ("SELECT * FROM VALUES (1), (2) AS t(a)", "SELECT * FROM VALUES (2), (1) AS t(a)"),
        ("SELECT 0.0D AS a", "SELECT -0.0D AS a"),
        ("SELECT 1 AS a", "SELECT nvl(CAST(NULL AS INT), 1) AS a"),
    ],
)
def test_equal_contents_have_equal_digests(spark: SparkSession, one: str, other: str) -> None:
    assert digest_of(spark, one) == digest_of(spark, other)


def test_the_label_is_left_out(spark: SparkSession) -> None:
    frame = spark.sql("SELECT * FROM VALUES ('1', 5), ('2', 5) AS t(timelabel, a)")
    assert len({digest_of_row(row) for row in digests(frame).values()}) == 1


@pytest.mark.parametrize("number", [200_000, pytest.param(2_000_000, marks=pytest.mark.soak)])
def test_many_rows_do_not_overflow(spark: SparkSession, number: int) -> None:
    digest = digest_of(spark, f"SELECT id FROM range({number})")
    rows, _, low = map(int, digest.split(":"))
    assert rows == number
    assert low == pytest.approx(rows * 2**31, rel=0.01)
