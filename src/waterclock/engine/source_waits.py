"""Records in the ledger which windows wait for their source, for commands that query no source."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.ledger.read.source_events import WAITS

if TYPE_CHECKING:
    from waterclock.engine.run_context import RunContext
    from waterclock.engine.run_outcome import RunOutcome


def record_source_waits(work: RunContext, outcome: RunOutcome, only: Collection[str] | None) -> None:
    """Record the oldest window of each collect that waits for its source, if it differs from the recorded one.

    `only`: the tables of the run, None for all. Cost: one read of the ledger, and an event for each change. A failure
    here does not fail the run.
    """
    names = [name for name, table in work.flow.tables.items() if table.source and (only is None or name in only)]
    if not names or outcome.was_stopped or outcome.away:
        return
    try:
        _record_changed_waits(work, names, {held.table: held.window.label for held in outcome.held_back})
    except WaterclockError as error:  # the ledger is locked, or unavailable
        work.report_once(f"tables that wait for their source were not recorded: {error.what}")


def _record_changed_waits(work: RunContext, names: Sequence[str], waits: Mapping[str, str]) -> None:
    noted = work.ledger.past.waits_for_sources(names)
    for name in names:
        known = noted[name].data.get("label") if name in noted else None
        if waits.get(name) != known:
            data = {"label": waits[name]} if name in waits else {}
            work.ledger.past.add_event(WAITS, who=work.settings.who, table=name, run=work.run, data=data)
