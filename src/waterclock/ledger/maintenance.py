"""Maintains a ledger: export, rebuild from stored data, and records of completed maintenance."""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.ledger.read import whole_set as current_set
from waterclock.ledger.section import Section, on_its_database
from waterclock.ledger.store import export
from waterclock.ledger.write import adopt as adopting
from waterclock.ledger.write import moving, pauses, renaming, resetting, whole_set
from waterclock.ledger.write import rebuilding as holding
from waterclock.ledger.write import redeclare as redeclaring


class Keeping(Section):
    """The maintenance of a ledger; every method is one transaction."""

    export_lines = on_its_database(export.export_lines)
    moment = on_its_database(export.moment)
    known_claims = on_its_database(adopting.known_claims)
    adopt = on_its_database(adopting.adopt)
    adopt_reset = on_its_database(adopting.adopt_reset)
    raise_claims = on_its_database(adopting.raise_claims)
    move_head = on_its_database(adopting.move_head)
    drop_windows = on_its_database(adopting.drop_windows)
    differences = on_its_database(redeclaring.differences)
    draw_claim = on_its_database(redeclaring.draw_claim)
    begin_rebuild = on_its_database(redeclaring.begin_rebuild)
    begin_drop = on_its_database(redeclaring.begin_drop)
    give_rebuild_up = on_its_database(redeclaring.give_rebuild_up)
    holds = on_its_database(pauses.find_holds)
    refuse_busy = on_its_database(redeclaring.refuse_busy)
    redeclare = on_its_database(redeclaring.redeclare)
    is_resettable = on_its_database(resetting.is_resettable)
    begin_reset = on_its_database(resetting.begin_reset)
    end_reset = on_its_database(resetting.end_reset)
    refuse_moved = on_its_database(moving.refuse_moved)
    close_for = on_its_database(moving.close_for)
    require_closed_for = on_its_database(moving.require_closed_for)
    open_again = on_its_database(moving.open_again)
    drop_boundary = on_its_database(adopting.find_drop_boundary)
    forget_versions = on_its_database(adopting.forget_versions)
    current_rebuilding = on_its_database(holding.find_rebuilding)
    begin_rebuilding = on_its_database(holding.begin_rebuilding)
    renew_rebuilding = on_its_database(holding.renew_rebuilding)
    begin_moving = on_its_database(holding.begin_moving)
    forget_rebuilding = on_its_database(holding.forget_rebuilding)
    end_rebuilding = on_its_database(holding.end_rebuilding)
    current_of = on_its_database(current_set.current_of)
    inputs_by_label = on_its_database(current_set.read_inputs_by_label)
    skipped_windows = on_its_database(current_set.list_skipped_windows)
    recuts_of = on_its_database(current_set.recuts_of)
    begun_anew = on_its_database(current_set.begun_anew)
    record_set = on_its_database(whole_set.record_set)
    take_folder = on_its_database(renaming.take_folder)
    seed = on_its_database(whole_set.seed)
    seed_past = on_its_database(whole_set.seed_past)

    def load(self, exports: Iterable[Iterable[str]]) -> int:
        """Fill an empty ledger from a chain of exports. Return how many batches it has afterwards.

        The transaction is not retried when it breaks, since the exports are read only once.
        """
        return export.load(self.database, exports)
