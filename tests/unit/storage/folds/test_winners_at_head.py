"""Late labels that the head decides, and those that need the fold of older states."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from waterclock.flow.merge_settings import Merge
from waterclock.storage.folds.winners_at_head import Restatement, is_decided_by_head
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import Manifest

ALL = ("timelabel", "k", "o", "op", "v")
SOME = ALL[:-1]
BY_ORDER = Merge(("k",), ("o",), "op = 'd'")
BY_LABEL = Merge(("k",), (), "op = 'd'")


def schema(columns: tuple[str, ...]) -> str:
    kinds = {"k": "integer", "o": "integer"}
    fields = [{"name": name, "type": kinds.get(name, "string"), "nullable": True, "metadata": {}} for name in columns]
    return json.dumps({"type": "struct", "fields": fields})


def sealed(
    number: int,
    columns: tuple[str, ...],
    orders: tuple[int | None, int | None],
    *,
    deletes: bool = False,
    rows: int = 9,
) -> Manifest:
    low, high = (json.dumps({} if order is None else {"o0": order}) for order in orders)
    return Manifest(
        table="raw.planes",
        label=datetime(2026, 1, number, tzinfo=UTC),
        claim=number,
        slice_path=f"_stage/c={number}",
        files=(),
        rows=rows,
        bytes=0,
        digest=None,
        schema=schema(columns),
        code="c",
        source={},
        sealed_at=datetime(2026, 2, 1, tzinfo=UTC),
        has_deletes=deletes,
        order_low=low,
        order_high=high,
    )


def is_decided(new: Manifest, *after: Manifest, merge: Merge = BY_ORDER, old: Manifest | None = None) -> bool:
    return is_decided_by_head(Restatement(Lake("/lake"), merge, schema(ALL), new, old, (), after))


@pytest.mark.parametrize("deletes", [False, True])
def test_a_late_slice_with_missing_columns_is_decided_if_newer_full_rows_sort_after_it(*, deletes: bool) -> None:
    late = sealed(2, SOME, (20, 29), deletes=deletes)
    assert is_decided(late)
    assert is_decided(late, sealed(3, ALL, (29, 35), deletes=True))  # at equal order the newer label wins
    assert not is_decided(late, sealed(3, ALL, (30, 39)), sealed(4, ALL, (28, 49)))
    assert not is_decided(late, sealed(3, ALL, (None, 39)))  # a row without an order is the lowest of all
    assert is_decided(late, sealed(3, ALL, (28, 49)), merge=BY_LABEL)


def test_a_late_slice_with_deletes_or_more_columns_than_newer_ones_is_left_to_the_fold() -> None:
    newer = sealed(3, SOME, (30, 39))
    assert is_decided(sealed(2, SOME, (20, 29)), newer)
    assert not is_decided(sealed(2, ALL, (20, 29)), newer)
    assert not is_decided(sealed(2, SOME, (20, 29), deletes=True), newer)
    assert is_decided(sealed(2, ALL, (20, 49)), sealed(3, SOME, (30, 39), rows=0))


def test_a_label_that_is_restated_with_fewer_columns_is_left_to_the_fold() -> None:
    old = sealed(2, ALL, (20, 29))
    assert not is_decided(sealed(2, SOME, (20, 29)), sealed(3, ALL, (30, 39)), old=old)
    assert is_decided(sealed(2, ALL, (20, 29)), sealed(3, ALL, (10, 39)), old=old)


def test_slices_without_an_order_in_their_manifest_are_left_to_the_fold() -> None:
    unknown = sealed(3, ALL, (30, 39))
    object.__setattr__(unknown, "order_low", None)
    assert not is_decided(sealed(2, SOME, (20, 29)), unknown)
