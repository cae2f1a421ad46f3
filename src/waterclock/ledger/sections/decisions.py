"""The section of the ledger for requests and decisions of users."""

from __future__ import annotations

from waterclock.ledger.sections.section import DatabaseMethod, Section
from waterclock.ledger.write import (
    closings,
    decisions,
    linked_restatements,
    pauses,
)


class Decisions(Section):
    """Stores requests and decisions of users, such as skip, retry, restate, hold and pause."""

    skip = DatabaseMethod(decisions.record_skipped)
    retry = DatabaseMethod(decisions.retry)
    request_backfill = DatabaseMethod(decisions.request_backfill)
    close_books = DatabaseMethod(closings.close_books)
    close_by_hand = DatabaseMethod(closings.close_by_hand)
    reopen = DatabaseMethod(closings.reopen)
    request_restate = DatabaseMethod(decisions.request_restate)
    request_remake_of_held = DatabaseMethod(decisions.request_remake_of_held)
    request_release = DatabaseMethod(decisions.request_release)
    refuse_release = DatabaseMethod(decisions.refuse_release)
    withdraw = DatabaseMethod(decisions.withdraw)
    end_following = DatabaseMethod(decisions.end_following)
    record_rule_note = DatabaseMethod(decisions.record_rule_note)
    mark_restated = DatabaseMethod(linked_restatements.mark_restated)
    pause_tables = DatabaseMethod(pauses.pause_tables)
    pause_all = DatabaseMethod(pauses.pause_all)
    resume_tables = DatabaseMethod(pauses.resume_tables)
    resume_all = DatabaseMethod(pauses.resume_all)
