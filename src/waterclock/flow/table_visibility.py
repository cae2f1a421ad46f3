"""Decides how much of a table a person sees, and which companion tables have the grants of their table.

A table without a GRANT is visible to everyone with the right to query. A table with a GRANT is visible to the roles and
users to which it is granted, and to administrators.
"""

from __future__ import annotations

from enum import Enum, auto

from waterclock.flow.checks import input_rules_of
from waterclock.flow.declarations import Flow
from waterclock.flow.grants import Grant
from waterclock.flow.open_windows import VIEW
from waterclock.flow.watermarks import MARK
from waterclock.permissions.users_and_roles import Person, Right

QUARANTINE, HELD = "_quarantine", "_held"
"""The suffixes of the names by which queries read a table's quarantined rows and the rows of its held batches."""


class TableVisibility(Enum):
    """The part of a table that a person sees: all of it, the granted rows and columns, or nothing."""

    WHOLE = auto()
    RESTRICTED = auto()
    NONE = auto()


def is_restricted(flow: Flow, person: Person) -> bool:
    """Return whether there is a table of which the person does not see all rows and columns."""
    return any(form_of(flow, person, name) is not TableVisibility.WHOLE for name in flow.grants_by_table)


def grants_of(flow: Flow, person: Person, name: str) -> tuple[Grant, ...] | None:
    """Return the grants of a person on a table, in the order declared; None if the person sees all of the table.

    `name` may be a companion table; it has the grants of its table.
    """
    base = table_of_rights(flow, name)
    if person.may(Right.ADMINISTER) or base not in flow.grants_by_table:
        return None
    found = tuple(grant for grant in flow.grants_by_table[base] if grant.is_to(person))
    return None if any(grant.is_whole for grant in found) else found


def form_of(flow: Flow, person: Person, name: str) -> TableVisibility:
    """Return how much of a table a person sees.

    Masks and conditions cannot be applied to quarantined and held rows, which are stored as they came, nor to a
    watermark, which is computed from all rows. So only persons who see the whole table see these. Late rows, and rows
    that rules on inputs quarantine, are whole rows of the inputs. So only persons who see the whole inputs see them.
    """
    if any(grants_of(flow, person, other) is not None for other in _list_tables_of_rows(flow, name)):
        return TableVisibility.NONE
    found = grants_of(flow, person, name)
    if found is None:
        return TableVisibility.WHOLE
    if not found or _is_without_columns(flow, name):
        return TableVisibility.NONE
    return TableVisibility.RESTRICTED


def table_of_rights(flow: Flow, name: str) -> str:
    """Return the table whose grants apply to `name`: `a.b` for `a.b_late`, `a.spd_b` and `a.b_view`; else `name`."""
    followed = _followed_table(flow, name)
    while followed is not None and followed != name:
        name, followed = followed, _followed_table(flow, followed)
    return name


def _followed_table(flow: Flow, name: str) -> str | None:
    table = flow.tables.get(name)
    if table is None:
        bases = [name.removesuffix(suffix) for suffix in (QUARANTINE, HELD, VIEW) if name.endswith(suffix)]
        return next((base for base in bases if base in flow.tables and name not in flow.views), None)
    if table.late_rows is not None:
        return table.late_rows.of
    if table.open_of is not None:
        return table.open_of
    return name.removesuffix(MARK) if table.marks is not None and name.endswith(MARK) else None


def _list_tables_of_rows(flow: Flow, name: str) -> list[str]:
    """Return the tables of which a companion table stores whole rows, without the table that it belongs to."""
    table = flow.tables.get(name)
    if table is not None and table.late_rows is not None:
        return [read.table for read in table.reads if read.table != table.late_rows.of]
    if table is None and name.endswith(QUARANTINE) and (base := _followed_table(flow, name)) is not None:
        return list(input_rules_of(flow.tables[base]))
    return []


def _is_without_columns(flow: Flow, name: str) -> bool:
    """Return whether grants cannot be applied to a companion table: to watermarks, quarantined rows and held rows."""
    if name in flow.tables:
        return flow.tables[name].marks is not None and table_of_rights(flow, name) != name
    return name.endswith((QUARANTINE, HELD)) and table_of_rights(flow, name) != name
