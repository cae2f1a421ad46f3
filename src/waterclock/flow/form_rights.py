"""Decides what a person may do with a form: by the rights of their roles, and by GRANT EDIT and GRANT APPROVE.

A form without a GRANT EDIT is edited by everyone with the right `edit`. With one, only by the roles and users to which
it is granted, and by administrators; they need the right `edit` as well. The same holds for APPROVE. A grant with a
condition is for the rows that match it, before a change and after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.form_views import FormGrant, FormView, StoredTexts, bind_grants
from waterclock.flow.forms import entity_of
from waterclock.flow.grants import Grant, GrantRight
from waterclock.permissions.users_and_roles import Person, Right

NOT_SHOWN = "the row or one of its columns is not shown to you, before or after the change"
"""The reason why a change is refused of which a person does not see all. It names no column."""

RowChange = tuple[StoredTexts | None, StoredTexts | None]
"""A row before and after a change. None is no row."""


class EditRefusedError(WaterclockError):
    """A person may not make a change (E940). `refusals` are the reasons by row and column; "" is the whole row."""

    refusals: Mapping[str, Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FormRights:
    """The rights of a person in a form.

    - `no_edit`, `no_approval`: the reason why the person may not edit or approve; "" if they may.
    - `grants`, `approvals`: the grants to edit and to approve that the person has; None if they may do so in all rows
      and columns.
    - `view`: the rows and columns that the person sees; None if all.
    - `columns`: the columns that are shown of the row to which the rights belong; None for all.
    """

    name: str
    no_edit: str = ""
    no_approval: str = ""
    grants: tuple[FormGrant, ...] | None = None
    approvals: tuple[FormGrant, ...] | None = None
    view: FormView | None = None
    columns: frozenset[str] | None = None

    @property
    def may_edit(self) -> bool:
        """Whether the person may change rows of the form, or propose changes."""
        return not self.no_edit

    @property
    def may_approve(self) -> bool:
        """Whether the person may approve and reject changes of other people."""
        return not self.no_approval

    def may_change(self, column: str) -> bool:
        """Return whether the person may set a column in some row. A new or deleted row sets its KEY."""
        is_shown = self.columns is None or column in self.columns
        return self.may_edit and is_shown and (self.grants is None or any(grant.has(column) for grant in self.grants))

    def may_delete(self, row: StoredTexts) -> bool:
        """Return whether the person may delete a row to which these rights belong: all of it is shown to them."""
        return self.may_edit and (self.view is None or self.view.may_delete(row))

    def of_row(self, row: StoredTexts) -> FormRights:
        """Return the rights of the person in a row as it is."""
        shown = self if self.view is None else replace(self, columns=self.view.columns_of(row))
        if self.grants is None or not self.may_edit:
            return shown
        grants = tuple(grant for grant in self.grants if grant.holds(row))
        return replace(shown, grants=grants, no_edit="" if grants else "no GRANT EDIT has this row")

    def require_edit(self, table: str) -> None:
        """Raise E940 unless the person may edit the form."""
        if self.no_edit:
            raise _refused_error(f"{self.name} may not edit {table}", self.no_edit, table, GrantRight.EDIT)

    def find_refusals(self, before: StoredTexts | None, after: StoredTexts | None) -> dict[str, str]:
        """Map each column of a change that the person may not make to the reason; "" is the whole row.

        Empty if they may make the change. None is no row. For each column that changes, one grant has the row as it is,
        and one has it as it would be. Both versions and each such column are shown to the person.
        """
        if self.no_edit:
            return {"": self.no_edit}
        if self.view is not None:
            is_shown = self.view.shows_change(before, after)
            if not is_shown or (after is None and before is not None and not self.view.may_delete(before)):
                return {"": NOT_SHOWN}
        if self.grants is None:
            return {}
        old, new = before or {}, after or {}
        changed = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
        found: dict[str, str] = {}
        for row, words in ((before, "as it is"), (after, "as it would be")):
            held = [grant for grant in self.grants if row is not None and grant.holds(row)]
            for name in changed:
                if row is None or any(grant.has(name) for grant in held):
                    continue
                why = f"no GRANT EDIT has the row {words}" + (f" with {name}" if held else "")
                found.setdefault(name, why if self.may_change(name) else f"no GRANT EDIT names {name}")
        return found

    def require_changes(self, table: str, changes: Mapping[str, RowChange]) -> None:
        """Raise E940 unless the person may make all these changes of rows, which are given by the row's key."""
        found = {key: refusals for key, change in changes.items() if (refusals := self.find_refusals(*change))}
        if not found:
            return
        key, refusals = next(iter(found.items()))
        why = next(iter(refusals.values()))
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        right = GrantRight.SELECT if why == NOT_SHOWN else GrantRight.EDIT
        what = f"{self.name} may not edit {key}{more} of {table}"
        raise _refused_error(what, why, table, right, found)

    def not_shown_error(self, what: str, table: str, key: str = "") -> WaterclockError:
        """Build the error for a change of a row or column that is not shown to the person. It names no column."""
        refusals = {key: {"": NOT_SHOWN}}
        return _refused_error(f"{self.name} may not edit {what}", NOT_SHOWN, table, GrantRight.SELECT, refusals)

    def require_approval(self, table: str) -> None:
        """Raise E940 unless the person may approve and reject changes of the form."""
        if self.no_approval:
            what = f"{self.name} may not decide on changes of {table}"
            raise _refused_error(what, self.no_approval, table, GrantRight.APPROVE)

    def may_approve_row(self, *versions: StoredTexts | None) -> bool:
        """Return whether the person may decide on a change of a row: one grant has each version. None is no row."""
        held = (
            self.approvals is None or any(it.holds(row) for it in self.approvals) for row in versions if row is not None
        )
        return self.may_approve and all(held)

    def require_approval_of_row(self, table: str, key: str, *versions: StoredTexts | None) -> None:
        """Raise E940 unless the person may decide on a change of a row from and to these versions. None is no row."""
        if not self.may_approve_row(*versions):
            what = f"{self.name} may not decide on a change of {key} of {table}"
            why = "no GRANT APPROVE has the row before and after the change"
            raise _refused_error(what, why, table, GrantRight.APPROVE)


def form_rights_of(flow: Flow, person: Person, table: str) -> FormRights:
    """Return the rights of a person in the form that a table collects."""
    declared = flow.form_grants_by_table.get(table, ())
    found = {right: [it for it in declared if it.right is right] for right in (GrantRight.EDIT, GrantRight.APPROVE)}
    own = {
        right: bind_grants((grant for grant in grants if grant.is_to(person)), entity_of(flow.tables[table]), person)
        for right, grants in found.items()
    }
    is_limited = {right: bool(grants) and not person.may(Right.ADMINISTER) for right, grants in found.items()}
    return FormRights(
        person.name,
        _find_reason(person, Right.EDIT, found[GrantRight.EDIT], own[GrantRight.EDIT]),
        _find_reason(person, Right.APPROVE, found[GrantRight.APPROVE], own[GrantRight.APPROVE]),
        own[GrantRight.EDIT] if is_limited[GrantRight.EDIT] else None,
        own[GrantRight.APPROVE] if is_limited[GrantRight.APPROVE] else None,
    )


def _find_reason(person: Person, right: Right, grants: Sequence[Grant], usable: Sequence[FormGrant]) -> str:
    """Return why a person may not use a right in a form; "" if they may."""
    if not person.may(right):
        return f"the right {right} is missing"
    if not grants or person.may(Right.ADMINISTER) or usable:
        return ""
    if any(grant.is_to(person) for grant in grants):
        return f"the GRANT {right.upper()} of the form needs an attribute that {person.name} does not have"
    return f"no GRANT {right.upper()} of the form is to {person.name} or to one of their roles"


def _refused_error(
    what: str,
    why: str,
    table: str,
    right: GrantRight,
    refusals: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> EditRefusedError:
    error = EditRefusedError(
        "E940",
        what,
        where=table,
        why=why,
        fix=f"ask whoever can change the project for a GRANT SELECT ON {table}"
        if right is GrantRight.SELECT
        else f"ask whoever can change the project for the right {right.lower()}, or a GRANT {right} ON {table}",
    )
    error.refusals = refusals
    return error
