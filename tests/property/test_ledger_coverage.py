"""The merged intervals in the ledger equal a set of days."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.ledgers import day, desk
from waterclock.ledger.store.schema import coverage
from waterclock.ledger.write.coverage import cover, uncover
from waterclock.timelabel.intervals import IntervalSet

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), min_size=1, max_size=4)
STEPS = st.lists(st.tuples(st.booleans(), SPANS), max_size=25)


@given(STEPS)
def test_covered_spans_are_a_set_of_days_kept_as_few_intervals(steps: list[tuple[bool, list[tuple[int, int]]]]) -> None:
    opened = desk()
    days: set[int] = set()
    with opened.ledger:
        for adds, spans in steps:
            asked = IntervalSet.from_intervals((day(low), day(low + length)) for low, length in spans)
            touched = {n for low, length in spans for n in range(low, low + length)}
            with opened.ledger._database.write() as write:
                (cover if adds else uncover)(write.connection, "a.x", asked)
            days = days | touched if adds else days - touched
        with opened.ledger._database.read() as connection:
            rows = [(row.low, row.high) for row in connection.execute(coverage.select().order_by(coverage.c.low))]
    assert {n for n in range(60) if any(low <= day(n) < high for low, high in rows)} == days
    assert all(high < low for (_, high), (low, _) in pairwise(rows))
    assert all(low < high for low, high in rows)
