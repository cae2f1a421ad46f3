"""The section of the ledger for the history of batches, runs and events."""

from __future__ import annotations

from waterclock.ledger.read import codes as past_codes
from waterclock.ledger.read import (
    durations,
    notes,
    provenance,
    status,
    watching,
)
from waterclock.ledger.read import kept_at_sources as past_kept
from waterclock.ledger.read import measures as past_measures
from waterclock.ledger.read import pauses as past_pauses
from waterclock.ledger.read import runs as past_runs
from waterclock.ledger.read import schemas as past_schemas
from waterclock.ledger.section import Section, on_its_database
from waterclock.ledger.write import (
    runs,
)


class PastSection(Section):
    """The history of batches, runs and events."""

    grid = on_its_database(status.grid)
    newest = on_its_database(status.newest)
    made_labels = on_its_database(status.list_made_labels)
    oldest_label = on_its_database(status.oldest_label)
    amount = on_its_database(status.amount)
    settled_labels = on_its_database(status.read_settled_labels)
    row_warnings = on_its_database(status.read_row_warnings)
    durations = on_its_database(durations.durations)
    at_work = on_its_database(watching.at_work)
    began = on_its_database(watching.began)
    began_by = on_its_database(watching.began_by)
    newest_made = on_its_database(watching.newest_made)
    newest_rows = on_its_database(watching.newest_rows)
    empty_at_last = on_its_database(watching.empty_at_last)
    rule_notes = on_its_database(notes.rule_notes)
    audit = on_its_database(status.audit)
    codes = on_its_database(past_codes.codes)
    newest_counted = on_its_database(past_measures.newest_counted)
    newest_schemas = on_its_database(past_schemas.newest_schemas)
    pauses = on_its_database(past_pauses.pauses)
    upstream = on_its_database(provenance.upstream)
    downstream = on_its_database(provenance.downstream)
    rows = on_its_database(status.status_rows)
    columns = on_its_database(status.status_columns)
    kept_at_sources = on_its_database(past_kept.kept_at_sources)
    kept_for_tables = on_its_database(past_kept.read_kept_for_tables)
    seen_at_sources = on_its_database(past_kept.seen_at_sources)
    waits_for_sources = on_its_database(past_kept.waits_for_sources)
    add_event = on_its_database(runs.add_event)
    begin_run = on_its_database(runs.begin_run)
    end_run = on_its_database(runs.end_run)
    runs = on_its_database(past_runs.newest_runs)
    find_run = on_its_database(past_runs.find_run)
    spark_page = on_its_database(past_runs.spark_page)
    claims_of_run = on_its_database(past_runs.claims_of_run)
