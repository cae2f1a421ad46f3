"""Manages the rebuild lock, which blocks all claims while `rebuild --all` runs: its owner, its lease, and its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa

from waterclock.batches.rebuilding import Rebuilding, read_rebuilding
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.schema import ledger
from waterclock.ledger.write.pauses import require_no_holds

BEGUN, GIVEN_UP = "rebuild begun", "rebuild given up"
_SET = sa.update(ledger).values(rebuilding=sa.bindparam("lock"))
_RECORDED = sa.select(ledger.c.rebuilding)


def find_rebuilding(database: LedgerDatabase) -> Rebuilding | None:
    """Return the `rebuild --all` recorded in the ledger, even if its lease has expired."""
    with database.read() as connection:
        return read_rebuilding(connection.execute(_RECORDED).scalar())


def begin_rebuilding(
    database: LedgerDatabase, token: str, *, runner: str, who: str, lease_seconds: float
) -> Rebuilding:
    """Take the rebuild lock, which blocks all new claims. Running batches end normally.

    Raises E407 if a reset or a rebuild of one table is unfinished: it would commit its older rows after the move.
    Raises E644 if another rebuild is running, or stopped while it moved the new tables in.
    """
    with database.write() as write:
        require_no_holds(write)
        known = write.rebuilding
        if known is not None and known.is_blocking(write.at):
            raise rebuild_in_progress_error(known)
        begun = Rebuilding(token, runner, who, write.at, write.at + timedelta(seconds=lease_seconds))
        standing = None if known is None else known.current_token
        begun = replace(begun, standing=standing, sequence=write.sequence, lease_seconds=lease_seconds)
        write.execute(_SET, {"lock": begun.to_json()})
        write.log(BEGUN, who=who, data={"token": token, "runner": runner})
        return begun


def renew_rebuilding(database: LedgerDatabase, token: str, *, lease_seconds: float) -> None:
    """Extend the rebuild lock by one lease. Raises E644 if it is lost: the lease expired, and a batch was claimed."""
    with database.write() as write:
        known = require_own(write, token)
        until = write.at + timedelta(seconds=lease_seconds)
        write.execute(_SET, {"lock": replace(known, until=until, lease_seconds=lease_seconds).to_json()})


def begin_moving(database: LedgerDatabase, token: str) -> None:
    """Keep the rebuild lock until the move ends, even if another runner finishes it. Raises E644 if it is lost."""
    with database.write() as write:
        write.execute(_SET, {"lock": replace(require_own(write, token), is_moving=True).to_json()})


def end_rebuilding(database: LedgerDatabase, token: str, *, who: str, why: str) -> bool:
    """Release the rebuild lock if no table was moved yet. Return False if another rebuild has it, or it is moving."""
    with database.write() as write:
        known = write.rebuilding
        if known is None or known.token != token or known.is_moving or known.is_done:
            return False
        clear(write)
        write.log(GIVEN_UP, who=who, data={"token": token, "why": why})
        return True


def forget_rebuilding(database: LedgerDatabase, *, who: str) -> None:
    """Release the rebuild lock that was loaded from an export, even if that rebuild was moving its tables in.

    The commits show which tables were moved. Each of these is recorded separately.
    """
    with database.write() as write:
        known = write.rebuilding
        if known is not None and not known.is_done:
            clear(write)
            write.log(GIVEN_UP, who=who, data={"token": known.token, "why": "the ledger was rebuilt from its exports"})


def require_own(write: Write, token: str) -> Rebuilding:
    """Return the rebuild that has the lock under this token. Raises E644 if the lock is lost."""
    known = write.rebuilding
    if known is None or known.token != token or known.is_done:
        raise WaterclockError(
            "E644",
            "this rebuild has lost its lock",
            why="its lease expired, and a batch was claimed since: the new tables do not have it",
            fix="run `waterclock rebuild --all` again",
        )
    return known


def clear(write: Write) -> None:
    """Release the rebuild lock without a move: the current tables stay in use."""
    known = write.rebuilding
    remaining = None
    if known is not None and known.standing is not None:  # the token shows that the tables in use did not change
        remaining = replace(known, token=known.standing, standing=None, is_moving=False, is_done=True)
    write.execute(_SET, {"lock": None if remaining is None else remaining.to_json()})
    write.rebuilding = remaining


def end(write: Write, known: Rebuilding) -> None:
    """Release the rebuild lock after the move: the new tables are in use."""
    write.execute(_SET, {"lock": replace(known, is_moving=False, is_done=True).to_json()})


def require_no_rebuild(write: Write, where: str) -> None:
    """Raise E644 (transient) while all tables are being rebuilt. Release a lock whose lease has expired."""
    known = write.rebuilding
    if known is None or known.is_done:
        return
    if known.is_blocking(write.at):
        raise rebuild_in_progress_error(known, where)
    clear(write)


def rebuild_in_progress_error(known: Rebuilding, where: str | None = None) -> ClaimRefused:
    """Build the error for a request that is refused while all tables are being rebuilt."""
    why = f"{known.runner} ({known.who}) since {known.at:%Y-%m-%d %H:%M:%S} UTC"
    if known.is_moving:
        why += "; it has started to move the new tables in"
        fix = "if it was killed, `waterclock run` or `waterclock rebuild --all` finishes the move"
    else:
        fix = f"wait for its end; if it was killed, its lock expires at {known.until:%H:%M:%S} UTC"
    return ClaimRefused("E644", "all tables are being rebuilt", where=where, why=why, fix=fix, transient=True)
