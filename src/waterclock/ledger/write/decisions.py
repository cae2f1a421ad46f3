"""Records users' decisions about batches: skip, retry, make again, release; and their notes on rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa

from waterclock.batches.audit_records import RULE_NOTED
from waterclock.batches.ledger_snapshot import (
    BACKFILL,
    FOLLOW,
    RECOMPUTE,
    RELEASE,
    REOPEN,
    STRENGTH,
    BatchStatus,
    build_release_request,
    is_release,
    request_without_release,
)
from waterclock.flow.enums import Kind, Mode
from waterclock.ledger import ledger_errors
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.schema import AnyRow, batches, tables
from waterclock.ledger.write.closings import find_complete_windows, record_late_rows
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
    # readers would wait for a requested batch; a backfill request applies again after a retry
    .values(requested=sa.case((batches.c.requested == BACKFILL, batches.c.requested)))
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
_SET_DUE = sa.update(batches).where(_OF_BATCH).values(due_again=sa.bindparam("due"))
_ADD_REQUESTED = sa.insert(batches).values(attempts=0, is_suspect=False, hash_high=0, hash_low=0, requested=BACKFILL)
_NEWEST_SNAPSHOT = (
    sa.select(sa.func.max(batches.c.label))
    .join(tables, tables.c.name == batches.c.table_name)
    .where(
        tables.c.name == sa.bindparam("of"),
        tables.c.kind == Kind.COLLECT,
        sa.or_(tables.c.mode == Mode.REPLACE, batches.c.stands_from.is_not(None)),
        batches.c.current_claim.is_not(None),
    )
)
_NEWEST_DONE = (
    sa.select(batches.c.label, batches.c.end)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.current_claim.is_not(None))
    .order_by(batches.c.label.desc())
    .limit(1)
)
_CHUNK = 500


def record_skipped(
    database: LedgerDatabase,
    table: str,
    windows: Sequence[Window],
    *,
    who: str,
    why: str,
    again: Mapping[datetime, str] | None = None,
    verb: str = RECOMPUTE,
) -> None:
    """Skip batches: they count as covered, without rows, until a retry.

    In the same transaction, request that the done labels of `again` are made again by `verb`, for the reason of each,
    as `request_restate` with `is_retry` does.

    Raises E412 for an unknown table, E413 for a label that is done or being made.
    """
    with database.write() as write:
        _check_table(write, table)
        known = read_batches(write, table, [window.start for window in windows])
        for row in known.values():
            if row.current_claim is not None:
                raise ledger_errors.build_impossible_error(
                    table, row.label, "cannot be skipped", why="it is done, and other tables may have read its rows"
                )
            _require_not_running(table, row, "skipped")
        new = [
            {"table_name": table, "label": window.start, "end": window.end}
            for window in windows
            if window.start not in known
        ]
        old = [{"of": table, "at": window.start, "until": window.end} for window in windows if window.start in known]
        end_releases(write, table, known.values())
        write.execute_each(_ADD_SKIPPED, new)
        write.execute_each(_SKIP, old)
        cover(write.connection, table, IntervalSet.from_windows(windows))
        write.log("skipped", who=who, table=table, labels=[window.start for window in windows], data={"why": why})
        for label, reason in (again or {}).items():
            add_restate_requests(write, table, [label], verb, who=who, why=reason)
            _retry_stopped(write, table, read_batches(write, table, [label]).values(), who, reason)


def retry(
    database: LedgerDatabase,
    table: str,
    labels: Collection[datetime],
    *,
    late_tables: Sequence[str] = (),
    open_windows: str | None = None,
    who: str,
    why: str = "",
) -> tuple[datetime, ...]:
    """Make the failed, held and skipped batches among `labels` due again, with a new count of attempts. Return them.

    The late rows that `late_tables` recorded for slices after the tick of a skipped window are determined again. The
    newest state of the table `open_windows` is made again if it was made without a skipped window. A request to release
    a held batch ends, since no user has reviewed the rows that are made now.

    Raises E413 for a label under an open claim, and for a skipped snapshot that is older than the newest done one; E412
    for an unknown table.
    """
    with database.write() as write:
        _check_table(write, table)
        known = read_batches(write, table, labels)
        troubled = [row for row in known.values() if row.status in _UNDONE]
        for row in known.values():
            _require_not_running(table, row, "tried again")
        _require_newest_snapshots(write, table, troubled)
        cleared = [
            {"of": table, "at": row.label, "as_": None if row.current_claim is None else BatchStatus.DONE.value}
            for row in troubled
        ]
        write.execute_each(_CLEAR, cleared)
        end_releases(write, table, troubled)
        skipped = [(row.label, row.end) for row in troubled if row.status == BatchStatus.SKIPPED]
        uncover(write.connection, table, IntervalSet.from_intervals(skipped))
        record_late_rows(write, table, [label for label, _ in skipped], late_tables)
        if open_windows is not None and skipped:
            state = write.execute(_NEWEST_DONE, {"of": open_windows}).first()
            if state is not None and min(skipped)[0] < state.end:
                add_restate_requests(
                    write, open_windows, [state.label], RECOMPUTE, who=who, why=f"a skip of {table} ended"
                )
        _log_labels(write, "retried", table, troubled, who, why)
        return tuple(row.label for row in troubled)


def request_restate(  # noqa: PLR0913 - the parts of a request, and how it is recorded
    database: LedgerDatabase,
    table: str,
    labels: Collection[datetime],
    verb: str,
    *,
    who: str,
    why: str = "",
    command: str = "",
    is_retry: bool = False,
) -> tuple[datetime, ...]:
    """Request that done batches are made again, by a verb of `STRENGTH`. Return those that had no such request before.

    `command` is the name of the user's command, if it differs from the verb. With `is_retry`, a batch whose attempt to
    be made again failed or is held is tried again, as by `retry`.

    `follow` makes a batch again only if its inputs have changed, and `recompute` in any case. `recollect` makes it from
    the source's current data, and `skip` without its rows, which are lost. Of two requests the stronger one stays, of
    equally strong ones the newer one. A batch that is being made is made once more.

    Raises E413 for a label that is not done, E412 for an unknown table.
    """
    with database.write() as write:
        _check_table(write, table)
        known = _check_done(write, table, labels)
        requested = add_restate_requests(write, table, labels, verb, who=who, why=why, command=command)
        if is_retry:
            _retry_stopped(write, table, known.values(), who, why)
        return requested


def _retry_stopped(write: Write, table: str, known: Iterable[AnyRow], who: str, why: str) -> None:
    """Discard the attempts to make done batches again that failed or are held: they are due again."""
    stopped = [row for row in known if row.status in {BatchStatus.FAILED.value, BatchStatus.HELD.value}]
    done = {"of": table, "as_": BatchStatus.DONE.value}
    write.execute_each(_CLEAR, [done | {"at": row.label} for row in stopped])
    _log_labels(write, "retried", table, stopped, who, why)


def request_remake_of_held(
    database: LedgerDatabase, table: str, labels: Collection[datetime], verb: str, *, who: str, why: str
) -> tuple[datetime, ...]:
    """Do the same as `request_restate`, and make the batches due now: a new attempt replaces one that is held.

    Raises the errors of `request_restate`.
    """
    with database.write() as write:
        _check_table(write, table)
        _check_done(write, table, labels)
        found = add_restate_requests(write, table, labels, verb, who=who, why=why)
        write.execute_each(_SET_DUE, [{"of": table, "at": label, "due": write.at} for label in found])
        return found


def _check_done(write: Write, table: str, labels: Collection[datetime]) -> dict[datetime, AnyRow]:
    known = read_batches(write, table, labels)
    for label in labels:
        if label not in known or known[label].current_claim is None:
            raise ledger_errors.build_impossible_error(table, label, "cannot be restated", why="it was never done")
    return known


def add_restate_requests(
    write: Write, table: str, labels: Collection[datetime], verb: str, *, who: str, why: str = "", command: str = ""
) -> tuple[datetime, ...]:
    """Record the requests of `request_restate` within an open transaction.

    Labels that are being made for the first time are made once more, too. Others that were never done are left out.
    """
    known = [
        row
        for row in read_batches(write, table, labels).values()
        if row.current_claim is not None or row.status == BatchStatus.RUNNING
    ]
    requested = [row for row in known if not _is_requested(row, verb)]
    verbs = {row.label: _stronger_verb(row.requested, verb) for row in requested}
    # a slice of late rows must be determined again; a closed window only if it was read up to an earlier tick
    reopened = [row.label for row in requested if row.requested == REOPEN and STRENGTH[verb] == STRENGTH[REOPEN]]
    verbs |= dict.fromkeys(set(reopened) - find_complete_windows(write, table, reopened).keys(), REOPEN)
    values = {"of": table, "sequence": write.sequence}
    write.execute_each(_REQUEST, [values | {"at": row.label, "verb": verbs[row.label]} for row in requested])
    _log_labels(write, f"{command or verb} requested", table, requested, who, why)
    return tuple(row.label for row in requested)


def request_backfill(
    database: LedgerDatabase, table: str, labels: Collection[datetime], *, who: str, why: str = ""
) -> tuple[datetime, ...]:
    """Request that labels without a batch are made, even if no other batch needs them. Return the new requests.

    Labels that are done, skipped, failed, held or being made do not change. Raises E412 for an unknown table.
    """
    with database.write() as write:
        _check_table(write, table)
        known = read_batches(write, table, labels)
        undone = (row for row in known.values() if (row.status, row.current_claim) == (None, None))
        old = [row.label for row in undone if row.requested != BACKFILL]
        new = sorted({*labels} - known.keys())
        values = {"of": table, "sequence": write.sequence, "verb": BACKFILL}
        write.execute_each(_REQUEST, [values | {"at": label} for label in old])
        added = [{"table_name": table, "label": label, "requested_sequence": write.sequence} for label in new]
        write.execute_each(_ADD_REQUESTED, added)
        requested = tuple(sorted([*old, *new]))
        write.log(f"{BACKFILL} requested", who=who, table=table, labels=requested, data={"why": why} if why else None)
        return requested


def request_release(
    database: LedgerDatabase, table: str, labels: Collection[datetime], *, who: str, why: str
) -> tuple[datetime, ...]:
    """Request that held batches are released as they were sealed, by any runner. Return the requested `labels`.

    Raises E413 for a label that is not held, or under an open claim; E412 for an unknown table.
    """
    with database.write() as write:
        _check_table(write, table)
        known = read_batches(write, table, labels)
        for label in labels:
            if label not in known or known[label].status != BatchStatus.HELD:
                raise ledger_errors.build_impossible_error(table, label, "cannot be released", why="it is not held")
        rows = [known[label] for label in sorted(labels)]
        values = {"of": table, "sequence": write.sequence}
        write.execute_each(
            _REQUEST, [values | {"at": row.label, "verb": build_release_request(row.requested)} for row in rows]
        )
        _log_labels(write, f"{RELEASE} requested", table, rows, who, why)
        return tuple(row.label for row in rows)


def refuse_release(database: LedgerDatabase, table: str, label: datetime, *, who: str, why: str) -> None:
    """Withdraw the release request of a held batch that cannot be released. It stays held.

    The request that the release request replaced, such as to recollect the batch, is restored. It applies after a
    retry.
    """
    with database.write() as write:
        released = end_releases(write, table, read_batches(write, table, [label]).values())
        if released:
            _log_labels(write, "release refused", table, released, who, why)


def end_releases(write: Write, table: str, rows: Iterable[AnyRow]) -> list[AnyRow]:
    """Replace requests for a release by the earlier requests of the batches. Return the changed batches."""
    to_release = [row for row in rows if is_release(row.requested)]
    values = {"of": table, "sequence": write.sequence}
    write.execute_each(_REQUEST, [values | {"at": row.label, "verb": _find_earlier_request(row)} for row in to_release])
    return to_release


def _find_earlier_request(row: AnyRow) -> str | None:
    before = request_without_release(row.requested)
    if before is None and row.current_claim is not None and not row.is_suspect and row.missing is None:
        return RECOMPUTE  # ledgers of older versions did not store the earlier request
    return before


def _is_requested(row: AnyRow, verb: str) -> bool:
    """Return whether an equal or stronger request is stored, and is not being carried out already."""
    if row.requested is None or is_release(row.requested) or _stronger_verb(row.requested, verb) != row.requested:
        return False
    return verb == FOLLOW or row.status != BatchStatus.RUNNING


def _hides_reopen(row: AnyRow) -> bool:
    return row.current_claim is not None and STRENGTH[row.requested] > STRENGTH[REOPEN]


def _stronger_verb(known: str | None, verb: str) -> str:
    known = request_without_release(known)  # a new run replaces the held slice
    if known == RECOMPUTE and verb == REOPEN:
        return known  # it includes the late rows
    return verb if known is None or STRENGTH[known] <= STRENGTH[verb] else known


def withdraw(
    database: LedgerDatabase,
    table: str,
    labels: Collection[datetime],
    *,
    is_of_late_rows: bool = False,
    shortened: Collection[datetime] = (),
    who: str,
    why: str = "",
) -> tuple[datetime, ...]:
    """Withdraw requests to make batches, or to make them again. Return those of `labels` that had one.

    If an attempt to make a done batch again has failed or is held, the attempt is discarded: the batch keeps its rows,
    as if there had been no request. A batch to release stays held. A window that late rows have reopened meanwhile is
    still made again. In a table of late rows (`is_of_late_rows`), the withdrawn request may have replaced that of a
    reopened window, so the slice is still made again. So are the closed windows of `shortened`, which would read more
    since the START of an input moved back.

    Raises E413 for a label under an open claim, E412 for an unknown table.
    """
    with database.write() as write:
        _check_table(write, table)
        # a window reopened by late rows must be made, since the table of late rows no longer has them
        requested = [row for row in read_batches(write, table, labels).values() if row.requested not in {None, REOPEN}]
        for row in requested:
            _require_not_running(table, row, "taken back")
        to_release = end_releases(write, table, requested)
        others = [row for row in requested if row not in to_release]
        is_whole = find_complete_windows(write, table, [row.label for row in others if row.current_claim is not None])
        hidden = [
            row
            for row in others
            if (is_of_late_rows and _hides_reopen(row)) or (row.label in shortened and row.current_claim is not None)
        ]
        still_reopened = [row for row in others if row in hidden or not is_whole.get(row.label, True)]
        withdrawn = [row for row in others if row not in still_reopened]
        write.execute_each(
            _REQUEST, [{"of": table, "at": row.label, "verb": None, "sequence": None} for row in withdrawn]
        )
        again = {"of": table, "verb": REOPEN, "sequence": write.sequence}
        write.execute_each(_REQUEST, [again | {"at": row.label} for row in still_reopened])
        done = [row for row in withdrawn if row.current_claim is not None and row.status in _UNDONE]
        write.execute_each(_CLEAR, [{"of": table, "at": row.label, "as_": BatchStatus.DONE.value} for row in done])
        _log_labels(write, "request withdrawn", table, requested, who, why)
        return tuple(row.label for row in requested)


def end_following(database: LedgerDatabase, table: str, labels: Collection[datetime], *, who: str) -> None:
    """Remove the `follow` requests of labels, since none of their inputs has changed."""
    with database.write() as write:
        following = [row for row in read_batches(write, table, labels).values() if row.requested == FOLLOW]
        values = {"of": table, "verb": None, "sequence": None}
        write.execute_each(_REQUEST, [values | {"at": row.label} for row in following])
        _log_labels(write, "needs not follow", table, following, who)


def record_rule_note(database: LedgerDatabase, table: str, rule: str, text: str, *, who: str) -> None:
    """Record a note on a rule, replacing the previous one. An empty text removes it. Raises E412."""
    with database.write() as write:
        _check_table(write, table)
        write.log(RULE_NOTED, who=who, table=table, data={"rule": rule, "text": text})


_UNDONE = {BatchStatus.FAILED.value, BatchStatus.HELD.value, BatchStatus.SKIPPED.value}


def _check_table(write: Write, table: str) -> None:
    names = set(write.execute(_NAMES).scalars())
    if table not in names:
        raise ledger_errors.unknown_table(table, names)


def read_batches(write: Write, table: str, labels: Collection[datetime]) -> dict[datetime, AnyRow]:
    """Return the stored batches of `labels` by label."""
    wanted = sorted(set(labels))
    found: dict[datetime, AnyRow] = {}
    for start in range(0, len(wanted), _CHUNK):
        values = {"of": table, "labels": wanted[start : start + _CHUNK]}
        found |= {row.label: row for row in write.execute(_BATCHES, values)}
    return found


def _require_not_running(table: str, row: AnyRow, done: str) -> None:
    if row.status == BatchStatus.RUNNING:
        raise ledger_errors.build_impossible_error(
            table,
            row.label,
            f"cannot be {done}",
            why=f"claim {row.claim} is open and may still commit it",
            fix="wait for it; a run takes it over when its lease has expired",
        )


def _require_newest_snapshots(write: Write, table: str, troubled: Sequence[AnyRow]) -> None:
    """Refuse to retry a skipped snapshot that is older than the newest: its source has only current data."""
    newest = write.execute(_NEWEST_SNAPSHOT, {"of": table}).scalar()
    for row in troubled:
        if newest is not None and row.status == BatchStatus.SKIPPED and row.label < newest:
            raise ledger_errors.build_impossible_error(
                table,
                row.label,
                "cannot be made any more",
                why="its source has only its current rows, and a newer snapshot is done",
                fix="leave it skipped",
            )


def _log_labels(write: Write, kind: str, table: str, rows: Iterable[AnyRow], who: str, why: str = "") -> None:
    write.log(kind, who=who, table=table, labels=[row.label for row in rows], data={"why": why} if why else None)
