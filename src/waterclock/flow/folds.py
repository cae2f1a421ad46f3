"""How the slices of a table are folded, key by key: a MERGE keeps the newest row, a TEMPORAL all versions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waterclock.flow.declarations import Columns

RECORD = ("rec_eff_time", "rec_exp_time", "rec_is_current")
"""The columns of each version of a temporal table: when it takes effect, when it ends, and whether it is current."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Keyed update: per key the last row by (`order_by`, label) wins. It deletes the key if `delete_when` is TRUE.

    `calls`: identifies the code of the project's functions that `delete_when` calls, if any.
    """

    keys: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    delete_when: str | None = None
    calls: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which rows are sent: by columns, within each value of `per`, or else over all rows."""

    by: tuple[str, ...]
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Temporal:
    """All versions of a key on one timeline: which rows define the attributes, and from when on.

    A row gives the attributes as of `at`, or as of its window's end if that is None. Rows of one key and time are
    ordered by `order_by`, then by label. `consumed` are columns that order or delete and are not attributes. `track`
    are the attributes whose changes start a version; if it is empty, all do. NULL is missing and filled, except for the
    `values`, where it means "now empty"; `are_all_values`: for every attribute, as in a snapshot by default.
    `fills_back`: a life's first versions take its first known value. `untracked`: HIDDEN columns, whose changes start
    no version unless TRACK names them. `is_of_snapshots`: each label contains all existing keys; a new key starts at
    the end of the previous label. `calls`: as of a `Merge`.
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
        said = [
            f"ON ({', '.join(self.keys)})",
            f"AT {self.at}" if self.at else "",
            f"ORDER BY {', '.join(self.order_by)}" if self.order_by else "",
            f"DELETE WHEN {self.delete_when}" if self.delete_when else "",
            f"TRACK ({', '.join(self.track)})" if self.track else "",
            "NULLS VALUE" if self.are_all_values else f"NULLS VALUE ({', '.join(self.values)})" if self.values else "",
            "" if self.fills_back else "FILL FORWARD",
        ]
        lives = ", new keys since the snapshot before" if self.is_of_snapshots else ""
        return " ".join(part for part in said if part) + lives

    def attributes(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns of a row that versions show."""
        others = {name.lower() for name in (*self.keys, self.at or "", *self.consumed)}
        return tuple(name for name in columns if name.lower() not in others)

    def outputs(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that readers see, given a row's columns: keys, start, attributes, end, current flag."""
        return (*self.keys, RECORD[0], *self.attributes(columns), *RECORD[1:])


class Keyed:
    """Properties of a table, resolved or not, about its key and the fold by that key."""

    __slots__ = ()
    columns: Columns
    fold: Merge | Temporal | None

    @property
    def merge(self) -> Merge | None:
        """The settings of a MERGE table; None for a table of another mode."""
        return self.fold if isinstance(self.fold, Merge) else None

    @property
    def hidden_columns(self) -> tuple[str, ...]:
        """The HIDDEN columns that its readers can name: for versions, those that are attributes."""
        names = self.columns.hidden_columns
        return names if self.temporal is None else self.temporal.attributes(names)

    @property
    def temporal(self) -> Temporal | None:
        """The settings of a TEMPORAL table; None for a table of another mode."""
        return self.fold if isinstance(self.fold, Temporal) else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify rows: the key of a MERGE or a TEMPORAL, else the KEY columns."""
        return self.fold.keys if self.fold else self.columns.keys
