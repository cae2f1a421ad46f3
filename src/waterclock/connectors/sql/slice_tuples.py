"""Yields the rows of a sealed slice as tuples of Python values, for drivers that take such rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.slice_rows import deliverable_batches_of
from waterclock.connectors.sql.exact_values import StoredColumn, require_stored_nulls

if TYPE_CHECKING:
    import pyarrow as pa


def rows_of_slice(
    delivery: Delivery,
    convert: Callable[[pa.Array, str, str], list[Any]],
    *,
    with_marks: bool,
    stored: Iterable[StoredColumn] = (),
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `row_batches_of_slice` one by one."""
    return chain.from_iterable(row_batches_of_slice(delivery, convert, with_marks=with_marks, stored=stored))


def row_batches_of_slice(
    delivery: Delivery,
    convert: Callable[[pa.Array, str, str], list[Any]],
    *,
    with_marks: bool,
    stored: Iterable[StoredColumn] = (),
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows in batches of limited size, as tuples of the columns' values.

    If the destination stores labels, the row's label follows. `with_marks` adds a flag for deleted rows. `convert`
    takes a column, its name in lower case and its Spark type, and returns its values. `stored` describes columns of the
    destination.
    Raises E812 for NULL where the destination stores another value.
    """
    import pyarrow.compute as pc

    names = [name for name, _ in delivery.columns]
    where = f"{delivery.publish}@{delivery.label_text}"
    marks = [name for name in (delivery.deleted_column, delivery.label_column) if name]
    for batch in deliverable_batches_of(delivery.files, names + marks):
        deleted = batch[delivery.deleted_column].fill_null(False) if delivery.deleted_column else None  # noqa: FBT003
        require_stored_nulls(batch if deleted is None else batch.filter(pc.invert(deleted)), stored, where)
        columns = [convert(batch.column(at), name.lower(), kind) for at, (name, kind) in enumerate(delivery.columns)]
        if delivery.is_by_label:
            row_labels = batch[delivery.label_column].to_pylist() if delivery.label_column else [None] * batch.num_rows
            columns.append([label or delivery.label_text for label in row_labels])
        if with_marks:
            columns.append([False] * batch.num_rows if deleted is None else deleted.to_pylist())
        yield list(zip(*columns, strict=True))
