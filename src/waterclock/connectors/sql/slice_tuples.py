"""Yields the rows of a sealed slice as tuples of Python values, for drivers that take such rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.slice_rows import batches_of

if TYPE_CHECKING:
    import pyarrow as pa


def rows_of_slice(
    delivery: Delivery, convert: Callable[[pa.Array, str, str], list[Any]], *, with_marks: bool
) -> Iterator[tuple[Any, ...]]:
    """Yield rows as tuples of the columns' values.

    If the destination stores labels, the row's label follows. `with_marks` adds a flag for deleted rows. `convert`
    takes a column, its name in lower case and its Spark type, and returns its values.
    """
    names = [name for name, _ in delivery.columns]
    marks = [name for name in (delivery.deleted_column, delivery.label_column) if name]
    for batch in batches_of(delivery.files, names + marks):
        columns = [convert(batch.column(at), name.lower(), kind) for at, (name, kind) in enumerate(delivery.columns)]
        if delivery.is_by_label:
            row_labels = batch[delivery.label_column].to_pylist() if delivery.label_column else [None] * batch.num_rows
            columns.append([label or delivery.label_text for label in row_labels])
        if with_marks:
            deleted = (
                batch[delivery.deleted_column].to_pylist() if delivery.deleted_column else [False] * batch.num_rows
            )
            columns.append([bool(is_deleted) for is_deleted in deleted])
        yield from zip(*columns, strict=True)
