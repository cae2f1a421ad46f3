"""What takes single rows out of a batch as it is written: which rows stay, which are set aside, which are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HIDDEN = "_waterclock_"
BROKEN = f"{HIDDEN}broken"
UNREAD = f"{HIDDEN}unread"
"""The hidden column with the text of a line that could not be read, NULL of all others."""
UNREAD_AS = "_raw"
"""The name of that text among what a row that was set aside came with."""
FATE = f"{HIDDEN}fate"
ASIDE = f"{HIDDEN}aside"
MISSING = f"{HIDDEN}missing"
"""The column in which a row says which columns its source does not have: the slice's own, and not hidden."""
ROW, MASK, HASH = "row", "broken", "hash"
FILE, FILE_ROW = "file", "file_row"
INPUT = "input"
"""The table of which a row was read that was set aside before the query; none of a row that was made."""
QUARANTINE = "_quarantine"
"""The folder of a slice that holds the rows which were set aside."""
INPUTS_ASIDE = "inputs_aside"
"""The folder of a stage into which rows that were read are set aside first, and the name of where they end."""
STAYS, SET_ASIDE, DROPPED = 0, 1, 2


def is_hidden(column: str) -> bool:
    """Tell whether a column is none of the table's, but what is noted of a row on its way through a sieve."""
    return column.startswith(HIDDEN) and column != MISSING


@dataclass(frozen=True, slots=True)
class Mesh:
    """One demand on each row: `holds` is SQL that is TRUE of a row that keeps to it, empty for those on the key.

    `fate` is what becomes of a row that breaks it and none before it. `is_alone`: such a row is asked nothing else.
    """

    name: str
    holds: str
    fate: int = STAYS
    is_alone: bool = False


@dataclass(frozen=True, slots=True)
class Sieve:
    """All demands of a table, at most 62; the one on the key, with its columns, comes last.

    `is_unique`: keys are demanded to differ, not only to be there. `order`: by which the last row of a key stays, as
    SQL that sorts it first; empty where none stays of several. `looks_back`: the demand before the last is that the
    table's own past did not hold the key.
    """

    meshes: tuple[Mesh, ...]
    keys: tuple[str, ...] = ()
    is_unique: bool = True
    order: tuple[str, ...] = ()
    looks_back: bool = False

    @property
    def drops(self) -> bool:
        """Whether rows may go for good."""
        return any(mesh.fate == DROPPED for mesh in self.meshes)

    def bits(self, *fates: int) -> int:
        """Return the bits of all demands with one of these fates."""
        return sum(1 << at for at, mesh in enumerate(self.meshes) if mesh.fate in fates)


@dataclass(frozen=True, slots=True)
class Through:
    """The sieve that rows go through, and the row as it came: as `storage.slices.conform` gives it.

    `row`: the hidden column that holds that row as JSON already, where it came in several shapes. `past`: the rows of
    the table's own earlier labels that a key is looked for in; None where there are none, and one label alone if not.
    """

    sieve: Sieve
    raw: Mapping[str, str]
    came: str
    row: str = ""
    past: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Sifted:
    """What the sieve found in one label's rows: how many came, stayed aside and were dropped, and how many broke what.

    `broken` counts every row that breaks a demand; `first` those that were taken out for it and for none before it, so
    that these sum to what was taken out.
    """

    rows: int
    aside: int
    dropped: int
    broken: Mapping[str, int]
    first: Mapping[str, int]


def counted(sieve: Sieve, masks: Mapping[int, int], stayed: int) -> Sifted:
    """Count what broke what: `masks` holds how many rows broke which set of demands, `stayed` how many rows stayed."""
    out = sieve.bits(SET_ASIDE, DROPPED)
    broken = {mesh.name: 0 for mesh in sieve.meshes}
    first = {mesh.name: 0 for mesh in sieve.meshes if mesh.fate != STAYS}
    gone = {SET_ASIDE: 0, DROPPED: 0}
    for mask, rows in masks.items():
        for at, mesh in enumerate(sieve.meshes):
            broken[mesh.name] += rows if mask & 1 << at else 0
        if mask & out:
            at = ((mask & out) & -(mask & out)).bit_length() - 1
            first[sieve.meshes[at].name] += rows
            gone[sieve.meshes[at].fate] += rows
    return Sifted(stayed + sum(gone.values()), gone[SET_ASIDE], gone[DROPPED], broken, first)
