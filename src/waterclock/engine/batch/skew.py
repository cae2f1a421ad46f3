"""Measures the skew of a batch's query from Spark's metrics of the write of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waterclock.batches.skew import SKEW, UNKNOWN
from waterclock.engine.spark.shuffle_reads import find_largest_skew
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def can_be_skewed(table: Table) -> bool:
    """Return whether batches of a table may have an exchange whose skew is worth a report: those with a query."""
    return table.kind is Kind.TRANSFORM and not table.is_unshuffled


@contextmanager
def measure_skew(found: dict[str, Any], rows: DataFrame, path: str) -> Iterator[None]:
    """Write the skew of the job that writes rows to a path into `found`, as the measures of its labels.

    Nothing is written if no exchange moved rows by keys, or if one task read all of them and they are few. Cost: that
    of `find_largest_skew`. Raises no error of its own.
    """
    yield
    try:
        skew = find_largest_skew(rows.sparkSession, path)
    except LookupError as unknown:
        found[SKEW] = {UNKNOWN: str(unknown)}
        return
    if skew is not None:
        found[SKEW] = skew.as_json()
