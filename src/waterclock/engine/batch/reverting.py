"""Reverts labels: a claim adopts the sealed slice of an earlier revision, and the audit trail records who and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from waterclock.batches.earlier_revisions import REVERTED, EarlierRevision
from waterclock.batches.records import Input
from waterclock.engine.batch.adoption import AdoptedSlice, adopt, slice_fault
from waterclock.engine.reads.pin import PinnedRead
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.ledger.ledger import Ledger
from waterclock.planner.plan import REVERT, Batch, Group, RevertTarget, Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import GROUP_CAP, PlanRequest
from waterclock.planner.reverting import Refusal, find_revision_refusal, usable_revisions
from waterclock.selection import Labels
from waterclock.storage.slices.manifest import is_sealed
from waterclock.timelabel.label import label_of


@dataclass(frozen=True, slots=True)
class RevertedLabel:
    """A label to revert: its current revision, and the earlier one that it becomes again."""

    current: EarlierRevision
    target: EarlierRevision

    @property
    def label(self) -> datetime:
        """The label."""
        return self.target.label


def bind_reverted_labels(
    flow: Flow, ledger: Ledger, table: Table, labels: Sequence[datetime], now: datetime
) -> dict[datetime, Batch]:
    """Map done labels to their batches, bound to the inputs that they would read now.

    A label that failed or is held when it is made again is bound, too. Raises E759 for a label that cannot be made now.
    """
    wanted = frozenset(labels)
    snapshot = ledger.reads.snapshot(flow)
    facts = snapshot.of(table.name)
    others = {label: found for label, found in facts.troubles.items() if label not in wanted}
    free = replace(snapshot, tables={**snapshot.tables, table.name: replace(facts, troubles=others)})
    low, high = min(wanted), max(wanted)
    request = PlanRequest(
        only=(table.name,),
        labels=Labels.from_range(low, high),
        force={table.name: wanted},
        cap=max(GROUP_CAP, table.cadence.count(low, table.cadence.next(high))),
    )
    found = {batch.label: batch for batch in Planner(flow).plan(free, now, request).batches if batch.label in wanted}
    for label in sorted(wanted):
        batch = found.get(label)
        if batch is None or batch.status is not Status.READY:
            why = "it is not needed, or not due" if batch is None else batch.reason or str(batch.status)
            raise revert_error(table, label, Refusal(why, "try again once it can be made"))
    return found


def chunk_labels(table: Table, changes: Sequence[RevertedLabel]) -> list[tuple[RevertedLabel, ...]]:
    """Return the labels that share a claim, and thus one commit, oldest first: of equal code, up to a year of days.

    In a regular table, and if labels follow one another, each label has its own claim.
    """
    ordered = sorted(changes, key=lambda each: each.label)
    if table.is_in_label_order or not table.is_partitioned:
        return [(each,) for each in ordered]
    by_code = groupby(sorted(ordered, key=lambda each: each.target.code), key=lambda each: each.target.code)
    runs = [tuple(of_code) for _, of_code in by_code]
    return [run[at : at + GROUP_CAP] for run in runs for at in range(0, len(run), GROUP_CAP)]


def group_to_revert(work: RunContext, table: Table, changes: Sequence[RevertedLabel], now: datetime, why: str) -> Group:
    """Return the group that reverts labels under one claim. Raises E759 if one of them cannot be made now."""
    bound = bind_reverted_labels(work.flow, work.ledger, table, [each.label for each in changes], now)
    batches = [
        replace(
            bound[each.label],
            verb=REVERT,
            reason=why,
            stands_from=each.current.stands_from,
            reverts=RevertTarget(each.target.claim, each.current.claim),
        )
        for each in sorted(changes, key=lambda each: each.label)
    ]
    return Group(table.name, tuple(batches))


def find_reverted_slices(
    work: RunContext, table: Table, group: Group, pins: Mapping[datetime, Sequence[PinnedRead]]
) -> tuple[AdoptedSlice, ...]:
    """Return the slices that a group reverts its labels to. `pins` are the inputs that the labels would read now.

    Raises E759 if a label was made again meanwhile, or cannot become the revision; E605 if the slice is damaged.
    """
    made = work.ledger.reads.earlier_revisions(table.name, [batch.label for batch in group.batches])
    emptying_versions = work.ledger.maintenance.emptying_versions_of(table.name)
    found = []
    for batch in group.batches:
        of_label, asked = usable_revisions(made.get(batch.label, ()), emptying_versions), batch.reverts
        if asked is None:
            raise AssertionError(f"{table.name}@{label_of(batch.label)} is reverted to no revision")
        current = next((each for each in of_label if each.is_current), None)
        target = next((each for each in of_label if each.claim == asked.to), None)
        if current is None or target is None or current.claim != asked.since:
            again = Refusal("it was made again meanwhile", "look at its revisions again with `waterclock audit`")
            raise revert_error(table, batch.label, again)
        reads = [it.input for it in pins[batch.label]]
        pair = RevertedLabel(current, target)
        check_revision(work.folder(table), table, pair, of_label, reads, is_deep=True)
        note = {REVERTED: {"to": target.claim, "from": current.claim, "by": work.settings.who, "why": batch.reason}}
        found.append(adopt(work.folder(table), target, note))
    return tuple(found)


def check_revision(
    folder: str,
    table: Table,
    pair: RevertedLabel,
    made: Sequence[EarlierRevision],
    reads: Sequence[Input],
    *,
    is_deep: bool = False,
) -> None:
    """Raise an error if a label cannot become an earlier revision again: E759, or E605 if its slice is damaged.

    `made` are all revisions of the label, `reads` the inputs that it would read now. Cost: see `slice_fault`.
    """
    target = pair.target
    refusal = find_revision_refusal(table, target, pair.current, reads)
    if refusal is not None:
        raise revert_error(table, target.label, refusal)
    fault = slice_fault(folder, target, is_deep=is_deep)
    if fault is None:
        return
    where = f"{table.name}@{label_of(target.label)}"
    kept = [str(each.claim) for each in made if each.claim != target.claim and slice_fault(folder, each) is None]
    fix = f"its revisions that are kept: {', '.join(kept)}" if kept else "no other revision of it is kept"
    if not is_sealed(folder, target.slice_path):
        keeps = f"KEEP VERSIONS {table.keep_versions} of {table.name}" if table.keep_versions else "KEEP VERSIONS"
        gone = f"the slice of revision {target.claim} is gone: `maintain` removes replaced slices after {keeps}"
        raise revert_error(table, target.label, Refusal(gone, fix))
    raise WaterclockError(
        "E605",
        f"revision {target.claim} of {where} is damaged",
        where=where,
        why=f"{fault}; nothing was changed",
        fix=fix,
    )


def revert_error(table: Table, label: datetime, refusal: Refusal) -> WaterclockError:
    """Build the error for a label that cannot be reverted."""
    where = f"{table.name}@{label_of(label)}"
    return WaterclockError("E759", f"{where} cannot be reverted", where=where, why=refusal.why, fix=refusal.fix)
