"""What are a query's columns made of? By sqlglot, from the query as it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot import lineage as sqlglot_lineage
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from waterclock.dpl.splice import splice
from waterclock.flow import Flat, Query, Read, flat_columns

TIMELABEL = "timelabel"
_DIALECT = "databricks"
_UNKNOWN_TYPE = "unknown"


@dataclass(frozen=True, slots=True, order=True)
class ColumnOf:
    """One column of one table; `*` stands for all of them, where a transform cannot be looked into."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


@dataclass(frozen=True, slots=True)
class Made:
    """What a column is made of directly: by `expression`, from `inputs`. `note` says where sight ends, and why."""

    expression: str = ""
    inputs: tuple[ColumnOf, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Traced:
    """The columns of a query in order, and the tables of which a `*` may bring more."""

    made: Mapping[str, Made]
    stars: tuple[str, ...] = ()


def trace(
    query: Query, closed: Callable[[str], Sequence[str]], known: Callable[[str], Iterable[str]], said: Mapping[str, str]
) -> Traced:
    """Trace a query's columns, those of all its branches together by name.

    `closed` gives all columns of a table where all are known, and nothing else; `known` those that are. `said` are
    columns as their table declares them, by their names in lower case.
    """
    if not query.branches:
        return _Tracer(query, closed, known, said).trace()
    together: dict[str, tuple[str, Made]] = {}
    stars: dict[str, None] = {}
    for branch in query.branches:
        traced = trace(branch, closed, known, said)
        for name, made in traced.made.items():
            first, before = together.get(name.lower(), (name, made))
            expressions = ", ".join(dict.fromkeys((before.expression, made.expression)))
            together[name.lower()] = first, Made(expressions, tuple(sorted({*before.inputs, *made.inputs})), made.note)
        stars |= dict.fromkeys(traced.stars)
    return Traced(dict(together.values()), tuple(stars))


class _Tracer:
    def __init__(
        self,
        query: Query,
        closed: Callable[[str], Sequence[str]],
        known: Callable[[str], Iterable[str]],
        said: Mapping[str, str],
    ) -> None:
        self.closed = closed
        self.known = known
        self.said = said
        names: dict[Read | Flat, str] = {}
        self.text = splice(query, lambda read: names.setdefault(read, f"wc_{len(names)}")).text
        self.reads = {name: read for read, name in names.items()}
        self.flats = {name: self._flat(read) for name, read in self.reads.items() if isinstance(read, Flat)}

    def trace(self) -> Traced:
        schema: dict[str, object] = {
            name: {column.lower(): _UNKNOWN_TYPE for column in columns}
            for name, read in self.reads.items()
            if (columns := self._closed(read))
        }
        try:
            query: Any = qualify(
                exp.maybe_parse(self.text, dialect=_DIALECT),
                dialect=_DIALECT,
                schema=schema,
                validate_qualify_columns=False,
                identify=False,
            )
            return self._outputs(query, schema)
        except (SqlglotError, ValueError, RecursionError):
            return Traced({})

    def _outputs(self, query: Any, schema: dict[str, object]) -> Traced:
        found: dict[str, Made] = {}
        stars: dict[str, None] = {}
        for select in query.selects if isinstance(query, exp.Query) else ():
            if select.is_star:
                for name in self._sources(query, select):
                    stars[_table_of(self.reads[name])] = None
                    for column, origin in self.flats.get(name, {}).values():
                        found.setdefault(column, Made(column, (origin,)))
                continue
            name = select.alias_or_name
            if name.lower() == TIMELABEL:  # the engine drops it, and sets its own
                continue
            node = sqlglot_lineage.lineage(name, query, schema=schema, dialect=_DIALECT, trim_selects=False)
            inputs = tuple(sorted(set(self._leaves(node))))
            if len(inputs) == 1 and inputs[0].column.lower() == name:  # sqlglot writes the names of a `*` in lower case
                name = inputs[0].column
            found[self.said.get(name.lower(), name)] = Made(_expression(select), inputs)
        return Traced(found, tuple(stars))

    def _leaves(self, node: sqlglot_lineage.Node) -> Iterator[ColumnOf]:
        for each in node.walk():
            if isinstance(each.expression, exp.Table) and each.expression.name in self.reads:
                column = exp.to_column(each.name).name if each.name != "*" else "*"
                yield self._origin(each.expression.name, column)

    def _origin(self, name: str, column: str) -> ColumnOf:
        """Give the column of a table that one of a read is, in the spelling of the table."""
        if (found := self.flats.get(name, {}).get(column.lower())) is not None:
            return found[1]
        table = _table_of(self.reads[name])
        return ColumnOf(table, {known.lower(): known for known in self.known(table)}.get(column.lower(), column))

    def _flat(self, flat: Flat) -> dict[str, tuple[str, ColumnOf]]:
        columns = flat_columns(flat, self.known) or ()
        return {each.name.lower(): (each.name, ColumnOf(each.table, each.column)) for each in columns}

    def _closed(self, read: Read | Flat) -> Sequence[str]:
        if isinstance(read, Read):
            return self.closed(read.table)
        columns = flat_columns(read, lambda table: self.closed(table) or None) or ()
        return (*(each.name for each in columns), *([TIMELABEL] if columns else ()))

    def _sources(self, query: Any, select: Any) -> list[str]:
        """Give the reads whose columns a `*` brings: that of its qualifier, or all that the query has at its top."""
        qualifier = select.table if isinstance(select, exp.Column) else ""
        return [
            table.name
            for table in query.find_all(exp.Table)
            if table.name in self.reads and (not qualifier or table.alias_or_name == qualifier)
        ]


def _table_of(read: Read | Flat) -> str:
    return read.table if isinstance(read, Read) else read.read.table


def _expression(select: Any) -> str:
    inner = select.unalias()
    text: str = inner.sql(dialect=_DIALECT)
    return text.replace("`", "")
