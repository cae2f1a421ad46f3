"""Defines rules that filter single rows of a batch as it is written: a row stays, is quarantined or is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.spark_sql import INTERNAL_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BROKEN = f"{INTERNAL_PREFIX}broken"
UNREAD = f"{INTERNAL_PREFIX}unread"
"""The hidden column with the text of a line that could not be read. It is NULL in all other rows."""
UNREAD_AS = "_raw"
"""The name of that text among the columns of a quarantined row."""
ROW_OUTCOME = f"{INTERNAL_PREFIX}fate"
QUARANTINE_DETAILS = f"{INTERNAL_PREFIX}aside"
MISSING = f"{INTERNAL_PREFIX}missing"
"""The column that lists, per row, the columns that its source does not have. It is part of the slice, not hidden."""
DELETED_ROW, ROW_LABEL = f"{INTERNAL_PREFIX}is_deleted", f"{INTERNAL_PREFIX}row_label"
"""The columns of a delivery that mark its deleted rows, and contain the older labels of its rows that become visible
again (NULL for rows of the delivered label). They are part of the slice, not hidden."""
_STORED = frozenset({MISSING, DELETED_ROW, ROW_LABEL})
ROW, MASK, HASH = "row", "broken", "hash"
FILE, FILE_ROW = "file", "file_row"
INPUT = "input"
"""The table that an input row was read from, if it was quarantined before the query. Rows of the query have none."""
QUARANTINE = "_quarantine"
"""The folder of a slice that contains its quarantined rows."""
QUARANTINED_INPUTS = "inputs_aside"
"""The folder of a stage for quarantined input rows until they are sealed, and the prefix of their final folders."""
ROW_KEPT, ROW_QUARANTINED, ROW_DROPPED = 0, 1, 2


def is_hidden(column: str) -> bool:
    """Return whether a column is not the table's, but an internal one of the row filter."""
    return column.startswith(INTERNAL_PREFIX) and column not in _STORED


@dataclass(frozen=True, slots=True)
class RowRule:
    """One rule on each row. `holds` is SQL that is TRUE for a row that satisfies it; empty for the rule on the key.

    `outcome` is the consequence for a row that breaks this rule and no rule before it. `is_alone`: for a row that
    breaks this rule, no other rule is checked.
    """

    name: str
    holds: str
    outcome: int = ROW_KEPT
    is_alone: bool = False


@dataclass(frozen=True, slots=True)
class RowFilter:
    """All rules of a table, at most 62. The rule on the key, with its columns, comes last.

    `is_unique`: keys must differ, and not only be present. `order`: SQL by which rows with the same key are sorted; the
    first one stays. If it is empty, none of them stays.
    """

    row_rules: tuple[RowRule, ...]
    keys: tuple[str, ...] = ()
    is_unique: bool = True
    order: tuple[str, ...] = ()

    @property
    def drops(self) -> bool:
        """Whether a rule of the table may drop rows, without keeping them in quarantine."""
        return any(row_rule.outcome == ROW_DROPPED for row_rule in self.row_rules)

    def bits(self, *outcomes: int) -> int:
        """Return the bits of all rules with one of these outcomes."""
        return sum(1 << at for at, row_rule in enumerate(self.row_rules) if row_rule.outcome in outcomes)


@dataclass(frozen=True, slots=True)
class RowFilterSettings:
    """The row filter to apply, and the columns of a row as received, in the format of `storage.slices.conform`.

    `row`: the hidden column that already contains the received row as JSON, if rows have different columns. `past`: the
    rows of the table's earlier labels in which a key is searched, or None. If it is given, there is only one label.
    """

    row_filter: RowFilter
    raw: Mapping[str, str]
    raw_schema: str
    row: str = ""
    past: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class FilterCounts:
    """The counts for one label: rows received, quarantined and dropped, and rows that broke each rule.

    `broken` counts every row that breaks a rule. `first` counts the removed rows by the first rule they broke, so that
    these counts add up to all removed rows.
    """

    rows: int
    quarantined: int
    dropped: int
    broken: Mapping[str, int]
    first: Mapping[str, int]


def count_broken_rules(row_filter: RowFilter, masks: Mapping[int, int], stayed: int) -> FilterCounts:
    """Count broken rules.

    `masks` has the number of rows by set of broken rules, `stayed` the number of rows that the filter kept.
    """
    out = row_filter.bits(ROW_QUARANTINED, ROW_DROPPED)
    broken = {row_rule.name: 0 for row_rule in row_filter.row_rules}
    first = {row_rule.name: 0 for row_rule in row_filter.row_rules if row_rule.outcome != ROW_KEPT}
    gone = {ROW_QUARANTINED: 0, ROW_DROPPED: 0}
    for mask, rows in masks.items():
        for at, row_rule in enumerate(row_filter.row_rules):
            broken[row_rule.name] += rows if mask & 1 << at else 0
        if mask & out:
            at = ((mask & out) & -(mask & out)).bit_length() - 1
            first[row_filter.row_rules[at].name] += rows
            gone[row_filter.row_rules[at].outcome] += rows
    return FilterCounts(stayed + sum(gone.values()), gone[ROW_QUARANTINED], gone[ROW_DROPPED], broken, first)
