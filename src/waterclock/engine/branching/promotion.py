"""Reads the revisions that a branch has made itself, so that the environment it borrows from can adopt their slices."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from waterclock.batches.earlier_revisions import EarlierRevision, OfferedRevisions
from waterclock.batches.former_names import is_borrowed
from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.batches.records import TableRecord
from waterclock.dpl.project import Project
from waterclock.engine.branching.branch_state import BranchState, no_branch_error, require_branch
from waterclock.engine.ledger_opening import ledger_url
from waterclock.engine.storage_access import reach_storage
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.signatures import signature_of
from waterclock.storage.lake import Lake


def read_offered_revisions(branch: Project, flow: Flow) -> OfferedRevisions:
    """Return the current revisions of a branch that have the code of `flow`. Nothing is written to the branch.

    Tables that the branch made with another cadence, zone or key are left out: their windows are not those of `flow`.
    Raises E470 if there is no such branch. Cost: two queries for each 200 labels of an own table.
    """
    state = require_branch(branch)
    reach_storage(branch)
    found = Ledger.query(ledger_url(branch), lambda ledger: _read(ledger, branch, flow, state))
    if found is None:
        raise no_branch_error(branch.env)
    return found


def _read(ledger: Ledger, branch: Project, flow: Flow, state: BranchState) -> OfferedRevisions:
    ledger.declared.apply_pending_renames(flow)  # a table that was renamed since is found by its new name
    lake = Lake(branch.storage, folders=ledger.declared.former().folders)
    own = [
        record.name
        for record in ledger.reads.tables()
        if not is_borrowed(record.location) and record.kind == Kind.TRANSFORM and _is_declared_alike(record, flow)
    ]
    revisions = {name: _current_revisions(ledger, name, flow.tables[name].fingerprint, state) for name in own}
    offered = {name: of_table for name, of_table in revisions.items() if of_table}
    return OfferedRevisions(branch.env, {name: lake.folder(name) for name in offered}, offered)


def _is_declared_alike(record: TableRecord, flow: Flow) -> bool:
    table = flow.tables.get(record.name)
    return table is not None and all(getattr(record, name) == of for name, of in signature_of(table).items())


def _current_revisions(ledger: Ledger, name: str, code: str, state: BranchState) -> dict[datetime, EarlierRevision]:
    """Map labels to the current revisions that the branch made with this code. They count as replaced for adoptions."""
    own = ledger.past.made_labels(name, BEGINNING, state.tick, after=state.created_at)  # not the copied history
    labels = [label for label, made_by in own if made_by == code]
    made = ledger.reads.earlier_revisions(name, labels)
    return {
        label: replace(each, is_current=False)
        for label, of_label in made.items()
        for each in of_label
        if each.is_current and each.recorded_at > state.created_at
    }
