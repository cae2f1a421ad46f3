"""Seals the slices of a group: from new rows, or by links to the files of existing slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from waterclock.batches.records import Claim
from waterclock.engine.batch.adoption import seal_adopted_slices
from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.bound_inputs import BoundInputs
from waterclock.engine.batch.checked_rows import measures_to_write
from waterclock.engine.batch.erased_rows import drop_erased_rows, require_no_erased_rows
from waterclock.engine.batch.input_rules import InputRuleResult, evaluate_input_rules
from waterclock.engine.batch.publish import linked_slices
from waterclock.engine.batch.releasing import recollect_past, seal_held_slice
from waterclock.engine.batch.results import MadeSlices, Notes
from waterclock.engine.batch.row_order import plan_files, prepare_row_order
from waterclock.engine.batch.shuffles import require_no_shuffle
from waterclock.engine.batch.skew import can_be_skewed, measure_skew
from waterclock.engine.batch.subject_tokens import tokenized_rows
from waterclock.engine.collect.lookback import filter_changed_slices
from waterclock.flow.enums import Kind
from waterclock.planner.plan import GIVE_UP
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.row_filter import FilterCounts
from waterclock.storage.slices.writer import WrittenSlices, write_slices


@dataclass(frozen=True, slots=True)
class SealedGroup:
    """The sealed slices of a group, the notes about its rows, and the findings of the rules on its inputs.

    `skew`: the measures of a label with the skew of the job that wrote it; labels of one job have the same.
    """

    written: WrittenSlices
    notes: Notes
    input_findings: InputRuleResult = field(default_factory=InputRuleResult)
    skew: Mapping[datetime, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """The manifests of the slices, in the order of the labels."""
        return self.written.manifests


def seal(attempt: GroupAttempt, claim: Claim, bound: BoundInputs, made: MadeSlices | None) -> SealedGroup:
    """Seal the group's slices: write its rows (`made`, or built here), or link files that are sealed already.

    A publish may link the files of its input, a release those of the held batch, a revert those of earlier revisions.
    """
    work, table, group = attempt.work, attempt.table, attempt.group
    if attempt.adopted:
        with attempt.step("seal"):
            for each in attempt.adopted:
                require_no_erased_rows(attempt, claim, each.manifest)
            return _group_of_links(seal_adopted_slices(work, table, attempt.adopted, claim))
    if attempt.held is not None:
        with attempt.step("seal"):
            require_no_erased_rows(attempt, claim, attempt.held.manifest)
            recollect_past(work, table, attempt.held)
            return _group_of_links(seal_held_slice(work, table, attempt.held, claim))
    if table.kind is Kind.PUBLISH:
        with attempt.step("seal"):
            linked = linked_slices(work, table, group, bound.pins, claim)
        if linked is not None:
            return _group_of_links(linked)
    input_findings = InputRuleResult()
    if table.input_rules and group.verb != GIVE_UP:
        with attempt.step("input_rules"):
            pins = {batch.label: bound.pins[batch.label] for batch in group.batches}
            input_findings = evaluate_input_rules(work, attempt.spark, table, pins, claim.number)
    made = made or attempt.make(bound)
    with attempt.step("seal"):
        prepare_row_order(attempt, made)
        written, skew = _write_slices(attempt, claim, made, input_findings)
        input_findings.clear(attempt.folder)
    manifests = filter_changed_slices(written.manifests, bound.again, attempt.folder if written.filter_counts else None)
    made.notes.before_commit()
    return SealedGroup(
        WrittenSlices(manifests, written.measures, written.filter_counts), made.notes, input_findings, skew
    )


def _group_of_links(written: WrittenSlices) -> SealedGroup:
    """Return a group of slices that were sealed by links, with the source notes from their manifests."""
    return SealedGroup(written, Notes({manifest.label: manifest.source for manifest in written.manifests}))


def _write_slices(
    attempt: GroupAttempt, claim: Claim, made: MadeSlices, input_findings: InputRuleResult
) -> tuple[WrittenSlices, Mapping[datetime, Mapping[str, Any]]]:
    """Write and seal the slices, one part of the group after the other. Return them, and the skew of each label."""
    table = attempt.table
    manifests: list[Manifest] = []
    measures: dict[datetime, Mapping[str, Any]] = {}
    filter_counts: dict[datetime, FilterCounts] = {}
    clustering = plan_files(attempt)
    unshuffled = partial(require_no_shuffle, table, attempt.where, attempt.work.flow)
    skew: dict[datetime, Mapping[str, Any]] = {}
    for part in made.parts:
        of_part: dict[str, Any] = {}
        skewed = partial(measure_skew, of_part) if can_be_skewed(table) else None
        at_rest = len(part.labels) > 1 or part.through is not None
        with tokenized_rows(attempt, drop_erased_rows(attempt, claim, part.frame)) as rows:
            written = write_slices(
                rows,
                folder=attempt.folder,
                claim=claim.number,
                labels=part.labels,
                lake=attempt.work.lake,
                measures=measures_to_write(table, part.frame.schema, at_rest=at_rest, absent=part.absent),
                fold=table.fold if table.kind is not Kind.PUBLISH else None,
                code=table.fingerprint,
                source=made.notes.source,
                name=table.name,
                may_be_empty=part.may_be_empty,
                through=part.through,
                quarantined_inputs=input_findings.quarantined,
                sort_by=table.file_order,
                clustering=clustering,
                around_write=unshuffled if table.is_unshuffled else skewed,
            )
        manifests += written.manifests
        measures |= written.measures
        filter_counts |= written.filter_counts
        skew |= dict.fromkeys(part.labels, of_part) if of_part else {}
    return WrittenSlices(tuple(manifests), measures, filter_counts), skew
