"""Reports columns of a query that no table can store, because of their names or types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.projections import find_unnamed_items
from waterclock.dpl.query.type_families import UNSTORED, Family
from waterclock.dpl.query.visible_columns import Entry, Output
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import ParsedColumnList
from waterclock.dpl.syntax.type_names import equal_fields_error
from waterclock.errors import WaterclockError
from waterclock.spark_sql import INTERNAL_PREFIX, illegal_characters, is_internal
from waterclock.timelabel.label import TIMELABEL

_FIXES = {
    Family.INTERVAL: "store a number of a unit, as in timestampdiff(SECOND, a, b) or datediff(b, a)",
    Family.VARIANT: "store the text by to_json(...), and use parse_json(...) where it is read",
    Family.COLLATED: "use COLLATE where strings are compared, and store collate(..., 'UTF8_BINARY')",
    Family.TIME: "store it as a STRING, or store the whole TIMESTAMP",
}


def list_illegal_characters(name: str) -> list[str]:
    """Return the characters of a name that no column may have, sorted: those that Delta refuses, and the backtick."""
    return sorted({*illegal_characters(name), *("`" if "`" in name else "")})


def column_name_error(name: str, span: Span, fix: str) -> WaterclockError | None:
    """Return the error for a column name that is reserved or that Delta does not accept, None for a valid name."""
    if is_internal(name):
        why = f"names that begin with {INTERNAL_PREFIX} are those of columns that computations add to rows"
        return span.refuse("E211", f"{name} is a reserved name", why=why, fix=fix)
    bad = list_illegal_characters(name)
    if not bad:
        return None
    return span.refuse(
        "E211",
        f"{name!r} is not a valid column name",
        why=f"Delta does not allow {' '.join(repr(sign) for sign in bad)} in a column's name",
        fix=fix,
    )


def check_storable(output: Output, query: Span, column_list: ParsedColumnList | None) -> Iterator[WaterclockError]:
    """Yield errors for columns of a TRANSFORM's query that no table can store; `column_list` is its column list."""
    yield from _check_names(output, query)
    yield from _check_duplicate_names(output, query)
    types = {column.name.lower(): column.declared.type for column in (column_list.columns if column_list else ())}
    is_closed = column_list is not None and not column_list.is_open
    for entry in output.entries:
        lower = entry.name.lower()
        is_left_out = is_closed and lower not in types
        if entry.family in UNSTORED and not is_left_out and types.get(lower) is None:
            yield span_of(entry.node, query).refuse(
                "E219",
                f"{entry.name} is {_format_family(entry.family)}, which no table can store",
                fix=_FIXES[entry.family] if entry.family else None,
            )
        if not is_left_out and types.get(lower) is None and (twice := _find_equal_fields(entry.node)) is not None:
            yield equal_fields_error(span_of(entry.node, query), *twice)


def _find_equal_fields(node: Any) -> tuple[str, str] | None:
    """Return two names of fields of a STRUCT in an item of a SELECT list that are equal regardless of case, or None."""
    values = [node.unalias()] if node is not None else []
    while values:
        value, names = values.pop(), list[str]()
        if isinstance(value, exp.Struct):
            parts = [part for part in value.expressions if isinstance(part, exp.PropertyEQ)]
            names = [part.this.name for part in parts]
            values += [part.expression for part in parts]
        elif isinstance(value, exp.DataType):
            names = [part.name for part in value.expressions if isinstance(part, exp.ColumnDef)]
            values += [part.kind if isinstance(part, exp.ColumnDef) else part for part in value.expressions]
        elif isinstance(value, exp.Cast):
            values.append(value.to)
        elif isinstance(value, exp.Array | exp.Paren):
            values += value.expressions or [value.this]
        first: dict[str, str] = {}
        for name in names:
            if first.setdefault(name.lower(), name) is not name:
                return first[name.lower()], name
    return None


def check_column_names(tree: Any, source: SourceText) -> Iterator[WaterclockError]:
    """Yield errors for columns of a query without a name, for which Spark would generate one."""
    for node in find_unnamed_items(tree):
        written = source.span_of(node)
        if written is not None:
            yield source.span(written.start).refuse(
                "E234",
                "a column of this query has no name",
                why="Spark would derive the name from the expression, with characters that no table allows",
                fix="name it: ... AS name",
            )


def _check_names(output: Output, query: Span) -> Iterator[WaterclockError]:
    for entry in output.entries:
        fix = "rename it with letters, digits and _: ... AS another_name"
        error = column_name_error(entry.name, span_of(entry.node, query), fix)
        if error is not None:
            yield error


def _check_duplicate_names(output: Output, query: Span) -> Iterator[WaterclockError]:
    first: dict[str, Entry] = {}
    seen: set[int] = set()
    for entry in output.entries:
        lower = entry.name.lower()
        before = first.setdefault(lower, entry)
        if before is entry or lower == TIMELABEL or id(entry.node) in seen:
            continue
        seen.add(id(entry.node))
        others = _list_repeated_columns(output.entries, entry, first)
        names = ", ".join(dict.fromkeys(others))
        # without a table's name Spark does not know which of the two is meant
        left_out = f": * EXCEPT ({', '.join(f't.{name}' for name in dict.fromkeys(others))}), of the table t"
        is_same = before.name == entry.name or len(others) > 1
        yield span_of(entry.node, query).refuse(
            "E212",
            f"column{'s' if len(others) > 1 else ''} {names} {'are' if len(others) > 1 else 'is'} selected twice"
            if is_same
            else f"{before.name} and {entry.name} differ by case only",
            why="column names of a table are unique, regardless of case",
            fix=f"give one of them another name, or leave it out{left_out if _is_star(entry.node) else ''}",
        )


def _list_repeated_columns(entries: Iterable[Entry], like: Entry, first: Mapping[str, Entry]) -> list[str]:
    """Return the names that are selected a second time by the same `*` as `like`; only `like`'s name without a `*`.

    `first` maps lower-case names to the first entry with that name.
    """
    if not _is_star(like.node):
        return [like.name]
    seen: set[str] = set()
    found: list[str] = []
    for entry in entries:
        lower = entry.name.lower()
        if entry.node is like.node and lower != TIMELABEL and (lower in seen or first.get(lower, entry) is not entry):
            found.append(entry.name)
        seen.add(lower)
    return found or [like.name]


def _is_star(node: Any) -> bool:
    return node is not None and bool(getattr(node, "is_star", False))


def span_of(node: Any, query: Span) -> Span:
    """Return the span of a node in a query's text; for a node without a position, that of the query's first word."""
    written = query.source.span_of(node) if node is not None else None
    return written or query.source.span(query.start)


def _format_family(family: Family | None) -> str:
    return {Family.INTERVAL: "an INTERVAL", Family.VARIANT: "a VARIANT", Family.TIME: "a TIME"}.get(
        family or Family.OTHER, str(family)
    )
