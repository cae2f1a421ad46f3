"""Resolves the inputs of each table: those of its query, function, FOR EACH, checked references or PUBLISH."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from waterclock.dpl.config.model import Config
from waterclock.dpl.query.names_in_query import NamedTable
from waterclock.dpl.query.splice import list_reads, variables_of
from waterclock.dpl.resolve.checked_references import add_parent_inputs, reference_span
from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.for_each import add_for_each_inputs
from waterclock.dpl.resolve.hidden import exclude_hidden_from_argument, hidden_view_columns_error
from waterclock.dpl.resolve.late_rows import KEEPS_LATE
from waterclock.dpl.resolve.open_windows import query_only_reason
from waterclock.dpl.resolve.publish_targets import resolve_publish_target
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.resolve.views import QueryResolver, unknown_table_error
from waterclock.dpl.resolve.watermarks import marks_of_step
from waterclock.dpl.syntax.cursor import unknown_variable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedQuery, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Argument, Query, Read
from waterclock.flow.enums import Kind, ReadKind


@dataclass(slots=True)
class ReadResolver:
    """Resolves the inputs of each table in `drafts`. `spans` maps (name of the table, read) to the read's position."""

    drafts: dict[str, UnresolvedTable]
    queries: QueryResolver
    config: Config
    errors: list[WaterclockError]
    spans: dict[tuple[str, Read], Span] = field(default_factory=dict)

    def resolve_all(self) -> None:
        """Set the reads of all transforms, and of each COLLECT with FOR EACH."""
        for draft in list(self.drafts.values()):
            if draft.kind is Kind.TRANSFORM:
                self.resolve(draft)
        self.errors.extend(add_for_each_inputs(self.drafts, self.queries.tables, self.queries.views, self.spans))

    def resolve(self, draft: UnresolvedTable) -> None:
        """Set the query or the function of a transform, and its reads; report unknown names."""
        statement = draft.statement
        if statement.function is not None:
            self._resolve_function(draft)
            return
        known = len(self.errors)
        query = self.queries.of_statement(statement)
        draft.declared = replace(draft.declared, query=query)
        if statement.clause(KEEPS_LATE) is not None:
            del self.errors[known:]  # the table whose late rows it keeps has the same query, and reports its errors
        draft.is_incomplete = statement.name in self.queries.incomplete
        if query is None:
            self.check_query(statement)
            return
        draft.declared = replace(draft.declared, reads=list_reads(query))
        draft.query_variables = variables_of(query)
        self._record_spans(draft, query, None)

    def check_query(self, statement: Statement) -> None:
        """Report a statement that needs a query and has none."""
        if statement.clause("AS") is None and not statement.failed:
            self.errors.append(
                statement.span.refuse("E233", f"{statement.name} has no query", fix="add AS SELECT ... at the end")
            )

    def _record_spans(self, draft: UnresolvedTable, query: Query, outer: Span | None) -> None:
        """Record the position of each read; for a read in a view, the position of the view's name in the query."""
        whole = draft.statement.value("AS", ParsedQuery)
        query_spans = [part.span for part, _ in self.queries.found[draft.name].branches] or (
            [whole.span] if whole else []
        )
        for part, query_span in zip(query.branches or (query,), query_spans, strict=False):
            for reference in part.tables:
                span = outer or query_span.source.span(
                    query_span.start + reference.start, query_span.start + reference.end
                )
                for read in (
                    reference.flat.included_reads if reference.flat else [reference.read] if reference.read else []
                ):
                    self.spans.setdefault((draft.name, read), span)
                if reference.view is not None:
                    self._record_spans(draft, reference.view, span)

    def _resolve_function(self, draft: UnresolvedTable) -> None:
        function = draft.statement.function
        if function is None:
            return
        reads: dict[Read, None] = {}
        arguments: list[Argument] = []
        variables: set[str] = set()
        for argument in (*function.arguments, *marks_of_step(function, self.queries.tables)):
            span = draft.at(f"ARGUMENT {argument.name}")
            resolved = self._resolve_argument(draft, argument, span)
            arguments.append(resolved)
            found = list(resolved.flat.included_reads) if resolved.flat else [resolved.read] if resolved.read else []
            if resolved.query is not None:
                found += list_reads(resolved.query)
                variables.update(variables_of(resolved.query))
            for read in found:
                reads[read] = None
                self.spans.setdefault((draft.name, read), span)
            if argument.variable is not None and argument.variable not in self.config.variables:
                self.errors.append(unknown_variable(argument.variable, span, self.config.variables))
        draft.declared = replace(draft.declared, function=replace(function, arguments=tuple(arguments)))
        draft.declared = replace(draft.declared, reads=tuple(reads))
        draft.query_variables = tuple(sorted(variables))

    def _resolve_argument(self, draft: UnresolvedTable, argument: Argument, span: Span) -> Argument:
        if argument.flat is not None:
            unresolved = argument.flat
            at = NamedTable(
                unresolved.read.table,
                span,
                ReadKind.PLAIN,
                None,
                0,
                0,
                None,
                0,
                is_flat=True,
                is_exact=unresolved.is_exact,
            )
            flat = self.queries.flat(at, draft.name)
            draft.is_incomplete = draft.is_incomplete or flat is None
            return exclude_hidden_from_argument(
                replace(argument, flat=flat), unresolved.read.table, self.queries.list_hidden_columns
            )
        read = argument.read
        if read is None:
            return argument
        if read.table in self.queries.tables:
            return exclude_hidden_from_argument(argument, read.table, self.queries.list_hidden_columns)
        if read.table not in self.queries.views:
            self.errors.append(
                unknown_table_error(read.table, span, self.queries.list_relations(), self.queries.tables)
            )
            draft.is_incomplete = True
            return replace(argument, read=None)
        reference = self.queries.view_reference(read, span)
        if reference is None:
            draft.is_incomplete = True
            return replace(argument, read=None)
        if argument.with_hidden:
            self.errors.append(hidden_view_columns_error(span, read.table))
        name = read.table
        text = f"SELECT * FROM {name}"
        start = len(text) - len(name)
        placed = replace(reference, start=start, end=len(text), alias=name.split(".")[1], alias_at=len(text))
        return replace(argument, read=None, query=Query(text, span.place, (placed,)))

    def resolve_publish(self, draft: UnresolvedTable, systems: ValidConnections) -> None:
        """Set the input of a publish and the properties that depend on the published table; report an unknown table."""
        name = draft.statement.name
        table = self.drafts.get(name)
        if table is None:
            if (shown := query_only_reason(name, self.queries.tables)) is not None:
                fix = "publish the table itself, which has only complete windows"
                what = f"{name} is for queries only, and cannot be published"
                self.errors.append(draft.span.refuse("E269", what, why=shown, fix=fix))
            elif name in self.queries.views:
                self.errors.append(
                    draft.span.refuse(
                        "E213", f"{name} is a view, and has no batches to publish", fix=f"write TRANSFORM {name} AS ..."
                    )
                )
            else:
                self.errors.append(unknown_table_error(name, draft.span, self.queries.tables, self.queries.tables))
            return
        draft.declared = replace(draft.declared, reads=(Read(name),))
        self.spans[draft.name, Read(name)] = draft.span
        resolve_publish_target(draft, table, systems, self.config.variables, self.errors)

    def resolve_references(self) -> None:
        """Report unknown tables in REFERENCES, and add the parent tables of checked references to the inputs."""
        for draft in self.drafts.values():
            for column in draft.declared.columns.named:
                target = column.references
                if target is None:
                    continue
                span = reference_span(draft, column.name)
                if target.table in self.queries.views:
                    what, fix = f"{target.table} is a view, and cannot be a parent", "refer to the table that it reads"
                    self.errors.append(span.refuse("E213", what, why="a view has no key", fix=fix))
                elif target.table not in self.queries.tables:
                    self.errors.append(
                        unknown_table_error(target.table, span, self.queries.tables, self.queries.tables)
                    )
        self.errors.extend(add_parent_inputs(self.drafts, self.spans))
