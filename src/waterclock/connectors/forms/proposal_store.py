"""Stores proposed changes of a form. Nothing reads their rows but the approval, so no window has them before it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from waterclock.connectors.forms.database import PROPOSALS, PROPOSED, FormsSession, to_text
from waterclock.faults import fault

_COMPARED = 20  # open proposals of one person that may be the same one, sent again


class ProposalState(StrEnum):
    """The state of a proposal. All but `open` are final."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


ProposedTexts = tuple[str, int | None, str | None, str | None]
"""A proposed row: its key, the version that the proposer saw, and its content before and after as JSON."""


def store_proposal(  # noqa: PLR0913 - each is a column
    session: FormsSession,
    entity: str,
    *,
    who: str,
    why: str,
    origin: str,
    undoes: int | None,
    at: datetime,
    rows: Sequence[ProposedTexts],
) -> int:
    """Store an open proposal in the writing transaction, and return its number.

    A person who proposes the same rows again, as after a lost answer, gets the number of the open proposal.
    """
    ordered = sorted(rows)
    known = session.rows_of(
        f"SELECT id FROM {PROPOSALS} WHERE entity = ? AND state = ? AND who = ? AND count = ?"
        f" ORDER BY id DESC LIMIT {_COMPARED}",
        (entity, ProposalState.OPEN.value, who, len(rows)),
    )
    for (number,) in known:
        if read_proposed(session, number, len(rows) + 1) == ordered:
            return int(number)
    number = 1 + (session.first_of(f"SELECT max(id) FROM {PROPOSALS}")[0] or 0)
    session.execute(
        f"INSERT INTO {PROPOSALS} (id, entity, who, at, why, origin, undoes, count, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (number, entity, who, to_text(at), why, origin, undoes, len(rows), ProposalState.OPEN.value),
    )
    fault("forms.proposal")
    session.execute_many(
        f"INSERT INTO {PROPOSED} (proposal, key, version, before, after) VALUES (?, ?, ?, ?, ?)",
        [(number, *row) for row in ordered],
    )
    fault("forms.proposed")
    return int(number)


def read_proposed(session: FormsSession, number: int, most: int) -> list[ProposedTexts]:
    """Return rows of a proposal in the order of their keys, at most `most`."""
    sql = f"SELECT key, version, before, after FROM {PROPOSED} WHERE proposal = ? ORDER BY key LIMIT {int(most)}"
    return [(key, version, before, after) for key, version, before, after in session.rows_of(sql, (number,))]
