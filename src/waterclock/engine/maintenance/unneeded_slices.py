"""Decides which slices of a stage may be deleted, from the ledger's facts about them.

A slice is kept while it is current or in a version within KEEP VERSIONS. Slices of a COLLECT, whose source may not
deliver the rows again, are deleted only if the table declares KEEP VERSIONS.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.batches.records import Claim, Input
from waterclock.engine.batch.restored_rows import has_keys_across_labels
from waterclock.flow.checks import list_batch_rules
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode, Scope
from waterclock.storage.slices.inventory import SliceFolder
from waterclock.timelabel.duration import Duration, parse_duration

USUALLY_KEPT = parse_duration("30 days")
# Files of an unknown claim may be removed after this time. A claim's number is its time in milliseconds since 1970.
_UNKNOWN_CLAIMS_KEPT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RetentionFacts:
    """The ledger's facts about one table's slices.

    `claims` maps claim numbers to statuses, `current` labels to their current claim. `replaced` maps label and claim of
    a committed slice to the time at which a newer revision replaced it, `made` to the time of its commit. `kept_since`:
    slices that were replaced since are kept. `dropped_before`: the instant before which RETAIN had dropped windows by
    `kept_since`. `live` are the folders of slices in the table's newest version. `needed` is the oldest instant that a
    batch which is not done yet may read. `held` are claims of batches that are held now, and may still be released.
    """

    claims: Mapping[int, str]
    current: Mapping[datetime, int]
    kept_since: datetime
    now: datetime
    replaced: Mapping[tuple[datetime, int], datetime] = field(default_factory=dict)
    made: Mapping[tuple[datetime, int], datetime] = field(default_factory=dict)
    dropped_before: datetime | None = None
    live: Collection[str] = frozenset()
    needed: datetime = FOREVER
    held: Collection[int] = frozenset()


def find_retention_start(table: Table, now: datetime) -> datetime:
    """Return the instant since which all versions of a table are kept (KEEP VERSIONS, or else 30 days before `now`)."""
    kept: Duration = table.keep_versions or USUALLY_KEPT
    return kept.subtract_from(now, "UTC")


def find_replacement_times(
    revisions: Sequence[tuple[datetime, int, datetime]], anew: Sequence[tuple[int, datetime]] = ()
) -> dict[tuple[datetime, int], datetime]:
    """Map label and claim of each replaced slice to the time at which it was replaced. Current slices are left out.

    `revisions` are (label, claim, committed at), oldest first. `anew` are the claims that emptied the table, with their
    times, oldest first: they replaced all earlier slices, also those of labels that were not made again.
    """
    found: dict[tuple[datetime, int], datetime] = {}
    newest: dict[datetime, int] = {}
    for label, claim, at in revisions:
        if label in newest:
            found[label, newest[label]] = at
        newest[label] = claim
        emptied = (then for by, then in anew if (claim < by if by else at < then))
        if (ended := next(emptied, None)) is not None:
            found.setdefault((label, claim), ended)
    return found


def inputs_of(claims: Iterable[Claim], table: str) -> list[Input]:
    """Return the inputs that the batches of these claims read from a table."""
    reads = (read for claim in claims for of_label in claim.request.inputs.values() for read in of_label)
    return [read for read in reads if read.table == table]


def is_read(table: Table, leaf: SliceFolder, inputs: Iterable[Input]) -> bool:
    """Return whether one of these inputs may include a slice. A state may be made from any slice before it."""
    label = leaf.label
    if label is None:
        return False
    return any(label < each.high and (table.mode is not Mode.APPEND or label >= each.low) for each in inputs)


def is_held_or_claimed(leaf: SliceFolder, held: Collection[int], claims: Iterable[Claim], table: str) -> bool:
    """Return whether a slice is the held slice of a label, or may become held again.

    While an open claim is releasing it, the label does not count as held; if that claim ends without releasing it, the
    label is held again.
    """
    if leaf.claim in held:
        return True
    return any(claim.request.table == table and leaf.label in claim.request.labels for claim in claims)


def may_delete_slice(table: Table, leaf: SliceFolder, known: RetentionFacts) -> bool:
    """Return whether retention allows a slice folder of the table to be deleted."""
    status = known.claims.get(leaf.claim)
    if status == "open" or leaf.path in known.live or leaf.claim in known.held:
        return False
    if not leaf.is_sealed or leaf.label is None:
        return status is not None or _time_of(leaf.claim) < known.now - _UNKNOWN_CLAIMS_KEPT
    if status is None:
        return False  # sealed by an unknown claim: the ledger may be incomplete
    if status != "done":
        return _time_of(leaf.claim) < known.kept_since  # refused or lost: kept for a while for inspection
    return _may_delete_committed(table, leaf.label, leaf.claim, known)


def _may_delete_committed(table: Table, label: datetime, claim: int, known: RetentionFacts) -> bool:
    replaced = known.replaced.get((label, claim))
    if replaced is None and known.current.get(label) != claim:
        return _time_of(claim) < known.now - _UNKNOWN_CLAIMS_KEPT  # of a LOOKBACK: unchanged, or held by a rule
    if table.kind is Kind.COLLECT and table.keep_versions is None:
        return False
    if replaced is not None:
        return replaced < known.kept_since
    return _may_delete_current(table, label, claim, known)


def _may_delete_current(table: Table, label: datetime, claim: int, known: RetentionFacts) -> bool:
    """Return whether a current slice may be deleted: RETAIN has dropped it, or it is a state older than those kept."""
    later = min((other for other in known.current if other > label), default=None)
    if later is None:
        return False
    if known.dropped_before is not None and label < known.dropped_before:
        return True
    # an older state is last needed at the end of the next window; one made since `kept_since` is kept in any case
    is_old = max(table.cadence.next(later), known.made.get((label, claim), known.now)) < known.kept_since
    if table.kind is Kind.PUBLISH:
        # it was delivered, and can be made again from its inputs; some need all delivered labels for the next one
        has_rule = table.is_delivered_by_label and any(it.scope is Scope.TABLE for it in list_batch_rules(table))
        return is_old and not has_rule and not has_keys_across_labels(table)
    if table.mode is not Mode.REPLACE or table.keep_versions is None:
        return False
    return is_old and table.cadence.next(later) <= known.needed


def _time_of(claim: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=claim)
