"""Resolves the names in queries to reads of tables, FLATs and watermarks, or to views, which are inlined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from waterclock.dpl.query.hidden_columns import compute_hiding
from waterclock.dpl.query.names_in_query import NamedTable, QueryNames
from waterclock.dpl.query.references import find_in_branches, find_references
from waterclock.dpl.query.splice import list_reads
from waterclock.dpl.resolve.flats import FlatResolver
from waterclock.dpl.resolve.open_windows import query_only_reason
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import (
    ParsedColumnList,
    ParsedQuery,
    ParsedWas,
    ParsedWhen,
    Statement,
    StatementKind,
)
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flat, Query, Read, TableReference, ValueReference
from waterclock.flow.enums import ReadKind
from waterclock.flow.watermarks import mark_of
from waterclock.similar_names import did_you_mean


@dataclass(slots=True)
class QueryResolver:
    """Resolves the queries of tables and views; each view is resolved once.

    - `found`: maps tables and views to the names that their queries contain.
    - `incomplete`: the tables and views whose queries contain unknown or invalid names.
    - `choices`: maps tables with WHEN to their queries.
    """

    tables: Mapping[str, Statement]
    publishes: frozenset[str]
    views: Mapping[str, Statement]
    errors: list[WaterclockError]
    flats: FlatResolver
    found: dict[str, QueryNames] = field(default_factory=dict)
    incomplete: set[str] = field(default_factory=set)
    choices: dict[str, tuple[Query, ...]] = field(default_factory=dict)
    _resolved: dict[str, Query | None] = field(default_factory=dict)
    _path: list[str] = field(default_factory=list)

    def of_statement(self, statement: Statement) -> Query | None:
        """Return the resolved query of a statement; None if it cannot be parsed. Unknown names are reported."""
        query = statement.value("AS", ParsedQuery)
        if query is None:
            return None
        is_view = statement.kind is StatementKind.VIEW
        parsed_queries = queries_of(statement)
        if len(parsed_queries) > 1:
            return self._of_choices(statement, parsed_queries)
        found = find_references(query) if is_view else find_in_branches(query)
        self.errors.extend(found.errors)
        self.found[statement.name] = found
        if found.errors:
            self.incomplete.add(statement.name)
        return self._resolve_branches(query, found, statement.name)

    def _of_choices(self, statement: Statement, parsed_queries: Sequence[ParsedQuery]) -> Query | None:
        """Return one query with all queries of a table with WHEN as branches, and add the queries to `choices`."""
        founds = [find_in_branches(parsed) for parsed in parsed_queries]
        together = self.found[statement.name] = QueryNames(None)
        for parsed, found in zip(parsed_queries, founds, strict=True):
            together.branches += found.branches or [(parsed, found)]
            together.tables += found.tables
            together.variables = {**found.variables, **together.variables}
            together.errors += found.errors
        self.errors.extend(together.errors)
        if together.errors:
            self.incomplete.add(statement.name)
        wholes = [
            self._resolve_branches(parsed, found, statement.name)
            for parsed, found in zip(parsed_queries, founds, strict=True)
        ]
        queries = tuple(query for query in wholes if query is not None)
        if len(queries) < len(wholes):
            return None
        self.choices[statement.name] = queries
        branches = tuple(part for query in queries for part in query.branches or (query,))
        return Query("\n".join(query.text for query in queries), queries[0].place, branches=branches)

    def _resolve_branches(self, query: ParsedQuery, found: QueryNames, own: str) -> Query | None:
        parts = found.branches or [(query, found)]
        if any(inside.tree is None for _, inside in parts):
            return None
        queries = [self._build_query(part, inside, own) for part, inside in parts]
        return Query(query.span.text, query.span.place, branches=tuple(queries)) if found.branches else queries[0]

    def of_view(self, name: str) -> Query | None:
        """Return the resolved query of a view; None if it cannot be parsed."""
        if name not in self._resolved:
            self._path.append(name)
            self._resolved[name] = self.of_statement(self.views[name])
            self._path.pop()
        return self._resolved[name]

    def trees(self) -> Iterator[tuple[ParsedQuery, Any]]:
        """Yield each query that could be parsed, with its syntax tree; of UNION ALL BY NAME, yield each branch."""
        for name, found in self.found.items():
            query = (self.tables.get(name) or self.views[name]).value("AS", ParsedQuery)
            for part, inside in found.branches or ([(query, found)] if query is not None else []):
                if inside.tree is not None:
                    yield part, inside.tree

    def view_reference(self, read: Read, span: Span) -> TableReference | None:
        """Return a reference to the view that a Python argument reads, with offsets of 0; None if it is invalid."""
        found = NamedTable(read.table, span, read.kind, read.span, 0, 0, None, 0)
        return self._inline_view(found, TableReference(0, 0, None, 0))

    def columns_of(self, view: str) -> tuple[str, ...]:
        """Return the columns in the closed column list of a view; empty if the view has all columns of its query."""
        column_list = self.views[view].value("COLUMNS", ParsedColumnList)
        if column_list is None or column_list.is_open:
            return ()
        return tuple(column.name for column in column_list.columns)

    def views_of(self, name: str, statement: Statement) -> list[str]:
        """Return the sorted names of the views that a table uses, directly and through other views."""
        found: dict[str, None] = {}
        names = [table.name for table in self.found[name].tables] if name in self.found else []
        arguments = statement.function.arguments if statement.function else ()
        names += [argument.read.table for argument in arguments if argument.read]
        waiting = [name for name in names if name in self.views]
        while waiting:
            view = waiting.pop()
            if view not in found:
                found[view] = None
                if view in self.found:
                    waiting.extend(table.name for table in self.found[view].tables if table.name in self.views)
        return sorted(found)

    def list_relations(self) -> list[str]:
        """Return the names of all tables and views that a query may read."""
        return [*self.tables, *self.views]

    def _build_query(self, query: ParsedQuery, found: QueryNames, own: str) -> Query:
        base = query.span.start
        references = [self._resolve_reference(table, own, base) for table in found.tables]
        if None in references or any(table.name in self.incomplete for table in found.tables):
            self.incomplete.add(own)
        values = tuple(ValueReference(value.start - base, value.end - base, value.name) for value in found.values)
        hiding = compute_hiding(
            query.span.source, query.tokens, found, lambda table: self.list_hidden_columns(table.name)
        )
        self.errors.extend(hiding.errors)
        return Query(
            query.span.text,
            query.span.place,
            tuple(
                replace(reference, left_out=hiding.left_out.get(table.start, ()))
                for table, reference in zip(found.tables, references, strict=True)
                if reference is not None
            ),
            values,
            tuple(sorted(found.variables)),
            stars=tuple((at - base, text) for at, text in sorted(hiding.stars.items())),
        )

    def list_hidden_columns(self, name: str) -> tuple[str, ...]:
        """Return the HIDDEN columns that readers of a table can name; empty for a view."""
        draft = self.flats.drafts.get(name)
        return draft.declared.hidden_columns if draft is not None else ()

    def _resolve_reference(self, found: NamedTable, own: str, base: int) -> TableReference | None:
        at = TableReference(found.start - base, found.end - base, found.alias, found.alias_at - base)
        if found.mark:
            return self._mark_reference(found, own, at)
        if found.is_flat:
            flat = self.flat(found, own)
            return replace(at, flat=flat) if flat else None
        if found.name in self.tables:
            return replace(at, read=Read(found.name, found.kind, found.duration))
        if found.name in self.views:
            return self._inline_view(found, at)
        self.errors.append(self._unknown_name_error(found, own))
        return None

    def _mark_reference(self, found: NamedTable, own: str, at: TableReference) -> TableReference | None:
        """Return the read of the `_mark` table with a table's watermark; None, which is reported, if there is none."""
        table = self.tables.get(found.name)
        if table is not None and table.clause("WATERMARK") is not None and mark_of(found.name) in self.tables:
            return replace(at, read=Read(mark_of(found.name), found.kind), is_mark=True)
        if table is None and found.name not in self.views:
            self.errors.append(self._unknown_name_error(found, own))
        elif table is None or (not table.has_failed("WATERMARK") and table.clause("WATERMARK") is None):
            self.errors.append(no_watermark_error(found, self.tables))
        return None

    def flat(self, found: NamedTable, own: str) -> Flat | None:
        """Return the resolved FLAT of a table; None if it is invalid, which is reported."""
        if found.name in self.tables:
            return self.flats.resolve(found.name, found.span, is_exact=found.is_exact)
        if found.name in self.views:
            self.errors.append(
                found.span.refuse(
                    "E237",
                    f"FLAT reads a table, and {found.name} is a view",
                    why="references are declared for the columns of a table",
                    fix=f"write TRANSFORM instead of CREATE VIEW {found.name}, with REFERENCES in its columns",
                )
            )
            return None
        self.errors.append(self._unknown_name_error(found, own))
        return None

    def _inline_view(self, found: NamedTable, at: TableReference) -> TableReference | None:
        if found.name in self._path:
            path = " → ".join([*self._path[self._path.index(found.name) :], found.name])
            self.errors.append(
                found.span.refuse(
                    "E229", f"view {found.name} reads itself", why=f"the path: {path}", fix="break the circle"
                )
            )
            return None
        query = self.of_view(found.name)
        if query is None:
            return None
        if found.kind is not ReadKind.PLAIN:
            written, query = query, _wrap_query(query, found)
            others = [it for it in list_reads(query) if (it.kind, it.span) != (found.kind, found.duration)]
            if written == query and others:
                self.errors.append(_no_effect_error(found))
        shared = found.name if self.views[found.name].clause("SHARED") else None
        return replace(at, view=query, view_columns=self.columns_of(found.name), shared=shared)

    def _unknown_name_error(self, found: NamedTable, own: str) -> WaterclockError:
        known = [name for name in self.list_relations() if name != own]
        if found.name in self.publishes:
            return found.span.refuse(
                "E213", f"{found.name} is the destination of a PUBLISH, not a table of this flow",
                fix="read the table that is published",
            )  # fmt: skip
        if (shown := query_only_reason(found.name, self.tables)) is not None:
            return found.span.refuse(
                "E269", f"{found.name} is for queries only, and a batch cannot read it", why=shown,
                fix="read the table itself, which has only complete windows",
            )  # fmt: skip
        if "." not in found.name:
            bare = [name for name in known if name.split(".")[1].lower() == found.name.lower()]
            otherwise = f"write its schema before it, as in raw.{found.name}, or define {found.name} in WITH"
            fix = (
                f"write {' or '.join(bare[:3])}"
                if bare
                else did_you_mean(found.name, [name.split(".")[1] for name in known], otherwise=otherwise)
            )
            return found.span.refuse("E213", f"unknown table {found.name}", why="a table is schema.name", fix=fix)
        if found.name.endswith("_quarantine") and found.name.removesuffix("_quarantine") in self.tables:
            fix = "use `waterclock query` to read it, `waterclock replay` to run its batches again"
            return unsupported_error("a table that reads a quarantine", found.span, fix=fix)
        if found.name.endswith("_held") and found.name.removesuffix("_held") in self.tables:
            return unsupported_error(
                "a table that reads held rows", found.span, fix="use `waterclock query` to read it"
            )
        return unknown_table_error(found.name, found.span, known, self.tables)


def no_watermark_error(found: NamedTable, tables: Mapping[str, Statement]) -> WaterclockError:
    """Build the error for WATERMARK(table) if the table declares no WATERMARK."""
    is_view = found.name not in tables
    having = [name for name, statement in tables.items() if statement.clause("WATERMARK") is not None]
    return found.span.refuse(
        "E256",
        f"{found.name} {'is a view, and has' if is_view else 'has'} no watermark",
        why=f"tables with a watermark: {', '.join(having)}" if having else "no table of the flow declares one",
        fix="name the table that it reads"
        if is_view
        else f"add WATERMARK column 10 MINUTES where {found.name} is made",
    )


def queries_of(statement: Statement) -> list[ParsedQuery]:
    """Return the queries of a statement: those after WHEN, then the one after AS or ELSE AS."""
    whens = [clause.value.query for clause in statement.clauses if isinstance(clause.value, ParsedWhen)]
    last = statement.value("AS", ParsedQuery)
    return [*whens, *([last] if last is not None else [])]


def unknown_table_error(
    name: str, span: Span, known: Iterable[str], tables: Mapping[str, Statement]
) -> WaterclockError:
    """Build the error for an unknown table; its fix is the new name of a renamed table, or a similar name."""
    now = [other for other, it in tables.items() if (was := it.value("WAS", ParsedWas)) and was.table == name]
    fix = f"it was renamed: write {now[0]}" if now else nearest_table(name, known)
    return span.refuse("E213", f"unknown table {name}", fix=fix)


def nearest_table(name: str, known: Iterable[str]) -> str:
    """Return a fix that suggests tables with the same name in other schemas, or with similar names."""
    known = list(known)
    bare = [table for table in known if table.split(".")[-1].lower() == name.rsplit(".", maxsplit=1)[-1].lower()]
    if bare:
        return f"did you mean {' or '.join(bare[:3])}?"
    return did_you_mean(name, known) or "declare it by a COLLECT, TRANSFORM or CREATE VIEW"


def _no_effect_error(found: NamedTable) -> WaterclockError:
    """Build the error for a read function, such as PAST, around a view whose query has no plain table name."""
    word = found.kind.name
    return found.span.refuse(
        "E216",
        f"{word} has no effect on {found.name}",
        why="it applies to tables that the view reads by name, outside of FLAT, PAST and other read functions",
        fix=f"leave {word} out here, or write it in the view",
    )


def _wrap_query(query: Query, found: NamedTable) -> Query:
    """Return the query of a view with a read function, such as PAST, applied to each plain table name in it."""
    return replace(query, tables=tuple(_wrap_reference(reference, found) for reference in query.tables))


def _wrap_reference(reference: TableReference, found: NamedTable) -> TableReference:
    if reference.view is not None:
        return replace(reference, view=_wrap_query(reference.view, found))
    if reference.is_mark and found.kind is ReadKind.PAST:
        return reference  # a watermark is a state, so PAST does not apply to it
    if reference.read is not None and reference.read.kind is ReadKind.PLAIN:
        return replace(reference, read=Read(reference.read.table, found.kind, found.duration))
    return reference
