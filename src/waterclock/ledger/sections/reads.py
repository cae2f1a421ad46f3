"""The section of the ledger that finds the slices, states and versions that batches and queries read."""

from __future__ import annotations

from waterclock.ledger.read import (
    clock,
    current,
    earlier_revisions,
    held_and_quarantined,
    linked_projects,
    revisions,
    source_notes,
    table_history,
)
from waterclock.ledger.read import closings as past_closings
from waterclock.ledger.read import inputs as inputs_read
from waterclock.ledger.read import measures as past_measures
from waterclock.ledger.read import schemas as past_schemas
from waterclock.ledger.read.closings import closings_in
from waterclock.ledger.read.code_pairs import code_pairs, idle_labels_of_other_query, unpaired_labels
from waterclock.ledger.read.snapshot import snapshot
from waterclock.ledger.sections.section import DatabaseMethod, Section


class Reads(Section):
    """Finds the slices, states and versions of tables that batches and queries read."""

    snapshot = DatabaseMethod(snapshot)
    find_table = DatabaseMethod(current.find_table)
    table = DatabaseMethod(current.table)
    tables = DatabaseMethod(current.list_tables)
    unknown_claims = DatabaseMethod(current.unknown_claims)
    covered_windows = DatabaseMethod(current.read_covered_windows)
    slices = DatabaseMethod(current.slices)
    state = DatabaseMethod(current.state)
    newest = DatabaseMethod(current.newest)
    last_recorded = DatabaseMethod(current.last_recorded)
    measure_clock_lag = DatabaseMethod(clock.measure_clock_lag)
    inputs = DatabaseMethod(current.inputs)
    reads_starting_within = DatabaseMethod(inputs_read.find_reads_starting_within)
    version_at = DatabaseMethod(current.version_at)
    versions = DatabaseMethod(current.versions_of)
    committed_slices = DatabaseMethod(current.list_committed_slices)
    changed_slices = DatabaseMethod(current.changed_slices)
    current_state = DatabaseMethod(revisions.read_current_state)
    revisions = DatabaseMethod(revisions.list_revisions)
    earlier_revisions = DatabaseMethod(earlier_revisions.list_earlier_revisions)
    history = DatabaseMethod(table_history.history)
    content = DatabaseMethod(current.content)
    contents = DatabaseMethod(current.contents)
    pins = DatabaseMethod(current.pins)
    list_collected_items = DatabaseMethod(current.list_collected_items)
    find_collected_items = DatabaseMethod(current.find_collected_items)
    owned_items = DatabaseMethod(current.owned_items)
    items_around = DatabaseMethod(current.items_around)
    oldest_open_owner = DatabaseMethod(current.oldest_open_owner)
    read_closed_since = DatabaseMethod(past_closings.read_closed_since)
    source_notes = DatabaseMethod(source_notes.list_source_notes)
    closings = DatabaseMethod(closings_in)
    code_pairs = DatabaseMethod(code_pairs)
    idle_labels_of_other_query = DatabaseMethod(idle_labels_of_other_query)
    unpaired_labels = DatabaseMethod(unpaired_labels)
    held_labels = DatabaseMethod(held_and_quarantined.list_held_labels)
    held_claim = DatabaseMethod(held_and_quarantined.find_held_claim)
    list_unread_releases = DatabaseMethod(held_and_quarantined.list_unread_releases)
    list_earlier_holds = DatabaseMethod(held_and_quarantined.list_earlier_holds)
    list_quarantined_labels = DatabaseMethod(held_and_quarantined.list_quarantined_labels)
    list_quarantine_slices = DatabaseMethod(held_and_quarantined.list_quarantine_slices)
    schemas = DatabaseMethod(past_schemas.schemas_of)
    measures_before = DatabaseMethod(past_measures.read_earlier_measures)
    read_elsewhere = DatabaseMethod(linked_projects.read_elsewhere)
    declarations = DatabaseMethod(linked_projects.read_declarations)
    closed_ticks = DatabaseMethod(past_closings.ticks_from)
