"""Infers the columns of tables and views without running their queries, and checks references to columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from waterclock.dpl.query.column_scope import Resolver, unknown_column
from waterclock.dpl.query.key_types import check_key_types, may_call_key_of
from waterclock.dpl.query.names_in_query import NamedTable
from waterclock.dpl.query.now_texts import now_texts
from waterclock.dpl.query.storable_columns import check_column_names, check_storable
from waterclock.dpl.query.type_families import Family, family_of_type
from waterclock.dpl.query.visible_columns import UNKNOWN, Entry, Names, Output, names_of, output_of
from waterclock.dpl.resolve.for_each import check_parameters
from waterclock.dpl.resolve.input_rules import rules_of_inputs
from waterclock.dpl.resolve.late_rows import KEEPS_LATE, check_reason_column
from waterclock.dpl.resolve.merge_keys import record_name_error
from waterclock.dpl.resolve.query_choices import check_same_columns
from waterclock.dpl.resolve.retire_clause import expressions_of
from waterclock.dpl.resolve.row_order import check_row_order
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.resolve.views import QueryResolver
from waterclock.dpl.syntax.source_text import Span, find_name
from waterclock.dpl.syntax.statements import (
    Expression,
    ParsedColumn,
    ParsedColumnList,
    ParsedMode,
    ParsedQuery,
    Statement,
    StatementKind,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flat
from waterclock.flow.enums import Kind
from waterclock.flow.flats import find_name_clashes, flat_columns
from waterclock.flow.late_rows import LateRows
from waterclock.flow.merge_settings import RECORD
from waterclock.timelabel.label import TIMELABEL


@dataclass(frozen=True, slots=True)
class RecordedColumns:
    """The columns and Spark types that the last run recorded, by table.

    `tables`: the columns that readers see. `rows`: for TEMPORAL tables, the columns of the rows before they are
    combined to versions.
    """

    tables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Schemas:
    """Infers the columns of tables, inputs first, and checks references to columns.

    A closed column list determines a table's columns. With an open list, the columns of a collect are those of its last
    run (`known`), and the columns of a transform those of its query. If not all columns are known, references to them
    are not checked.
    """

    def __init__(self, queries: QueryResolver, known: RecordedColumns) -> None:
        self.queries = queries
        self.known = known
        self.errors: list[WaterclockError] = []
        self._tables: dict[str, Names | None] = {}
        self._families: dict[str, dict[str, Family]] = {}
        self._views: dict[str, Output] = {}

    def check(self, drafts: Iterable[UnresolvedTable]) -> list[WaterclockError]:
        """Check all tables, which must be ordered with inputs first, and all views; return the errors."""
        ordered = list(drafts)
        for draft in ordered:  # closed lists first, because a table may read itself by PREVIOUS
            self._families[draft.name] = _declared_families(draft.statement)
            if draft.kind is not Kind.PUBLISH:
                self._tables[draft.name] = _list_reader_columns(draft, _list_closed_columns(draft.statement))
        for draft in ordered:
            if draft.kind is Kind.PUBLISH:
                self._check_publish(draft)
            else:
                self._check_table(draft)
        for name in self.queries.views:
            self._view(name)
        return self.errors

    def _check_table(self, draft: UnresolvedTable) -> None:
        made = self._output(draft.name, draft.statement)
        output = made.names
        self._families[draft.name] = {**made.families, **self._families[draft.name]}
        column_list = draft.statement.value("COLUMNS", ParsedColumnList)
        columns = _list_closed_columns(draft.statement)
        if draft.declared.source is not None and draft.declared.source.each is not None:
            self.errors.extend(check_parameters(draft, self.columns_of(draft.declared.source.each.table)))
        if draft.kind is not Kind.COLLECT:
            columns = columns or _add_computed_columns(column_list, output)
            self._check_declared(column_list, output, draft)
            self._check_reserved_names(draft, output)
        elif columns is None:
            columns = self._columns_of_last_run(
                draft, column_list, self.known.rows if draft.declared.temporal else self.known.tables
            )
        self._tables[draft.name] = _list_reader_columns(draft, columns)
        for argument in draft.declared.function.arguments if draft.declared.function else ():
            self.of_flat(argument.flat, draft.at(f"ARGUMENT {argument.name}"))
        for rule in rules_of_inputs(draft):
            if (known := self.columns_of(rule.of)) is not None:
                self.errors.extend(check_expression_columns(rule.expression, known, rule.of))
                families = self._families.get(rule.of, {})
                self.errors.extend(_check_values(rule.expression, families))
        if columns is not None:
            self._check_header_columns(draft, columns)
        elif draft.declared.temporal is not None:  # only the versions' columns are known
            self._tables[draft.name] = self._columns_of_last_run(draft, None, self.known.tables)
        self.errors.extend(check_row_order(draft, self._tables[draft.name], self.known.tables.get(draft.name, {})))

    def _output(self, name: str, statement: Statement) -> Output:
        found = self.queries.found.get(name)
        query = statement.value("AS", ParsedQuery)
        if found is None or query is None:
            return UNKNOWN
        column_list = statement.value("COLUMNS", ParsedColumnList)
        outputs: list[Output] = []
        spans: list[Span] = []
        for part, inside in found.branches or [(query, found)]:
            if inside.tree is None:
                return UNKNOWN
            at = _ColumnsByOffset({table.start: table for table in inside.tables}, self)
            resolver = Resolver(part.span.source, at, at.alias)
            outputs.append(resolver.output(inside.tree))
            spans.append(part.span)
            self.errors.extend(resolver.errors)
            if column_list is None or column_list.is_open:
                self.errors.extend(check_column_names(inside.tree, part.span.source))
            if (late := statement.value(KEEPS_LATE, LateRows)) is not None:
                self.errors.extend(check_reason_column(statement, late, inside.tables[0].name, outputs[-1]))
            elif statement.kind is StatementKind.TRANSFORM:
                self.errors.extend(check_storable(outputs[-1], part.span, column_list))
        self.errors.extend(check_same_columns(statement, column_list, spans, outputs, _unite_outputs))
        return _unite_outputs(outputs)

    def columns_of(self, name: str) -> Names | None:
        """Return the columns of a table or view, with `timelabel`; None if not all are known."""
        if name in self.queries.views:
            return self._view(name).names
        columns = self._tables.get(name)
        return None if columns is None else {**columns, TIMELABEL: TIMELABEL}

    def output_of(self, name: str) -> Output:
        """Return the columns of a table or view with their type families."""
        if name in self.queries.views:
            return self._view(name)
        return output_of(self.columns_of(name), self._families.get(name), self.queries.list_hidden_columns(name))

    def of_flat(self, flat: Flat | None, span: Span) -> Output:
        """Return the columns of a FLAT, or UNKNOWN if not all are known; report duplicate names."""
        columns = (
            flat_columns(flat, lambda name: list((self._tables.get(name) or {}).values()) or None) if flat else None
        )
        if flat is None or columns is None:
            return UNKNOWN
        clashes = find_name_clashes(columns)
        if clashes:
            tables = {name: " and of ".join(each.table for each in found) for name, found in clashes.items()}
            self.errors.append(
                span.refuse(
                    "E237",
                    f"{flat} has {', '.join(clashes)} twice",
                    why="; ".join(f"{name} is a column of {owners}" for name, owners in tables.items()),
                    fix="give a reference another ROLE, which becomes a suffix of its columns, or rename a column",
                )
            )
        families = {
            each.name.lower(): family
            for each in columns
            if (family := self._families.get(each.table, {}).get(each.column.lower())) is not None
        }
        names = {**names_of(each.name for each in columns), TIMELABEL: TIMELABEL}
        return output_of(names, families, self.queries.list_hidden_columns(flat.read.table))

    def _view(self, name: str) -> Output:
        if name not in self._views:
            self._views[name] = UNKNOWN  # a view that reads itself, which is reported
            output = self._output(name, self.queries.views[name])
            column_list = self.queries.views[name].value("COLUMNS", ParsedColumnList)
            if column_list is not None and output.names is not None:
                self.errors.extend(_check_columns_exist(column_list.columns, output.names, "the query"))
            listed = self.queries.columns_of(name)
            self._views[name] = output_of(names_of(listed), output.families) if listed else output
        return self._views[name]

    def _columns_of_last_run(
        self, draft: UnresolvedTable, column_list: ParsedColumnList | None, by_name: Mapping[str, Mapping[str, str]]
    ) -> Names | None:
        known = by_name.get(draft.name)
        if known is None or draft.statement.has_failed("COLUMNS"):
            return None
        types = {column.lower(): family_of_type(written) for column, written in known.items()}
        self._families[draft.name] = {**types, **self._families[draft.name]}
        return names_of([*known, *(column.name for column in (column_list.columns if column_list else ()))])

    def _check_declared(
        self, column_list: ParsedColumnList | None, output: Names | None, draft: UnresolvedTable
    ) -> None:
        if column_list is not None and output is not None and draft.declared.query is not None:
            selected = [each for each in column_list.columns if each.made_as is None]
            self.errors.extend(_check_columns_exist(selected, output, "the query"))

    def _check_reserved_names(self, draft: UnresolvedTable, output: Names | None) -> None:
        """Report columns of a TEMPORAL table's query that are named like record columns (`rec_eff_time` and others)."""
        temporal = draft.declared.temporal
        if temporal is None or output is None or not draft.declared.columns.is_open:
            return
        declared = {column.name.lower() for column in draft.declared.columns.named}
        for name in RECORD:
            is_time = name == RECORD[0] and (temporal.at or "").lower() == name
            if name in output and name not in declared and not is_time:
                self.errors.append(record_name_error(draft.at("MODE"), output[name], draft.name))

    def _check_header_columns(self, draft: UnresolvedTable, columns: Names) -> None:
        whole = {**columns, TIMELABEL: TIMELABEL}
        families = self._families[draft.name]
        shown = {**(_list_reader_columns(draft, columns) or {}), TIMELABEL: TIMELABEL}
        for expression, is_of_table in _list_header_expressions(draft.statement):
            self.errors.extend(check_expression_columns(expression, shown if is_of_table else whole, draft.name))
            self.errors.extend(_check_values(expression, families))
        column_list = draft.statement.value("COLUMNS", ParsedColumnList)
        for column in column_list.columns if column_list else ():
            self.errors.extend(self._check_reference(column, columns, draft.name))
            self.errors.extend(_check_order(column, whole, draft.name))
        mode = draft.statement.clause("MODE")
        if mode is not None and isinstance(mode.value, ParsedMode):
            self.errors.extend(_check_mode(mode.span, mode.value, columns, draft.name))
            if mode.value.delete_when is not None:
                self.errors.extend(check_expression_columns(mode.value.delete_when, whole, draft.name))

    def _check_reference(self, column: ParsedColumn, own: Names, table: str) -> Iterator[WaterclockError]:
        """Yield errors for unknown columns in a REFERENCES: columns of the parent, and the own column after AT."""
        target, span = column.declared.references, column.references_span or column.span
        if target is None:
            return
        known = self._tables.get(target.table)
        for name in target.columns if known is not None else ():
            if name.lower() not in (known or {}):
                yield unknown_column_of(find_name(name, span), name, known or {}, target.table)
        if target.at is not None and target.at.lower() not in own:
            yield unknown_column_of(find_name(target.at, span), target.at, own, table)

    def _check_publish(self, draft: UnresolvedTable) -> None:
        columns = self.columns_of(draft.statement.name)
        column_list = draft.statement.value("COLUMNS", ParsedColumnList)
        if columns is None and (column_list is None or column_list.is_open):
            return
        if columns is None:
            columns = {}
        elif column_list is not None:
            self.errors.extend(self._check_published_columns(column_list, columns, draft.statement.name))
        if column_list is not None and not column_list.is_open:
            columns = {**names_of(column.name for column in column_list.columns), TIMELABEL: TIMELABEL}
        left_out = {name.lower() for name in draft.declared.columns.left_out}
        columns = {lower: name for lower, name in columns.items() if lower not in left_out}
        mode = draft.statement.clause("MODE")
        if mode is not None and isinstance(mode.value, ParsedMode):
            self.errors.extend(_check_mode(mode.span, mode.value, columns, draft.statement.name))
            if mode.value.where is not None:
                # a published state has no column timelabel
                published = {name: column for name, column in columns.items() if name != TIMELABEL}
                self.errors.extend(check_expression_columns(mode.value.where, published, draft.statement.name))
        for expression, _ in _list_header_expressions(draft.statement):
            self.errors.extend(check_expression_columns(expression, columns, draft.statement.name))

    def _check_published_columns(
        self, column_list: ParsedColumnList, columns: Names, table: str
    ) -> Iterator[WaterclockError]:
        """Yield errors for unknown columns in the column list of a PUBLISH; its expressions cannot use timelabel."""
        yield from _check_columns_exist(
            (column for column in column_list.columns if column.made_as is None), columns, table
        )
        own = {name: column for name, column in columns.items() if name != TIMELABEL}
        families = self._families.get(table, {})
        for column in column_list.columns:
            if column.made_as is not None and column.retires is None:
                yield from check_expression_columns(column.made_as, own, table)
                yield from _check_values(column.made_as, families)


class _ColumnsByOffset:
    """A callable that returns the columns of the table, view or FLAT at an offset in a query."""

    def __init__(self, tables: Mapping[int, NamedTable], schemas: Schemas) -> None:
        self.tables = tables
        self.schemas = schemas

    def __call__(self, offset: int) -> Output:
        table = self.tables.get(offset)
        if table is None:
            return UNKNOWN
        if table.is_flat:
            return self.schemas.of_flat(
                self.schemas.queries.flats.find(table.name, is_exact=table.is_exact), table.span
            )
        return self.schemas.output_of(table.name)

    def alias(self, offset: int) -> str:
        """Return the default alias of the table at an offset; empty if the query gives it an alias."""
        table = self.tables.get(offset)
        return (table.alias or "") if table else ""


def _list_closed_columns(statement: Statement) -> Names | None:
    column_list = statement.value("COLUMNS", ParsedColumnList)
    if column_list is None:
        return None if statement.listed is None else names_of(statement.listed)
    return None if column_list.is_open else names_of(column.name for column in column_list.columns)


def _declared_families(statement: Statement) -> dict[str, Family]:
    column_list = statement.value("COLUMNS", ParsedColumnList)
    return {
        column.name.lower(): family_of_type(column.declared.type)
        for column in (column_list.columns if column_list else ())
        if column.declared.type
    }


def _unite_outputs(outputs: Iterable[Output]) -> Output:
    """Combine the columns of several queries by name, in the order of their first occurrence."""
    outputs = list(outputs)
    if len(outputs) == 1:
        return outputs[0]
    together: dict[str, Entry] = {}
    for output in outputs:
        for entry in output.entries:
            together.setdefault(entry.name.lower(), entry)
    return Output(tuple(together.values()), is_whole=all(output.is_whole for output in outputs))


def _list_reader_columns(draft: UnresolvedTable, columns: Names | None) -> Names | None:
    """Return the columns that readers of a table see: `columns`, or for TEMPORAL the columns of its versions."""
    if columns is None or draft.declared.temporal is None:
        return columns
    return names_of(draft.declared.temporal.outputs(columns.values()))


def _check_columns_exist(columns: Iterable[ParsedColumn], known: Names, where: str) -> Iterator[WaterclockError]:
    for column in columns:
        if column.name.lower() not in known:
            yield unknown_column_of(column.span, column.name, known, where)


def _list_header_expressions(statement: Statement) -> Iterator[tuple[Expression, bool]]:
    """Yield the expressions in rules, measures and columns with RETIRE, and whether each is a rule OVER TABLE."""
    for clause in statement.clauses:
        if clause.word == "EXPECT":
            yield from ((rule.expression, rule.is_over_table) for rule in clause.value if not rule.of)
        elif clause.word == "MEASURE":
            yield from ((measure.expression, False) for measure in clause.value if measure.expression is not None)
        elif clause.word == "COLUMNS":
            yield from ((rule.expression, False) for column in clause.value.columns for rule in column.rules)
            ending = [column for column in clause.value.columns if column.retires is not None]
            yield from ((expression, False) for expression in expressions_of(ending))


def _add_computed_columns(column_list: ParsedColumnList | None, output: Names | None) -> Names | None:
    """Return a query's columns, and the columns with AS ... RETIRE of the column list."""
    made = [each.name for each in (column_list.columns if column_list else ()) if each.made_as is not None]
    return output if output is None or not made else names_of([*output.values(), *made])


def check_expression_columns(expression: Expression, known: Names, table: str) -> Iterator[WaterclockError]:
    """Yield an error for each column of an expression that is not in `known`, the columns of a table."""
    for node in expression.tree.find_all(exp.Column):
        first = node.parts[0]
        start = first.meta.get("start")
        if first.name.lower() in known or start is None or isinstance(first, exp.Star):
            continue
        span = expression.span.source.span(start, first.meta.get("end", start) + 1)
        yield unknown_column_of(span, first.name, known, table)


def _check_values(expression: Expression, families: Mapping[str, Family]) -> Iterator[WaterclockError]:
    """Yield errors that depend on the type families of columns.

    They are strings such as 'now' that Spark would read as a time, and wrong types in calls of `key_of`.
    """
    tree, source = expression.tree, expression.span.source

    def family(column: exp.Column) -> Family | None:
        return families.get(column.name.lower()) if len(column.parts) == 1 else None

    yield from now_texts(tree, source, family)
    if may_call_key_of(expression.text):
        yield from check_key_types(tree, source, family)


def _check_mode(span: Span, mode: ParsedMode, known: Names, table: str) -> Iterator[WaterclockError]:
    named = [(name, span) for name in (*mode.keys, *mode.order_by, *mode.per)]
    if mode.temporal is not None:
        parts = {
            "TRACK": mode.temporal.track,
            "NULLS VALUE": mode.temporal.values,
            "AT": (mode.temporal.at or TIMELABEL,),
        }
        named += [(name, mode.temporal.spans.get(part, span)) for part, names in parts.items() for name in names]
    for name, at in named:
        if name.lower() not in known and name.lower() != TIMELABEL:
            yield unknown_column_of(find_name(name, at), name, known, table)


def _check_order(column: ParsedColumn, known: Names, table: str) -> Iterator[WaterclockError]:
    """Yield errors for unknown columns in the ORDER BY of a KEY."""
    key_options = column.key_options
    for order in key_options.options.order if key_options is not None else ():
        if key_options is not None and order.column.lower() not in known:
            yield unknown_column_of(find_name(order.column, key_options.span), order.column, known, table)


def unknown_column_of(span: Span, name: str, known: Names, table: str) -> WaterclockError:
    """Build the error for a column that a table does not have."""
    return unknown_column(span, name, {column: column for column in known.values()}, [(table, known)])
