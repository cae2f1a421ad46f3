"""The keys of a parent are distinct in the form in which they are compared. No Spark."""

from __future__ import annotations

import pytest

from waterclock.engine.batch.reference_checks import _comparable_sql


@pytest.mark.parametrize(
    ("own", "other", "written"),
    [
        ("string", "string", "`id`"),
        ("string", "bigint", "try_cast(`id` AS bigint)"),
        ("bigint", "string", "`id`"),
        ("bigint", "double", "CAST(`id` AS DOUBLE)"),  # 2^53 and 2^53 + 1 are one DOUBLE
        ("int", "float", "CAST(`id` AS DOUBLE)"),
        ("decimal(20,0)", "double", "CAST(`id` AS DOUBLE)"),
        ("decimal(20,0)", "float", "CAST(`id` AS DOUBLE)"),
        ("float", "double", "`id`"),
        ("double", "bigint", "`id`"),
        ("int", "bigint", "`id`"),
    ],
)
def test_a_key_is_written_as_spark_compares_it(own: str, other: str, written: str) -> None:
    assert _comparable_sql("`id`", own, other) == written
