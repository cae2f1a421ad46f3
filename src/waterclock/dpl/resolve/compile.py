"""Compiles statements to a flow: resolves names and defaults, checks everything, and collects every error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from waterclock.dpl.config.model import Config, SparkSaid
from waterclock.dpl.query.builtins import FUNCTIONS
from waterclock.dpl.query.names_in_query import FoundTable
from waterclock.dpl.query.splice import list_reads, variables_of
from waterclock.dpl.resolve.cadences import Cadences
from waterclock.dpl.resolve.called_functions import unknown_functions, unknown_in_queries
from waterclock.dpl.resolve.checked_references import read_parents, reference_span
from waterclock.dpl.resolve.closings import settle_closings
from waterclock.dpl.resolve.column_lists import columns_of
from waterclock.dpl.resolve.connections import Systems, settle_connections
from waterclock.dpl.resolve.copies import refused_copies
from waterclock.dpl.resolve.deadlines import check_deadlines
from waterclock.dpl.resolve.drafts import draft_of
from waterclock.dpl.resolve.endings import expressions_of
from waterclock.dpl.resolve.fingerprints import canonical_query, fingerprint_of, flow_fingerprint
from waterclock.dpl.resolve.flats import Flats
from waterclock.dpl.resolve.for_each import read_each
from waterclock.dpl.resolve.former_code import Names
from waterclock.dpl.resolve.hidden import hidden_of_view, with_hidden_input_rules, with_left_out_rows
from waterclock.dpl.resolve.idle_bounds import check_idle_bounds
from waterclock.dpl.resolve.input_rules import check_input_rules
from waterclock.dpl.resolve.keys import settle_keys
from waterclock.dpl.resolve.ladders import check_ladders
from waterclock.dpl.resolve.late_rows import KEEPS_LATE, with_late_rows
from waterclock.dpl.resolve.legality import check_cycles, check_reads
from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.resolve.names import names_of
from waterclock.dpl.resolve.offline import check_offline
from waterclock.dpl.resolve.open_windows import check_open_windows, shown_to_queries, with_open_windows
from waterclock.dpl.resolve.partial import check_partial
from waterclock.dpl.resolve.publish_targets import settle_publish
from waterclock.dpl.resolve.query_choices import settle_choices
from waterclock.dpl.resolve.reach import check_reach
from waterclock.dpl.resolve.renames import check_renames, former_names
from waterclock.dpl.resolve.rules import check_expression
from waterclock.dpl.resolve.schemas import KnownColumns, Schemas
from waterclock.dpl.resolve.unresolved import UnresolvedTable
from waterclock.dpl.resolve.views import Queries, unknown_table
from waterclock.dpl.resolve.watermarks import check_marks, marks_of_step, with_marks
from waterclock.dpl.syntax.cursor import unknown_variable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import FunctionSaid, ModeSaid, QuerySaid, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.about import About
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.checks import every_rule
from waterclock.flow.choices import Kind, ReadKind
from waterclock.flow.declarations import Argument, Columns, Flow, Function, Query, Read, Table, TableDeclaration, View
from waterclock.flow.graph import order_of

_SEPARATOR = "\x1f"  # as `canonical` puts it between tokens


def compile_flow(
    statements: Iterable[Statement],
    config: Config,
    *,
    root: Path,
    capabilities: Mapping[str, Capabilities],
    known: KnownColumns | None = None,
    errors: list[WaterclockError],
) -> Flow | None:
    """Compile the statements of a project; return the flow only if there are no errors.

    `errors` contains the errors of parsing the statements; those of compiling are added to it.
    """
    compiler = _Compiler(list(statements), config, root, capabilities, known or KnownColumns(), errors)
    return compiler.compile()


@dataclass(slots=True)
class _Compiler:
    statements: list[Statement]
    config: Config
    root: Path
    capabilities: Mapping[str, Capabilities]
    known: KnownColumns
    errors: list[WaterclockError]
    drafts: dict[str, UnresolvedTable] = field(default_factory=dict)
    spans: dict[tuple[str, Read], Span] = field(default_factory=dict)
    view_columns: dict[str, Columns] = field(default_factory=dict)

    def compile(self) -> Flow | None:
        self.statements = with_marks(self.statements, self.config.variables, self.errors)
        self.statements = with_late_rows(self.statements, self.config.variables, self.errors)
        by_kind = names_of(self.statements, self.errors)
        systems = settle_connections(
            by_kind[StatementKind.CONNECTION].values(), self.config, self.root, self.capabilities, self.errors
        )
        functions = {name: self._function(said) for name, said in by_kind[StatementKind.FUNCTION].items()}
        made = by_kind[StatementKind.COLLECT] | by_kind[StatementKind.TRANSFORM]
        for statement in made.values():
            self.drafts[statement.name] = draft_of(statement, self.config, systems, self.errors)
        publishes = self._publishes(systems)
        flats = Flats(dict(self.drafts), self.errors)
        queries = Queries(made, frozenset(publishes), by_kind[StatementKind.VIEW], self.errors, flats)
        for name, view in by_kind[StatementKind.VIEW].items():
            queries.of_view(name)
            self._has_query(view)
            self.view_columns[name] = columns_of(view, self.config.variables, self.errors)
        for draft in list(self.drafts.values()):
            if draft.kind is Kind.TRANSFORM:
                self._resolve_reads(draft, queries)
        self.errors.extend(read_each(self.drafts, queries.tables, queries.views, self.spans))
        for draft in publishes.values():
            self._publish_reads(draft, queries, systems)
        self.drafts.update(publishes)
        self._references(queries)
        self._variables(queries)
        self.errors.extend(unknown_functions(self.drafts.values(), functions))
        if not _has_more_functions(self.config.environment.spark):
            self.errors.extend(unknown_in_queries(queries.trees(), functions))
        self.errors.extend(refused_copies(self.drafts, systems))
        self.errors.extend(check_renames(self.drafts, queries.views))
        self.errors.extend(check_marks(self.drafts, self.spans))
        self.errors.extend(check_cycles(self.drafts, self.spans))
        Cadences(self.drafts, self.config, self.errors).settle()
        for draft in self.drafts.values():
            queries_chosen = queries.choices.get(draft.name, ())
            settle_choices(draft, queries_chosen, self.config.variables, self.errors)
        self.errors.extend(settle_keys(self.drafts, self.spans))
        self.errors.extend(check_reads(self.drafts, self.spans))
        self.errors.extend(check_partial(self.drafts, queries.found))
        self.errors.extend(check_deadlines(self.drafts))
        self.errors.extend(settle_closings(self.drafts, self.config.variables, functions))
        self.errors.extend(check_open_windows(self.drafts, self.statements))
        self.errors.extend(check_ladders(self.drafts.values()))
        self.errors.extend(check_idle_bounds(self.drafts.values()))
        self.errors.extend(check_input_rules(self.drafts, queries.views))
        with_hidden_input_rules(self.drafts)
        self.errors.extend(check_offline(self.drafts.values()))
        for draft in self.drafts.values():
            known = [queries.found.get(name) for name in (draft.name, *self._views_of(draft, queries))]
            self.errors.extend(check_reach(draft, [found for found in known if found is not None], self.drafts))
        self.errors.extend(Schemas(queries, self.known).check(self._upstream_first()))
        return None if self.errors else self._flow(systems, functions, queries)

    def _function(self, statement: Statement) -> Function:
        said = statement.value("RETURN", FunctionSaid)
        body = None
        if said is not None and said.body is not None:
            self.errors.extend(check_expression(said.body))
            body = with_literals(said.body, self.config.variables)
        return Function(
            statement.name,
            said.parameters if said else (),
            said.returns if said else "STRING",
            body,
            statement.function,
            statement.span.place,
        )

    def _publishes(self, systems: Systems) -> dict[str, UnresolvedTable]:
        publishes: dict[str, UnresolvedTable] = {}
        for statement in self.statements:
            if statement.kind is not StatementKind.PUBLISH:
                continue
            draft = draft_of(statement, self.config, systems, self.errors)
            if draft.declared.destination is None:
                continue
            first = self.drafts.get(draft.name) or publishes.get(draft.name)
            if first is not None:
                self.errors.append(
                    draft.at("TO").refuse(
                        "E212",
                        f"{draft.name} is there twice",
                        why=f"first at {first.span.place}; a publish goes by the name of what it writes",
                        fix="publish to another name",
                    )
                )
                continue
            publishes[draft.name] = draft
        return publishes

    def _resolve_reads(self, draft: UnresolvedTable, queries: Queries) -> None:
        statement = draft.statement
        if statement.function is not None:
            self._python_reads(draft, queries)
            return
        known = len(self.errors)
        query = queries.of_statement(statement)
        draft.declared = replace(draft.declared, query=query)
        if statement.clause(KEEPS_LATE) is not None:
            del self.errors[known:]  # the table whose late rows it keeps has the same query, and reports its errors
        draft.is_incomplete = statement.name in queries.incomplete
        if query is None:
            self._has_query(statement)
            return
        draft.declared = replace(draft.declared, reads=list_reads(query))
        draft.query_variables = variables_of(query)
        self._note_spans(draft, query, queries, None)

    def _has_query(self, statement: Statement) -> None:
        if statement.clause("AS") is None and not statement.failed:
            self.errors.append(
                statement.span.refuse("E233", f"{statement.name} has no query", fix="end it with AS SELECT ...")
            )

    def _note_spans(self, draft: UnresolvedTable, query: Query, queries: Queries, outer: Span | None) -> None:
        """Record the span of each read; a read inside of a view gets the span of the view's name in the table."""
        whole = draft.statement.value("AS", QuerySaid)
        saids = [part.span for part, _ in queries.found[draft.name].branches] or ([whole.span] if whole else [])
        for part, said in zip(query.branches or (query,), saids, strict=False):
            for reference in part.tables:
                span = outer or said.source.span(said.start + reference.start, said.start + reference.end)
                for read in reference.flat.reads if reference.flat else [reference.read] if reference.read else []:
                    self.spans.setdefault((draft.name, read), span)
                if reference.view is not None:
                    self._note_spans(draft, reference.view, queries, span)

    def _python_reads(self, draft: UnresolvedTable, queries: Queries) -> None:
        function = draft.statement.function
        if function is None:
            return
        reads: dict[Read, None] = {}
        arguments: list[Argument] = []
        variables: set[str] = set()
        for argument in (*function.arguments, *marks_of_step(function, queries.tables)):
            span = draft.at(f"ARGUMENT {argument.name}")
            settled = self._argument(draft, argument, span, queries)
            arguments.append(settled)
            found = list(settled.flat.reads) if settled.flat else [settled.read] if settled.read else []
            if settled.query is not None:
                found += list_reads(settled.query)
                variables.update(variables_of(settled.query))
            for read in found:
                reads[read] = None
                self.spans.setdefault((draft.name, read), span)
            if argument.variable is not None and argument.variable not in self.config.variables:
                self.errors.append(unknown_variable(argument.variable, span, self.config.variables))
        draft.declared = replace(draft.declared, function=replace(function, arguments=tuple(arguments)))
        draft.declared = replace(draft.declared, reads=tuple(reads))
        draft.query_variables = tuple(sorted(variables))

    def _argument(self, draft: UnresolvedTable, argument: Argument, span: Span, queries: Queries) -> Argument:
        if argument.flat is not None:
            said = argument.flat
            at = FoundTable(
                said.read.table, span, ReadKind.PLAIN, None, 0, 0, None, 0, is_flat=True, is_exact=said.is_exact
            )
            flat = queries.flat(at, draft.name)
            draft.is_incomplete = draft.is_incomplete or flat is None
            return with_left_out_rows(replace(argument, flat=flat), said.read.table, queries.list_hidden_columns)
        read = argument.read
        if read is None:
            return argument
        if read.table in queries.tables:
            return with_left_out_rows(argument, read.table, queries.list_hidden_columns)
        if read.table not in queries.views:
            self.errors.append(unknown_table(read.table, span, queries.list_relations(), queries.tables))
            draft.is_incomplete = True
            return replace(argument, read=None)
        reference = queries.view_reference(read, span)
        if reference is None:
            draft.is_incomplete = True
            return replace(argument, read=None)
        if argument.with_hidden:
            self.errors.append(hidden_of_view(span, read.table))
        name = read.table
        text = f"SELECT * FROM {name}"
        start = len(text) - len(name)
        placed = replace(reference, start=start, end=len(text), alias=name.split(".")[1], alias_at=len(text))
        return replace(argument, read=None, query=Query(text, span.place, (placed,)))

    def _publish_reads(self, draft: UnresolvedTable, queries: Queries, systems: Systems) -> None:
        name = draft.statement.name
        table = self.drafts.get(name)
        if table is None:
            if (shown := shown_to_queries(name, queries.tables)) is not None:
                fix = "publish the table itself: its windows are whole"
                what = f"{name} is asked by people, and not published"
                self.errors.append(draft.span.refuse("E269", what, why=shown, fix=fix))
            elif name in queries.views:
                self.errors.append(
                    draft.span.refuse(
                        "E213", f"{name} is a view, and has no batches to publish", fix=f"say TRANSFORM {name} AS ..."
                    )
                )
            else:
                self.errors.append(unknown_table(name, draft.span, queries.tables, queries.tables))
            return
        draft.declared = replace(draft.declared, reads=(Read(name),))
        self.spans[draft.name, Read(name)] = draft.span
        settle_publish(draft, table, systems, self.config.variables, self.errors)

    def _references(self, queries: Queries) -> None:
        """Check the tables that columns refer to. An unchecked reference is no read; a checked one reads the parent."""
        for draft in self.drafts.values():
            for column in draft.declared.columns.named:
                target = column.references
                if target is None:
                    continue
                span = reference_span(draft, column.name)
                if target.table in queries.views:
                    what, fix = f"{target.table} is a view, and no parent", "refer to the table that it reads"
                    self.errors.append(span.refuse("E213", what, why="a view has no key", fix=fix))
                elif target.table not in queries.tables:
                    self.errors.append(unknown_table(target.table, span, queries.tables, queries.tables))
        self.errors.extend(read_parents(self.drafts, self.spans))

    def _variables(self, queries: Queries) -> None:
        """Check that every :name has a value."""
        known = self.config.variables
        for found in queries.found.values():
            for name, span in found.variables.items():
                if name not in known:
                    self.errors.append(unknown_variable(name, span, known))
        for statement in self.statements:
            for expression in _expressions(statement):
                for name in expression.variables:
                    if name not in known:
                        at = expression.span.text.find(f":{name}")
                        start = expression.span.start + max(at, 0)
                        span = Span(expression.span.source, start, start + len(name) + 1)
                        self.errors.append(unknown_variable(name, span, known))

    def _upstream_first(self) -> Iterable[UnresolvedTable]:
        """Return the drafts upstream first; in their own order if there are circles, which are reported."""
        names = {
            name: [
                read.table
                for read in draft.declared.reads
                if read.kind is not ReadKind.PREVIOUS and read.table in self.drafts
            ]
            for name, draft in self.drafts.items()
        }
        try:
            return [self.drafts[name] for name in TopologicalSorter(names).static_order()]
        except CycleError:
            return list(self.drafts.values())

    def _flow(self, systems: Systems, functions: Mapping[str, Function], queries: Queries) -> Flow:
        stated = [*queries.tables.values(), *queries.views.values()]
        texts = {each.name: canonical_query(each) for each in stated if each.clause("AS") is not None}
        tables: dict[str, Table] = {}
        callable_, names = {**FUNCTIONS, **functions}, former_names(self.drafts)
        for name, draft in self.drafts.items():
            if draft.cadence is not None:
                tables[name] = self._table(draft, texts, callable_, queries, names)
        tables = with_open_windows(tables, self.drafts)
        order = order_of(tables)
        return Flow(
            project=self.config.name,
            tables=tables,
            views={name: self._view(name, queries) for name in queries.views if queries.of_view(name) is not None},
            functions=dict(functions),
            connections=dict(systems.connections),
            variables=dict(self.config.variables),
            pools=dict(self.config.pools),
            order=order,
            fingerprint=flow_fingerprint(tables),
        )

    def _table(
        self,
        draft: UnresolvedTable,
        texts: Mapping[str, str],
        functions: Mapping[str, Function],
        queries: Queries,
        names: Names,
    ) -> Table:
        if draft.cadence is None:
            raise ValueError(f"{draft.name} has no cadence")
        used = {draft.statement.name: texts[draft.statement.name]} if draft.declared.query is not None else {}
        if draft.declared.query is not None or draft.declared.function is not None:
            used |= {name: texts[name] for name in self._views_of(draft, queries)}
        draft.functions = frozenset(_list_called_functions([*used.values(), *_header(draft)], functions))
        code = partial(fingerprint_of, draft, queries=used, functions=functions, variables=self.config.variables)
        fingerprint, before = code(), code(before=names) if names else ""
        return Table(
            **{each.name: getattr(draft.declared, each.name) for each in fields(TableDeclaration)},
            cadence=draft.cadence,
            was=names.get(draft.name),
            fingerprint=fingerprint,
            code_before=before if before != fingerprint else "",
        )

    def _views_of(self, draft: UnresolvedTable, queries: Queries) -> list[str]:
        """List the views that a table depends on, directly and through others."""
        found: dict[str, None] = {}
        names = [table.name for table in queries.found[draft.name].tables] if draft.name in queries.found else []
        names += [argument.read.table for argument in _arguments(draft.statement) if argument.read]
        waiting = [name for name in names if name in queries.views]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = None
                if name in queries.found:
                    waiting.extend(table.name for table in queries.found[name].tables if table.name in queries.views)
        return sorted(found)

    def _view(self, name: str, queries: Queries) -> View:
        statement = queries.views[name]
        query = queries.of_view(name)
        if query is None:
            raise ValueError(f"view {name} has no query")
        about = About(
            statement.value("OWNER", str), statement.value("TAGS", tuple) or (), statement.value("COMMENT", str)
        )
        is_shared = statement.clause("SHARED") is not None
        return View(name, self.view_columns[name], query, about, statement.span.place, is_shared)


def _has_more_functions(spark: SparkSaid) -> bool:
    """Return whether a server, a package or an extension may add functions to Spark that are not known here."""
    return bool(spark.connect or spark.packages or any("extensions" in key for key in spark.confs))


def _arguments(statement: Statement) -> tuple[Argument, ...]:
    return statement.function.arguments if statement.function else ()


def _expressions(statement: Statement) -> Iterable[Any]:
    for clause in statement.clauses:
        if clause.word == "EXPECT":
            yield from (rule.expression for rule in clause.value)
        elif clause.word == "MEASURE":
            yield from (said.expression for said in clause.value if said.expression is not None)
        elif clause.word == "COLUMNS":
            yield from (rule.expression for column in clause.value.columns for rule in column.rules)
            yield from expressions_of(clause.value.columns)
        elif clause.word == "MODE" and isinstance(clause.value, ModeSaid) and clause.value.delete_when:
            yield clause.value.delete_when
        elif clause.word == "CLOSE WHEN":
            yield clause.value
        elif clause.word == "RETURN" and clause.value.body:
            yield clause.value.body


def _header(draft: UnresolvedTable) -> list[str]:
    """Return the names and signs of the header's expressions, in capitals, like `canonical` for a query."""
    texts = [rule.expression for rule in every_rule(draft.declared)]
    texts += [column.ends.made_as for column in draft.declared.columns.named if column.ends and column.ends.made_as]
    texts += [column.made_as.expression for column in draft.declared.columns.named if column.made_as]
    if draft.declared.fold is not None and draft.declared.fold.delete_when:
        texts.append(draft.declared.fold.delete_when)
    return [_SEPARATOR.join(re.findall(r"\w+", text.upper())) for text in texts]


def _list_called_functions(texts: Iterable[str], functions: Mapping[str, Function]) -> list[str]:
    """List the functions that texts call, directly and through other functions."""
    words = {word for text in texts for word in text.split(_SEPARATOR)} if functions else set()
    waiting = [name for name in functions if name.upper() in words]
    found: dict[str, None] = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            inner = {word.upper() for word in re.findall(r"\w+", functions[name].body or "")}
            waiting.extend(other for other in functions if other.upper() in inner)
    return list(found)
