"""Lists proposed changes of a form, and approves, rejects or withdraws them.

Approval writes the rows of a proposal with their history in the transaction that closes it. So a process that is killed
leaves both or neither, and repeating the approval changes nothing. A proposal is decided by another person than the
one who made it, which the database refuses as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waterclock.connectors.forms.changes import (
    MOST_EDITS,
    Applied,
    Edit,
    EditConflictError,
    NewBatch,
    Origin,
    StoredRow,
    find_changes,
    key_text,
    read_json,
    read_rows,
    register,
    require_words,
    show_row,
    split_key,
    write_batch,
    write_json,
)
from waterclock.connectors.forms.database import (
    PROPOSALS,
    PROPOSED,
    FormsDatabase,
    FormsSession,
    from_text,
    to_text,
)
from waterclock.connectors.forms.proposal_store import ProposalState, ProposedTexts, read_proposed
from waterclock.connectors.forms.shown_rows import is_proposal_shown
from waterclock.connectors.forms.values import Row
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.form_rights import FormRights
from waterclock.flow.form_views import FormView
from waterclock.flow.forms import Entity

MOST_LISTED = 100
"""The maximum number of proposals in a list."""


@dataclass(frozen=True, slots=True)
class FormProposal:
    """A proposed batch of changes: who made it, when and why, its number of rows, and how it was decided.

    `batch` is the number of the batch that an approval wrote; None if it changed nothing.
    """

    number: int
    who: str
    at: datetime
    why: str
    origin: Origin
    undoes: int | None
    count: int
    state: ProposalState
    decided_by: str | None = None
    decided_at: datetime | None = None
    decided_why: str | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class ProposedRow:
    """A row of a proposal: its content when it was proposed, now, and as proposed. None means that there is no row.

    `is_stale`: the row changed since it was proposed, and is not as proposed either. Approval is a conflict then.
    """

    key: str
    version: int | None
    before: Row | None
    after: Row | None
    current: StoredRow | None

    @property
    def is_stale(self) -> bool:
        """Whether approval would be a conflict."""
        now = None if self.current is None else write_json(self.current.content)
        after = None if self.after is None else write_json(self.after)
        return now != after and self.version != (None if self.current is None else self.current.version)


def list_proposals(
    database: FormsDatabase,
    entity: Entity,
    *,
    key: Sequence[str] | None = None,
    most: int = MOST_LISTED,
    view: FormView | None = None,
) -> list[FormProposal]:
    """Return open proposals of a form, oldest first; with a key, only those that change its row.

    `most` are read. With `view`, those of which a part is not shown are left out.
    """
    condition, values = "entity = ? AND state = ?", [entity.name, ProposalState.OPEN.value]
    if key is not None:
        condition += f" AND id IN (SELECT proposal FROM {PROPOSED} WHERE key = ?)"
        values.append(key_text(key))
    with database.open_for_reading(entity.table) as session:
        found = _read_proposals(session, condition, values, most)
        return [each for each in found if _is_shown(session, entity, each.number, view)]


def find_proposal(
    database: FormsDatabase, entity: Entity, number: int, most: int, view: FormView | None = None
) -> tuple[FormProposal, list[ProposedRow]]:
    """Return a proposal with its rows, at most `most`, and their current state. Raises E894 for an unknown number."""
    with database.open_for_reading(entity.table) as session:
        proposal = _require_proposal(session, entity, number, view)
        proposed = read_proposed(session, number, most)
        current = {row.key: row for row in read_rows(session, entity, [key for key, *_ in proposed])}
    shown = read_json if view is None else lambda text: view.project(read_json(text))
    return proposal, [
        ProposedRow(key, version, shown(before), shown(after), show_row(view, current.get(key)))
        for key, version, before, after in proposed
    ]


def may_decide(database: FormsDatabase, entity: Entity, number: int, by: FormRights) -> bool:
    """Return whether a person's grants have each row of a proposal that is shown to them, as when they decide on it.

    Conditions use all columns, also those that are not shown. Cost: with conditions, it reads all rows of the proposal.
    """
    if by.approvals is None or not by.may_approve:
        return by.may_approve
    with database.open_for_reading(entity.table) as session:
        proposed = read_proposed(session, number, MOST_EDITS)
        current = {row.key: row for row in read_rows(session, entity, [key for key, *_ in proposed])}
    return all(by.may_approve_row(*versions) for _, versions in _versions_of(proposed, current))


def _is_shown(session: FormsSession, entity: Entity, number: int, view: FormView | None) -> bool:
    return view is None or is_proposal_shown(view, session, entity, read_proposed(session, number, MOST_EDITS))


def approve(database: FormsDatabase, entity: Entity, number: int, by: FormRights, why: str = "") -> Applied:
    """Write the rows of a proposal as one batch of its author, approved by another person.

    The same approval again returns its result and changes nothing. Raises E940 without the right to approve in one of
    the rows, E899 for the author, E898 if the proposal was decided otherwise, `EditConflictError` (E892) if one of its
    rows has another version than the author saw, E891 if a value does not fit the form any more. Cost: that of `apply`.
    """
    with database.open_for_writing(entity.table) as session:
        proposal = _require_decidable(session, entity, number, by, why or "approved", ProposalState.APPROVED)
        if proposal.state is ProposalState.APPROVED:
            return Applied(proposal.batch, proposal.count if proposal.batch else 0, proposal.decided_at, number)
        register(session, entity)
        proposed = read_proposed(session, number, MOST_EDITS)
        edits = {key: Edit(split_key(entity, key), read_json(after), version, is_whole=True)
                 for key, version, _, after in proposed}  # fmt: skip
        current = {row.key: row for row in read_rows(session, entity, edits)}
        _require_rows(entity, by, proposed, current)
        try:
            changed = dict(find_changes(entity, edits, current, proposal.origin, by.view))
        except EditConflictError as error:
            raise _stale_error(entity, proposal, error) from error
        batch, at = None, database.now(session)
        if changed:
            new = NewBatch(entity.name, proposal.who, proposal.why, proposal.origin, proposal.undoes, by.name, number)
            batch, at = write_batch(database, session, new, changed, current, entity.required)
        _close(session, number, ProposalState.APPROVED, by, why, at, batch)
    fault("forms.done")
    return Applied(batch, len(changed), at, number)


def reject(database: FormsDatabase, entity: Entity, number: int, by: FormRights, why: str) -> None:
    """Close a proposal without changing rows. Again is allowed. Raises E891 without a reason, E940, E899 or E898."""
    _close_unapproved(database, entity, number, by, why, ProposalState.REJECTED)


def withdraw(database: FormsDatabase, entity: Entity, number: int, by: FormRights, why: str) -> None:
    """Close a proposal of one's own. Raises E891 without a reason, E899 for a proposal of another person, E898."""
    _close_unapproved(database, entity, number, by, why, ProposalState.WITHDRAWN)


def _close_unapproved(
    database: FormsDatabase, entity: Entity, number: int, by: FormRights, why: str, state: ProposalState
) -> None:
    with database.open_for_writing(entity.table) as session:
        proposal = _require_decidable(session, entity, number, by, why, state)
        if proposal.state is ProposalState.OPEN:
            if state is ProposalState.REJECTED and by.approvals is not None:
                proposed = read_proposed(session, number, MOST_EDITS)
                current = {row.key: row for row in read_rows(session, entity, [key for key, *_ in proposed])}
                _require_rows(entity, by, proposed, current)
            _close(session, number, state, by, why, database.now(session), None)
    fault("forms.done")


def _close(
    session: FormsSession, number: int, state: ProposalState, by: FormRights, why: str, at: datetime, batch: int | None
) -> None:
    session.execute(
        f"UPDATE {PROPOSALS} SET state = ?, decided_by = ?, decided_at = ?, decided_why = ?, batch = ? WHERE id = ?",
        (state.value, by.name, to_text(at), why, batch, number),
    )
    fault("forms.decided")


def _require_rows(
    entity: Entity, by: FormRights, proposed: Sequence[ProposedTexts], current: Mapping[str, StoredRow]
) -> None:
    """Raise E940 unless the person may decide on each row of a proposal as it was, as it is and as proposed."""
    if by.approvals is None:
        return
    for key, versions in _versions_of(proposed, current):
        by.require_approval_of_row(entity.table, key, *versions)


def _versions_of(
    proposed: Sequence[ProposedTexts], current: Mapping[str, StoredRow]
) -> Iterator[tuple[str, tuple[Row | None, ...]]]:
    """Yield each key of a proposal with its row as it was, as it is and as proposed."""
    for key, _, before, after in proposed:
        now = current[key].content if key in current else None
        yield key, (read_json(before), now, read_json(after))


def _require_decidable(
    session: FormsSession, entity: Entity, number: int, by: FormRights, why: str, state: ProposalState
) -> FormProposal:
    """Return a proposal that a person may bring into a state, or that the person has brought into it before."""
    is_withdrawal = state is ProposalState.WITHDRAWN
    if is_withdrawal:
        by.require_edit(entity.table)
    else:
        by.require_approval(entity.table)
    require_words(entity, by.name, why)
    proposal = _require_proposal(session, entity, number, by.view)
    is_own = proposal.who.strip().casefold() == by.name.strip().casefold()
    if is_own is not is_withdrawal or (is_withdrawal and proposal.who != by.name):
        raise WaterclockError(
            "E899",
            f"{by.name} cannot {'withdraw' if is_withdrawal else 'decide on'} proposal {number}",
            where=entity.table,
            why=f"{proposal.who} made it, and only {proposal.who} withdraws it"
            if is_withdrawal
            else f"{by.name} made it, and the form needs the approval of another person",
            fix="reject it, if you may approve changes" if is_withdrawal else "ask another person, or withdraw it",
        )
    if proposal.state is not ProposalState.OPEN and (proposal.state, proposal.decided_by) != (state, by.name):
        raise WaterclockError(
            "E898",
            f"proposal {number} is already {proposal.state}",
            where=entity.table,
            why=f"{proposal.decided_by} decided it" + (f": {proposal.decided_why}" if proposal.decided_why else ""),
            fix="look at the current rows, then change them again if needed",
        )
    return proposal


def _require_proposal(session: FormsSession, entity: Entity, number: int, view: FormView | None) -> FormProposal:
    found = _read_proposals(session, "entity = ? AND id = ?", (entity.name, number), 1)
    if not found or not _is_shown(session, entity, number, view):
        raise WaterclockError(
            "E894",
            f"{entity.table} has no proposal {number}",
            fix=f"`waterclock edit proposals {entity.table}` lists the open ones",
        )
    return found[0]


def _read_proposals(session: FormsSession, condition: str, values: Sequence[Any], most: int) -> list[FormProposal]:
    sql = (
        "SELECT id, who, at, why, origin, undoes, count, state, decided_by, decided_at, decided_why, batch"
        f" FROM {PROPOSALS} WHERE {condition} ORDER BY id LIMIT {int(most)}"
    )
    return [
        FormProposal(
            number, who, from_text(at), why, Origin(origin), undoes, count, ProposalState(state), decided_by,
            None if decided_at is None else from_text(decided_at), decided_why, batch,
        )
        for number, who, at, why, origin, undoes, count, state, decided_by, decided_at, decided_why, batch
        in session.rows_of(sql, values)
    ]  # fmt: skip


def _stale_error(entity: Entity, proposal: FormProposal, conflict: EditConflictError) -> EditConflictError:
    first = key_text(conflict.conflicts[0].edit.key)
    more = f" and {len(conflict.conflicts) - 1} more" if len(conflict.conflicts) > 1 else ""
    error = EditConflictError(
        "E892",
        f"{first}{more} of {entity.table} changed since proposal {proposal.number} was made",
        where=entity.table,
        why="the proposer saw another version; nothing of the proposal was saved",
        fix=f"reject it, so that {proposal.who} proposes it again from the current rows",
    )
    error.conflicts = conflict.conflicts
    return error
