"""Checks that a branch may still be used: its lease has not ended, and its base still has what it borrows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from waterclock.batches.former_names import is_borrowed
from waterclock.engine.branching.branch_state import BorrowedHead, BranchState
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import table_exists


def require_lease(state: BranchState, now: datetime) -> None:
    """Raise E474 if the lease of a branch has ended."""
    if now >= state.expires_at:
        raise WaterclockError(
            "E474",
            f"the lease of the branch {state.name} has ended",
            why=f"it ended on {state.expires_at:%Y-%m-%d %H:%MZ}; {state.base} may have removed what it borrows",
            fix=_again(state),
        )


def require_borrowed_tables(state: BranchState, folders: Mapping[str, str]) -> None:
    """Raise E475 if a borrowed table was dropped, made again, or got other columns. `folders` are those of all tables.

    Rows that were removed are found when they are read. Cost: the newest log entries of each borrowed table.
    """
    for name, head in state.heads.items():
        folder = folders.get(name)
        if folder is None or not is_borrowed(folder):
            continue
        if problem := _find_problem(folder, head):
            raise WaterclockError(
                "E475",
                f"{state.base} has changed {name}, which the branch {state.name} borrows",
                where=folder,
                why=problem,
                fix=_again(state),
            )


def find_borrowed_version(ledger: Ledger, lake: Lake, name: str) -> int | None:
    """Return the version at which a branch reads a borrowed table: -1 if it was not made when the branch was created.

    None if the table is not borrowed. Cost: a query of the ledger for a borrowed table.
    """
    return ledger.reads.table(name).head_version if is_borrowed(lake.location(name)) else None


def _again(state: BranchState) -> str:
    return f"`waterclock branch delete {state.name}`, then create it again"


def _find_problem(folder: str, head: BorrowedHead) -> str | None:
    if not table_exists(folder):
        return "its folder is gone"
    from waterclock.storage.log.table_heads import read_table_head  # it loads Delta's library

    table = read_table_head(folder)
    if table.identity != head.identity or table.version < head.version:
        return "another table is in its folder"
    return None if table.schema == head.schema else "it has other columns now"
