from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from waterclock.specs.comparing import RowMark, compare, find_duplicate_rows

COLUMNS = ("carrier", "late", "mean")
Row = tuple[Any, ...]


def marks(expected: list[Row], got: list[Row], **how: Any) -> list[str]:
    return [str(line.mark) for line in compare(COLUMNS, expected, got, **how).lines]


def test_equal_rows_are_the_same_in_any_order() -> None:
    rows: list[Row] = [("AA", 1, 2.0), ("UA", 2, None)]

    found = compare(COLUMNS, rows, rows[::-1])

    assert found.is_same
    assert found.summary() == "rows are as expected"


def test_rows_with_the_same_key_are_compared_cell_by_cell() -> None:
    expected: list[Row] = [("AA", 3, 1.5), ("DL", 1, 1.0)]
    got: list[Row] = [("UA", 1, 1.0), ("AA", 2, 9.5)]

    found = compare(COLUMNS, expected, got, keys=("carrier",))

    assert found.summary() == "rows differ: 1 changed, 1 missing, 1 unexpected"
    assert found.text().splitlines() == [
        "  | carrier | late              | mean                  |",
        "~ | AA      | expected 3, got 2 | expected 1.5, got 9.5 |  changed",
        "- | DL      | 1                 | 1                     |  missing",
        "+ | UA      | 1                 | 1                     |  unexpected",
    ]


def test_without_keys_rows_with_at_least_half_of_their_cells_equal_count_as_changed() -> None:
    assert marks([("AA", 3, 1.5)], [("AA", 3, 2.5)]) == ["changed"]
    assert marks([("AA", 3, 1.5)], [("UA", 1, 1.5)]) == ["missing", "unexpected"]
    assert marks([("AA", 3, 1.5)], [("UA", 1, 0.5)]) == ["missing", "unexpected"]


def test_a_changed_row_is_paired_with_the_most_similar_one() -> None:
    found = compare(COLUMNS, [("AA", 3, 1.5)], [("AA", 1, 1.0), ("AA", 3, 2.0)])

    assert [line.got for line in found.lines] == [("AA", 3, 2.0), ("AA", 1, 1.0)]


def test_duplicate_rows_are_counted() -> None:
    row: Row = ("AA", 3, 1.5)

    assert marks([row, row], [row]) == ["same", "missing"]
    assert marks([row], [row, row]) == ["same", "unexpected"]
    assert marks([row], [row, row], keys=("carrier",)) == ["same", "unexpected"]


def test_with_additional_rows_allowed_only_missing_rows_count() -> None:
    assert marks([("AA", 3, 1.5)], [("UA", 1, 1.0), ("AA", 3, 1.5)], may_be_more=True) == ["same"]
    assert marks([("DL", 3, 1.5)], [("UA", 1, 1.0)], may_be_more=True) == ["missing"]


def test_a_duplicate_key_is_found_together_with_its_first_row() -> None:
    assert list(find_duplicate_rows([("AA", 1), ("UA", 1), ("AA", 2), ("AA", 3)], [0])) == [(2, 0), (3, 0)]
    assert list(find_duplicate_rows([(None,), (None,)], [0])) == [(1, 0)]


_ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2), st.sampled_from([0.5, 1.0])), max_size=5
)


@given(_ROWS, _ROWS)
def test_rows_are_the_same_exactly_where_they_are_equal_as_bags(one: list[Row], other: list[Row]) -> None:
    found = compare(COLUMNS, one, other)

    assert found.is_same == (sorted(map(repr, one)) == sorted(map(repr, other)))
    assert sum(line.expected is not None for line in found.lines) == len(one)
    assert sum(line.got is not None for line in found.lines) == len(other)
    assert all(line.wrong for line in found.lines if line.mark is RowMark.CHANGED)
