"""The section of the ledger for requests and decisions of users."""

from __future__ import annotations

from waterclock.ledger.section import Section, on_its_database
from waterclock.ledger.write import (
    closings,
    decisions,
    pauses,
    upstream,
)


class Decisions(Section):
    """Requests and decisions of users."""

    skip = on_its_database(decisions.record_skipped)
    retry = on_its_database(decisions.retry)
    request_backfill = on_its_database(decisions.request_backfill)
    close_books = on_its_database(closings.close_books)
    close_by_hand = on_its_database(closings.close_by_hand)
    reopen = on_its_database(closings.reopen)
    request_restate = on_its_database(decisions.request_restate)
    request_held_again = on_its_database(decisions.request_held_again)
    request_release = on_its_database(decisions.request_release)
    refuse_release = on_its_database(decisions.refuse_release)
    withdraw = on_its_database(decisions.withdraw)
    end_following = on_its_database(decisions.end_following)
    note_rule = on_its_database(decisions.note_rule)
    mark_restated = on_its_database(upstream.mark_restated)
    pause_tables = on_its_database(pauses.pause_tables)
    pause_all = on_its_database(pauses.pause_all)
    resume_tables = on_its_database(pauses.resume_tables)
    resume_all = on_its_database(pauses.resume_all)
