"""References that are checked: the columns whose values must be there in another table, and what becomes else. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.flow.declarations import Columns, Read
from waterclock.flow.ladders import Ladder


@dataclass(frozen=True, slots=True)
class CheckedReference:
    """A REFERENCES with an ELSE: a row whose `columns` are none of them NULL must find its parent in `table`.

    It is found by `parent_columns`; none before the flow is settled, where the parent's key is meant.
    """

    table: str
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]
    role: str | None
    ladder: Ladder

    @property
    def name(self) -> str:
        """What it is called in counts and messages."""
        columns = self.columns[0] if len(self.columns) == 1 else f"({', '.join(self.columns)})"
        return f"{columns} REFERENCES {self.table}" + (f" ROLE {self.role}" if self.role else "")

    @property
    def read(self) -> Read:
        """The read that it is: the parent as its plain name in the query would be."""
        return Read(self.table)


def checked_references(columns: Columns) -> tuple[CheckedReference, ...]:
    """Return the checked references of a column list, in the order of their first columns.

    Columns that refer to one table in one role are one key together, of which the ELSE is said once.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    said = {column.name: column.references for column in columns.named if column.references is not None}
    for name, reference in said.items():
        groups.setdefault((reference.table, (reference.role or "").lower()), []).append(name)
    found = []
    for (table, _), names in groups.items():
        ladder = next((said[name].otherwise for name in names if said[name].otherwise), ())
        if ladder:
            theirs = tuple(column for name in names for column in said[name].columns)
            found.append(CheckedReference(table, tuple(names), theirs, said[names[0]].role, ladder))
    return tuple(found)
