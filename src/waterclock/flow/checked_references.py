"""Checked foreign keys (REFERENCES ... ELSE): columns whose values must exist in another table."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.flow.declarations import Columns, Read
from waterclock.flow.rule_actions import RuleActions


@dataclass(frozen=True, slots=True)
class CheckedReference:
    """A REFERENCES with an ELSE: a row in which none of `columns` is NULL must have a parent row in `table`.

    The `parent_columns` of the parent row have the same values; if empty, the parent's key has them. `actions`: the
    actions for rows without a parent.
    """

    table: str
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]
    role: str | None
    actions: RuleActions

    @property
    def name(self) -> str:
        """The name of the check in counts and messages."""
        columns = self.columns[0] if len(self.columns) == 1 else f"({', '.join(self.columns)})"
        return f"{columns} REFERENCES {self.table}" + (f" ROLE {self.role}" if self.role else "")

    @property
    def read(self) -> Read:
        """The input that the check adds to the batch: the parent table, read as by its plain name in a query."""
        return Read(self.table)


def checked_references(columns: Columns) -> tuple[CheckedReference, ...]:
    """Return the checked references of a column list.

    Columns that refer to the same table in the same role form one reference with several columns.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    references = {column.name: column.references for column in columns.named if column.references is not None}
    for name, reference in references.items():
        groups.setdefault((reference.table, (reference.role or "").lower()), []).append(name)
    found = []
    for (table, _), names in groups.items():
        actions = next((references[name].otherwise for name in names if references[name].otherwise), ())
        if actions:
            theirs = tuple(column for name in names for column in references[name].columns)
            found.append(CheckedReference(table, tuple(names), theirs, references[names[0]].role, actions))
    return tuple(found)
