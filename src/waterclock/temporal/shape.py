"""The columns between the stages of `compute_temporal`, and the options that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from waterclock.temporal.columns import listed, named, require_choice, require_columns
from waterclock.temporal.sources import is_wrapped

if TYPE_CHECKING:
    from pyspark.sql.window import WindowSpec


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its name, the column that holds it between the stages, and how it is treated."""

    name: str
    held: str
    is_filled: bool  # null is missing, not a value
    is_tracked: bool
    is_wrapped: bool
    is_kept: bool  # shown as the version began with it

    @property
    def rides_along(self) -> bool:
        """Shown as it was last inside of a version."""
        return not (self.is_tracked or self.is_kept)


@dataclass(frozen=True, slots=True)
class Shape:
    """What all stages know: which columns hold keys, sequence and attributes, and what was asked for."""

    keys: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    sequence: int
    fill_back: bool
    has_deletes: bool

    @property
    def held_keys(self) -> list[str]:
        """The columns that hold the key."""
        return [f"k{at}" for at in range(len(self.keys))]

    @property
    def life(self) -> list[str]:
        """A key, or where rows delete, one life of it."""
        return [*self.held_keys, *(["life"] if self.has_deletes else [])]

    @property
    def marks(self) -> list[str]:
        """Carried from stage to stage beside keys, time and attributes."""
        return ["life", "gone", "is_real"] if self.has_deletes else []

    def in_order(self, by: Sequence[str]) -> WindowSpec:
        """Rows of a key or life as they were said: by time, sequence, deletes first, then values."""
        said = [f"s{at}" for at in range(self.sequence)]
        deletes = [sql.col("gone").desc()] if self.has_deletes else []
        return Window.partitionBy(*by).orderBy("at", *said, *deletes, *(each.held for each in self.attributes))


def attributes_of(
    df: DataFrame,
    others: set[str],
    nulls: str | Mapping[str, str],
    track: str | Sequence[str] | None,
    keep: Sequence[str],
    *,
    where: str,
) -> Iterator[Attribute]:
    """Return what the columns that are not `others` are, one by one (E301, E310)."""
    names = [name for name in df.columns if name not in others]
    tracked = [name for name in names if name not in keep] if track is None else listed(track)
    said = dict.fromkeys(names, nulls) if isinstance(nulls, str) else nulls
    require_columns(df.select(*(named(name) for name in names)), [*tracked, *said, *keep], where=where)
    for choice in {nulls} if isinstance(nulls, str) else set(said.values()):
        require_choice(choice, ("missing", "value"), where=where)
    for at, name in enumerate(names):
        wrapped = is_wrapped(df.schema[name].dataType)
        is_filled = said.get(name, "missing") == "missing" and name not in keep
        yield Attribute(name, f"a{at}", is_filled, name in tracked, wrapped, name in keep)
