"""Records erasures of persons: who is erased, as keyed hashes, and each step that is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.batches.erasures import COLUMNS, Erasure
from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.batches.records import BatchResult
from waterclock.flow.enums import FOLDS, Mode
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.erasure_tables import erased_persons, erasure_steps, erasures
from waterclock.ledger.store.schema import AnyRow, ledger, offline_measures, offline_spans, revisions, tables, versions
from waterclock.ledger.write.committed_claims import CommittedClaim
from waterclock.ledger.write.pauses import end_hold
from waterclock.ledger.write.suspect_batches import accept_changes, list_suspects
from waterclock.ledger.write.table_rebuilds import find_row, record_new_revisions, refuse_open
from waterclock.timelabel.intervals import IntervalSet

_ADD = sa.insert(erasures)
_ADD_PERSONS = sa.insert(erased_persons)
_ADD_STEP = sa.insert(erasure_steps)
_NUMBERS = sa.select(erasures.c.number)
_SET_LAST = sa.update(ledger).values(erasures=sa.bindparam("last"))
_FORGET_STEP = sa.delete(erasure_steps).where(
    erasure_steps.c.erasure == sa.bindparam("of"), erasure_steps.c.step == sa.bindparam("name")
)
_FINISH = sa.update(erasures).where(erasures.c.number == sa.bindparam("of")).values(finished_at=sa.bindparam("at_"))
_SET_HEAD = sa.update(tables).where(tables.c.name == sa.bindparam("of")).values(head_version=sa.bindparam("version_"))
_FORGET_VERSIONS = (
    sa.update(versions)
    .where(versions.c.table_name == sa.bindparam("of"), versions.c.dropped_by.is_(None))
    .values(dropped_by=sa.bindparam("claim_"))
)
_REMOVE_VERSION = sa.delete(versions).where(
    versions.c.table_name == sa.bindparam("of"),
    versions.c.label == sa.bindparam("at_"),
    versions.c.claim == sa.bindparam("claim_"),
)
_ADD_VERSION = sa.insert(versions)
_CLEAR_MEASURES = (
    sa.update(revisions)
    .where(revisions.c.table_name == sa.bindparam("of"), revisions.c.label == sa.bindparam("at_"))
    .where(revisions.c.claim != sa.bindparam("claim_"))
    .values(measures={})
)
_FORGET_OFFLINE = (
    sa.delete(offline_measures).where(offline_measures.c.table_name == sa.bindparam("of")),
    sa.delete(offline_spans).where(offline_spans.c.table_name == sa.bindparam("of")),
)


def begin_erasure(
    database: LedgerDatabase,
    subject: str,
    key: str,
    hashes: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    *,
    who: str,
    why: str,
) -> int:
    """Record an erasure and return its number. Claims that are taken from now on drop the rows of these persons.

    `columns` are the subject's columns of each table. They are recorded for flows that lose SUBJECT later.
    """
    with database.write() as write:
        number = write.erasures + 1
        row = {"number": number, "subject": subject, "key_name": key, "who": who, "why": why, "at": write.at}
        _add(write, row | {"finished_at": None}, hashes, columns)
        write.execute(_SET_LAST, {"last": number})
        data = {"number": number, "subject": subject, "persons": len(hashes), "why": why}
        write.log("erasure began", who=who, data=data)
        return number


def restore_erasures(database: LedgerDatabase, known: Sequence[Erasure]) -> int:
    """Record erasures from their files in the storage, if the ledger does not have them. Return how many were new."""
    with database.write() as write:
        numbers = set(write.execute(_NUMBERS).scalars())
        new = [each for each in known if each.number not in numbers]
        for each in new:
            row = {"number": each.number, "subject": each.subject, "key_name": each.key, "who": each.who}
            _add(write, row | {"why": each.why, "at": each.at, "finished_at": None}, sorted(each.hashes), each.columns)
        write.execute(_SET_LAST, {"last": max([write.erasures, *(each.number for each in known)])})
        return len(new)


def record_step(database: LedgerDatabase, number: int, step: str, result: Mapping[str, Any]) -> None:
    """Record that a step of an erasure is done, with its result. A repeated step replaces the former result."""
    with database.write() as write:
        _record_step(write, number, step, result)


def finish_erasure(database: LedgerDatabase, number: int, *, who: str) -> None:
    """Record that nothing is left to erase."""
    with database.write() as write:
        write.execute(_FINISH, {"of": number, "at_": write.at})
        write.log("erasure finished", who=who, data={"number": number})


def record_erased_table(
    database: LedgerDatabase,
    number: int,
    found: CommittedClaim,
    *,
    who: str,
    step: str,
    result: Mapping[str, Any],
) -> int:
    """Record the new revisions of a table's slices without the erased rows, and the step, in one transaction.

    The readers' recorded inputs become the new content, so that no batch becomes stale; only deliveries do. Return the
    number of such readers. Measures of older revisions are cleared, since they may quote erased values. Raises E407 if
    a batch is running, E411 if a rebuild or reset of the table took over.
    """
    table, version = found.request.table, found.results[0].version
    with database.write() as write:
        refuse_open(write, table)
        row = find_row(write, table)
        end_hold(write, row, found.number, who=who)
        before = list_suspects(write)
        record_new_revisions(write, found)
        spans = _changed_spans(row, found.results)
        readers = accept_changes(write, table, spans, before)
        write.execute(_SET_HEAD, {"of": table, "version_": version})
        write.execute(_FORGET_VERSIONS, {"of": table, "claim_": found.number})
        if row.mode != Mode.APPEND and row.head_label is not None:
            at = {"of": table, "at_": row.head_label, "claim_": found.number}
            write.execute(_REMOVE_VERSION, at)
            entry = {"table_name": table, "label": row.head_label, "version": version, "claim": found.number}
            write.execute(_ADD_VERSION, entry | {"dropped_by": None})
        write.execute_each(
            _CLEAR_MEASURES, [{"of": table, "at_": each.label, "claim_": found.number} for each in found.results]
        )
        for statement in _FORGET_OFFLINE:
            write.execute(statement, {"of": table})
        _record_step(write, number, step, result)
        write.log("erased", who=who, table=table, labels=[each.label for each in found.results], claim=found.number)
        return readers


def _changed_spans(row: AnyRow, results: Sequence[BatchResult]) -> IntervalSet:
    """Return the intervals in which readers find other rows: all states from the first changed label on."""
    first = min(each.label if each.stands_from is None else min(each.stands_from, each.label) for each in results)
    if row.mode in FOLDS:
        return IntervalSet.from_intervals([(first, FOREVER)])
    return IntervalSet.from_intervals([(first, max(each.end for each in results))])


def _add(write: Write, row: Mapping[str, Any], hashes: Sequence[str], columns: Mapping[str, Sequence[str]]) -> None:
    write.execute(_ADD, dict(row))
    write.execute_each(_ADD_PERSONS, [{"erasure": row["number"], "hash": each} for each in hashes])
    for table, names in columns.items():
        _record_step(write, row["number"], f"{COLUMNS}{table}", {"columns": list(names)})


def _record_step(write: Write, number: int, step: str, result: Mapping[str, Any]) -> None:
    write.execute(_FORGET_STEP, {"of": number, "name": step})
    at: datetime = write.at
    write.execute(_ADD_STEP, {"erasure": number, "step": step, "at": at, "result": dict(result)})
