"""Moves a project's ledger with all its content into another database, and closes the old one."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.dpl.project import Project
from waterclock.engine.ledger_opening import ledger_url, open_ledger
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.ledger_errors import existing_ledger_error, nothing_to_export
from waterclock.ledger.store.locations import place_of, redact_url_text


@dataclass(frozen=True, slots=True)
class MovedLedger:
    """The old and the new URL of a ledger, without passwords, and the number of batches in it."""

    old: str
    new: str
    batches: int


def move_ledger(project: Project, to: str, *, who: str) -> MovedLedger:
    """Copy the ledger to the URL `to`, and close the old one for writing.

    An interrupted move starts over. Any failure leaves the old ledger as it was. Raises E417 if a ledger is at `to`,
    E419 if there is none to move, E426 while batches run.
    """
    old = ledger_url(project)
    ledger = open_ledger(project, even_moved=True)
    if ledger is None:
        raise nothing_to_export(redact_url_text(old))
    place = place_of(to)
    with ledger:
        if place.is_taken():
            raise existing_ledger_error(place.name, may_force=False)
        ledger.maintenance.close_for(redact_url_text(to), who=who)
        try:
            with Ledger.open(place.empty_draft()) as made:
                count = made.maintenance.load([ledger.maintenance.export_lines()])
            # a move that failed in the meantime may have reopened it: the copy would miss later writes
            ledger.maintenance.require_closed_for(redact_url_text(to))
            place.install_draft(ledger.now(), replaces=False)
        except BaseException:
            if not place.is_taken():
                ledger.maintenance.unlock_ledger()
            raise
    return MovedLedger(redact_url_text(old), redact_url_text(to), count)
