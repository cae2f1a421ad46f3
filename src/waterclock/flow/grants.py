"""Defines resolved GRANT statements: which rows and columns of which tables roles and users see, edit and approve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waterclock.flow.declarations import Place
    from waterclock.flow.row_conditions import RowCondition
    from waterclock.permissions.users_and_roles import Person


class GrantRight(StrEnum):
    """The right of a GRANT. EDIT and APPROVE are rights in forms, which are tables that people edit."""

    SELECT = "SELECT"
    EDIT = "EDIT"
    APPROVE = "APPROVE"


@dataclass(frozen=True, slots=True)
class GrantedColumn:
    """A column of a grant. `mask`: the Spark SQL that replaces its value; None to show the value unchanged."""

    name: str
    mask: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A resolved GRANT to roles and declared users; `where` is the condition on rows, None for all rows.

    Roles and users are separate sets, because a person who signs in at a provider may have the name of a role. If
    `is_open`, all columns are granted except those in `excepted`, which are in lower case. `condition` is `where` as a
    form evaluates it; None if there is no condition, or if it has parts that only Spark evaluates.
    """

    tables: tuple[str, ...]
    roles: frozenset[str]
    columns: tuple[GrantedColumn, ...] = ()
    is_open: bool = True
    excepted: frozenset[str] = frozenset()
    where: str | None = None
    users: frozenset[str] = frozenset()
    place: Place | None = field(default=None, compare=False)
    right: GrantRight = GrantRight.SELECT
    condition: RowCondition | None = None

    def is_to(self, person: Person) -> bool:
        """Return whether the grant is to a person, by name or by one of the person's roles."""
        return person.name in self.users or not self.roles.isdisjoint(person.roles)

    def has(self, column: str) -> bool:
        """Return whether a column is granted, with or without a mask."""
        lower = column.lower()
        is_named = any(each.name.lower() == lower for each in self.columns)
        return is_named or (self.is_open and lower not in self.excepted)

    @property
    def is_whole(self) -> bool:
        """True if all rows and all columns are granted without masks."""
        return self.is_open and not self.excepted and self.where is None and all(it.mask is None for it in self.columns)


def group_by_table(grants: Iterable[Grant]) -> dict[str, tuple[Grant, ...]]:
    """Map each table that grants name to these grants, in the order declared."""
    found: dict[str, list[Grant]] = {}
    for grant in grants:
        for name in dict.fromkeys(grant.tables):
            found.setdefault(name, []).append(grant)
    return {name: tuple(each) for name, each in found.items()}
