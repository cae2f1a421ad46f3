"""Removes past windows that a rule holds from the batch whose LOOKBACK read them, so that each is held separately.

Such a window keeps its earlier slice, and is collected again by a batch of its own, which the same rule holds. The
request for it is recorded before the commit: after it, a scan for changed windows would skip them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from waterclock.batches.ledger_snapshot import LOOK_AGAIN
from waterclock.batches.records import Claim
from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.expectations import RuleVerdict
from waterclock.engine.batch.seal import SealedGroup
from waterclock.errors import WaterclockError
from waterclock.planner.plan import RECOLLECT
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.timelabel.label import label_of


def leave_out_held_windows(
    attempt: GroupAttempt, claim: Claim, sealed: SealedGroup, past: Mapping[datetime, RuleVerdict]
) -> SealedGroup:
    """Return the sealed slices without the held windows in `past`, and request that these are collected again.

    No request is made for a window that is held with the same rows already. A held slice with other rows is replaced,
    and a request to release the old one ends. Cost: two ledger queries.
    """
    work, table = attempt.work, attempt.table
    held, others = (
        [it for it in sealed.manifests if it.label in past],
        work.ledger.reads.list_earlier_holds(claim.number),
    )
    new = [it.label for it in held if not _is_held_already(attempt, it, others.get(it.label))]
    if new:
        why = f"{label_of(attempt.group.batches[0].label)} read late rows of this window, and a rule holds them"
        verb = LOOK_AGAIN if table.is_fold else RECOLLECT
        work.ledger.decisions.request_remake_of_held(table.name, new, verb, who=work.settings.who, why=why)
    for label in new:
        work.report_once(
            f"{table.name}@{label_of(label)} has late rows that a rule holds ({'; '.join(past[label].holds)}): the"
            " window keeps its rows, and is collected again to be held by itself"
        )
    manifests = tuple(it for it in sealed.manifests if it.label not in past)
    return replace(sealed, written=replace(sealed.written, manifests=manifests))


def _is_held_already(attempt: GroupAttempt, manifest: Manifest, claim: int | None) -> bool:
    """Return whether a window is already held with the same rows.

    `claim` is the claim that sealed the held slice of the window, or None if the window is not held.
    """
    if claim is None or manifest.digest is None:
        return False
    try:
        known = read_manifest(attempt.folder, attempt.work.lake.slice_path(manifest.label, claim))
    except WaterclockError:
        return False
    return (known.digest, known.aside_digest) == (manifest.digest, manifest.aside_digest)
