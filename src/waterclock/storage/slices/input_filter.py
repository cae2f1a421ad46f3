"""Filters the rows that batches read, before their queries see them: rows pass, are quarantined or are dropped.

This is a separate pass over the inputs, before the query. Counts taken while a query runs could be wrong: it may read
only a part of its input, or all of it twice, and tasks may run twice. The separate pass also lets a batch fail on
unexpected rows before anything is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.files.filesystem import entry_path, is_folder, make_folder, move_folder, remove_folder
from waterclock.spark_sql import INTERNAL_PREFIX, quote_name, sql_text
from waterclock.storage.lake import STAGE
from waterclock.storage.slices.manifest import DataFile
from waterclock.storage.slices.row_filter import (
    BROKEN,
    HASH,
    INPUT,
    MASK,
    QUARANTINE,
    QUARANTINE_DETAILS,
    QUARANTINED_INPUTS,
    ROW,
    ROW_DROPPED,
    ROW_KEPT,
    ROW_OUTCOME,
    ROW_QUARANTINED,
    FilterCounts,
    RowFilter,
)
from waterclock.storage.slices.rule_marks import (
    ROW_TEXT,
    count_rule_masks,
    first_text,
    marks_text,
    outcome_text,
    row_json,
)
from waterclock.storage.slices.statistics import read_files
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

READ_BY = f"{INTERNAL_PREFIX}read_by"
"""The column with the label of the batch that reads a row; the row's own label may be another."""
_FOLDER_COLUMN = f"{INTERNAL_PREFIX}label"
_ROWS = "rows"


@dataclass(frozen=True, slots=True)
class InputFilter:
    """The rules on the rows that batches read from one table, `input`. No rule of `row_filter` checks a key.

    `first_bit`: the position of its first rule among all input rules of the batch.
    """

    input: str
    row_filter: RowFilter
    first_bit: int

    @property
    def may_quarantine(self) -> bool:
        """Whether a rule may quarantine rows of this input. These rows must then be written."""
        return bool(self.row_filter.bits(ROW_QUARANTINED))

    @property
    def pass_condition(self) -> str:
        """SQL that is TRUE for rows that the query may read; empty if it reads all."""
        return " AND ".join(
            f"({row_rule.holds})" for row_rule in self.row_filter.row_rules if row_rule.outcome != ROW_KEPT
        )


@dataclass(frozen=True, slots=True)
class InputCounts:
    """The counts of the rows that one batch reads: how many passed, and the results of aggregates over all of them."""

    filter_counts: FilterCounts
    answers: Mapping[str, Any] = field(default_factory=dict)


def count_input_rows(
    rows: DataFrame, of_input: InputFilter, labels: Sequence[datetime], values: Sequence[tuple[str, Column]]
) -> dict[datetime, InputCounts]:
    """Count broken rules and rows by the label of the reading batch, and compute the aggregates `values` over its rows.

    Cost: one job over the columns that the rules name, and one more over no rows if a batch reads none.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

    row_rules = of_input.row_filter.row_rules
    columns = [
        F.count(F.lit(1)).alias(_ROWS),
        *(column.alias(f"a{number}") for number, (_, column) in enumerate(values)),
    ]
    for number, row_rule in enumerate(row_rules):
        columns.append(F.expr(f"count_if({BROKEN} & {1 << number}L != 0)").alias(f"b{number}"))
        if row_rule.outcome != ROW_KEPT:
            columns.append(F.expr(f"count_if({first_text(of_input.row_filter)} = {1 << number}L)").alias(f"f{number}"))
    marked = rows.selectExpr("*", f"{marks_text(of_input.row_filter)} AS {BROKEN}")
    found = {row[READ_BY]: row.asDict() for row in marked.groupBy(READ_BY).agg(*columns).collect()}
    nothing: Mapping[str, Any] = {}
    if len(found) < len(labels):
        [row] = marked.limit(0).agg(*columns).collect()
        nothing = row.asDict()
    return {label: _build_counts(of_input, found.get(label_of(label), nothing), values) for label in labels}


def _build_counts(of_input: InputFilter, found: Mapping[str, Any], values: Sequence[tuple[str, Column]]) -> InputCounts:
    row_rules = of_input.row_filter.row_rules
    first = {
        row_rule.name: found[f"f{number}"] for number, row_rule in enumerate(row_rules) if row_rule.outcome != ROW_KEPT
    }
    gone = {
        outcome: sum(first[row_rule.name] for row_rule in row_rules if row_rule.outcome == outcome)
        for outcome in (ROW_QUARANTINED, ROW_DROPPED)
    }
    broken = {row_rule.name: found[f"b{number}"] for number, row_rule in enumerate(row_rules)}
    filter_counts = FilterCounts(found[_ROWS], gone[ROW_QUARANTINED], gone[ROW_DROPPED], broken, first)
    return InputCounts(filter_counts, {name: found[f"a{number}"] for number, (name, _) in enumerate(values)})


def input_scratch_folder(claim: int) -> str:
    """Return the folder for a claim's quarantined input rows, relative to the table's. `maintain` removes it."""
    return f"{STAGE}/{QUARANTINED_INPUTS}/c={claim}"


def quarantine_input_rows(
    rows: DataFrame, of_input: InputFilter, folder: str, scratch: str, labels: Sequence[datetime]
) -> dict[datetime, Counter[int]]:
    """Write the input rows to quarantine. Map each label to the number of rows by set of broken rules (a bit mask).

    For rows that pass or are dropped, only the broken rules are written. Since counts are taken from these files, they
    are exact even if tasks ran twice. Cost: one job over the inputs.
    """
    place = f"{scratch}/{of_input.input}"
    remove_folder(entry_path(folder, place))
    shown = {name: name for name in rows.columns if name != READ_BY}
    row = f"CASE WHEN {ROW_OUTCOME} = {ROW_QUARANTINED} THEN {row_json(shown)} END AS {ROW_TEXT}"
    broken = f"shiftleft({BROKEN}, {of_input.first_bit})"
    aside = (
        f"named_struct('{ROW}', {ROW_TEXT}, '{MASK}', {broken}, '{HASH}', CASE WHEN {ROW_OUTCOME} = {ROW_QUARANTINED} "
        f"THEN xxhash64({ROW_TEXT}, {broken}) END, '{INPUT}', {sql_text(of_input.input)}) AS {QUARANTINE_DETAILS}"
    )
    marked = rows.selectExpr("*", f"{marks_text(of_input.row_filter)} AS {BROKEN}").where(f"{BROKEN} != 0")
    with_outcome = marked.selectExpr("*", f"{outcome_text(of_input.row_filter)} AS {ROW_OUTCOME}")
    broken_rows = with_outcome.selectExpr(quote_name(READ_BY), BROKEN, ROW_OUTCOME, row)
    broken_rows = broken_rows.selectExpr(
        f"{READ_BY} AS {TIMELABEL}", f"{READ_BY} AS {_FOLDER_COLUMN}", ROW_OUTCOME, aside
    )
    broken_rows.write.partitionBy(_FOLDER_COLUMN, ROW_OUTCOME).parquet(str(entry_path(folder, place)))
    found = {}
    for label in labels:
        own = f"{place}/{_FOLDER_COLUMN}={label_of(label)}"
        masks: Counter[int] = Counter()
        for outcome in (ROW_KEPT, ROW_QUARANTINED, ROW_DROPPED):
            masks += count_rule_masks(folder, read_files(entry_path(folder), f"{own}/{ROW_OUTCOME}={outcome}"))
        found[label] = Counter({mask >> of_input.first_bit: rows for mask, rows in masks.items()})
    return found


@dataclass(frozen=True, slots=True)
class QuarantinedInputs:
    """The quarantined input rows of a claim's batches: their folder, the tables they are from, and each bit's rule."""

    scratch: str
    inputs: tuple[str, ...]
    rules: tuple[str, ...]

    def move_files(self, folder: str, label: datetime, slice_path: str) -> tuple[DataFile, ...]:
        """Move a label's files into the quarantine folder of its slice, which is not sealed yet. Cost: no Spark job."""
        found: tuple[DataFile, ...] = ()
        for number, name in enumerate(self.inputs):
            own = entry_path(
                folder, f"{self.scratch}/{name}/{_FOLDER_COLUMN}={label_of(label)}/{ROW_OUTCOME}={ROW_QUARANTINED}"
            )
            if is_folder(own):
                place = f"{slice_path}/{QUARANTINE}/{QUARANTINED_INPUTS}_{number}"
                make_folder(entry_path(folder, place).parent)
                move_folder(own, entry_path(folder, place))
                found += read_files(entry_path(folder), place)
        return found

    def clear(self, folder: str) -> None:
        """Remove the scratch folder and everything in it."""
        remove_folder(entry_path(folder, self.scratch))
