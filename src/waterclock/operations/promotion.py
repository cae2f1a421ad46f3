"""Predicts which labels of a branch are adopted when it is promoted, and which must be computed. No slice is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from waterclock.batches.earlier_revisions import EarlierRevision, OfferedRevisions, input_identities
from waterclock.engine.batch.adoption import slice_fault
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Kind, Mode
from waterclock.ledger.ledger import Ledger
from waterclock.planner.adopted_contents import ContentChanges
from waterclock.planner.adopting import has_repeatable_rows
from waterclock.planner.reverting import differing_input

LabelsByTable = Mapping[str, tuple[datetime, ...]]


@dataclass(frozen=True, slots=True)
class Promotion:
    """The labels that a promotion makes, by table, oldest first: `adopted` from the branch, and `computed`.

    `reasons` has for each table with computed labels why the first of them is computed. `older` are those labels that
    production has made by other code: they are requested again. `stopped` are those that failed or are held in
    production: they are tried again. `equal` counts labels with the same code and content. `conditions` say of a
    table why some of its adopted labels may not be made by the promotion.
    """

    branch: str
    adopted: LabelsByTable = field(default_factory=dict)
    computed: LabelsByTable = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    older: LabelsByTable = field(default_factory=dict)
    stopped: LabelsByTable = field(default_factory=dict)
    equal: int = 0
    conditions: Mapping[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables with labels to make, in any order."""
        return tuple({**self.adopted, **self.computed})

    def labels_of(self, table: str) -> tuple[datetime, ...]:
        """Return all labels of a table that are made, oldest first."""
        return tuple(sorted((*self.adopted.get(table, ()), *self.computed.get(table, ()))))


def plan_promotion(flow: Flow, ledger: Ledger, offered: OfferedRevisions) -> Promotion:
    """Compare the revisions of a branch with those of the environment that it borrows from, upstream first.

    Cost: a snapshot of the ledger, three queries for each table, and a read of the footers of each slice to adopt.
    """
    snapshot = ledger.reads.snapshot(flow)
    contents = ContentChanges({name: table.mode for name, table in flow.tables.items()})
    adopted, computed, older, stopped = (dict[str, tuple[datetime, ...]]() for _ in range(4))
    reasons, equal = dict[str, str](), 0
    known = {record.name for record in ledger.reads.tables()}
    for name in flow.order:
        of_branch = offered.revisions.get(name)
        if not of_branch:
            continue
        made = ledger.reads.earlier_revisions(name, list(of_branch)) if name in known else {}
        current = {label: each for label, of_label in made.items() for each in of_label if each.is_current}
        now = ledger.reads.contents({(it.table, it.low, it.high) for each in of_branch.values() for it in each.inputs})
        mine, theirs, again = list[datetime](), list[datetime](), list[datetime]()
        for label, target in sorted(of_branch.items()):
            before = current.get(label)
            if before is not None and _is_same(before, target):
                equal += 1
                continue
            reads = contents.after(replace(it, content=now[it.table, it.low, it.high]) for it in target.inputs)
            if input_identities(reads) != input_identities(target.inputs):
                why = f"{differing_input(target.inputs, reads)} has other rows than the branch read"
            elif not has_repeatable_rows(flow.tables[name]):
                why = "its rows depend on more than code and inputs"
            elif fault := slice_fault(offered.folders[name], target):
                why = fault
            else:
                why = ""
            contents.add(name, before or replace(target, weight=(0, 0)), None if why else target)
            if why:
                reasons.setdefault(name, why)
            (theirs if why else mine).append(label)
            if before is not None:
                again.append(label)
        tried = sorted({*mine, *theirs} & snapshot.of(name).troubles.keys())
        for found, labels in ((adopted, mine), (computed, theirs), (older, again), (stopped, tried)):
            if labels:
                found[name] = tuple(labels)
    troubled = [name for name in flow.order if snapshot.of(name).troubles.keys() - {*stopped.get(name, ())}]
    conditions = find_conditions(flow, adopted, computed, older, troubled)
    return Promotion(offered.branch, adopted, computed, reasons, older, stopped, equal, conditions)


def find_conditions(
    flow: Flow,
    adopted: LabelsByTable,
    computed: LabelsByTable,
    older: LabelsByTable,
    troubled: Collection[str] = (),
) -> Mapping[str, str]:
    """Return for tables with adopted labels why the run of a promotion may not make some of them.

    `troubled` are tables with failed or held batches in production that the promotion does not try again.
    """
    found = dict[str, str]()
    roots = {name: name for name in troubled}
    for name in flow.order:
        waits = [roots[read.table] for read in flow.tables[name].reads if read.table in roots and read.table != name]
        if waits and name in adopted:
            found[name] = f"labels that read failed or held labels of {waits[0]} wait for these"
        if waits:
            roots.setdefault(name, waits[0])
    for name, labels in adopted.items():
        table = flow.tables[name]
        if table.mode is Mode.REPLACE and set(labels) - set(older.get(name, ())):
            found[name] = "of its states, only the newest and those that other tables read are made"
        for read in table.reads:
            source = flow.tables[read.table]
            changed = sorted({it.table for it in source.reads} & {*adopted, *computed})
            if source.kind is Kind.COLLECT and changed:
                first = f"{source.name} must first collect rows of {changed[0]}"
                found[name] = f"labels for which {first} wait for a later run"
    return found


def _is_same(current: EarlierRevision, target: EarlierRevision) -> bool:
    """Return whether production has the branch's revision already: the same code, inputs and content."""
    return (
        current.code == target.code
        and current.digest == target.digest
        and current.rows == target.rows
        and input_identities(current.inputs) == input_identities(target.inputs)
    )
