"""Builds the results of a group, one for each label, which the ledger and the claim record store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from waterclock.batches.records import WARNINGS, BatchResult
from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.audit import GroupAudit
from waterclock.engine.batch.bound_inputs import BoundInputs
from waterclock.engine.batch.expectations import RuleVerdict
from waterclock.engine.batch.row_filters import measures_of
from waterclock.engine.batch.seal import SealedGroup
from waterclock.storage.slices.manifest import Manifest


def group_results(
    attempt: GroupAttempt, bound: BoundInputs, sealed: SealedGroup, audited: GroupAudit, version: int = -1
) -> list[BatchResult]:
    """Return the result of each label. `version` is the commit's Delta version, or -1 before the commit."""
    group, notes = attempt.group, sealed.notes
    ends = {it.label: it.end for it in bound.again} | {it.label: it.window.end for it in group.batches}
    snapshot_starts = {batch.label: batch.stands_from for batch in group.batches}
    set_aside = {**notes.set_aside(), **({"left_out": list(notes.left_out)} if notes.left_out else {})}
    return [
        manifest.result(
            ends[manifest.label],
            version,
            stands_from=snapshot_starts.get(manifest.label),
            measures={
                **set_aside,
                **_filter_counts(attempt, sealed, manifest),
                **sealed.input_findings.for_label(manifest.label).measures(),
                **notes.parents_missing(manifest, sealed.written.filter_counts.get(manifest.label)),
                **audited.measures.get(manifest.label, {}),
                **sealed.skew.get(manifest.label, {}),
                WARNINGS: list(audited.verdicts[manifest.label].warnings),
            },
            timings={step: round(seconds, 4) for step, seconds in attempt.spent.items()},
            source=notes.source.get(manifest.label, {}),
        )
        for manifest in sealed.manifests
    ]


def build_hold_results(
    attempt: GroupAttempt, bound: BoundInputs, sealed: SealedGroup, audited: GroupAudit, verdict: RuleVerdict
) -> list[BatchResult]:
    """Return the result of the batch that `verdict` holds. Its warnings include the reasons for the hold."""
    own = tuple(it for it in sealed.manifests if it.label == attempt.group.batches[0].label)
    of_own = replace(sealed, written=replace(sealed.written, manifests=own))
    verdict_of_own = RuleVerdict((*verdict.warnings, *verdict.holds))
    return group_results(attempt, bound, of_own, replace(audited, verdicts={it.label: verdict_of_own for it in own}))


def describe_release(attempt: GroupAttempt) -> Mapping[str, Any]:
    """Return who released the held batch (`by`), and why: the user who requested it, or else the user of this run."""
    own = {"by": attempt.work.settings.who, "why": attempt.group.batches[0].reason}
    return attempt.held.release_request if attempt.held is not None and attempt.held.release_request else own


def _filter_counts(attempt: GroupAttempt, sealed: SealedGroup, manifest: Manifest) -> Mapping[str, Any]:
    if own := next((it for it in attempt.adopted if it.revision.label == manifest.label), None):
        return own.measures
    if attempt.held is not None:
        return {**attempt.held.result.measures, "released": describe_release(attempt)}
    found = sealed.written.filter_counts.get(manifest.label)
    return {} if found is None else measures_of(found)
