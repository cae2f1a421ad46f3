"""The section of the ledger for maintenance: export, load, rebuild, reset and move."""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.ledger.read import current_revisions as current_set
from waterclock.ledger.sections.section import DatabaseMethod, Section
from waterclock.ledger.store import export, file_copies
from waterclock.ledger.write import branching, ledger_move_lock, pauses, rebuilt_tables, renaming, resetting
from waterclock.ledger.write import committed_claims as adopting
from waterclock.ledger.write import rebuild_all_lock as holding
from waterclock.ledger.write import table_rebuilds as redeclaring


class MaintenanceSection(Section):
    """The maintenance of a ledger; every method is one transaction."""

    export_lines = DatabaseMethod(export.export_lines)
    copy_file = DatabaseMethod(file_copies.copy_file)
    moment = DatabaseMethod(export.moment)
    known_claims = DatabaseMethod(adopting.known_claims)
    adopt = DatabaseMethod(adopting.adopt)
    adopt_reset = DatabaseMethod(adopting.adopt_reset)
    raise_claims = DatabaseMethod(adopting.raise_claims)
    move_head = DatabaseMethod(adopting.move_head)
    drop_windows = DatabaseMethod(adopting.drop_windows)
    differences = DatabaseMethod(redeclaring.differences)
    take_claim_number = DatabaseMethod(redeclaring.take_claim_number)
    begin_rebuild = DatabaseMethod(redeclaring.begin_rebuild)
    begin_drop = DatabaseMethod(redeclaring.begin_drop)
    abandon_rebuild = DatabaseMethod(redeclaring.abandon_rebuild)
    holds = DatabaseMethod(pauses.find_holds)
    require_idle_table = DatabaseMethod(redeclaring.require_idle_table)
    redeclare = DatabaseMethod(redeclaring.redeclare)
    is_resettable = DatabaseMethod(resetting.is_resettable)
    begin_reset = DatabaseMethod(resetting.begin_reset)
    end_reset = DatabaseMethod(resetting.end_reset)
    require_not_moved = DatabaseMethod(ledger_move_lock.require_not_moved)
    close_for = DatabaseMethod(ledger_move_lock.close_for)
    require_closed_for = DatabaseMethod(ledger_move_lock.require_closed_for)
    unlock_ledger = DatabaseMethod(ledger_move_lock.unlock_ledger)
    drop_boundary = DatabaseMethod(adopting.find_drop_boundary)
    forget_versions = DatabaseMethod(adopting.forget_versions)
    current_rebuilding = DatabaseMethod(holding.find_rebuilding)
    begin_rebuilding = DatabaseMethod(holding.begin_rebuilding)
    renew_rebuilding = DatabaseMethod(holding.renew_rebuilding)
    begin_moving = DatabaseMethod(holding.begin_moving)
    forget_rebuilding = DatabaseMethod(holding.forget_rebuilding)
    end_rebuilding = DatabaseMethod(holding.end_rebuilding)
    current_of = DatabaseMethod(current_set.current_of)
    inputs_by_label = DatabaseMethod(current_set.read_inputs_by_label)
    skipped_windows = DatabaseMethod(current_set.list_skipped_windows)
    emptying_versions_of = DatabaseMethod(current_set.emptying_versions_of)
    list_emptying_claims = DatabaseMethod(current_set.list_emptying_claims)
    record_set = DatabaseMethod(rebuilt_tables.record_set)
    record_former_name_and_folder = DatabaseMethod(renaming.record_former_name_and_folder)
    seed = DatabaseMethod(rebuilt_tables.seed)
    start_branch = DatabaseMethod(branching.start_branch)
    own_tables = DatabaseMethod(branching.own_tables)
    seed_dropped_windows = DatabaseMethod(rebuilt_tables.seed_dropped_windows)

    def load(self, exports: Iterable[Iterable[str]]) -> int:
        """Fill an empty ledger from the lines of exports, newest first. Return the number of batches in the ledger.

        The transaction is not retried if the connection breaks, since the exports can be read only once.
        """
        return export.load(self.database, exports)
