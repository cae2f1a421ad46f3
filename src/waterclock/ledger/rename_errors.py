"""Builds the errors with which the ledger refuses to rename a table (WAS)."""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.batches.ledger_snapshot import OpenClaim
from waterclock.errors import WaterclockError
from waterclock.similar_names import did_you_mean


def both_have_data_error(table: str, was: str, where: str) -> WaterclockError:
    """Build the error for renaming a table to one that has batches of its own."""
    return WaterclockError(
        "E318",
        f"{was} cannot become {table}: both have data",
        where=where,
        why=f"{table} has batches of its own, and a table has one history",
        fix=f"remove WAS and declare {was} as well; or choose another name",
    )


def same_former_name_error(table: str, other: str, was: str, where: str) -> WaterclockError:
    """Build the error for two tables that both declare a former name of the same table."""
    return WaterclockError(
        "E318",
        f"{table} and {other} both declare WAS {was}",
        where=where,
        why=f"{was} is one table, under its current or a former name, and only one table can continue its history",
        fix="remove WAS from one of them",
    )


def missing_history_error(table: str, was: str, gone: Sequence[str], where: str) -> WaterclockError:
    """Build the error for a table whose former name `was` is unknown; `gone` lists tables that are not declared now."""
    near = did_you_mean(was, gone)
    return WaterclockError(
        "E318",
        f"{table} was never called {was}",
        where=where,
        why=(
            f"the ledger has no table {was}; it has these tables, which the flow does not declare: "
            f"{', '.join(gone[:3])}{', …' if len(gone) > 3 else ''}"
        ),
        fix=near or f"write the former name of {table}; or remove WAS, and it starts without history",
    )


def renamed_table_error(table: str, now: str, where: str) -> WaterclockError:
    """Build the error for a flow that declares a table by its former name, and not by its current one.

    Running it would make all batches of the table again, under the former name.
    """
    return WaterclockError(
        "E318",
        f"{table} was renamed to {now}, with its history",
        where=where,
        why=f"this flow does not declare {now}, so it would compute all of {table} again",
        fix=f"use the flow that declares {now}; to rename it back, declare {table} WAS {now}",
    )


def busy_rename_error(table: str, holder: OpenClaim) -> WaterclockError:
    """Build the error for renaming a table, or its readers, while a batch runs."""
    return WaterclockError(
        "E407",
        f"{table} cannot be renamed now: a batch of it is running",
        where=table,
        why=f"claim {holder.claim} of {holder.runner} is open, its lease runs until "
        f"{holder.lease_until:%Y-%m-%d %H:%M:%S} UTC",
        fix="run again when it has ended; a claim whose lease has expired continues under the new name",
        transient=True,
    )
