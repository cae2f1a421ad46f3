"""The settings of MERGE and TEMPORAL, which combine a table's slices by key to the newest rows or to all versions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waterclock.flow.declarations import Columns

RECORD = ("rec_eff_time", "rec_exp_time", "rec_is_current")
"""The record columns of each version in a TEMPORAL table: its start, its end, and whether it is current."""


@dataclass(frozen=True, slots=True)
class Merge:
    """The settings of MERGE: the last row of each key by (`order_by`, label) is visible, unless `delete_when` is TRUE.

    `calls`: a digest of the project's functions that `delete_when` calls; empty if it calls none.
    """

    keys: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    delete_when: str | None = None
    calls: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which a PUBLISH sends rows: by the columns `by`, separately for each value of `per` if it is set."""

    by: tuple[str, ...]
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Temporal:
    """The settings of TEMPORAL: how the versions of a key are made from the rows of all labels.

    - `at`: the column with the time from which a row is effective; None: the end of the row's window.
    - `order_by`: the order of rows with the same key and time; rows that tie are ordered by label.
    - `consumed`: columns that are used to order or delete rows and are not stored as attributes.
    - `track`: the attributes whose changes start a new version; empty: all except `untracked`, the HIDDEN columns.
    - `values`: attributes in which NULL means "empty from now on"; `are_all_values`: this holds for all attributes. In
      other attributes, NULL means missing, and is filled from earlier rows.
    - `fills_back`: NULLs before the first value of a key are filled with this value. After a delete, a key starts over.
    - `is_of_snapshots`: each label contains all existing keys; a new key is valid from the end of the previous label.
    - `calls`: as in `Merge`.
    """

    keys: tuple[str, ...]
    at: str | None = None
    order_by: tuple[str, ...] = ()
    delete_when: str | None = None
    consumed: tuple[str, ...] = ()
    track: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    are_all_values: bool = False
    fills_back: bool = True
    untracked: tuple[str, ...] = field(default=(), repr=False)
    is_of_snapshots: bool = field(default=False, repr=False)
    calls: str = field(default="", repr=False)

    def __str__(self) -> str:
        parts = [
            f"ON ({', '.join(self.keys)})",
            f"AT {self.at}" if self.at else "",
            f"ORDER BY {', '.join(self.order_by)}" if self.order_by else "",
            f"DELETE WHEN {self.delete_when}" if self.delete_when else "",
            f"TRACK ({', '.join(self.track)})" if self.track else "",
            "NULLS VALUE" if self.are_all_values else f"NULLS VALUE ({', '.join(self.values)})" if self.values else "",
            "" if self.fills_back else "FILL FORWARD",
        ]
        lives = ", new keys since the snapshot before" if self.is_of_snapshots else ""
        return " ".join(part for part in parts if part) + lives

    def attributes(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the attributes among the columns of a row: all except the key, the time and `consumed` columns."""
        others = {name.lower() for name in (*self.keys, self.at or "", *self.consumed)}
        return tuple(name for name in columns if name.lower() not in others)

    def outputs(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns of a version, given those of a row: keys, start, attributes, end and current flag."""
        return (*self.keys, RECORD[0], *self.attributes(columns), *RECORD[1:])


class Keyed:
    """Mixin for tables with properties that depend on the key and on the MERGE or TEMPORAL settings."""

    __slots__ = ()
    columns: Columns
    fold: Merge | Temporal | None

    @property
    def merge(self) -> Merge | None:
        """The settings of a MERGE table; None for a table of another mode."""
        return self.fold if isinstance(self.fold, Merge) else None

    @property
    def hidden_columns(self) -> tuple[str, ...]:
        """The HIDDEN columns that readers of the table can name; for a TEMPORAL table, only attributes."""
        names = self.columns.hidden_columns
        return names if self.temporal is None else self.temporal.attributes(names)

    @property
    def temporal(self) -> Temporal | None:
        """The settings of a TEMPORAL table; None for a table of another mode."""
        return self.fold if isinstance(self.fold, Temporal) else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify rows: the key of MERGE or TEMPORAL, or else the KEY columns."""
        return self.fold.keys if self.fold else self.columns.keys
