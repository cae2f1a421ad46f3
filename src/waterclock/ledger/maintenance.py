"""How a ledger is kept: exported, made again from what is at rest, and told of what maintenance did."""

from __future__ import annotations

from waterclock.ledger.section import Section, on_its_database
from waterclock.ledger.store import export
from waterclock.ledger.write import adopt as adopting
from waterclock.ledger.write import redeclare as redeclaring


class Keeping(Section):
    """What keeps a ledger; every method is one transaction."""

    export_lines = on_its_database(export.export_lines)
    moment = on_its_database(export.moment)
    load = on_its_database(export.load)
    known_claims = on_its_database(adopting.known_claims)
    adopt = on_its_database(adopting.adopt)
    raise_claims = on_its_database(adopting.raise_claims)
    move_head = on_its_database(adopting.move_head)
    drop_windows = on_its_database(adopting.drop_windows)
    differences = on_its_database(redeclaring.differences)
    draw_claim = on_its_database(redeclaring.draw_claim)
    refuse_busy = on_its_database(redeclaring.refuse_busy)
    redeclare = on_its_database(redeclaring.redeclare)
    dropped_before = on_its_database(adopting.dropped_before)
    forget_versions = on_its_database(adopting.forget_versions)
