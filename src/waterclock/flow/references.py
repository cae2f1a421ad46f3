"""REFERENCES: a column's reference to another table."""

from __future__ import annotations

from collections.abc import Sequence
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


def pair_with_keys(columns: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    """Return the parent's key columns in the order of the columns that refer to them.

    Columns with the names of the keys refer to these, in any order; all others by their positions.
    """
    by_name = {key.lower(): key for key in keys}
    own = [column.lower() for column in columns]
    return tuple(by_name[name] for name in own) if by_name.keys() == {*own} else tuple(keys)
