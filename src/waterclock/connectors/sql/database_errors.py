"""Builds the errors for databases that are missing, unreachable, locked or read-only, or that refuse a statement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.similar_names import did_you_mean

_MOST_LISTED = 10


def missing_database_file_error(path: str, where: str) -> WaterclockError:
    """Build the error for a database file that does not exist."""
    return WaterclockError(
        "E810",
        "the database file does not exist",
        where=where,
        why=f"there is no file {path}",
        fix="correct the connection's path, or restore the file; nothing was changed",
    )


def damaged_database_file_error(path: str, where: str, text: str) -> WaterclockError:
    """Build the error for a file that is not a database or is damaged."""
    return WaterclockError(
        "E810", "the database cannot be opened", where=where, why=f"{path}: {text}", fix="repair or restore the file"
    )


def unreachable_server_error(name: str, where: str, text: str) -> WaterclockError:
    """Build the error for a server that does not respond."""
    return WaterclockError(
        "E810",
        "the database server does not respond",
        where=where,
        why=f"{name}: {text}; nothing was changed",
        fix="Waterclock retries by itself; check that the server runs, and that host and port are correct",
        transient=True,
    )


def malformed_catalog_error(where: str, text: str) -> WaterclockError:
    """Build the error for a catalog whose answers are not those of a database."""
    return WaterclockError(
        "E810",
        "the catalog of the database cannot be read",
        where=where,
        why=f"it gave a malformed answer about privileges: {text}",
        fix="check that the address is that of the database, and not of another server",
    )


def lock_timeout_error(where: str, why: str, *, by: str) -> WaterclockError:
    """Build the error for a lock that was not released in time.

    `by` is who has the lock: `process`, `transaction` or `runner`.
    """
    return WaterclockError(
        "E811",
        "the database is locked",
        where=where,
        why=f"{why}; nothing was changed",
        fix=f"it is tried again; end the other {by}, or give the connection a longer timeout",
        transient=True,
    )


def changed_database_error(where: str, why: str) -> WaterclockError:
    """Build the error for a database that changed while it was read in parts."""
    return WaterclockError(
        "E814",
        "the database changed while it was read in parts",
        where=where,
        why=why,
        fix="it is tried again; without the option partitions it is read in one transaction, whatever else happens",
        transient=True,
    )


def unwritable_database_error(where: str, why: str, what: str, fix: str) -> WaterclockError:
    """Build the error for a database that is read-only, or whose user has no permission to write."""
    return WaterclockError(
        "E821", what, where=where, why=f"{why}; the transaction was undone", fix=f"{fix}; then run again"
    )


LONGEST_QUERY_SECONDS = 6 * 3600
"""The time limit for reading a database file: a view in a file of unknown origin may recurse without end."""


def refused_statement_error(
    where: str, why: str, fix: str = "correct the query, or the table in the database"
) -> WaterclockError:
    """Build the error for a statement that the database refuses."""
    return WaterclockError("E813", "the database rejected a statement", where=where, why=why, fix=fix)


def missing_table_error(
    unit: Unit, known: Sequence[str], meant: tuple[str, Sequence[str]] | None = None
) -> WaterclockError:
    """Build the error for a table that does not exist. `known` are existing tables.

    `meant` is a name and the names among which to find a similar one; by default the unit's path and `known`. With
    `meant` only the first tables are listed, as a server may have very many.
    """
    shown = known if meant is None else known[:_MOST_LISTED]
    listed = f"{', '.join(shown)}{', …' if len(known) > len(shown) else ''}"
    name, names = meant or (unit.path, known)
    return WaterclockError(
        "E804",
        f"there is no table {unit.path}",
        where=str(unit),
        why=f"the database holds {listed}" if known else "the database holds no tables",
        fix=did_you_mean(name, names, otherwise="correct the name, or restore the table"),
    )


def describe_missing_file(path: str, *, may_create: bool) -> str | None:
    """Return a message if a database file is missing that a delivery may create; else None."""
    file = Path(path)
    return f"the file {file.name} is gone" if may_create and not file.exists() else None
