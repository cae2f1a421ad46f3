"""REFERENCES: a column's reference to another table."""

from __future__ import annotations

from dataclasses import dataclass, field

from waterclock.flow.rule_actions import RuleActions


@dataclass(frozen=True, slots=True)
class Reference:
    """A REFERENCES: a column refers to `columns` of another table, or to its key if `columns` is empty.

    `role` distinguishes several references to one table. `at`: the column with the time that selects a version of the
    parent. `otherwise`: the actions for rows without a parent; if empty, rows are not checked.
    """

    table: str
    columns: tuple[str, ...] = ()
    role: str | None = None
    at: str | None = None
    otherwise: RuleActions = field(default=(), repr=False)
