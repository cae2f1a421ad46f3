"""Resets a table: empties it, and removes its batches from the ledger, so that the next run starts it as declared.

Nothing is deleted: the sealed slices stay in its stage like those of earlier revisions, and the past before the reset
can still be queried. There are three steps, each of which may be repeated: the table is paused, its log is emptied in
one commit, and the ledger records the reset.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.engine.abandoned_claims import find_abandoned_claims
from waterclock.engine.batch.other_engines import update_for_other_engines
from waterclock.engine.batch.takeover import take_over
from waterclock.engine.ledger_export import export_ledger
from waterclock.engine.maintenance.rebuild_lock import require_no_running_rebuild
from waterclock.engine.run_context import RunContext
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, is_folder
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.flow.open_windows import open_table_of
from waterclock.ledger.read.signatures import Difference
from waterclock.ledger.rebuild_errors import unsupported_change_error
from waterclock.ledger.write.resetting import EmptyingCommit
from waterclock.storage.commit.pointers import kill_claim
from waterclock.storage.commit.rebuild import start_over
from waterclock.storage.commit.speed_tables import remove_open_windows
from waterclock.storage.log.identity import RESET, Identity

# if one of these changes, a reader's rows change although the input's content digest does not
_OTHER_ROWS = frozenset({"type", "mode", "keys"})


@dataclass(frozen=True, slots=True)
class ResettableTable:
    """A table that can be reset: the number of its labels and rows, the changes of its declaration, and its readers.

    `publishes` are those of its readers that deliver it to a destination; `readers` are the others.
    """

    table: Table
    labels: int
    rows: int
    changed: tuple[Difference, ...]
    readers: tuple[str, ...]
    publishes: tuple[str, ...]


def prepare_reset(work: RunContext, name: str) -> ResettableTable | None:
    """Resolve abandoned claims, and return the effects of a reset. None for a table without batches.

    Raises E407 if a batch is running, E432 if the destination keeps rows of the old labels, E644 during a rebuild.
    """
    require_no_running_rebuild(work, is_read_only=True)
    table, ledger = work.flow.tables[name], work.ledger
    if not ledger.maintenance.is_resettable(name):
        return None
    left = [claim for claim in find_abandoned_claims(work) if claim.request.table == name]
    for error in take_over(work, left).unsettled:
        raise error
    ledger.maintenance.require_idle_table(name)
    changed = tuple(ledger.maintenance.differences(work.flow).get(name, ()))
    if table.is_delivered_by_label and {what for what, _, _ in changed} & {"cadence", "zone"}:
        why = "its destination keeps the rows delivered for the old labels"
        raise unsupported_change_error(name, changed, str(table.place), why=why, is_publish=True)
    pieces = ledger.reads.slices(name, BEGINNING, FOREVER)
    below = [each for each in work.flow.tables.values() if name in {read.table for read in each.reads} - {each.name}]
    return ResettableTable(
        table,
        len(pieces),
        sum(piece.rows for piece in pieces),
        changed,
        tuple(each.name for each in below if each.kind is not Kind.PUBLISH),
        tuple(each.name for each in below if each.kind is Kind.PUBLISH),
    )


def reset(work: RunContext, found: ResettableTable, *, why: str) -> None:
    """Reset a table, and export the ledger, which alone records who reset the table and why.

    Raises the same errors as `prepare_reset`, because a batch or a rebuild may have started while the user was asked.
    """
    require_no_running_rebuild(work)
    table, maintenance, who = found.table, work.ledger.maintenance, work.settings.who
    record = work.ledger.reads.table(table.name)
    claim, before = maintenance.begin_reset(table.name, who=who)
    fault("reset.paused")
    version = record.head_version
    if table.kind is not Kind.PUBLISH and (version >= 0 or is_folder(entry_path(work.folder(table), "_delta_log"))):
        identity = Identity(work.flow.project, table.name, RESET, (), "", claim, table.fingerprint)
        stamp = f"{work.real_now():%Y%m%dT%H%M%S%f}"
        version = start_over(work.folder(table), identity, above=version, stamp=stamp)
        if before is not None:  # its runner may only be paused
            kill_claim(work.folder(table), before, project=work.flow.project)
    if table.continuous is not None:  # its views would show rows of labels that are no longer done
        remove_open_windows(work.lake.folder(open_table_of(table.name)))
    fault("reset.emptied")
    is_other = bool({what for what, _, _ in found.changed} & _OTHER_ROWS)
    maintenance.end_reset(
        table,
        EmptyingCommit(version, claim),
        start=_new_start(table, record.start),
        who=who,
        why=why,
        asked_again=(*found.publishes, *(found.readers if is_other else ())),
    )
    fault("reset.recorded")
    work.forget_schemas(table.name)
    if table.kind is not Kind.PUBLISH:
        update_for_other_engines(work, table)
    export_ledger(work.ledger, work.lake.root)


def _new_start(table: Table, known: datetime | None) -> datetime | None:
    """Return the START after a reset: the declared one, or the start of the new window that contains the old START."""
    if table.start is not None or known is None:
        return table.start
    return table.cadence.floor(known)
