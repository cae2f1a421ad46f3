"""Describes the options of a call of `compute_temporal`, and the internal columns of its DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from waterclock.temporal.columns import exact_column, require_choice, require_columns, to_names
from waterclock.temporal.sources import is_wrapped

if TYPE_CHECKING:
    from pyspark.sql.window import WindowSpec


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a key: its name, its internal column (`held`), and how it is filled and compared."""

    name: str
    held: str
    is_filled: bool  # null is missing, not a value
    is_tracked: bool
    is_wrapped: bool  # by nulls_are_values
    is_kept: bool  # a version has the value at its start

    @property
    def rides_along(self) -> bool:
        """Whether changes of the attribute start no version. A version then has its last value in the period."""
        return not (self.is_tracked or self.is_kept)


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns and options of one call of `compute_temporal`; `sequence` is the number of sequence columns."""

    keys: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    sequence: int
    fill_back: bool
    has_deletes: bool

    @property
    def internal_key_columns(self) -> list[str]:
        """The internal columns of the key."""
        return [f"k{at}" for at in range(len(self.keys))]

    @property
    def life(self) -> list[str]:
        """The internal columns that identify a key or, if rows can delete it, one life of it: from delete to delete."""
        return [*self.internal_key_columns, *(["life"] if self.has_deletes else [])]

    @property
    def marks(self) -> list[str]:
        """The internal columns besides keys, time and attributes: those about deletes, if rows can delete a key."""
        return ["life", "gone", "is_real"] if self.has_deletes else []

    def in_order(self, by: Sequence[str]) -> WindowSpec:
        """Return the window that orders the rows of each group: by time, sequence, deletes first, then attributes."""
        sequence = [f"s{at}" for at in range(self.sequence)]
        deletes = [sql.col("gone").desc()] if self.has_deletes else []
        return Window.partitionBy(*by).orderBy("at", *sequence, *deletes, *(each.held for each in self.attributes))


def attributes_of(
    df: DataFrame,
    others: set[str],
    nulls: str | Mapping[str, str],
    track: str | Sequence[str] | None,
    keep: Sequence[str],
    *,
    where: str,
) -> Iterator[Attribute]:
    """Yield an attribute for each column that is not one of `others`.

    `nulls`, `track` and `keep` are those of `compute_temporal`. Raises E301 for an unknown attribute, and E310 for an
    unknown word in `nulls`.
    """
    names = [name for name in df.columns if name not in others]
    tracked = [name for name in names if name not in keep] if track is None else to_names(track)
    null_choices = dict.fromkeys(names, nulls) if isinstance(nulls, str) else nulls
    require_columns(df.select(*(exact_column(name) for name in names)), [*tracked, *null_choices, *keep], where=where)
    for choice in {nulls} if isinstance(nulls, str) else set(null_choices.values()):
        require_choice(choice, ("missing", "value"), where=where)
    for at, name in enumerate(names):
        wrapped = is_wrapped(df.schema[name].dataType)
        is_filled = null_choices.get(name, "missing") == "missing" and name not in keep
        yield Attribute(name, f"a{at}", is_filled, name in tracked, wrapped, name in keep)
