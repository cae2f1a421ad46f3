"""Builds the errors with which the ledger refuses to rename a table (WAS)."""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.batches.facts import OpenClaim
from waterclock.errors import WaterclockError, did_you_mean


def both_have_data(table: str, was: str, where: str) -> WaterclockError:
    """Build the error for renaming a table to one that has batches of its own."""
    return WaterclockError(
        "E318",
        f"{was} cannot become {table}: both have data",
        where=where,
        why=f"{table} has batches of its own, and a table has one history",
        fix=f"leave WAS out and declare {was} as well; or name it otherwise",
    )


def both_were(table: str, other: str, was: str, where: str) -> WaterclockError:
    """Build the error for two tables that both declare a former name of the same table."""
    return WaterclockError(
        "E318",
        f"{table} and {other} both were {was}",
        where=where,
        why=f"what either says after WAS is a name that {was} has or had, and one of them has its history",
        fix="leave WAS out of one of both",
    )


def never_there(table: str, was: str, gone: Sequence[str], where: str) -> WaterclockError:
    """Build the error for a new table whose history may exist under another name than the declared one."""
    near = did_you_mean(was, gone)
    return WaterclockError(
        "E318",
        f"{table} was never called {was}",
        where=where,
        why=f"the ledger knows no {was}; what it has and this flow does not declare: {', '.join(gone[:3])}"
        f"{', …' if len(gone) > 3 else ''}",
        fix=near or f"name what {table} was; or leave WAS out, and it begins anew",
    )


def renamed_table_error(table: str, now: str, where: str) -> WaterclockError:
    """Build the error for an older flow, which would make a renamed table from the start again."""
    return WaterclockError(
        "E318",
        f"{table} was renamed to {now}, with all that it has",
        where=where,
        why=f"this flow knows no {now}: it would make all of {table} again",
        fix=f"work from the flow that declares {now}; to name it back, say {table} WAS {now}",
    )


def renamed_at_work(table: str, holder: OpenClaim) -> WaterclockError:
    """Build the error for renaming a table, or its readers, while a batch runs."""
    return WaterclockError(
        "E407",
        f"{table} is at work, and nothing is renamed meanwhile",
        where=table,
        why=f"claim {holder.claim} of {holder.runner} is open, its lease runs until "
        f"{holder.lease_until:%Y-%m-%d %H:%M:%S} UTC",
        fix="run again when it has ended; a claim whose lease ran out goes on under the new name",
        transient=True,
    )
