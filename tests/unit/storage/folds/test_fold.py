"""Slices with deletes that may sort after later rows are found by the measures in their manifests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from tests.model.flows import PLACE, collect
from tests.slices import hour, rows_of, schema_json, sealed
from waterclock.flow.declarations import Column, Columns
from waterclock.flow.enums import Mode
from waterclock.flow.merge_settings import Merge, Temporal
from waterclock.storage.folds import fold
from waterclock.storage.folds.fold import later_slices_with_deletes, slices_with_later_deletes
from waterclock.storage.folds.write_state import DELETED
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.manifest import MANIFEST, Manifest
from waterclock.storage.slices.order_bounds import fold_signature

SCHEMA = schema_json(
    pa.schema(
        [
            ("timelabel", pa.string()),
            ("k", pa.int64()),
            ("n", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
            ("gone", pa.bool_()),
        ]
    )
)
INT = pa.int64()
BY_NUMBER = Merge(("k",), ("n",), "gone")
BY_TIME = Merge(("k",), ("at",), "gone")


def measured(folder: Path, number: int, merge: Merge, *, order: str | None, deletes: bool = False) -> Manifest:
    """Seal a slice with one order for all its rows, measured for a declaration."""
    plain = sealed(str(folder), hour(number), number, rows_of(number))
    found = replace(
        plain,
        has_deletes=deletes,
        order_high=order,
        order_low=order,
        delete_high=order if deletes else None,
        measured_for=fold_signature(merge),
    )
    (folder / plain.slice_path / MANIFEST).write_text(found.to_json())
    return found


def test_only_deletes_ordered_above_a_later_row_are_read(tmp_path: Path) -> None:
    high = measured(tmp_path, 1, BY_NUMBER, order='{"o0":9}', deletes=True)
    low = measured(tmp_path, 2, BY_NUMBER, order='{"o0":3}', deletes=True)
    new = measured(tmp_path, 3, BY_NUMBER, order='{"o0":5}')
    paths = [high.slice_path, low.slice_path]
    assert slices_with_later_deletes(str(tmp_path), paths, [new], BY_NUMBER, SCHEMA) == (high,)


@pytest.mark.parametrize(
    ("before", "order"),
    [
        (BY_NUMBER, '{"o0":9}'),  # regression: compared as a time, the number was a TypeError of each batch
        # the slice was assumed to have no order, and its deletes to be older than all rows
        (Merge(("k",), (), "gone"), None),
        (Merge(("k",), ("at",), "n = 1"), '{"o0":"2026-01-01T00:00:00.000000Z"}'),
        (Merge(("k",), ("at",)), '{"o0":"2026-01-01T00:00:00.000000Z"}'),
    ],
)
def test_slices_measured_for_another_order_or_delete_are_read(tmp_path: Path, before: Merge, order: str | None) -> None:
    old = measured(tmp_path, 1, before, order=order)
    new = measured(tmp_path, 2, BY_TIME, order='{"o0":"2026-01-02T00:00:00.000000Z"}')
    found = slices_with_later_deletes(str(tmp_path), [old.slice_path], [new], BY_TIME, SCHEMA)
    assert [each.slice_path for each in found] == [old.slice_path]
    late = replace(new, label=hour(0))
    assert [each.slice_path for each in later_slices_with_deletes(late, [old], BY_TIME, SCHEMA)] == [old.slice_path]


def test_a_slice_measured_for_another_order_has_no_deletes_where_none_are_declared(tmp_path: Path) -> None:
    old = measured(tmp_path, 1, BY_NUMBER, order='{"o0":9}', deletes=True)
    new = measured(tmp_path, 2, Merge(("k",), ("at",)), order='{"o0":"2026-01-02T00:00:00.000000Z"}')
    assert not later_slices_with_deletes(new, [old], Merge(("k",), ("at",)), SCHEMA)


@dataclass
class Frame:
    """The columns of a frame, without Spark."""

    columns: list[str]

    def select(self, *names: str) -> Frame:
        return Frame([name.strip("`") for name in names])


def test_a_slice_without_the_columns_that_order_and_delete_rows_has_null_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: DELETE WHEN on a column newer than the slice failed in Spark whenever the slice was replaced."""
    older = sealed(str(tmp_path), hour(1), 1, [{"k": 1}], schema=pa.schema([("timelabel", pa.string()), ("k", INT)]))

    def read(_spark: Any, _folder: str, _manifests: Any, schema: str) -> Frame:
        return Frame(list(fields_of(schema)))

    def mark(rows: Frame, merge: Merge) -> Frame:
        assert {*merge.order_by, merge.delete_when} <= set(rows.columns)
        return Frame([*rows.columns, DELETED])

    monkeypatch.setattr(fold, "frame_of_slices", read)
    monkeypatch.setattr(fold, "mark_deletes", mark)
    rows = fold.own_rows(cast("Any", None), str(tmp_path), older, BY_NUMBER, SCHEMA)
    assert rows.columns == ["timelabel", "k", "n", DELETED]


@pytest.mark.parametrize(
    ("keyed", "added"),
    [
        (Merge(("k",), (), "Gone AND k > 0"), {"gone": "boolean"}),
        (Merge(("k",), (), "op = 'd'"), {"op": "string"}),
        (Merge(("k",), ("version",)), {"version": "long"}),
        (Temporal(("k",), "at", ("version",), "gone"), {"version": "long", "gone": "boolean"}),
        (Merge(("k",), (), "k = 0"), {}),
        (None, {}),
    ],
)
def test_columns_that_order_or_delete_rows_are_known_before_a_slice_has_them(
    keyed: Merge | Temporal | None, added: dict[str, str]
) -> None:
    types = {"k": "INT", "version": "BIGINT", "gone": "BOOLEAN", "op": None}
    declared = [Column(name, PLACE, type=kind) for name, kind in types.items()]
    table = replace(
        collect("raw.a", mode=Mode.MERGE, is_partitioned=False), columns=Columns(tuple(declared)), fold=keyed
    )
    plain = schema_json(pa.schema([("timelabel", pa.string()), ("k", INT)]))
    found = fields_of(fold.add_ordering_columns(plain, table))
    assert {name: field["type"] for name, field in found.items() if name not in fields_of(plain)} == added
