"""REFERENCES: a column's reference to another table."""

from __future__ import annotations

from dataclasses import dataclass, field

from waterclock.flow.rule_actions import RuleActions


@dataclass(frozen=True, slots=True)
class Reference:
    """A REFERENCES of a column to `columns` of another table, which FLAT follows; if empty, to the key.

    `role` distinguishes several references to one table. `at`: the column with the time that selects a version.
    `otherwise`: the actions for rows without a parent; if empty, rows are not checked.
    """

    table: str
    columns: tuple[str, ...] = ()
    role: str | None = None
    at: str | None = None
    otherwise: RuleActions = field(default=(), repr=False)
