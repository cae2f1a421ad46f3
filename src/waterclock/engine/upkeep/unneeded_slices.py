"""Finds the slices of a stage that nobody needs any more, by a rule over what the ledger knows of them.

A slice is kept while it is current, while a version within KEEP VERSIONS shows it, and always where nobody said that it
may go: a COLLECT's source cannot be asked again, so its slices go only where KEEP VERSIONS is said of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from waterclock.batches.facts import FOREVER
from waterclock.batches.records import Claim, Input
from waterclock.flow.checks import all_rules
from waterclock.flow.choices import Kind, Mode, Scope
from waterclock.flow.declarations import Table
from waterclock.storage.slices.inventory import Leaf
from waterclock.timelabel.duration import Duration, parse_duration

USUALLY_KEPT = parse_duration("30 days")
# what an unknown claim left behind is nobody's after so long; a claim's number is its time in milliseconds
_LEFT_BEHIND = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger knows of one table's slices.

    `claims` are statuses by number, `current` the claim by label. `replaced` is, by label and claim, when a newer
    revision took a committed slice's place. `kept_since`: whatever was replaced since is kept. `dropped_before`: what
    RETAIN had dropped by then. `made` is when a slice was committed. `live` are the folders of slices that the table
    shows now. `needed` is the oldest instant that a batch which is not done yet may read. `held` are claims of batches
    that are held now, and may still be shown.
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


def kept_since(table: Table, now: datetime) -> datetime:
    """Return the instant since which all versions of a table are kept."""
    kept: Duration = table.keep_versions or USUALLY_KEPT
    return kept.before(now, "UTC")


def replaced_at(revisions: Sequence[tuple[datetime, int, datetime]]) -> dict[tuple[datetime, int], datetime]:
    """Return when each slice of (label, claim, committed at), oldest first, was replaced; current ones are left out."""
    found: dict[tuple[datetime, int], datetime] = {}
    newest: dict[datetime, int] = {}
    for label, claim, at in revisions:
        if label in newest:
            found[label, newest[label]] = at
        newest[label] = claim
    return found


def inputs_of(claims: Iterable[Claim], table: str) -> list[Input]:
    """Return what the batches of some claims read of a table."""
    reads = (read for claim in claims for of_label in claim.request.inputs.values() for read in of_label)
    return [read for read in reads if read.table == table]


def is_read(table: Table, leaf: Leaf, inputs: Iterable[Input]) -> bool:
    """Tell whether a leaf may be what one of the inputs reads; of a state that may be any of the slices before it."""
    label = leaf.label
    if label is None:
        return False
    return any(label < each.high and (table.mode is not Mode.APPEND or label >= each.low) for each in inputs)


def is_held_or_claimed(leaf: Leaf, held: Collection[int], claims: Iterable[Claim], table: str) -> bool:
    """Tell whether a leaf is, or may become, what is held of a label: a claim may be open that shows it.

    Who looked while that claim was open saw nothing held; where it ends without showing the label, it is held again.
    """
    if leaf.claim in held:
        return True
    return any(claim.request.table == table and leaf.label in claim.request.labels for claim in claims)


def may_go(table: Table, leaf: Leaf, known: Known) -> bool:
    """Tell whether a leaf of the table's stage may be removed."""
    status = known.claims.get(leaf.claim)
    if status == "open" or leaf.path in known.live or leaf.claim in known.held:
        return False
    if not leaf.is_sealed or leaf.label is None:
        return status is not None or _time_of(leaf.claim) < known.now - _LEFT_BEHIND
    if status is None:
        return False  # sealed, and nobody knows by whom: perhaps the ledger is not whole
    if status != "done":
        return _time_of(leaf.claim) < known.kept_since  # refused or lost: kept a while for who wants to look
    return _may_committed_go(table, leaf.label, leaf.claim, known)


def _may_committed_go(table: Table, label: datetime, claim: int, known: Known) -> bool:
    replaced = known.replaced.get((label, claim))
    if replaced is None and known.current.get(label) != claim:
        return _time_of(claim) < known.now - _LEFT_BEHIND  # a LOOKBACK read the window again, and found what was there
    if table.kind is Kind.COLLECT and table.keep_versions is None:
        return False
    if replaced is not None:
        return replaced < known.kept_since
    return _may_current_go(table, label, claim, known)


def _may_current_go(table: Table, label: datetime, claim: int, known: Known) -> bool:
    """Tell it of a current slice: of windows that RETAIN has dropped, and of states older than what is kept."""
    later = min((other for other in known.current if other > label), default=None)
    if later is None:
        return False
    if known.dropped_before is not None and label < known.dropped_before:
        return True
    # an older state is last needed at the end of the next window; what was made since `kept_since` stays all the same
    is_old = max(table.cadence.next(later), known.made.get((label, claim), known.now)) < known.kept_since
    if table.kind is Kind.PUBLISH:
        # it was delivered, and is made again from what it was made of; a rule of the table asks all that are there
        return is_old and not (table.is_delivered_by_label and any(it.scope is Scope.TABLE for it in all_rules(table)))
    if table.mode is not Mode.REPLACE or table.keep_versions is None:
        return False
    return is_old and table.cadence.next(later) <= known.needed


def _time_of(claim: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=claim)
