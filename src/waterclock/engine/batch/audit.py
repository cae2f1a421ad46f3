"""Audits the sealed slices of a group: evaluates all rules of the table on the rows of each label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from waterclock.batches.records import Claim, warnings_of
from waterclock.batches.skew import skew_warnings
from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.bound_inputs import BoundInputs
from waterclock.engine.batch.checked_rows import checked_rows, measure_again
from waterclock.engine.batch.expectations import (
    RuleVerdict,
    batch_hold_error,
    evaluate_audit,
    excluded_row_warnings,
    key_findings,
    refused_batch_error,
    unproven_keys,
)
from waterclock.engine.batch.late_rows import late_rows_warnings
from waterclock.engine.batch.measuring import LabelMeasurement
from waterclock.engine.batch.row_order import small_file_warnings
from waterclock.engine.batch.seal import SealedGroup
from waterclock.engine.batch.table_rules import TableRuleFindings
from waterclock.flow.enums import Action, Kind
from waterclock.flow.measures import GIVEN_UP
from waterclock.planner.plan import GIVE_UP
from waterclock.timelabel.label import label_of


@dataclass(frozen=True, slots=True)
class GroupAudit:
    """The audit of a group: a verdict for each label, and the measures to record in the ledger.

    `hold` is the verdict that holds the group's only batch. `past` are verdicts that hold past windows, which LOOKBACK
    read again.
    """

    verdicts: Mapping[datetime, RuleVerdict]
    measures: Mapping[datetime, Mapping[str, Any]] = field(default_factory=dict)
    hold: RuleVerdict | None = None
    past: Mapping[datetime, RuleVerdict] = field(default_factory=dict)


def audit(attempt: GroupAttempt, claim: Claim, bound: BoundInputs, sealed: SealedGroup) -> GroupAudit:
    """Evaluate the table's rules on each label. Warnings about rows that belong to no window go to the newest label.

    Raises E740 if a rule fails a batch or a past window. Raises E755 if a rule holds one of several batches: the caller
    then splits the group.
    """
    work, table, group, written = attempt.work, attempt.table, attempt.group, sealed.written
    if group.verb == GIVE_UP:
        return GroupAudit(dict.fromkeys(claim.request.labels, RuleVerdict((GIVEN_UP,))))
    if recorded := _recorded_measures(attempt):  # the rules were evaluated when the slices were made
        return GroupAudit({label: RuleVerdict(warnings_of(of_label)) for label, of_label in recorded.items()})
    spark, folder = attempt.spark, attempt.folder
    verdicts: dict[datetime, RuleVerdict] = {}
    measures: dict[datetime, Mapping[str, Any]] = {}
    keys = unproven_keys(table, work.flow.tables[table.reads[0].table]) if table.kind is Kind.PUBLISH else ()
    judging = LabelMeasurement(work, table, claim.request.labels)
    manifests = sorted(written.manifests, key=lambda each: each.label)
    of_rules = TableRuleFindings(work, spark, table, manifests, bound.pins)
    for manifest in manifests:
        own = measure_again(spark, table, folder, manifest, written.measures[manifest.label])
        filter_counts = written.filter_counts.get(manifest.label)
        rows = partial(checked_rows, spark, table, folder, manifest)
        of_table = [*sealed.input_findings.for_label(manifest.label).findings, *of_rules.for_label(manifest.label)]
        if keys:  # a destination would keep one of several rows, and not report which
            of_table += [(Action.FAIL, text) for text in key_findings(spark, folder, manifest, keys, "ON")]
        if judging.is_needed:
            compared, measures[manifest.label] = judging.evaluate(spark, manifest, own)
            of_table += compared
        verdict = evaluate_audit(
            spark, table, folder, manifest, own, rows, filter_counts=filter_counts, of_table=of_table
        )
        if verdict.refusals:
            raise refused_batch_error(table, f"{table.name}@{label_of(manifest.label)}", verdict)
        if manifest.label in sealed.notes.holds:
            verdict = replace(verdict, holds=(sealed.notes.holds[manifest.label], *verdict.holds))
        verdicts[manifest.label] = replace(
            verdict,
            warnings=(
                *verdict.warnings,
                *late_rows_warnings(table, manifest),
                *small_file_warnings(table, manifest),
                *skew_warnings(sealed.skew.get(manifest.label, {})),
            ),
        )
    holds = {label: it for label, it in verdicts.items() if it.holds}
    labels = [batch.label for batch in group.batches if batch.label in holds]
    if past := {label: it for label, it in holds.items() if label not in labels}:
        return GroupAudit(verdicts, measures, past=past)  # without them, a rule OVER TABLE may hold for the labels
    if len(group.batches) > 1 and labels:
        raise batch_hold_error(table, attempt.where, holds[labels[0]], labels)
    if labels:
        return GroupAudit(verdicts, measures, holds[labels[0]])
    if verdicts and (aside := excluded_row_warnings(sealed.notes.set_aside())):
        newest = verdicts[max(verdicts)]
        verdicts[max(verdicts)] = replace(newest, warnings=(*newest.warnings, *aside))
    return GroupAudit(verdicts, measures)


def _recorded_measures(attempt: GroupAttempt) -> Mapping[datetime, Mapping[str, Any]]:
    """Return the measures of slices that were audited before: a held one, or adopted ones. Empty if rows were made."""
    if attempt.held is not None:
        return {attempt.held.manifest.label: attempt.held.result.measures}
    return {each.revision.label: each.measures for each in attempt.adopted}
