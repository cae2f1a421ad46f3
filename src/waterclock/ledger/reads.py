"""The section of the ledger for the data to which batches and queries are bound."""

from __future__ import annotations

from waterclock.ledger.read import (
    changes_since,
    clock,
    current,
    linked_projects,
    quality,
    source_notes,
)
from waterclock.ledger.read import closings as past_closings
from waterclock.ledger.read import inputs as inputs_read
from waterclock.ledger.read import measures as past_measures
from waterclock.ledger.read import schemas as past_schemas
from waterclock.ledger.read.closings import closings_in
from waterclock.ledger.read.snapshot import snapshot
from waterclock.ledger.section import Section, on_its_database


class Reads(Section):
    """The data to which batches and queries are bound."""

    snapshot = on_its_database(snapshot)
    find_table = on_its_database(current.find_table)
    table = on_its_database(current.table)
    tables = on_its_database(current.all_tables)
    unknown_claims = on_its_database(current.unknown_claims)
    covered_windows = on_its_database(current.read_covered_windows)
    slices = on_its_database(current.slices)
    state = on_its_database(current.state)
    newest = on_its_database(current.newest)
    last_recorded = on_its_database(current.last_recorded)
    clock_back = on_its_database(clock.clock_back)
    inputs = on_its_database(current.inputs)
    reads_starting_within = on_its_database(inputs_read.find_reads_starting_within)
    version_at = on_its_database(current.version_at)
    versions = on_its_database(current.versions_of)
    committed_slices = on_its_database(current.list_committed_slices)
    changed_slices = on_its_database(current.changed_slices)
    history = on_its_database(changes_since.history)
    content = on_its_database(current.content)
    contents = on_its_database(current.contents)
    pins = on_its_database(current.pins)
    taken_items = on_its_database(current.taken_items)
    owned_items = on_its_database(current.owned_items)
    read_closed_since = on_its_database(past_closings.read_closed_since)
    source_notes = on_its_database(source_notes.list_source_notes)
    closings = on_its_database(closings_in)
    held_labels = on_its_database(quality.list_held_labels)
    held_claim = on_its_database(quality.find_held_claim)
    held_before = on_its_database(quality.held_before)
    set_aside = on_its_database(quality.set_aside)
    slices_aside = on_its_database(quality.slices_aside)
    schemas = on_its_database(past_schemas.schemas_of)
    measures_before = on_its_database(past_measures.read_measures_before)
    read_elsewhere = on_its_database(linked_projects.read_elsewhere)
    declarations = on_its_database(linked_projects.read_declarations)
    closed_ticks = on_its_database(past_closings.ticks_from)
