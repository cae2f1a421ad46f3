"""The families of types of expressions, as far as checks need them."""

from __future__ import annotations

import pytest
from sqlglot import parse_one

from waterclock.dpl.query.type_families import Family, family_of, family_of_type

COLUMNS = {"d": Family.FLOATING, "n": Family.OTHER, "at": Family.TIMESTAMP, "s": Family.NESTED}


@pytest.mark.parametrize(
    ("written", "family"),
    [
        ("DOUBLE", Family.FLOATING), ("float", Family.FLOATING), ("REAL", Family.FLOATING),
        ("DECIMAL(10, 2)", Family.OTHER), ("ARRAY<DOUBLE>", Family.NESTED), ("struct<a: INT>", Family.NESTED),
        ("MAP<STRING, INT>", Family.NESTED), ("TIMESTAMP_NTZ", Family.TIMESTAMP), ("DATE", Family.DATE),
    ],
)  # fmt: skip
def test_the_family_of_a_written_type(written: str, family: Family) -> None:
    assert family_of_type(written) is family


@pytest.mark.parametrize(
    ("expression", "family"),
    [
        ("d", Family.FLOATING), ("CAST(n AS FLOAT)", Family.FLOATING), ("coalesce(d, n)", Family.FLOATING),
        ("max(d)", Family.FLOATING), ("CAST(d AS DECIMAL(18, 2))", Family.OTHER), ("array(n)", Family.NESTED),
        ("array(INTERVAL 1 DAY)", Family.INTERVAL), ("CAST(n AS ARRAY<INT>)", Family.NESTED), ("s", Family.NESTED),
        ("struct(n, d)", Family.NESTED), ("named_struct('a', n)", Family.NESTED), ("map('a', n)", Family.NESTED),
        ("at - at", Family.INTERVAL), ("CAST(NULL AS ARRAY<STRING COLLATE UTF8_LCASE>)", Family.COLLATED),
    ],
)  # fmt: skip
def test_the_family_of_an_expression(expression: str, family: Family) -> None:
    tree = parse_one(expression, dialect="databricks")
    assert family_of(tree, lambda column: COLUMNS.get(column.name)) is family
