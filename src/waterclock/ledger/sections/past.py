"""The section of the ledger for the history of batches, runs and events."""

from __future__ import annotations

from waterclock.ledger.read import (
    code_versions,
    durations,
    provenance,
    rule_notes,
    status,
    table_progress,
)
from waterclock.ledger.read import measures as past_measures
from waterclock.ledger.read import pauses as past_pauses
from waterclock.ledger.read import runs as past_runs
from waterclock.ledger.read import schemas as past_schemas
from waterclock.ledger.read import source_events as past_kept
from waterclock.ledger.sections.section import DatabaseMethod, Section
from waterclock.ledger.write import (
    runs,
)


class PastSection(Section):
    """The history of batches, runs and events."""

    grid = DatabaseMethod(status.grid)
    newest = DatabaseMethod(status.newest)
    made_labels = DatabaseMethod(status.list_made_labels)
    oldest_label = DatabaseMethod(status.oldest_label)
    amount = DatabaseMethod(status.amount)
    settled_labels = DatabaseMethod(status.read_settled_labels)
    row_warnings = DatabaseMethod(status.read_row_warnings)
    durations = DatabaseMethod(durations.durations)
    list_open_claims = DatabaseMethod(table_progress.list_open_claims)
    began = DatabaseMethod(table_progress.read_first_claim_times)
    began_by = DatabaseMethod(table_progress.began_by)
    list_newest_labels = DatabaseMethod(table_progress.list_newest_labels)
    newest_rows = DatabaseMethod(table_progress.newest_rows)
    empty_at_last = DatabaseMethod(table_progress.empty_at_last)
    rule_notes = DatabaseMethod(rule_notes.rule_notes)
    audit = DatabaseMethod(status.audit)
    codes = DatabaseMethod(code_versions.codes)
    declared_statements = DatabaseMethod(code_versions.declared_statements)
    declared_code = DatabaseMethod(code_versions.declared_code)
    newest_counted = DatabaseMethod(past_measures.newest_counted)
    newest_schemas = DatabaseMethod(past_schemas.newest_schemas)
    pauses = DatabaseMethod(past_pauses.pauses)
    upstream = DatabaseMethod(provenance.upstream)
    downstream = DatabaseMethod(provenance.downstream)
    list_read_slices = DatabaseMethod(provenance.list_read_slices)
    rows = DatabaseMethod(status.status_rows)
    columns = DatabaseMethod(status.status_columns)
    list_retained_objects = DatabaseMethod(past_kept.list_retained_objects)
    kept_for_tables = DatabaseMethod(past_kept.read_kept_for_tables)
    read_retained_states = DatabaseMethod(past_kept.read_retained_states)
    read_last_maintenance = DatabaseMethod(past_kept.read_last_maintenance)
    waits_for_sources = DatabaseMethod(past_kept.waits_for_sources)
    add_event = DatabaseMethod(runs.add_event)
    begin_run = DatabaseMethod(runs.begin_run)
    end_run = DatabaseMethod(runs.end_run)
    runs = DatabaseMethod(past_runs.newest_runs)
    find_run = DatabaseMethod(past_runs.find_run)
    spark_page = DatabaseMethod(past_runs.spark_page)
    claims_of_run = DatabaseMethod(past_runs.claims_of_run)
