"""Asks a sealed slice what its table's declaration expects of it, before anything is visible."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.batches.facts import HELD_BACK
from waterclock.dpl.query.aggregates import NAMES, aggregates_of, in_sparks_words
from waterclock.engine.batch.sieves import findings, sieve_of
from waterclock.errors import WaterclockError
from waterclock.flow.checks import all_rules, key_ladder
from waterclock.flow.choices import Action, Kind, Mode, Scope
from waterclock.flow.declarations import Rule, Table
from waterclock.flow.ladders import FAILS, outcome
from waterclock.flow.measures import counts_rows
from waterclock.storage.folds.versions import lacking_sql
from waterclock.storage.slices.key_checks import duplicate_keys
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.sieve import Sifted
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_MOST_EXAMPLES = 3

# A rule of the batch that is made of these alone is asked while the rows are written; any other costs a job of its own.
_AGGREGATES = frozenset("any avg bool_and bool_or count count_if every max mean min some sum".split()) | NAMES
_OF_VALUES = frozenset(
    "abs and case coalesce else greatest if in isnotnull isnull least not nullif or then when".split()
)
_CALLED = re.compile(r"(\w+)\s*\(")
_ASIDE = {
    "no_key": "without a key",
    "no_time": "without a time",
    "bad_time": "at or after the open end, or before the year 1",
}
_NOT_OBSERVED = re.compile(r"\b(?:distinct|filter|over|within)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the audit of one label found: warnings to record, and the refusals that keep it from being committed.

    `holds`: what keeps it back until somebody says that it may be shown.
    """

    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()


def row_measures(table: Table, *, at_rest: bool = False) -> Sequence[tuple[str, Column]]:
    """Return the aggregates that answer, in the write's own pass, how many rows break a rule, and what the batch is.

    Names: `expect:<rule>`, `batch:<rule>` and `null:<column>`. A rule holds where it is TRUE: NULL breaks it. With
    `at_rest` they are asked of the sealed rows, by one scan for all labels: then no rule of the batch needs its own.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

    is_sifted = sieve_of(table) is not None  # then rows are counted by what they broke
    measures = [
        (f"expect:{rule.name}", F.expr(f"sum(CASE WHEN ({rule.expression}) THEN 0L ELSE 1L END)"))
        for rule in all_rules(table)
        if rule.scope is Scope.ROW and not is_sifted
    ]
    measures.extend(
        (f"batch:{rule.name}", F.expr(in_sparks_words(rule.expression)))
        for rule in asked_of_batch(table, at_rest=at_rest)
    )
    measures.extend(
        (f"null:{name}", F.expr(f"sum(CASE WHEN `{name}` IS NULL THEN 1L ELSE 0L END)"))
        for name in never_null(table)
        if not is_sifted
    )
    if table.temporal is not None:
        texts = lacking_sql(table.temporal).items()
        measures.extend((f"aside:{name}", F.expr(f"count_if({text})")) for name, text in texts)
    return measures


def asked_of_batch(table: Table, *, at_rest: bool = False) -> list[Rule]:
    """Return the rules of the batch that are among `row_measures`: those that Spark can observe; of sealed rows all."""
    return [rule for rule in all_rules(table) if (_is_of_batch(rule) if at_rest else _is_in_pass(rule))]


def has_unasked(table: Table, measures: Mapping[str, Any]) -> bool:
    """Tell whether a rule of the batch is not answered by what was measured: a job of its own asks it."""
    return any(_is_of_batch(rule) and f"batch:{rule.name}" not in measures for rule in all_rules(table))


def judge(  # noqa: PLR0913 - each is a part of what is judged
    spark: SparkSession,
    table: Table,
    folder: str,
    manifest: Manifest,
    measures: Mapping[str, Any],
    rows: DataFrame | None,
    *,
    sifted: Sifted | None = None,
    of_table: Iterable[tuple[Action, str]] = (),
) -> Verdict:
    """Say what is wrong with one sealed label.

    `measures` are `row_measures` as counted, `sifted` what the sieve found, where there is one: rules of the batch are
    asked of the rows that stay. `of_table`: what was found of rules of the table, and of those that compare. `rows` is
    the sealed slice, read only where `has_unasked` (one job). KEY costs one group-by on the slice, of small ones
    without a Spark job.
    """
    warnings: list[str] = []
    refusals: list[str] = []
    holds: list[str] = []
    kept_by = {Action.FAIL: refusals, Action.HOLD: holds}
    observed: Mapping[str, Any] = measures
    if manifest.digest is None and any(map(_is_in_pass, all_rules(table))):
        # a task that ran twice was observed twice: what the batch is, is asked of the sealed rows
        rows, observed = frame_of_slices(spark, folder, [manifest]), {}
    found = [*(findings(table, sifted) if sifted else _row_findings(table, measures, manifest.rows))]
    found += _batch_findings(table, observed, rows, Sealed(spark, folder, manifest))
    found += _null_findings(table, measures, manifest.rows)
    found += of_table
    for action, said in found:
        kept_by.get(action, warnings).append(said)
    warnings.extend(_set_aside(measures, manifest.rows))
    is_unique = not table.is_fold or table.is_snapshot
    if table.columns.keys and is_unique and not refusals and not _is_sieved_by_key(table, sifted):
        action = key_ladder(table)[0].action
        kept_by.get(action, warnings).extend(_key_findings(spark, table, folder, manifest))
    return Verdict(tuple(warnings), tuple(refusals), tuple(holds))


def refusal(table: Table, where: str, verdict: Verdict) -> WaterclockError:
    """Return the error of a batch that its audit refused."""
    return WaterclockError(
        "E740",
        f"{table.name} is not as expected: {verdict.refusals[0]}",
        where=where,
        why="; ".join(verdict.refusals[1:]) or f"declared at {table.place}",
        fix="mend the source or the rule, then `waterclock retry`; nothing of this revision is visible, and an earlier "
        "one stays",
    )


class HeldBackError(WaterclockError):
    """A batch, or `labels` of a group, that a rule holds back."""

    labels: frozenset[datetime] = frozenset()


def held_back(table: Table, where: str, verdict: Verdict, labels: Iterable[datetime] = ()) -> HeldBackError:
    """Return the error of a batch that its audit holds back: sealed, and shown to nobody until it is released.

    `labels`: all of a group that are held.
    """
    error = HeldBackError(
        HELD_BACK,
        f"{table.name} is held: {verdict.holds[0]}",
        where=where,
        why="; ".join(verdict.holds[1:]) or f"declared at {table.place}",
        fix=f"look at it with `waterclock audit {where}`, then `waterclock release {where} --because ...`, "
        "or mend the source and `waterclock retry`",
    )
    error.labels = frozenset(labels)
    return error


def with_past(verdicts: Mapping[datetime, Verdict], own: datetime) -> Verdict:
    """Return what was found of a batch, with what holds back past windows that were read again with it."""
    found = verdicts.get(own, Verdict())
    past = [f"{label_of(at)}, read again: {it}" for at in sorted(verdicts) if at != own for it in verdicts[at].holds]
    return replace(found, holds=(*found.holds, *past))


def never_null(table: Table) -> list[str]:
    """Return the columns of which no row may lack a value: those declared so, and what a MERGE publish finds rows by.

    A destination's keys are compared by =, which a NULL never meets: such a row would be lost, or doubled.
    """
    declared = [column.name for column in table.columns.named if column.is_not_null or column.is_key]
    found_by = table.keys if table.kind is Kind.PUBLISH and table.mode is Mode.MERGE else ()
    known = {name.lower() for name in declared}
    return [*declared, *(key for key in found_by if key.lower() not in known)]


def surely_there(table: Table) -> list[str]:
    """Return the columns of which no row that came into the table lacks a value: none that is only warned of."""
    said = {column.name: column for column in table.columns.named}
    found = []
    for name in never_null(table):
        column = said.get(name)
        ladder = (column.else_of_null or (key_ladder(table) if column.is_key else FAILS)) if column else FAILS
        if ladder[0].action not in {Action.WARN, Action.HOLD}:
            found.append(name)
    return found


def _row_findings(table: Table, measures: Mapping[str, Any], rows: int) -> Iterator[tuple[Action, str]]:
    for rule in all_rules(table):
        broken = measures.get(f"expect:{rule.name}") or 0
        action = outcome(rule.rungs, broken, rows)
        if rule.scope is Scope.ROW and action is not None:
            yield action, f"{rule.name}: {broken} of {rows} rows are not ({rule.expression})"


def _null_findings(table: Table, measures: Mapping[str, Any], rows: int) -> Iterator[tuple[Action, str]]:
    said = {column.name: column for column in table.columns.named}
    for name in never_null(table):
        count = measures.get(f"null:{name}") or 0
        column = said.get(name)
        own = column.else_of_null if column else ()
        of_key = key_ladder(table) if column and column.is_key else FAILS
        action = outcome(own or of_key, count, rows)
        if action is not None:
            yield action, f"{name} is null in {count} of {rows} rows"


def _is_sieved_by_key(table: Table, sifted: Sifted | None) -> bool:
    return sifted is not None and f"KEY ({', '.join(table.columns.keys)})" in sifted.broken


def _set_aside(measures: Mapping[str, Any], rows: int) -> Iterator[str]:
    """Say how many rows have no place on a timeline: they are staged, and no version knows of them."""
    for name, what in _ASIDE.items():
        if count := measures.get(f"aside:{name}") or 0:
            yield f"set aside, {what}: {count} of {rows}"


def left_aside(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Say what a source holds that no batch will take, by the counts of its reading."""
    return tuple(f"set aside, {what}: {count}" for what, count in counts.items())


@dataclass(frozen=True, slots=True)
class Sealed:
    """The sealed rows of one label."""

    spark: SparkSession
    folder: str
    manifest: Manifest

    def values(self, expression: str, *, by_job: bool) -> list[str]:
        """Return what each aggregate of a rule comes to, in words: `count(*) is 2`.

        Of one that is no count of all rows only `by_job`, which takes a scan of the label.
        """
        asked, said = aggregates_of(expression), dict[str, str]()
        others = [text for text in asked if not counts_rows(text)]
        if others and by_job:
            said = self._asked(others)
        said |= {text: str(self.manifest.rows) for text in asked if counts_rows(text)}
        return [f"{text} is {said[text]}" for text in asked if text in said]

    def _asked(self, texts: Sequence[str]) -> dict[str, str]:
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F  # noqa: N812

        rows = frame_of_slices(self.spark, self.folder, [self.manifest])
        columns = [F.expr(in_sparks_words(text)).cast("string") for text in texts]
        try:
            found = rows.agg(*(column.alias(f"a{index}") for index, column in enumerate(columns))).first()
        except PySparkException:
            return {}  # it is what is told of a rule that is broken, and no reason to fail otherwise
        return {text: found[f"a{index}"] or "NULL" for index, text in enumerate(texts)} if found else {}


def _batch_findings(
    table: Table, measures: Mapping[str, Any], rows: DataFrame | None, sealed: Sealed
) -> Iterator[tuple[Action, str]]:
    rules = [rule for rule in all_rules(table) if _is_of_batch(rule)]
    found = {rule.name: measures[f"batch:{rule.name}"] for rule in rules if f"batch:{rule.name}" in measures}
    asked = [rule for rule in rules if rule.name not in found]
    if rows is not None and asked:
        found |= answers(rows, asked)
    for rule in rules:
        if found.get(rule.name) is not True:
            values = "; ".join(sealed.values(rule.expression, by_job=rule.action in {Action.FAIL, Action.HOLD}))
            where = f", where {values}" if values else ""
            yield rule.action, f"{rule.name}: the batch is not ({rule.expression}){where}"


def answers(rows: DataFrame, rules: Sequence[Rule]) -> dict[str, Any]:
    """Return what each rule with aggregates comes to over some rows, by one job."""
    from pyspark.sql import functions as F  # noqa: N812

    found = rows.agg(
        *(F.expr(in_sparks_words(rule.expression)).alias(f"r{index}") for index, rule in enumerate(rules))
    ).first()
    return {rule.name: found[f"r{index}"] if found else None for index, rule in enumerate(rules)}


def _is_of_batch(rule: Rule) -> bool:
    """Tell whether a rule asks the whole batch, and that alone."""
    return rule.scope is Scope.BATCH and rule.comparison is None


def _is_in_pass(rule: Rule) -> bool:
    """Tell whether Spark can observe a rule of the batch while it writes: plain aggregates, none of them DISTINCT."""
    called = {name.lower() for name in _CALLED.findall(rule.expression)}
    is_plain = bool(called & _AGGREGATES) and called <= _AGGREGATES | _OF_VALUES
    return _is_of_batch(rule) and is_plain and not _NOT_OBSERVED.search(rule.expression)


def _key_findings(spark: SparkSession, table: Table, folder: str, manifest: Manifest) -> Iterator[str]:
    keys = table.columns.keys
    doubled = duplicate_keys(spark, folder, manifest, keys, most=_MOST_EXAMPLES)
    if doubled:
        examples = ", ".join(str(key) for key in doubled)
        yield f"KEY ({', '.join(keys)}) is not unique: {examples} occur more than once"
