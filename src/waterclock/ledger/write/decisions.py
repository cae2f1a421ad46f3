"""What people decide about batches: leave them out, try them again, make them anew; and what they note of rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.batches.audit_trail import RULE_NOTED
from waterclock.batches.facts import (
    BACKFILL,
    FOLLOW,
    RECOMPUTE,
    RELEASE,
    REOPEN,
    STRENGTH,
    BatchStatus,
    before_release,
    is_release,
    releasing,
)
from waterclock.flow.choices import Kind, Mode
from waterclock.ledger import refusals
from waterclock.ledger.store.database import Database, Write
from waterclock.ledger.store.schema import AnyRow, batches, tables
from waterclock.ledger.write.closings import read_to_their_ends, tell_late_rows
from waterclock.ledger.write.coverage import cover, uncover
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window

_NAMES = sa.select(tables.c.name)
_BATCHES = sa.select(batches).where(
    batches.c.table_name == sa.bindparam("of"), batches.c.label.in_(sa.bindparam("labels", expanding=True))
)
_ADD_SKIPPED = sa.insert(batches).values(
    status=BatchStatus.SKIPPED.value, attempts=0, is_suspect=False, hash_high=0, hash_low=0
)
_OF_BATCH = sa.and_(batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at"))
_SKIP = (
    sa.update(batches)
    .where(_OF_BATCH)
    .values(status=BatchStatus.SKIPPED.value, end=sa.bindparam("until"), error=None, is_transient=None, due_again=None)
)
_CLEAR = (
    sa.update(batches)
    .where(_OF_BATCH)
    .values(status=sa.bindparam("as_"), attempts=0, error=None, is_transient=None, due_again=None)
)
_REQUEST = (
    sa.update(batches)
    .where(_OF_BATCH)
    .values(requested=sa.bindparam("verb"), requested_sequence=sa.bindparam("sequence"))
)
_ADD_REQUESTED = sa.insert(batches).values(attempts=0, is_suspect=False, hash_high=0, hash_low=0, requested=BACKFILL)
_NEWEST_SNAPSHOT = (
    sa.select(sa.func.max(batches.c.label))
    .join(tables, tables.c.name == batches.c.table_name)
    .where(
        tables.c.name == sa.bindparam("of"),
        tables.c.kind == Kind.COLLECT,
        tables.c.mode == Mode.REPLACE,
        batches.c.current_claim.is_not(None),
    )
)
_CHUNK = 500


def record_skipped(database: Database, table: str, windows: Sequence[Window], *, who: str, why: str) -> None:
    """Leave batches out: they count as covered, without rows, until somebody takes that back.

    Raises  E413 for a label that is done or under an open claim, E412 for an unknown table
    """
    with database.write() as write:
        _check_table(write, table)
        known = _known(write, table, [window.start for window in windows])
        for row in known.values():
            if row.current_claim is not None:
                raise refusals.impossible(
                    table, row.label, "cannot be skipped", why="it is done, and its rows are read by others"
                )
            _refuse_running(table, row, "skipped")
        new = [
            {"table_name": table, "label": window.start, "end": window.end}
            for window in windows
            if window.start not in known
        ]
        old = [{"of": table, "at": window.start, "until": window.end} for window in windows if window.start in known]
        _each(write, _ADD_SKIPPED, new)
        _each(write, _SKIP, old)
        _end_releases(write, table, known.values())
        cover(write.connection, table, IntervalSet.from_windows(windows))
        write.log("skipped", who=who, table=table, labels=[window.start for window in windows], data={"why": why})


def retry(
    database: Database,
    table: str,
    labels: Collection[datetime],
    *,
    late_tables: Sequence[str] = (),
    who: str,
    why: str = "",
) -> tuple[datetime, ...]:
    """Make failed, held and skipped batches due again, with all their attempts; give which of `labels` were.

    What `late_tables` hold of slices behind the tick of a skipped window is told anew. A request to release what was
    held ends with that: nobody has looked at what is made now.

    Raises  E413 for a label under an open claim, and for a skipped snapshot that is older than the newest one done;
            E412 for an unknown table
    """
    with database.write() as write:
        _check_table(write, table)
        known = _known(write, table, labels)
        troubled = [row for row in known.values() if row.status in _UNDONE]
        for row in known.values():
            _refuse_running(table, row, "tried again")
        _refuse_stood_for(write, table, troubled)
        cleared = [
            {"of": table, "at": row.label, "as_": None if row.current_claim is None else BatchStatus.DONE.value}
            for row in troubled
        ]
        _each(write, _CLEAR, cleared)
        _end_releases(write, table, troubled)
        skipped = [(row.label, row.end) for row in troubled if row.status == BatchStatus.SKIPPED]
        uncover(write.connection, table, IntervalSet.from_intervals(skipped))
        tell_late_rows(write, table, [label for label, _ in skipped], late_tables)
        _log_each(write, "retried", table, troubled, who, why)
        return tuple(row.label for row in troubled)


def request_restate(
    database: Database, table: str, labels: Collection[datetime], verb: str, *, who: str, why: str = "", said: str = ""
) -> tuple[datetime, ...]:
    """Ask that done batches are made again, by one of `STRENGTH`'s verbs; give those not asked for before.

    `said`: by which command that was asked, where it is told in another word than the verb.

    `follow` makes a batch again only where what it read has changed, `recompute` always, `recollect` from what the
    source then says, `skip` without its rows, which are lost; of two requests the stronger one stays, of two as strong
    the newer one. A batch that is being made is made once more.

    Raises  E413 for a label that is not done, E412 for an unknown table
    """
    with database.write() as write:
        _check_table(write, table)
        return request_again(write, table, labels, verb, who=who, why=why, said=said)


def request_again(
    write: Write, table: str, labels: Collection[datetime], verb: str, *, who: str, why: str = "", said: str = ""
) -> tuple[datetime, ...]:
    """Ask it as `request_restate` within a change of the ledger that does more."""
    known = _known(write, table, labels)
    for label in labels:
        if label not in known or known[label].current_claim is None:
            raise refusals.impossible(table, label, "cannot be restated", why="it was never done")
    asked = [row for row in known.values() if not _is_asked(row, verb)]
    verbs = {row.label: _stronger(row.requested, verb) for row in asked}
    # a slice of late rows that is told anew is so for ever; of a closed window it is known what it was made of
    told_anew = [row.label for row in asked if row.requested == REOPEN and STRENGTH[verb] == STRENGTH[REOPEN]]
    verbs |= dict.fromkeys(set(told_anew) - read_to_their_ends(write, table, told_anew).keys(), REOPEN)
    told = {"of": table, "sequence": write.sequence}
    _each(write, _REQUEST, [told | {"at": row.label, "verb": verbs[row.label]} for row in asked])
    _log_each(write, f"{said or verb} requested", table, asked, who, why)
    return tuple(row.label for row in asked)


def request_backfill(
    database: Database, table: str, labels: Collection[datetime], *, who: str, why: str = ""
) -> tuple[datetime, ...]:
    """Ask that labels are made that are not done, though nobody may need them; give those not asked for before.

    What is done, skipped, failed, held or being made is left as it is. Raises  E412 for an unknown table
    """
    with database.write() as write:
        _check_table(write, table)
        known = _known(write, table, labels)
        old = [row.label for row in known.values() if (row.status, row.current_claim, row.requested) == (None,) * 3]
        new = sorted({*labels} - known.keys())
        told = {"of": table, "sequence": write.sequence, "verb": BACKFILL}
        _each(write, _REQUEST, [told | {"at": label} for label in old])
        added = [{"table_name": table, "label": label, "requested_sequence": write.sequence} for label in new]
        _each(write, _ADD_REQUESTED, added)
        asked = tuple(sorted([*old, *new]))
        write.log(f"{BACKFILL} requested", who=who, table=table, labels=asked, data={"why": why} if why else None)
        return asked


def request_release(
    database: Database, table: str, labels: Collection[datetime], *, who: str, why: str
) -> tuple[datetime, ...]:
    """Ask that held batches are shown as they were sealed, by whichever runner comes first; give which of `labels` are.

    Raises  E413 for a label that is not held, or under an open claim; E412 for an unknown table
    """
    with database.write() as write:
        _check_table(write, table)
        known = _known(write, table, labels)
        for label in labels:
            if label not in known or known[label].status != BatchStatus.HELD:
                raise refusals.impossible(table, label, "cannot be released", why="it is not held")
        rows = [known[label] for label in sorted(labels)]
        told = {"of": table, "sequence": write.sequence}
        _each(write, _REQUEST, [told | {"at": row.label, "verb": releasing(row.requested)} for row in rows])
        _log_each(write, f"{RELEASE} requested", table, rows, who, why)
        return tuple(row.label for row in rows)


def refuse_release(database: Database, table: str, label: datetime, *, who: str, why: str) -> None:
    """Take the request to show a held batch from it, which cannot be shown: it is held as before.

    What was asked of it before, such as to recollect it, is so still, once somebody has it tried again.
    """
    with database.write() as write:
        asked = _end_releases(write, table, _known(write, table, [label]).values())
        if asked:
            _log_each(write, "release refused", table, asked, who, why)


def _end_releases(write: Write, table: str, rows: Iterable[AnyRow]) -> list[AnyRow]:
    """Put what was asked of batches before their release in its place again; give those that had such a request."""
    asked = [row for row in rows if is_release(row.requested)]
    told = {"of": table, "sequence": write.sequence}
    _each(write, _REQUEST, [told | {"at": row.label, "verb": _asked_before(row)} for row in asked])
    return asked


def _asked_before(row: AnyRow) -> str | None:
    before = before_release(row.requested)
    if before is None and row.current_claim is not None and not row.is_suspect and row.missing is None:
        return RECOMPUTE  # a ledger of before did not keep what it was
    return before


def _is_asked(row: AnyRow, verb: str) -> bool:
    """Tell whether a request is there that comes to no less, and is not being carried out already."""
    if row.requested is None or is_release(row.requested) or _stronger(row.requested, verb) != row.requested:
        return False
    return verb == FOLLOW or row.status != BatchStatus.RUNNING


def _stronger(known: str | None, verb: str) -> str:
    known = before_release(known)  # who has a batch made again has no use for what is held of it
    return verb if known is None or STRENGTH[known] <= STRENGTH[verb] else known


def withdraw(
    database: Database, table: str, labels: Collection[datetime], *, who: str, why: str = ""
) -> tuple[datetime, ...]:
    """Take requests to make or remake batches back; give which of `labels` had one.

    Where rows are there, and the attempt to make them again failed or is held, that is forgotten: they stand as if
    nobody had asked. What was to be released is held as before.
    A window that late rows have opened again meanwhile is made again all the same.

    Raises  E413 for a label under an open claim, E412 for an unknown table
    """
    with database.write() as write:
        _check_table(write, table)
        # what late rows opened again is to be made: their table holds them no more
        asked = [row for row in _known(write, table, labels).values() if row.requested not in {None, REOPEN}]
        for row in asked:
            _refuse_running(table, row, "taken back")
        held = _end_releases(write, table, asked)
        others = [row for row in asked if row not in held]
        is_whole = read_to_their_ends(write, table, [row.label for row in others if row.current_claim is not None])
        opened = [row for row in others if not is_whole.get(row.label, True)]
        left = [row for row in others if row not in opened]
        _each(write, _REQUEST, [{"of": table, "at": row.label, "verb": None, "sequence": None} for row in left])
        again = {"of": table, "verb": REOPEN, "sequence": write.sequence}
        _each(write, _REQUEST, [again | {"at": row.label} for row in opened])
        stand = [row for row in left if row.current_claim is not None and row.status in _UNDONE]
        _each(write, _CLEAR, [{"of": table, "at": row.label, "as_": BatchStatus.DONE.value} for row in stand])
        _log_each(write, "request withdrawn", table, asked, who, why)
        return tuple(row.label for row in asked)


def end_following(database: Database, table: str, labels: Collection[datetime], *, who: str) -> None:
    """Take the request to follow from those of `labels` that have it: nothing that they read has changed."""
    with database.write() as write:
        asked = [row for row in _known(write, table, labels).values() if row.requested == FOLLOW]
        told = {"of": table, "verb": None, "sequence": None}
        _each(write, _REQUEST, [told | {"at": row.label} for row in asked])
        _log_each(write, "needs not follow", table, asked, who)


def note_rule(database: Database, table: str, rule: str, text: str, *, who: str) -> None:
    """Note what is known of a rule, in place of what was noted before; an empty text takes that back.

    Raises  E412 for an unknown table
    """
    with database.write() as write:
        _check_table(write, table)
        write.log(RULE_NOTED, who=who, table=table, data={"rule": rule, "text": text})


_UNDONE = {BatchStatus.FAILED.value, BatchStatus.HELD.value, BatchStatus.SKIPPED.value}


def _check_table(write: Write, table: str) -> None:
    names = set(write.execute(_NAMES).scalars())
    if table not in names:
        raise refusals.unknown_table(table, names)


def _known(write: Write, table: str, labels: Collection[datetime]) -> dict[datetime, AnyRow]:
    asked = sorted(set(labels))
    found: dict[datetime, AnyRow] = {}
    for start in range(0, len(asked), _CHUNK):
        values = {"of": table, "labels": asked[start : start + _CHUNK]}
        found |= {row.label: row for row in write.execute(_BATCHES, values)}
    return found


def _refuse_running(table: str, row: AnyRow, done: str) -> None:
    if row.status == BatchStatus.RUNNING:
        raise refusals.impossible(
            table,
            row.label,
            f"cannot be {done}",
            why=f"claim {row.claim} is open and may still commit it",
            fix="wait for it, or let a run take it over when its lease has run out",
        )


def _refuse_stood_for(write: Write, table: str, troubled: Sequence[AnyRow]) -> None:
    """Refuse to take back the skip of an old snapshot: its source holds what it holds now, so nobody could make it."""
    newest = write.execute(_NEWEST_SNAPSHOT, {"of": table}).scalar()
    for row in troubled:
        if newest is not None and row.status == BatchStatus.SKIPPED and row.label < newest:
            raise refusals.impossible(
                table,
                row.label,
                "cannot be made any more",
                why="its source can only say what it holds now, and a newer snapshot is done",
                fix="leave it skipped",
            )


def _each(write: Write, statement: sa.Executable, values: Sequence[dict[str, Any]]) -> None:
    if values:
        write.execute(statement, values)


def _log_each(write: Write, kind: str, table: str, rows: Iterable[AnyRow], who: str, why: str = "") -> None:
    write.log(kind, who=who, table=table, labels=[row.label for row in rows], data={"why": why} if why else None)
