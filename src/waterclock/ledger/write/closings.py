"""Records the ticks at which windows closed, and up to where open windows were checked (CLOSE WHEN).

The first tick recorded for a window stays (`first`), whichever runner found it and whatever is restated since. Late
rows may reopen the window up to a later tick (`tick`). From then on, the window is read up to that tick.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.audit_records import CLOSED, REOPENED
from waterclock.batches.ledger_snapshot import (
    AT_LAST,
    BACKFILL,
    BY_HAND,
    FOLLOW,
    LATE_ROWS,
    RECOMPUTE,
    RELEASE,
    REOPEN,
    BatchStatus,
    Closing,
    request_without_release,
)
from waterclock.batches.records import BatchResult
from waterclock.ledger import ledger_errors
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.schema import AnyRow, batches, closings, inputs
from waterclock.timelabel.label import label_of

_KNOWN = sa.select(
    closings.c.label, closings.c.tick, closings.c.first, closings.c.looked, closings.c.asked, closings.c.reason
).where(closings.c.table_name == sa.bindparam("of"), closings.c.label.in_(sa.bindparam("labels", expanding=True)))
_MADE_FROM = (
    sa.select(batches.c.table_name, batches.c.label)
    .where(batches.c.table_name.in_(sa.bindparam("names", expanding=True)), batches.c.label >= sa.bindparam("at"))
    .where(sa.or_(batches.c.current_claim.is_not(None), batches.c.status == BatchStatus.RUNNING.value))
)
_WITH_ROWS = sa.select(batches.c.table_name, batches.c.label).where(
    batches.c.table_name.in_(sa.bindparam("names", expanding=True)),
    batches.c.label >= sa.bindparam("low"),
    batches.c.label < sa.bindparam("high"),
    sa.or_(batches.c.rows > 0, batches.c.status == BatchStatus.RUNNING.value),
)
_REOPEN = (
    sa.update(batches)
    .where(
        batches.c.table_name == sa.bindparam("of"),
        batches.c.label == sa.bindparam("label_"),
        sa.or_(batches.c.current_claim.is_not(None), batches.c.status == BatchStatus.RUNNING.value),
        sa.or_(batches.c.requested.is_(None), batches.c.requested.in_([FOLLOW, BACKFILL, REOPEN, RECOMPUTE])),
    )
    # a batch that is being made was claimed with the earlier tick, and must be made once more
    .values(requested_sequence=sa.bindparam("sequence"))
)
_OF_BATCH = sa.and_(batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("label_"))
_RELEASING = sa.select(batches.c.requested).where(_OF_BATCH, batches.c.requested.startswith(RELEASE))
_END_RELEASE = (
    sa.update(batches)
    .where(_OF_BATCH)
    .values(requested=sa.bindparam("verb"), requested_sequence=sa.bindparam("sequence"))
)
_REOPEN_LATE = _REOPEN.values(requested=REOPEN)
# a request to recompute a closed window stays: it includes the late rows
_REOPEN_CLOSED = _REOPEN.values(
    requested=sa.case((batches.c.requested == RECOMPUTE, batches.c.requested), else_=REOPEN)
)
_READ_TO = (
    sa.select(closings.c.label, closings.c.tick, sa.func.max(inputs.c.high).label("high"))
    .join(batches, sa.and_(batches.c.table_name == closings.c.table_name, batches.c.label == closings.c.label))
    .outerjoin(
        inputs,
        sa.and_(
            inputs.c.claim == batches.c.current_claim,
            inputs.c.label == batches.c.label,
            inputs.c.read.like("UNTIL(%"),
        ),
    )
    .where(closings.c.table_name == sa.bindparam("of"), closings.c.label.in_(sa.bindparam("labels", expanding=True)))
    .where(closings.c.tick.is_not(None))
    .group_by(closings.c.label, closings.c.tick)
)
_ADD = sa.insert(closings)
_COLUMNS = ("tick", "first", "looked", "reason", "behind", "asked", "who", "why", "at")
_SET = (
    sa.update(closings)
    .where(closings.c.table_name == sa.bindparam("of"), closings.c.label == sa.bindparam("label_"))
    .values({name: sa.bindparam(f"{name}_") for name in _COLUMNS})
)
_CHUNK = 500


def close_books(
    database: LedgerDatabase,
    table: str,
    found: Sequence[tuple[datetime, Closing]],
    *,
    late_tables: Sequence[str] = (),
    who: str,
) -> bool:
    """Record the closings that a check found for some windows, oldest first.

    Return False if another tick is already recorded for a window. Nothing is recorded after such a window, since later
    results were found without knowing that tick. The late rows that `late_tables` recorded from a new tick on, while
    the window was open, are determined again.
    """
    with database.write() as write:
        return add_closings(write, table, found, late_tables=late_tables, who=who)


def close_by_hand(
    database: LedgerDatabase,
    table: str,
    label: datetime,
    tick: datetime,
    *,
    late_tables: Sequence[str] = (),
    who: str,
    why: str,
) -> None:
    """Close a window at a tick by a user's request. An event records the user and the reason.

    The late rows that `late_tables` recorded for slices from the tick on are determined again. Raises E266 if the
    window is already closed.
    """
    with database.write() as write:
        row = write.execute(_KNOWN, {"of": table, "labels": [label]}).first()
        if row is not None and row.tick is not None:
            raise ledger_errors.already_closed_error(table, label, row.tick)
        looked = None if row is None else row.looked
        _write_closing(write, table, label, Closing(tick, looked, BY_HAND, who=who, why=why), is_new=row is None)
        _request_late_rows(write, late_tables, tick)
        write.log(CLOSED, who=who, table=table, labels=[label], data={"why": why, "tick": tick.isoformat()})


def reopen(
    database: LedgerDatabase,
    table: str,
    found: Mapping[datetime, datetime],
    *,
    late_tables: Sequence[str],
    keep: Collection[datetime] = (),
    who: str,
    why: str,
) -> tuple[datetime, ...]:
    """Reopen closed windows, each up to a later tick, and request that they are made again. Return the reopened ones.

    Slices of `late_tables` between both ticks are requested again, too, except the labels in `keep`, which are being
    made with the new ticks. Windows that are open, or closed at that tick or a later one, do not change.
    """
    with database.write() as write:
        known = {row.label: row for row in write.execute(_KNOWN, {"of": table, "labels": sorted(found)})}
        reopened = {
            label: row for label, tick in found.items() if (row := known.get(label)) and row.tick and row.tick < tick
        }
        if not reopened:
            return ()
        for label, row in reopened.items():
            # late rows do not make the condition TRUE: the window stays partial
            reason = AT_LAST if row.reason == AT_LAST else LATE_ROWS
            moved = Closing(found[label], row.looked, reason, asked=row.asked or "", who=who, why=why)
            _write_closing(write, table, label, replace(moved, first=row.first or row.tick), is_new=False)
        _request_again(write, [(table, label) for label in reopened], _REOPEN_CLOSED)
        span = {"low": min(row.tick for row in reopened.values()), "high": max(found[label] for label in reopened)}
        with_rows = write.execute(_WITH_ROWS, {"names": list(late_tables), **span}).all()
        _request_again(write, [(row.table_name, row.label) for row in with_rows if row.label not in keep])
        ticks = {label_of(label): found[label].isoformat() for label in reopened}
        write.log(REOPENED, who=who, table=table, labels=sorted(reopened), data={"why": why, "ticks": ticks})
        return tuple(sorted(reopened))


def _request_again(write: Write, keys: Sequence[tuple[str, datetime]], statement: sa.Update = _REOPEN_LATE) -> None:
    """Request the batches that are done or running to be made again. The others will use the new tick anyway."""
    for table, label in keys:
        of = {"of": table, "label_": label}
        if (row := write.execute(_RELEASING, of).first()) is not None:  # the held slice does not have the late rows
            before = request_without_release(row.requested)
            write.execute(_END_RELEASE, of | {"verb": before, "sequence": write.sequence if before else None})
        write.execute(statement, of | {"sequence": write.sequence})


def record_late_rows(write: Write, table: str, labels: Collection[datetime], late_tables: Sequence[str]) -> None:
    """Request that late rows are determined again, for windows whose skip ended.

    While a window is skipped, none of its rows are late. The late rows of an open window are determined once it closes.
    """
    if late_tables and labels:
        known = write.execute(_KNOWN, {"of": table, "labels": sorted(labels)}).all()
        if ticks := [row.tick for row in known if row.tick is not None]:
            _request_late_rows(write, late_tables, min(ticks))


def find_complete_windows(write: Write, table: str, labels: Collection[datetime]) -> dict[datetime, bool]:
    """Map the label of each closed window to whether its rows include all slices before its current tick."""
    if not labels:
        return {}
    rows = write.execute(_READ_TO, {"of": table, "labels": sorted(labels)}).all()
    return {row.label: row.high is None or row.high >= row.tick for row in rows}


def _request_late_rows(write: Write, late_tables: Sequence[str], tick: datetime) -> None:
    """Request that the late rows of slices from a tick on are determined again, since a window closed at the tick."""
    if late_tables:
        made = write.execute(_MADE_FROM, {"names": list(late_tables), "at": tick}).all()
        _request_again(write, [(row.table_name, row.label) for row in made])


def add_closings(
    write: Write,
    table: str,
    found: Sequence[tuple[datetime, Closing]],
    *,
    late_tables: Sequence[str] = (),
    who: str,
) -> bool:
    """Do the same as `close_books`, within a transaction."""
    known: dict[datetime, AnyRow] = {}
    for start in range(0, len(found), _CHUNK):
        labels = [label for label, _ in found[start : start + _CHUNK]]
        known |= {row.label: row for row in write.execute(_KNOWN, {"of": table, "labels": labels})}
    ticks: list[datetime] = []
    is_agreed = True
    for label, closing in found:
        row = known.get(label)
        if row is not None and row.tick is not None:
            if closing.tick is None or closing.in_order != (row.first or row.tick):
                is_agreed = False
                break
            if row.tick >= closing.tick:
                continue
        before = row.looked if row is not None and row.asked in {None, closing.asked} else None
        checked = [at for at in (closing.looked, before) if at is not None]
        merged = replace(closing, looked=max(checked, default=None), who=closing.who or who)
        _write_closing(write, table, label, merged, is_new=row is None)
        ticks += [merged.tick] if merged.tick is not None else []
    if ticks:
        _request_late_rows(write, late_tables, min(ticks))
    return is_agreed


def record_closing_ticks(write: Write, table: str, results: Iterable[BatchResult], *, who: str) -> None:
    """Record the closing ticks in the source notes of batches, if the ledger does not have them yet."""
    closings = ((each.label, each.source["closing"]) for each in results if "closing" in each.source)
    for label, closing in sorted(closings, key=lambda it: it[0]):
        add_closings(write, table, [(label, Closing.of_dict(closing))], who=who)


def _write_closing(write: Write, table: str, label: datetime, closing: Closing, *, is_new: bool) -> None:
    values = {"tick": closing.tick, "first": closing.first, "looked": closing.looked, "reason": closing.reason}
    values |= {name: getattr(closing, name) or None for name in ("behind", "asked", "why")}
    values |= {"who": closing.who, "at": closing.at or write.at}
    if is_new:
        write.execute(_ADD, {"table_name": table, "label": label, **values})
    else:
        write.execute(_SET, {"of": table, "label_": label, **{f"{name}_": value for name, value in values.items()}})
