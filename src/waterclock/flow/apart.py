"""People kept apart: the companions of a table with APART, which stores pseudonyms instead of personal columns."""

from __future__ import annotations

from dataclasses import dataclass

APART, WHOLE, READ = "_apart", "_whole", "_read"
"""Suffixes: the table with the persons' columns, the view that joins both, and the view that both are made from."""

LINK = "apart_key"
"""The HIDDEN column by which both tables are joined. It is a keyed hash of the label and the values kept apart."""

_PSEUDONYM = "_pseudonym"


@dataclass(frozen=True, slots=True)
class Apart:
    """The settings of a table with APART.

    - `subject`: the kind of persons. `subject_column`: the column that identifies them, which is kept apart as well.
    - `columns`: the columns that APART names.
    - `keys`: the connection of type `keys` with the key of the pseudonyms.
    """

    subject: str
    subject_column: str
    columns: tuple[str, ...]
    keys: str

    @property
    def pseudonym(self) -> str:
        """The column that replaces the subject's column: its keyed hash."""
        return pseudonym_of(self.subject)


def pseudonym_of(subject: str) -> str:
    """Return the name of the column with the pseudonyms of a subject."""
    return f"{subject.lower()}{_PSEUDONYM}"


def apart_of(table: str) -> str:
    """Return the name of the companion table that stores the persons' columns of `table`."""
    return f"{table}{APART}"


def whole_of(table: str) -> str:
    """Return the name of the view that joins `table` with the persons' columns."""
    return f"{table}{WHOLE}"


def read_of(table: str) -> str:
    """Return the name of the SHARED view with the query of `table`."""
    return f"{table}{READ}"
