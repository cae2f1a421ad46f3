"""Classes for the columns of a query's result, and for the sources and columns in scope within a SELECT."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from waterclock.dpl.query.type_families import Family

Names = dict[str, str]  # lower case → as written, because column names in Spark are case-insensitive


def names_of(columns: Iterable[str]) -> Names:
    """Map the lower-case name of each column to the name as written."""
    return {column.lower(): column for column in columns}


@dataclass(frozen=True, slots=True)
class Entry:
    """A column of a query's result or of a table; `node` is the item of the SELECT list, None for a table.

    A `*` does not include a column that `is_hidden`.
    """

    name: str
    family: Family | None = None
    node: Any = field(default=None, compare=False)
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """The columns of a query's result or of a table, in order.

    - `is_whole`: all columns are known.
    - `names`: the columns by lower-case name; None if not all are known.
    - `twice`: the lower-case names that several columns have.
    - `beneath`: the lower-case names of HIDDEN columns that a `*` did not include.
    """

    entries: tuple[Entry, ...]
    is_whole: bool = True
    beneath: frozenset[str] = frozenset()
    names: Names | None = field(init=False)
    twice: frozenset[str] = field(init=False)
    families: Mapping[str, Family] = field(init=False)

    def __post_init__(self) -> None:
        names: Names = {}
        twice: set[str] = set()
        families: dict[str, Family] = {}
        for entry in self.entries:
            lower = entry.name.lower()
            if lower in names:
                twice.add(lower)
            names.setdefault(lower, entry.name)
            if entry.family is not None:
                families.setdefault(lower, entry.family)
        object.__setattr__(self, "names", names if self.is_whole else None)
        object.__setattr__(self, "twice", frozenset(twice))
        object.__setattr__(self, "families", families)

    def rename_columns(self, names: Iterable[str]) -> Output:
        """Return the columns with other names, by position, as for an alias `t(a, b)`."""
        families = [entry.family for entry in self.entries if not entry.is_hidden] if self.is_whole else []
        new_names = list(names)
        families += [None] * (len(new_names) - len(families))
        return Output(tuple(Entry(name, family) for name, family in zip(new_names, families, strict=False)))


UNKNOWN = Output((), is_whole=False)


def output_of(names: Names | None, families: Mapping[str, Family] | None = None, hidden: Iterable[str] = ()) -> Output:
    """Build the `Output` of a table from its column names, type families and HIDDEN columns.

    `names` is None if not all columns are known.
    """
    out_of_sight = {name.lower() for name in hidden}
    if names is None:
        return Output(tuple(Entry(name, family) for name, family in (families or {}).items()), is_whole=False)
    return Output(
        tuple(
            Entry(name, (families or {}).get(lower), is_hidden=lower in out_of_sight) for lower, name in names.items()
        )
    )


@dataclass(frozen=True, slots=True)
class VisibleSource:
    """A source in FROM or JOIN, with its alias."""

    alias: str
    output: Output

    @property
    def names(self) -> Names | None:
        """The source's columns by lower-case name; None if not all are known."""
        return self.output.names


@dataclass(slots=True)
class Frame:
    """The scope of one SELECT: its sources with their columns, and the outer scope.

    - `hidden`: the aliases of sources in SEMI and ANTI joins, whose columns a `*` does not include.
    - `merged`: the columns in USING.
    - `aliases`: the column names of the SELECT's result.
    - `is_natural`: it has a NATURAL JOIN, so that any columns may be merged.
    - `is_piped`: it is a step after |>, which reads the rows of the previous step.
    """

    sources: list[VisibleSource] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    merged: set[str] = field(default_factory=set)
    aliases: set[str] = field(default_factory=set)
    is_natural: bool = False
    is_piped: bool = False
    outer: Frame | None = None

    def source(self, name: str) -> VisibleSource | None:
        """Return the source with an alias, from the inner scope to the outer ones; None if there is none."""
        lower = name.lower()
        for source in self.sources:
            if source.alias.lower() == lower:
                return source
        return self.outer.source(name) if self.outer else None

    def has_column(self, name: str) -> bool:
        """Return whether a column with this name is in scope, or may be because columns are unknown."""
        lower = name.lower()
        if lower in self.aliases or any(source.names is None or lower in source.names for source in self.sources):
            return True
        return self.outer.has_column(name) if self.outer else False

    def may_pipe(self) -> bool:
        """Return whether this SELECT or an outer one is a step after |>, which may use the aliases of earlier steps."""
        return self.is_piped or (self.outer is not None and self.outer.may_pipe())

    def all_sources(self) -> list[VisibleSource]:
        """Return all sources in scope, those of the innermost SELECT first."""
        return [*self.sources, *(self.outer.all_sources() if self.outer else [])]

    def visible(self) -> list[VisibleSource]:
        """Return the SELECT's sources whose columns a `*` includes: all but those of SEMI and ANTI joins."""
        return [source for source in self.sources if source.alias.lower() not in self.hidden]

    def owners(self, name: str, among: Iterable[VisibleSource] | None = None) -> list[VisibleSource]:
        """Return the sources with a column of this unqualified name, if it is certainly ambiguous; else an empty list.

        Only the innermost SELECT with a source that has the name counts. `among`: the sources of this SELECT to search;
        None for all visible ones.
        """
        lower = name.lower()
        own = self.visible() if among is None else list(among)
        found = [source for source in own for _ in range(_times(source, lower))]
        if found or any(source.names is None for source in own):
            is_one = len(found) < 2 or lower in self.merged or self.is_natural
            return [] if is_one else found
        return self.outer.owners(name) if self.outer else []

    def family(self, name: str, alias: str | None = None) -> Family | None:
        """Return the type family of a column; None if it is not known."""
        lower = name.lower()
        if alias is not None:
            source = self.source(alias)
            return source.output.families.get(lower) if source else None
        for source in self.sources:
            if lower in source.output.families:
                return source.output.families[lower]
            if source.names is not None and lower in source.names:
                return None
        return self.outer.family(name) if self.outer else None


def _times(source: VisibleSource, lower: str) -> int:
    if source.names is None or lower not in source.names:
        return 0
    return 2 if lower in source.output.twice else 1


def list_sources(sources: Iterable[VisibleSource]) -> Iterator[tuple[str, Names | None]]:
    """Yield the alias and the columns of each source, for error messages."""
    for source in sources:
        yield source.alias, source.names
