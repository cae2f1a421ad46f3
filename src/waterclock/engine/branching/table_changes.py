"""Determines which tables of a flow differ from those that a branch borrows. Pure.

A table is the branch's own if its code was changed, or if it is made from such a table. Code is compared by
fingerprints, which ignore comments, spacing and unused views.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from waterclock.batches.former_names import FormerNames
from waterclock.engine.branching.branch_state import BranchState
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind
from waterclock.flow.graph import closure, readers_of


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The tables of a branch whose code differs from that of its base, and those that are made from them.

    `changed` and `new` are transforms. `affected` are unchanged transforms that read one of them, directly or not.
    `collects` are new or changed collects, and those that read an own table (FOR EACH): a branch collects nothing, so
    they keep the rows of the base, and new ones, which are not `borrowed`, have none. `delivered` are publishes to the
    sandbox that deliver own tables or have other code. `publishes` are such publishes to other connections; a branch
    does not run them.
    """

    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    affected: tuple[str, ...] = ()
    collects: tuple[str, ...] = ()
    publishes: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()
    borrowed: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def own(self) -> tuple[str, ...]:
        """The transforms that the branch makes itself."""
        return (*self.changed, *self.new, *self.affected)

    @property
    def made(self) -> tuple[str, ...]:
        """The transforms and publishes whose labels the branch makes."""
        return (*self.own, *self.delivered)


def find_table_changes(
    flow: Flow, state: BranchState, former: FormerNames, sandbox: Collection[str] = ()
) -> TableChanges:
    """Compare a flow with the code that the base of a branch had declared when the branch was created.

    `sandbox` are the connections that the branch may deliver to.
    """
    changed, new, collects, changed_publishes = list[str](), list[str](), list[str](), set[str]()
    missing = set[str]()
    for name in flow.order:
        table = flow.tables[name]
        was = _former_code(table, state)
        if was is not None and former.code(was, table.fingerprint) == table.fingerprint:
            continue
        if table.kind is Kind.PUBLISH:
            changed_publishes.add(name)
            continue
        if was is None:
            missing.add(name)
        (collects if table.kind is Kind.COLLECT else new if was is None else changed).append(name)
    readers = {name: {*others, *_companions(flow, name)} for name, others in readers_of(flow).items()}
    # a collect that reads a table (FOR EACH) keeps its rows, and so do the tables that read the collect alone
    edges = {name: {it for it in of if flow.tables[it].kind is not Kind.COLLECT} for name, of in readers.items()}
    reached = closure((*changed, *new), edges)
    others = [name for name in flow.order if name in reached and name not in {*changed, *new}]
    own = {*changed, *new, *others}
    reading = [
        name
        for name in flow.order
        if flow.tables[name].kind is Kind.COLLECT
        and name not in collects
        and any(name in readers[read] for read in own)
    ]
    publishes = [
        name
        for name in flow.order
        if flow.tables[name].kind is Kind.PUBLISH and (name in reached or name in changed_publishes)
    ]
    delivered = [name for name in publishes if _connection_of(flow.tables[name]) in sandbox]
    return TableChanges(
        tuple(changed),
        tuple(new),
        tuple(name for name in others if flow.tables[name].kind is Kind.TRANSFORM),
        (*collects, *reading),
        tuple(name for name in publishes if name not in delivered),
        tuple(delivered),
        tuple(
            name
            for name in flow.order
            if name not in own and name not in missing and flow.tables[name].kind is not Kind.PUBLISH
        ),
        {name: _first_changed_input(flow, name, own) for name in (*others, *reading)},
    )


def _former_code(table: Table, state: BranchState) -> str | None:
    found = state.codes.get(table.name)
    return found if found is not None or table.was is None else state.codes.get(table.was)


def _connection_of(table: Table) -> str | None:
    return None if table.destination is None else table.destination.connection


def _companions(flow: Flow, name: str) -> list[str]:
    """Return the tables with the late rows or the open windows of a table."""
    return [
        each.name
        for each in flow.tables.values()
        if each.open_of == name or (each.late_rows is not None and each.late_rows.of == name)
    ]


def _first_changed_input(flow: Flow, name: str, own: set[str]) -> str:
    reads = (read.table for read in flow.tables[name].reads if read.table in own and read.table != name)
    return next(reads, name)
