"""Versions of columns: new ones, known ones, and the one that applies to a label."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from waterclock.batches.schemas import (
    SchemaVersion,
    Side,
    change_at,
    changes_of,
    find_matching_version,
    version_in_effect,
)
from waterclock.flow.schema_changes import change_between

ZERO = datetime(2020, 1, 1, tzinfo=UTC)
SHAPES: tuple[dict[str, str], ...] = (
    {"a": "BIGINT"},
    {"a": "INT"},
    {"a": "bigint", "b": "STRING"},
    {"B": "STRING"},
    {},
)


def day(number: int) -> datetime:
    return ZERO + timedelta(days=number)


def version(number: int, label: int, shape: int, side: Side = Side.SOURCE) -> SchemaVersion:
    return SchemaVersion(side, number, day(label), number, SHAPES[shape], ZERO)


def test_a_schema_change_lists_new_removed_and_retyped_columns() -> None:
    change = change_between(
        {"A": "BIGINT", "gone": "INT", "n": "DECIMAL(10, 2)"}, {"a": "long", "N": "STRING", "x": "DATE"}
    )
    assert change.words() == ["new: x DATE", "gone: gone INT", "changed: N from DECIMAL(10, 2) to STRING"]
    assert not change_between({"a": "BIGINT", "b": "INT"}, {"B": "integer", "A": "long"}), "order, case and spelling"


def test_old_labels_that_bring_old_columns_are_no_news() -> None:
    versions = [version(1, 1, 0), version(2, 5, 2)]
    assert find_matching_version(versions, Side.SOURCE, day(3), SHAPES[0]) == versions[0], (
        "the columns of the label before it"
    )
    assert find_matching_version(versions, Side.SOURCE, day(3), SHAPES[2]) == versions[1], (
        "the columns of the last batch"
    )
    assert find_matching_version(versions, Side.SOURCE, day(6), SHAPES[0]) is None, (
        "columns that existed before are a change again"
    )
    assert find_matching_version(versions, Side.TABLE, day(6), SHAPES[2]) is None
    change = change_at(versions, Side.SOURCE, day(6), SHAPES[0])
    assert change is not None
    assert change.words() == ["gone: b STRING"]
    assert change_at(versions, Side.TABLE, day(6), SHAPES[0]) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, len(SHAPES) - 1)), max_size=20))
def test_the_columns_of_every_label_can_be_looked_up(batches: list[tuple[int, int]]) -> None:
    """Batches in any order of labels: a version is recorded only if neither neighbour has the columns."""
    versions: list[SchemaVersion] = []
    newest: int | None = None  # the shape written down last
    written: list[tuple[int, int]] = []  # label and shape, in the order written
    for label, shape in batches:
        before = [pair for pair in written if pair[0] <= label]
        at = max(range(len(before)), key=lambda each: (before[each][0], each)) if before else None
        wanted_new = shape != newest and (at is None or before[at][1] != shape)
        known = find_matching_version(versions, Side.SOURCE, day(label), SHAPES[shape])
        assert (known is None) is wanted_new
        if wanted_new:
            versions.append(version(len(versions) + 1, label, shape))
            written.append((label, shape))
            newest = shape
            held = version_in_effect(versions, Side.SOURCE, day(label))
            assert held is not None
            assert held.columns == SHAPES[shape]
    assert [change is None for _, change in changes_of(versions)] == [number == 0 for number in range(len(versions))]
