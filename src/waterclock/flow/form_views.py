"""Decides which rows and columns of a form a person sees, by GRANT SELECT, and binds grants to forms and people.

A row is shown if one grant has it, and a column of a row if one of these grants has the column without a mask. Masks
are expressions of Spark, so a masked value is not shown in a form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from waterclock.flow.forms import Entity
from waterclock.flow.grants import Grant
from waterclock.flow.row_conditions import BoundCondition, bind_condition, evaluate, find_unsuitable
from waterclock.permissions.users_and_roles import Person

StoredTexts = Mapping[str, str | None]
"""The stored text of each column of a row."""


@dataclass(frozen=True, slots=True)
class FormGrant:
    """A grant of a person on a form. `condition` is bound to the form and the person; None grants all rows."""

    grant: Grant
    condition: BoundCondition | None = None

    def has(self, column: str) -> bool:
        """Return whether the grant has a column."""
        return self.grant.has(column)

    def shows(self, column: str) -> bool:
        """Return whether the grant has a column without a mask."""
        named = next((it for it in self.grant.columns if it.name.lower() == column.lower()), None)
        return self.has(column) and (named is None or named.mask is None)

    def holds(self, row: StoredTexts) -> bool:
        """Return whether the grant has a row: its condition is true, and not unknown."""
        return self.condition is None or evaluate(self.condition, row) is True


def bind_grants(grants: Iterable[Grant], entity: Entity, person: Person) -> tuple[FormGrant, ...]:
    """Bind grants to a form and to the attributes of a person.

    A grant whose condition needs an attribute that the person does not have is left out.
    """
    found = []
    for grant in grants:
        if grant.where is None:
            found.append(FormGrant(grant))
        elif grant.condition is not None:
            bound = bind_condition(grant.condition, entity.fields_by_name, person.attributes)
            if bound is not None:
                found.append(FormGrant(grant, bound))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class FormView:
    """The part of a form that a person sees, who does not see all of it. The KEY is shown in each row."""

    entity: Entity
    grants: tuple[FormGrant, ...]

    @property
    def shown(self) -> Entity:
        """The form with the fields that are shown in some row, without rules that name others."""
        fields = tuple(it for it in self.entity.fields if any(grant.shows(it.name) for grant in self.grants))
        others = {it.name for it in self.entity.fields} - {it.name for it in fields}
        named = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in others) or "(?!)", re.IGNORECASE)
        texts = ((rule, f"{rule.name}\n{rule.text}\n{rule.column}") for rule in self.entity.rules)
        return replace(self.entity, fields=fields, rules=tuple(rule for rule, text in texts if not named.search(text)))

    @property
    def masked(self) -> tuple[str, ...]:
        """The names of the columns that are granted with a mask only."""
        names = [field.name for field in self.entity.fields]
        return tuple(
            name for name in names
            if any(it.has(name) for it in self.grants) and not any(it.shows(name) for it in self.grants)
        )  # fmt: skip

    def columns_of(self, row: StoredTexts) -> frozenset[str]:
        """Return the columns of a row that are shown; none if the row is not."""
        held = [grant for grant in self.grants if grant.holds(row)]
        return frozenset(it.name for it in self.entity.fields if any(grant.shows(it.name) for grant in held))

    def project(self, row: StoredTexts | None) -> dict[str, str | None] | None:
        """Return the columns of a row that are shown; None if the row is not, or if there is none."""
        columns = frozenset[str]() if row is None else self.columns_of(row)
        return {name: value for name, value in (row or {}).items() if name in columns} if columns else None

    def shows_change(self, before: StoredTexts | None, after: StoredTexts | None) -> bool:
        """Return whether a change of a row is shown as a whole: both versions, and each column that differs.

        A new or deleted row has no value that is not shown.
        """
        versions = [row for row in (before, after) if row is not None]
        old, new = before or {}, after or {}
        changed = {name for name in (*old, *new) if old.get(name) != new.get(name)}
        return all(columns and changed <= columns for columns in map(self.columns_of, versions))

    def may_delete(self, row: StoredTexts) -> bool:
        """Return whether all columns of a row are shown, whether or not they have values."""
        return self.columns_of(row) == {field.name for field in self.entity.fields}


def is_supported(grants: Iterable[Grant], entity: Entity) -> bool:
    """Return whether a form can evaluate the conditions of all these grants."""
    fields = entity.fields_by_name
    return all(
        grant.where is None or (grant.condition is not None and not any(find_unsuitable(grant.condition, fields)))
        for grant in grants
    )


def view_of(grants: Iterable[Grant], entity: Entity, person: Person) -> FormView | None:
    """Return what grants to a person show of a form; None if none of them shows the KEY."""
    keys = [field.name for field in entity.keys]
    found = tuple(it for it in bind_grants(grants, entity, person) if all(map(it.shows, keys)))
    return FormView(entity, found) if found else None
