"""Audits a sealed slice by the rules in its table's declaration, before any row is visible."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from waterclock.batches.ledger_snapshot import HELD_BACK
from waterclock.dpl.query.absent_columns import without_absent_columns
from waterclock.dpl.query.aggregates import NAMES, aggregates_of, expand_aggregates
from waterclock.dpl.query.group_measures import group_measures_in
from waterclock.engine.batch.row_filters import list_findings, row_filter_of
from waterclock.engine.batch.rule_values import evaluate_aggregates
from waterclock.errors import WaterclockError
from waterclock.flow.checks import Requirement, checks_of, key_actions, list_batch_rules, may_repeat_keys
from waterclock.flow.declarations import Rule, Table
from waterclock.flow.enums import Action, Kind, Mode, Scope
from waterclock.flow.measures import counts_rows
from waterclock.flow.published_columns import list_sent_keys
from waterclock.flow.rule_actions import FAILS, find_outcome
from waterclock.storage.folds.versions import fault_conditions
from waterclock.storage.slices.key_checks import duplicate_keys
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.row_filter import FilterCounts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

UNCHECKED = "unchecked"
"""The name of the measure with the number of rows of a label that its rules do not check (see `checked_rows`)."""
_NONE: Mapping[str, str] = {}
_MOST_EXAMPLES = 3

# A batch rule that calls only these functions is evaluated while the rows are written; others need a job of their own.
_AGGREGATES = frozenset("any avg bool_and bool_or count count_if every max mean min some sum".split()) | NAMES
_OF_VALUES = frozenset(
    "abs and case coalesce else greatest if in isnotnull isnull least not nullif or then when".split()
)
_CALLED = re.compile(r"(\w+)\s*\(")
_ASIDE = {
    "no_key": "without a key",
    "no_time": "without a time",
    "bad_time": "at or after the open end, or before year 1",
}
_NOT_OBSERVED = re.compile(r"\b(?:distinct|filter|over|within)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The audit result of one label: warnings, refusals that prevent its commit, and reasons to hold its batch."""

    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()


def row_measures(
    table: Table, *, at_rest: bool = False, absent: Mapping[str, str] = _NONE
) -> Sequence[tuple[str, Column]]:
    """Return the aggregates that count broken rules and evaluate batch rules, for the pass that writes the rows.

    Names: `expect:<rule>`, `batch:<rule>` and `null:<column>`. A rule that is NULL for a row is broken. With
    `at_rest`, the aggregates are for one scan of the sealed rows of all labels. They then include all batch rules
    without group measures, such as k_anonymity(). `absent` are the columns that the rows do not have (see
    `absent_columns_of`).
    """
    from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

    fitted = partial(without_absent_columns, absent=absent)
    is_sifted = row_filter_of(table) is not None  # the row filter counts rows by the checks that they break
    measures = [
        (f"expect:{rule.name}", F.expr(f"sum(CASE WHEN ({fitted(rule.expression)}) THEN 0L ELSE 1L END)"))
        for rule in list_batch_rules(table)
        if rule.scope is Scope.ROW and not is_sifted
    ]
    measures.extend(
        (f"batch:{rule.name}", F.expr(expand_aggregates(fitted(rule.expression))))
        for rule in measured_batch_rules(table, at_rest=at_rest)
    )
    measures.extend(
        (f"null:{name}", F.expr(f"sum(CASE WHEN `{name}` IS NULL THEN 1L ELSE 0L END)"))
        for name in not_null_columns(table)
        if not is_sifted
    )
    if table.temporal is not None:
        texts = fault_conditions(table.temporal).items()
        measures.extend((f"aside:{name}", F.expr(f"count_if({text})")) for name, text in texts)
    return measures


def measured_batch_rules(table: Table, *, at_rest: bool = False) -> list[Rule]:
    """Return the batch rules in `row_measures`: those that Spark can evaluate while it writes the rows.

    On sealed rows (`at_rest`) these are all but those with group measures, which need a group-by of their own.
    """
    return [rule for rule in list_batch_rules(table) if (_is_aggregated(rule) if at_rest else _is_observable(rule))]


def has_unmeasured_rules(table: Table, measures: Mapping[str, Any]) -> bool:
    """Return whether a batch rule was not evaluated with `measures`, so that it needs a job of its own."""
    return any(_is_of_batch(rule) and f"batch:{rule.name}" not in measures for rule in list_batch_rules(table))


def evaluate_audit(  # noqa: PLR0913 - the parts of one verdict
    spark: SparkSession,
    table: Table,
    folder: str,
    manifest: Manifest,
    measures: Mapping[str, Any],
    rows: Callable[[], DataFrame],
    *,
    filter_counts: FilterCounts | None = None,
    of_table: Iterable[tuple[Action, str]] = (),
) -> RuleVerdict:
    """Evaluate the audit of one sealed label: return its warnings, refusals and holds.

    `measures` are the values of `row_measures`. `filter_counts` are the counts of the row filter, if the table has one:
    batch rules then apply to the rows that passed. `of_table` are the findings of table rules and of rules that compare
    batches. `rows` returns the rows that the rules check. They are read if `has_unmeasured_rules` (one job), and to
    explain a broken rule. KEY costs one group-by on the slice; small slices need no Spark job.
    """
    warnings: list[str] = []
    refusals: list[str] = []
    holds: list[str] = []
    texts_by_action = {Action.FAIL: refusals, Action.HOLD: holds}
    count = manifest.rows - (measures.get(UNCHECKED) or 0)
    found = [*(list_findings(table, filter_counts) if filter_counts else _row_findings(table, measures, count))]
    found += _batch_findings(table, measures, SealedLabel(rows, count))
    found += _null_findings(table, measures, count)
    found += of_table
    for action, text in found:
        texts_by_action.get(action, warnings).append(text)
    warnings.extend(_quarantine_warnings(measures, count))
    is_unique = not table.is_fold or table.is_snapshot
    if table.columns.keys and is_unique and not refusals and not _is_filtered_by_key(table, filter_counts):
        action = key_actions(table)[0].action
        texts_by_action.get(action, warnings).extend(key_findings(spark, folder, manifest, table.columns.keys))
    return RuleVerdict(tuple(warnings), tuple(refusals), tuple(holds))


def row_rule_measures(table: Table, absent: Mapping[str, str] = _NONE) -> Sequence[tuple[str, Column]]:
    """Return those of `row_measures` that are about single rows: they are known before a window is over."""
    found = row_measures(table, absent=absent)
    return [(name, column) for name, column in found if name.startswith(("expect:", "null:"))]


def find_blocking_rows(
    spark: SparkSession,
    table: Table,
    folder: str,
    manifest: Manifest,
    measures: Mapping[str, Any],
    filter_counts: FilterCounts | None,
) -> list[str]:
    """Return the rules of rows by which the rows of a sealed slice would fail or hold their batch.

    `measures` are the values of `row_rule_measures`. Cost: none, or with a KEY that of `key_findings`.
    """
    found = [*(list_findings(table, filter_counts) if filter_counts else _row_findings(table, measures, manifest.rows))]
    found += _null_findings(table, measures, manifest.rows)
    blocking = [text for action, text in found if action in {Action.FAIL, Action.HOLD}]
    has_key_rule = bool(table.columns.keys) and key_actions(table)[0].action in {Action.FAIL, Action.HOLD}
    if has_key_rule and not blocking and not _is_filtered_by_key(table, filter_counts):
        blocking += key_findings(spark, folder, manifest, table.columns.keys)
    return blocking


def refused_batch_error(table: Table, where: str, verdict: RuleVerdict) -> WaterclockError:
    """Build the error for a batch that its audit refused."""
    return WaterclockError(
        "E740",
        f"{table.name} is not as expected: {verdict.refusals[0]}",
        where=where,
        why="; ".join(verdict.refusals[1:]) or f"declared at {table.place}",
        fix="fix the source or the rule, then `waterclock retry`; nothing of this revision is visible, and an earlier "
        "one stays",
    )


class HeldBackError(WaterclockError):
    """The error for a batch that a rule holds. If its group has several batches, `labels` are those held."""

    labels: frozenset[datetime] = frozenset()


def batch_hold_error(table: Table, where: str, verdict: RuleVerdict, labels: Iterable[datetime] = ()) -> HeldBackError:
    """Build the error for a batch, or `labels` of a group, that a rule holds: sealed, but not visible to readers."""
    error = HeldBackError(
        HELD_BACK,
        f"{table.name} is held: {verdict.holds[0]}",
        where=where,
        why="; ".join(verdict.holds[1:]) or f"declared at {table.place}",
        fix=(
            f"check it with `waterclock audit {where}`, then `waterclock release {where} --why ...`; or fix "
            "the source and `waterclock retry`"
        ),
    )
    error.labels = frozenset(labels)
    return error


def not_null_columns(table: Table) -> list[str]:
    """Return the columns that must not be NULL in any row: columns declared NOT NULL, and the keys of a MERGE publish.

    A destination compares keys by =, which is never true for NULL: such a row would be lost, or duplicated.
    """
    declared = [column.name for column in table.columns.named if column.is_not_null or column.is_key]
    found_by = table.keys if table.kind is Kind.PUBLISH and table.mode is Mode.MERGE else ()
    known = {name.lower() for name in declared}
    return [*declared, *(key for key in found_by if key.lower() not in known)]


def never_null_columns(table: Table) -> list[str]:
    """Return the columns that are never NULL in the table, because a NULL fails the batch or removes its row."""
    declared = {column.name: column for column in table.columns.named}
    found = []
    for name in not_null_columns(table):
        column = declared.get(name)
        actions = (column.else_of_null or (key_actions(table) if column.is_key else FAILS)) if column else FAILS
        if actions[0].action not in {Action.WARN, Action.HOLD}:
            found.append(name)
    return found


def unproven_keys(table: Table, source: Table) -> tuple[str, ...]:
    """Return the keys of a MERGE publish if several rows of a label may have equal keys. Otherwise empty.

    Keys are unique if they include the KEY of the published table, and its rule fails the batch or removes rows.
    """
    if table.kind is not Kind.PUBLISH or table.mode is not Mode.MERGE:
        return ()
    known = {name.lower() for name in list_sent_keys(table.columns, source.keys)}
    if known and known <= {key.lower() for key in table.keys}:
        return () if source.is_fold or not may_repeat_keys(source) else table.keys
    return table.keys


def key_findings(
    spark: SparkSession, folder: str, manifest: Manifest, keys: Sequence[str], clause: str = "KEY"
) -> Iterator[str]:
    """Yield a finding if a sealed slice has rows with the same key. Cost: one group-by on the slice."""
    doubled = duplicate_keys(spark, folder, manifest, keys, most=_MOST_EXAMPLES)
    if doubled:
        examples = ", ".join(str(key) for key in doubled)
        yield f"{clause} ({', '.join(keys)}) is not unique: {examples} occur more than once"


def _row_findings(table: Table, measures: Mapping[str, Any], rows: int) -> Iterator[tuple[Action, str]]:
    for rule in list_batch_rules(table):
        broken = measures.get(f"expect:{rule.name}") or 0
        action = find_outcome(rule.actions, broken, rows)
        if rule.scope is Scope.ROW and action is not None:
            yield action, f"{rule.name}: {broken} of {rows} rows violate ({rule.expression})"


def _null_findings(table: Table, measures: Mapping[str, Any], rows: int) -> Iterator[tuple[Action, str]]:
    declared = {column.name: column for column in table.columns.named}
    for name in not_null_columns(table):
        count = measures.get(f"null:{name}") or 0
        column = declared.get(name)
        own = column.else_of_null if column else ()
        of_key = key_actions(table) if column and column.is_key else FAILS
        action = find_outcome(own or of_key, count, rows)
        if action is not None:
            yield action, f"{name} is null in {count} of {rows} rows"


def _is_filtered_by_key(table: Table, filter_counts: FilterCounts | None) -> bool:
    return filter_counts is not None and any(check.demand is Requirement.KEY for check in checks_of(table))


def _quarantine_warnings(measures: Mapping[str, Any], rows: int) -> Iterator[str]:
    """Yield warnings with the number of rows that a TEMPORAL table leaves out: without a key or a valid time."""
    for name, what in _ASIDE.items():
        if count := measures.get(f"aside:{name}") or 0:
            yield f"left out, {what}: {count} of {rows}"


def excluded_row_warnings(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return warnings about rows of a source that belong to no batch. `counts` maps reasons to their number."""
    return tuple(f"left out, {what}: {count}" for what, count in counts.items())


@dataclass(frozen=True, slots=True)
class SealedLabel:
    """Evaluates the aggregates of broken rules on the checked rows of one sealed label.

    `count` is the number of these rows.
    """

    rows: Callable[[], DataFrame]
    count: int

    def values(self, expression: str, *, by_job: bool) -> list[str]:
        """Return the value of each aggregate in a rule's expression as text, such as `count(*) is 2`.

        An aggregate other than a count of all rows is included only if `by_job`, which costs a scan of the label.
        """
        aggregates, found = aggregates_of(expression), dict[str, str]()
        others = [text for text in aggregates if not counts_rows(text)]
        if others and by_job:
            found = self._evaluate(others)
        found |= {text: str(self.count) for text in aggregates if counts_rows(text)}
        return [f"{text} is {found[text]}" for text in aggregates if text in found]

    def _evaluate(self, texts: Sequence[str]) -> dict[str, str]:
        from pyspark.errors import PySparkException

        try:
            found = evaluate_aggregates(self.rows(), texts, as_texts=True)
        except PySparkException:
            return {}  # the values only explain a broken rule, so a failure here is ignored
        return {text: value or "NULL" for text, value in zip(texts, found, strict=True)}


def _batch_findings(table: Table, measures: Mapping[str, Any], sealed: SealedLabel) -> Iterator[tuple[Action, str]]:
    rules = [rule for rule in list_batch_rules(table) if _is_of_batch(rule)]
    found = {rule.name: measures[f"batch:{rule.name}"] for rule in rules if f"batch:{rule.name}" in measures}
    if has_unmeasured_rules(table, measures):
        found |= evaluate_rules(sealed.rows(), [rule for rule in rules if rule.name not in found])
    for rule in rules:
        if found.get(rule.name) is not True:
            values = "; ".join(sealed.values(rule.expression, by_job=rule.action in {Action.FAIL, Action.HOLD}))
            where = f", where {values}" if values else ""
            yield rule.action, f"{rule.name}: the batch is not ({rule.expression}){where}"


def evaluate_rules(rows: DataFrame, rules: Sequence[Rule]) -> dict[str, Any]:
    """Evaluate rules with aggregates on `rows`. Return their values by name. Cost: see `evaluate_aggregates`."""
    values = evaluate_aggregates(rows, [rule.expression for rule in rules])
    return {rule.name: value for rule, value in zip(rules, values, strict=True)}


def _is_of_batch(rule: Rule) -> bool:
    """Return whether a rule is about the batch as a whole, without a comparison with other batches."""
    return rule.scope is Scope.BATCH and rule.comparison is None


def _is_aggregated(rule: Rule) -> bool:
    return _is_of_batch(rule) and not group_measures_in([rule.expression])


def _is_observable(rule: Rule) -> bool:
    """Return whether Spark can evaluate a batch rule during the write: plain aggregates, none of them DISTINCT."""
    called = {name.lower() for name in _CALLED.findall(rule.expression)}
    is_plain = bool(called & _AGGREGATES) and called <= _AGGREGATES | _OF_VALUES
    return _is_of_batch(rule) and is_plain and not _NOT_OBSERVED.search(rule.expression)
