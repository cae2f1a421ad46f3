"""Defines the result of making a batch: rows that are not written yet, and notes about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.engine.collect.collect_result import keep_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from waterclock.engine.run_context import RunContext
    from waterclock.storage.slices.manifest import Manifest
    from waterclock.storage.slices.row_filter import FilterCounts, RowFilterSettings


def _do_nothing() -> None:
    pass


def _count_nothing(label: datetime, rows: int) -> Mapping[str, int]:  # noqa: ARG001
    return {}


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes about a group's rows, and functions to call after they were written, recorded or failed.

    `source` maps labels to positions in the source, for the manifest. `set_aside`, called after the rows were written,
    counts rows that belong to no window. `without_parent`, called then with a label and its number of rows, counts by
    reference the rows whose parent is missing. `left_out` are columns that a closed list does not name.
    `before_commit`, called once the rows were written, raises if the source changed during the read. `after` is called
    once the group is recorded (it archives files); `close` is called at the end, whatever the result. `holds` maps
    labels that are held whatever their rows are to the reason.
    """

    source: Mapping[datetime, Mapping[str, Any]] = field(default_factory=dict)
    set_aside: Callable[[], Mapping[str, int]] = dict
    without_parent: Callable[[datetime, int], Mapping[str, int]] = _count_nothing
    left_out: tuple[str, ...] = ()
    after: Callable[[RunContext], None] = keep_source
    close: Callable[[], None] = _do_nothing
    before_commit: Callable[[], None] = _do_nothing
    holds: Mapping[datetime, str] = field(default_factory=dict)

    def parents_missing(self, manifest: Manifest, filter_counts: FilterCounts | None) -> Mapping[str, Any]:
        """Return a measure: the number of FLAT rows without a parent, by reference.

        No warning is given, because rows may lawfully have no parent.
        """
        found = self.without_parent(manifest.label, manifest.rows if filter_counts is None else filter_counts.rows)
        return {"without parent": dict(found)} if found else {}


@dataclass(frozen=True, slots=True)
class GroupPart:
    """The rows of some labels of a group, written by one Spark job. The column `timelabel` separates the labels.

    `may_be_empty`: all inputs were empty, so there may be no rows. `through`: the row filter to apply to the rows.
    `absent`: the columns of a MERGE or TEMPORAL table that the rows do not have (see `absent_columns_of`).
    """

    labels: tuple[datetime, ...]
    frame: DataFrame
    may_be_empty: bool = False
    through: RowFilterSettings | None = None
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MadeSlices:
    """The rows of a group in their declared types, not evaluated yet. `schema`: the table's schema after the commit."""

    parts: Sequence[GroupPart]
    schema: StructType
    notes: Notes
