"""Decides what a person may do with a form: by the rights of their roles, and by GRANT EDIT and GRANT APPROVE.

A form without a GRANT EDIT is edited by everyone with the right `edit`. With one, only by the roles and users to which
it is granted, and by administrators; they need the right `edit` as well. The same holds for APPROVE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.grants import Grant, GrantRight
from waterclock.permissions.users_and_roles import Person, Right


@dataclass(frozen=True, slots=True)
class FormRights:
    """The rights of a person in a form.

    - `no_edit`, `no_approval`: the reason why the person may not edit or approve; "" if they may.
    - `grants`: the grants to edit that the person has; None if the person may edit all columns.
    """

    name: str
    no_edit: str = ""
    no_approval: str = ""
    grants: tuple[Grant, ...] | None = None

    @property
    def may_edit(self) -> bool:
        """Whether the person may change rows of the form, or propose changes."""
        return not self.no_edit

    @property
    def may_approve(self) -> bool:
        """Whether the person may approve and reject changes of other people."""
        return not self.no_approval

    def may_change(self, column: str) -> bool:
        """Return whether the person may set a column. A new or deleted row sets its KEY."""
        return self.may_edit and (self.grants is None or any(grant.has(column) for grant in self.grants))

    def require_edit(self, table: str, columns: Iterable[str] = ()) -> None:
        """Raise E940 unless the person may edit the form, and these columns of it."""
        if self.no_edit:
            raise _refused_error(f"{self.name} may not edit {table}", self.no_edit, table, GrantRight.EDIT)
        wrong = [name for name in columns if not self.may_change(name)]
        if wrong:
            raise _refused_error(
                f"{self.name} may not change {', '.join(wrong)} of {table}",
                "no GRANT EDIT names the column; a row is added and deleted by who may change its KEY",
                table,
                GrantRight.EDIT,
            )

    def require_approval(self, table: str) -> None:
        """Raise E940 unless the person may approve and reject changes of the form."""
        if self.no_approval:
            what = f"{self.name} may not decide on changes of {table}"
            raise _refused_error(what, self.no_approval, table, GrantRight.APPROVE)


def form_rights_of(flow: Flow, person: Person, table: str) -> FormRights:
    """Return the rights of a person in the form that a table collects."""
    declared = flow.form_grants_by_table.get(table, ())
    found = {right: [it for it in declared if it.right is right] for right in (GrantRight.EDIT, GrantRight.APPROVE)}
    own = [grant for grant in found[GrantRight.EDIT] if grant.is_to(person)]
    is_limited = bool(found[GrantRight.EDIT]) and not person.may(Right.ADMINISTER)
    return FormRights(
        person.name,
        _find_reason(person, Right.EDIT, found[GrantRight.EDIT]),
        _find_reason(person, Right.APPROVE, found[GrantRight.APPROVE]),
        tuple(own) if is_limited else None,
    )


def _find_reason(person: Person, right: Right, grants: Sequence[Grant]) -> str:
    """Return why a person may not use a right in a form; "" if they may."""
    if not person.may(right):
        return f"the right {right} is missing"
    if not grants or person.may(Right.ADMINISTER) or any(grant.is_to(person) for grant in grants):
        return ""
    return f"no GRANT {right.upper()} of the form is to {person.name} or to one of their roles"


def _refused_error(what: str, why: str, table: str, right: GrantRight) -> WaterclockError:
    return WaterclockError(
        "E940",
        what,
        where=table,
        why=why,
        fix=f"ask whoever can change the project for the right {right.lower()}, or a GRANT {right} ON {table}",
    )
