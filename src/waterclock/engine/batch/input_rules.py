"""Evaluates rules on the inputs of a batch before its query runs, and removes the rows that break them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

from waterclock.batches.records import INPUTS_FOUND
from waterclock.dpl.query.aggregates import aggregates_of, expand_aggregates
from waterclock.engine.batch.expectations import RuleVerdict, batch_hold_error, refused_batch_error
from waterclock.engine.batch.multi_window_query import WINDOW, read_for_all_windows, read_same_rows, split_labels
from waterclock.engine.batch.row_filters import OUTCOMES, find_actions, measures_of, row_filter_of
from waterclock.engine.reads.pin import PinnedRead, frame_of
from waterclock.engine.reads.sizes import bytes_read, set_shuffle_partitions
from waterclock.engine.run_context import RunContext
from waterclock.flow.checks import input_checks, input_rules_of
from waterclock.flow.declarations import Read, Rule, Table
from waterclock.flow.enums import Action, Scope
from waterclock.spark_sql import quote_name, sql_text
from waterclock.storage.slices.input_filter import (
    READ_BY,
    InputCounts,
    InputFilter,
    QuarantinedInputs,
    count_input_rows,
    input_scratch_folder,
    quarantine_input_rows,
)
from waterclock.storage.slices.row_filter import RowFilter, RowRule, count_broken_rules
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class InputFindings:
    """The result of the rules on one batch's inputs: row counts by input table, and the findings of broken rules."""

    counts: Mapping[str, InputCounts] = field(default_factory=dict)
    findings: tuple[tuple[Action, str], ...] = ()

    def with_action(self, action: Action) -> tuple[str, ...]:
        """Return the texts of the findings with this action."""
        return tuple(text for action_of_text, text in self.findings if action_of_text is action)

    def measures(self) -> dict[str, Any]:
        """Return the measures to record with the batch: by input, rows read, rows removed, and rows by broken rule."""
        return (
            {INPUTS_FOUND: {name: measures_of(each.filter_counts) for name, each in self.counts.items()}}
            if self.counts
            else {}
        )


@dataclass(frozen=True, slots=True)
class InputRuleResult:
    """The results of input rules by label, and the quarantined input rows (None if no rule can quarantine rows)."""

    by_label: Mapping[datetime, InputFindings] = field(default_factory=dict)
    quarantined: QuarantinedInputs | None = None

    def for_label(self, label: datetime) -> InputFindings:
        """Return the result for one batch."""
        return self.by_label.get(label, InputFindings())

    def clear(self, folder: str) -> None:
        """Delete the scratch folder with quarantined input rows, after their batches were sealed or failed."""
        if self.quarantined is not None:
            self.quarantined.clear(folder)


def input_filters_of(table: Table) -> dict[str, InputFilter]:
    """Map each input table to the row filter of its rules. Its bits are numbered after those of the batch's own."""
    own = row_filter_of(table)
    bit = 0 if own is None else len(own.row_rules)
    found = {}
    for name, rules in input_rules_of(table).items():
        row_rules = tuple(RowRule(check.name, check.text, OUTCOMES[check.row_action]) for check in input_checks(rules))
        found[name] = InputFilter(name, RowFilter(row_rules), bit)
        bit += len(row_rules)
    return found


def filter_query_inputs(table: Table, frames: Mapping[Any, DataFrame]) -> dict[Any, DataFrame]:
    """Return a batch's inputs without the rows that input rules remove. FLATs and reads with options are unchanged."""
    input_filters = input_filters_of(table)
    return {read: _filter_rows(input_filters.get(_plain_table(read)), frame) for read, frame in frames.items()}


def filter_shared_input(table: Table, read: Read, frame: DataFrame) -> DataFrame:
    """Return an input that several batches of `table` share, without the rows that the table's input rules remove."""
    return _filter_rows(input_filters_of(table).get(_plain_table(read)), frame)


def _plain_table(read: object) -> str:
    """Return the table of a read that has no options such as HISTORY. Empty for all other reads."""
    return read.table if isinstance(read, Read) and read == Read(read.table) else ""


def _filter_rows(of_input: InputFilter | None, frame: DataFrame) -> DataFrame:
    return frame if of_input is None or not of_input.pass_condition else frame.where(of_input.pass_condition)


def evaluate_input_rules(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    pins: Mapping[datetime, Sequence[PinnedRead]],
    claim: int,
) -> InputRuleResult:
    """Evaluate the rules on the inputs of some batches, each on the rows that the batch reads.

    Cost: one job for each input table with rules. It scans the columns that the rules name. If rows are quarantined, it
    scans all columns and writes these rows. Another job then counts all rows, unless no rule has an aggregate and the
    ledger has the counts of the slices. See `_read_labelled_inputs` for the number of scans. Raises E740 if a rule
    fails its batch, E755 if a rule holds one of several batches.
    """
    set_shuffle_partitions(spark, bytes_read(work.lake, work.flow, map(tuple, pins.values())))
    input_filters = input_filters_of(table)
    counts_by_label: dict[datetime, dict[str, InputCounts]] = {label: {} for label in pins}
    scratch = input_scratch_folder(claim)
    for name, of_input in input_filters.items():
        read = {label: [each for each in own if _plain_table(each.read) == name] for label, own in pins.items()}
        read = {label: own for label, own in read.items() if own}
        if not read:
            continue  # another query of the table reads it
        rules = input_rules_of(table)[name]
        for label, counts in _count_inputs(work, spark, table, of_input, rules, read, scratch).items():
            counts_by_label[label][name] = counts
    aside = [of_input for of_input in input_filters.values() if of_input.may_quarantine]
    rules_of_bits = tuple(
        row_rule.name for of_input in input_filters.values() for row_rule in of_input.row_filter.row_rules
    )
    found = InputRuleResult(
        {
            label: InputFindings(counts, tuple(_list_findings(table, counts)))
            for label, counts in counts_by_label.items()
        },
        QuarantinedInputs(scratch, tuple(of_input.input for of_input in aside), rules_of_bits) if aside else None,
    )
    where = {label: f"{table.name}@{label_of(label)}" for label in pins}
    for label in pins:
        if failed := found.for_label(label).with_action(Action.FAIL):
            found.clear(work.folder(table))
            raise refused_batch_error(table, where[label], RuleVerdict(refusals=failed))
    held = [label for label in pins if found.for_label(label).with_action(Action.HOLD)]
    if held and len(pins) > 1:  # the group is split before any of it is made
        found.clear(work.folder(table))
        raise batch_hold_error(
            table, where[held[0]], RuleVerdict(holds=found.for_label(held[0]).with_action(Action.HOLD)), held
        )
    return found


def _count_inputs(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    of_input: InputFilter,
    rules: Sequence[Rule],
    read: Mapping[datetime, Sequence[PinnedRead]],
    scratch: str,
) -> dict[datetime, InputCounts]:
    labels = list(read)
    asked = [each for rule in rules if rule.scope is Scope.BATCH for each in _list_aggregates(rule)]
    if not of_input.may_quarantine:
        return dict(_count_input_rows(work, spark, of_input, read, asked))
    masks = quarantine_input_rows(
        _read_labelled_inputs(work, spark, read), of_input, work.folder(table), scratch, labels
    )
    totals = None if asked else _rows_of_slices(work, read)
    answers: Mapping[datetime, InputCounts] = {}
    if totals is None:
        answers = _count_input_rows(work, spark, InputFilter(of_input.input, RowFilter(()), 0), read, asked)
        totals = {label: counts.filter_counts.rows for label, counts in answers.items()}
    found = {}
    for label in labels:
        gone = count_broken_rules(of_input.row_filter, masks[label], 0)
        filter_counts = count_broken_rules(
            of_input.row_filter, masks[label], totals[label] - gone.quarantined - gone.dropped
        )
        found[label] = InputCounts(filter_counts, answers[label].answers if answers else {})
    return found


def _list_aggregates(rule: Rule) -> Iterator[tuple[str, Column]]:
    """Yield a rule's result over all rows, and each aggregate in it, as a name and a column."""
    yield rule.name, F.expr(expand_aggregates(rule.expression))
    for text in aggregates_of(rule.expression):
        yield _aggregate_key(rule, text), F.expr(expand_aggregates(text)).cast("string")


def _aggregate_key(rule: Rule, aggregate: str) -> str:
    return f"{rule.name}: {aggregate}"


def _count_input_rows(
    work: RunContext,
    spark: SparkSession,
    of_input: InputFilter,
    read: Mapping[datetime, Sequence[PinnedRead]],
    asked: Sequence[tuple[str, Column]],
) -> Mapping[datetime, InputCounts]:
    """Count the input rows of each batch. An input that all batches share is counted once."""
    first, is_alike = next(iter(read)), all(len(own) == 1 for own in read.values())
    is_alike = is_alike and read_same_rows([own[0] for own in read.values()])
    of = {first: read[first]} if is_alike else read
    found = count_input_rows(_read_labelled_inputs(work, spark, of), of_input, list(of), asked)
    return dict.fromkeys(read, found[first]) if is_alike else found


def _read_labelled_inputs(
    work: RunContext, spark: SparkSession, read: Mapping[datetime, Sequence[PinnedRead]]
) -> DataFrame:
    """Return the input rows of batches, with the label of the batch. A row that several batches read is repeated.

    Cost: starts no job. An input that all batches share is scanned once. Slices are scanned together for groups of
    batches, which are as large as Spark lists quickly, and otherwise once for each batch.
    """
    frames: list[DataFrame] = []
    for share in split_labels(work, list(read), read):
        rows = _read_inputs_at_once(work, spark, {label: read[label] for label in share})
        frames += (
            [rows]
            if rows is not None
            else _read_inputs_one_by_one(work, spark, {label: read[label] for label in share})
        )
    return reduce(lambda left, right: left.unionByName(right), frames)


def _read_inputs_at_once(
    work: RunContext, spark: SparkSession, read: Mapping[datetime, Sequence[PinnedRead]]
) -> DataFrame | None:
    if len(read) == 1 or any(len(own) > 1 for own in read.values()):
        return None  # a PARTIAL batch reads several spans
    shown = [own[0] for own in read.values()]
    rows, is_alike = read_for_all_windows(work, spark, shown), read_same_rows(shown)
    if rows is None or (not is_alike and WINDOW in map(str.lower, rows.columns[:-1])):
        return None
    labels = f"array({', '.join(sql_text(label_of(label)) for label in read)})"
    own_labels = f"explode({labels})" if is_alike else f"element_at({labels}, {WINDOW} + 1)"
    return rows.selectExpr(*map(quote_name, rows.columns[: None if is_alike else -1]), f"{own_labels} AS {READ_BY}")


def _read_inputs_one_by_one(
    work: RunContext, spark: SparkSession, read: Mapping[datetime, Sequence[PinnedRead]]
) -> list[DataFrame]:
    return [
        frame_of(spark, work.lake, work.flow, each).withColumn(READ_BY, F.lit(label_of(label)))
        for label, own in read.items()
        for each in own
    ]


def _rows_of_slices(work: RunContext, read: Mapping[datetime, Sequence[PinnedRead]]) -> dict[datetime, int] | None:
    """Return the number of input rows of each batch, from the ledger. None if an input is a MERGE or TEMPORAL state."""
    if any(work.flow.tables[each.read.table].is_fold for own in read.values() for each in own):
        return None
    return {label: sum(piece.rows for each in own for piece in each.slices) for label, own in read.items()}


def _list_findings(table: Table, counts: Mapping[str, InputCounts]) -> Iterator[tuple[Action, str]]:
    for name, rules in input_rules_of(table).items():
        if name not in counts:
            continue
        yield from find_actions(input_checks(rules), counts[name].filter_counts, of=f" of {name}")
        answers = counts[name].answers
        for rule in rules:
            if rule.scope is Scope.BATCH and answers.get(rule.name) is not True:
                texts = aggregates_of(rule.expression)
                values = "; ".join(f"{text} is {answers.get(_aggregate_key(rule, text)) or 'NULL'}" for text in texts)
                where = f", where {values}" if values else ""
                yield rule.action, f"{rule.name}: the rows of {name} violate ({rule.expression}){where}"
