"""Expressions over rows without some columns."""

from __future__ import annotations

import pytest

from waterclock.dpl.query.absent_columns import without_absent_columns

ABSENT = {"amount": "bigint", "date": "date", "at": "struct<`x`:int>"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("id > 0", "id > 0"),
        ("Amount > 0 AND `amount` <> 7", "CAST(NULL AS bigint) > 0 AND CAST(NULL AS bigint) <> 7"),
        ("s.amount > 0 OR name = 'amount'", "s.amount > 0 OR name = 'amount'"),
        ("date > DATE '2020-01-01'", "CAST(NULL AS date) > DATE '2020-01-01'"),
        ("date(day) > CAST(day AS DATE)", "date(day) > CAST(day AS DATE)"),
        ("at.x = 1", "CAST(NULL AS struct<`x`:int>).x = 1"),
        ("sum(amount) > 0.5 * last_good(sum(id))", "sum(CAST(NULL AS bigint)) > 0.5 * last_good(sum(id))"),
        ("exists(xs, amount -> amount > 1)", "exists(xs, amount -> amount > 1)"),
        ("skew(amount) < 3", "skew(CAST(NULL AS bigint)) < 3"),
    ],
)
def test_columns_that_rows_do_not_have_are_null(text: str, found: str) -> None:
    assert without_absent_columns(text, ABSENT) == found
