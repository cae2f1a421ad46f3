"""Checks the declared columns against the schema versions in the ledger, before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.batches.schema_compatibility import KEY, NOT_NULL, broken_promises, type_of_version
from waterclock.batches.schemas import SchemaVersion, Side, newest_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.operations.read_only_ledger import read_ledger

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.ledger.ledger import Ledger


def compatibility_errors(project: Project, *, connect: bool = False) -> list[WaterclockError]:
    """Return an error for each declared column whose change is not allowed by COMPATIBLE, with its place.

    A ledger on a server is read only with `connect`. No ledger is written. Cost: one ledger query for each table with
    COMPATIBLE. The ledger is not opened if there are no such tables.
    """
    promising = [table for table in project.flow.tables.values() if table.compatible is not None]
    if not promising:
        return []
    from waterclock.engine.ledger_opening import ledger_url

    def find_errors(ledger: Ledger) -> list[WaterclockError]:
        ledger.declared.apply_pending_renames(project.flow)
        return [
            error
            for table in promising
            for error in _find_table_violations(project, table, ledger.reads.schemas(table.name))
        ]

    return read_ledger(ledger_url(project), find_errors, connect=connect) or []


def _find_table_violations(
    project: Project, table: Table, versions: tuple[SchemaVersion, ...]
) -> list[WaterclockError]:
    newest = newest_of(versions, Side.TABLE)
    if newest is None:
        return []
    found = []
    for broken, error in broken_promises(table, resolve_declared_columns(table, newest), versions, "E450"):
        column = next((each for each in table.columns.named if each.name.lower() == broken.misfit.path.lower()), None)
        place = column.place if column else table.place
        found.append(project.locate_error(place, error))
    return found


def resolve_declared_columns(table: Table, newest: SchemaVersion) -> dict[str, str]:
    """Return the columns and types that a table will have as declared. Undeclared types are those of `newest`."""
    before = {name.lower(): (name, declared) for name, declared in newest.columns.items()}
    keys = {name.lower() for name in table.keys}
    columns: dict[str, str] = {}
    for column in table.columns.named:
        known = before.get(column.name.lower(), (column.name, None))[1]
        kind = column.type or type_of_version(known or "")
        if kind:
            constraint = KEY if column.name.lower() in keys else NOT_NULL if column.is_not_null else ""
            columns[column.name] = kind + constraint
    if table.columns.is_open:
        declared = {name.lower() for name in columns}
        for lower, (name, known) in before.items():
            if lower not in declared:
                kind = type_of_version(known)
                columns[name] = kind + (KEY if lower in keys else "")
    return columns
