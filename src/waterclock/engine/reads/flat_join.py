"""Builds FLAT reads: the rows of a table with the attributes of all their parents, each as of its own time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flat, FlatJoin, Flow, Read
from waterclock.flow.merge_settings import RECORD
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from waterclock.temporal import FrameStatistics

_EFFECTIVE = RECORD[0]
_THERE = "_waterclock_there"
_KEY = "_waterclock_key"
_ALONE = "_waterclock_alone"
_UNKNOWN: Mapping[Read, FrameStatistics] = MappingProxyType({})


def flat_frame(
    flow: Flow,
    flat: Flat,
    frames: Mapping[Read, DataFrame],
    numbers: Mapping[Read, FrameStatistics] = _UNKNOWN,
    alone: MutableMapping[str, str] | None = None,
) -> DataFrame:
    """Return each row of a table once, with its parents' attributes. A ROLE is the suffix of its parent's columns.

    A fact gets each parent's version at the time that its REFERENCES names, and that parent's parents as of the same
    time. A temporal table gets all parents as of the start of each of its versions; an exact one splits its versions
    wherever a parent changes. A parent that keeps no versions is joined by its key alone. `numbers`, the counts of
    parents' versions, decide how they are joined. If `alone` is given, each reference gets a column that is TRUE for
    rows whose parent is missing, and `alone` maps the reference to that column; an exact FLAT gets none. Raises E307 or
    E308 if names clash, E302 for a time that is no instant, E305 for a key of another type. Cost: a join for each
    reference, see `denorm_transactional` and `denorm_temporal`.
    """
    joiner = _ParentJoiner(flow, frames, numbers, alone)
    if flat.is_exact:
        return joiner.split_versions(flat)
    rows = frames[flat.read]
    reached = _JoinedTable(flat, {name: name for name in rows.columns}, _EFFECTIVE if flat.is_temporal else None)
    return joiner.join_parents(reached, rows)


@dataclass(frozen=True, slots=True)
class _JoinedTable:
    """A table that is joined already. `names` maps its columns to those in the rows, `at` is the time for its parents.

    `depth`: the number of references followed. It distinguishes the columns for further joins, since a parent without a
    role has the suffix of the table that refers to it.
    """

    flat: Flat
    names: Mapping[str, str]
    at: str | None
    suffix: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class _ParentJoiner:
    """Joins a table with its parents, and these with theirs, along their REFERENCES. `frames` has the rows of each."""

    flow: Flow
    frames: Mapping[Read, DataFrame]
    numbers: Mapping[Read, FrameStatistics]
    alone: MutableMapping[str, str] | None = None

    def join_parents(self, reached: _JoinedTable, rows: DataFrame) -> DataFrame:
        """Join the parents of a table, and their parents, to the rows. No join multiplies rows."""
        for join in reached.flat.joins:
            parent, suffix = (
                self.frames[join.parent.read].drop(TIMELABEL, *join.left_out),
                f"_{join.role}" if join.role else "",
            )
            suffix += reached.suffix
            at = reached.names[join.at] if join.at else reached.at
            columns = tuple(reached.names[name] for name in join.columns)
            reference = _Join(self.flow, reached.flat, join, columns, suffix, self.numbers.get(join.parent.read))
            if not join.parent.joins and self.alone is None:
                rows = reference.join_parent(rows, parent, at)
                continue
            mark = f"{_THERE}{reached.depth}"
            rows = reference.join_parent(rows, parent.selectExpr("*", f"true AS {mark}"), at)
            there = f"{mark}{suffix}"
            if self.alone is not None:
                rows = _mark_orphans(rows, join, columns, suffix, there, self.alone)
            if not join.parent.joins:
                rows = rows.drop(there)
                continue
            keys = [f"{_KEY}{reached.depth}_{index}{suffix}" for index, _ in enumerate(join.columns)]
            # if the parent is missing, its own references are unknown
            masked = zip(reference.columns, keys, strict=True)
            rows = rows.selectExpr("*", *(f"if(`{there}`, `{name}`, NULL) AS `{key}`" for name, key in masked))
            names = {name: f"{name}{suffix}" for name in parent.columns}
            names |= dict(zip(join.parent_columns, keys, strict=True))
            further = _JoinedTable(join.parent, names, at, suffix, reached.depth + 1)
            rows = self.join_parents(further, rows).drop(there, *keys)
        return rows

    def split_versions(self, flat: Flat) -> DataFrame:
        """Split the versions of a temporal table wherever a parent changes, and its parents' versions likewise."""
        from waterclock.temporal import denorm_temporal

        rows = self.frames[flat.read]
        for join in flat.joins:
            # a parent that is split itself has more versions than were counted
            numbers = None if join.parent.joins else self.numbers.get(join.parent.read)
            reference = _Join(self.flow, flat, join, join.columns, f"_{join.role}" if join.role else "", numbers)
            if not reference.is_temporal:
                parent = flat_frame(self.flow, join.parent, self.frames, self.numbers)
                parent = parent.drop(TIMELABEL, *join.left_out)
                rows = reference.join_parent(rows, parent, None)
                continue
            keys = join.columns, join.parent_columns
            parent = self.split_versions(join.parent).drop(TIMELABEL, *join.left_out)
            with reference.locate_errors():
                rows = denorm_temporal(rows, keys[0], parent, keys[1], join.role, exact=True, numbers=numbers)
        return rows


def _mark_orphans(
    rows: DataFrame, join: FlatJoin, columns: Sequence[str], suffix: str, there: str, alone: MutableMapping[str, str]
) -> DataFrame:
    """Add a column that is TRUE if a row's parent is missing: its column `there` is NULL, and the row's key is not."""
    mark = f"{_ALONE}{len(alone)}"
    alone[f"{join.parent.read.table}{suffix and f' ({suffix[1:]})'}"] = mark
    named = " AND ".join(f"`{name}` IS NOT NULL" for name in columns)
    return rows.selectExpr("*", f"({named} AND `{there}` IS NULL) AS {mark}")


@dataclass(frozen=True, slots=True)
class _Join:
    """One reference to join: `columns` are the rows' own key, `suffix` is appended to the parent's column names."""

    flow: Flow
    child: Flat
    join: FlatJoin
    columns: tuple[str, ...]
    suffix: str
    numbers: FrameStatistics | None

    @property
    def is_temporal(self) -> bool:
        return self.flow.tables[self.join.parent.read.table].temporal is not None

    def join_parent(self, rows: DataFrame, parent: DataFrame, at: str | None) -> DataFrame:
        """Add the parent's attributes to each row: its version at the row's time, or the one row of its key."""
        from waterclock.temporal import denorm_transactional

        with self.locate_errors():
            if not self.is_temporal:
                return self._join_by_key(rows, parent)
            if at is None:
                raise AssertionError(f"{self.child} has no time for its reference to {self.join.parent.read.table}")
            role = self.suffix.removeprefix("_") or None
            theirs = self.join.parent_columns
            return denorm_transactional(rows, self.columns, at, parent, theirs, role, numbers=self.numbers)

    def _join_by_key(self, rows: DataFrame, parent: DataFrame) -> DataFrame:
        from pyspark.sql import functions as sql

        join = self.join
        _require_comparable_keys(rows, self.columns, parent, join.parent_columns)
        attributes = {name: name + self.suffix for name in parent.columns if name not in join.parent_columns}
        lower = {name.lower() for name in rows.columns}
        clashes = [new for new in attributes.values() if new.lower() in lower]
        if clashes:
            raise WaterclockError("E308", f"duplicate columns: {', '.join(clashes)}", fix="give the reference a ROLE")
        held = [f"{_KEY}_of_parent{index}" for index, _ in enumerate(self.columns)]
        keys = [sql.col(f"`{name}`").alias(key) for name, key in zip(join.parent_columns, held, strict=True)]
        there = parent.select(*keys, *(sql.col(f"`{name}`").alias(new) for name, new in attributes.items()))
        same = [rows[f"`{name}`"] == there[key] for name, key in zip(self.columns, held, strict=True)]
        for name, key in zip(self.columns, held, strict=True):
            own, other = _type_of(rows, name), _type_of(there, key)
            if can_match_several_keys(own, other):  # several keys equal it as a DOUBLE: only the exact one is joined
                same.append(rows[f"`{name}`"].try_cast(other) == there[key])
        return rows.join(there, same, "left").drop(*held)

    @contextmanager
    def locate_errors(self) -> Iterator[None]:
        """Add the reference to a raised error, as its place."""
        try:
            yield
        except WaterclockError as error:
            where = f"{self.child}, which refers to {self.join.parent.read.table}"
            raise WaterclockError(error.code, error.what, where=where, why=error.why, fix=error.fix) from error


def _type_of(frame: DataFrame, name: str) -> DataType:
    """Return the type of a column, ignoring case. NULL type for a missing column: the join itself reports it."""
    from pyspark.sql.types import NullType

    found = (field.dataType for field in frame.schema.fields if field.name.lower() == name.lower())
    return next(found, NullType())


def _require_comparable_keys(rows: DataFrame, columns: Sequence[str], parent: DataFrame, keys: Sequence[str]) -> None:
    """Raise E305 if a parent's key is a text and the column that refers to it is not.

    Spark would convert the texts, and return a row once for each that becomes equal: 1 for '1' and '01'.
    """
    from pyspark.sql.types import NullType, StringType

    for name, key in zip(columns, keys, strict=True):
        own, other = _type_of(rows, name), _type_of(parent, key)
        if isinstance(other, StringType) and not isinstance(own, StringType | NullType):
            raise WaterclockError(
                "E305",
                f"keys of different types: {name} is {own.simpleString()}, {key} {other.simpleString()}",
                why="Spark converts the texts, and several keys of the parent may then be equal",
                fix="declare the same type for both, and cast where the columns are made",
            )


def can_match_several_keys(own: DataType, other: DataType) -> bool:
    """Return whether one value of type `own` may equal several values of a parent's key, of type `other`.

    Spark compares a FLOAT or DOUBLE with whole and decimal numbers as a DOUBLE, which has 15 digits.
    """
    from pyspark.sql.types import DecimalType, FractionalType, LongType

    is_fraction = isinstance(own, FractionalType) and not isinstance(own, DecimalType)
    return is_fraction and isinstance(other, LongType | DecimalType)
