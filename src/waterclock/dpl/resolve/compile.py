"""Compiles statements to a flow: runs all steps of resolving and checking them, and collects the errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from waterclock.dpl.config.model import Config
from waterclock.dpl.resolve.added_tables import add_tables
from waterclock.dpl.resolve.apart_clause import locate_errors
from waterclock.dpl.resolve.cadences import Cadences
from waterclock.dpl.resolve.column_lists import columns_of
from waterclock.dpl.resolve.connections import ValidConnections, resolve_connections
from waterclock.dpl.resolve.flats import FlatResolver
from waterclock.dpl.resolve.flow_building import FlowBuilder
from waterclock.dpl.resolve.flow_checks import check_clauses, check_names_and_circles
from waterclock.dpl.resolve.functions import check_circles, function_of
from waterclock.dpl.resolve.grants import GrantResolver
from waterclock.dpl.resolve.key_deduplication import resolve_keys
from waterclock.dpl.resolve.project_names import names_of
from waterclock.dpl.resolve.published_personal_data import check_published_personal_data
from waterclock.dpl.resolve.query_choices import resolve_choices
from waterclock.dpl.resolve.schemas import RecordedColumns, Schemas
from waterclock.dpl.resolve.table_declarations import draft_of
from waterclock.dpl.resolve.table_reads import ReadResolver
from waterclock.dpl.resolve.unresolved_flow import UnresolvedFlow, upstream_first
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.resolve.views import QueryResolver
from waterclock.dpl.syntax.statements import Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Columns, Flow


def compile_flow(
    statements: Iterable[Statement],
    config: Config,
    *,
    root: Path,
    capabilities: Mapping[str, Capabilities],
    known: RecordedColumns | None = None,
    errors: list[WaterclockError],
) -> Flow | None:
    """Compile the statements of a project; return the flow, or None if there are errors.

    Errors are appended to `errors`, which may already contain the errors of parsing the statements.
    """
    compiler = _Compiler(list(statements), config, root, capabilities, known or RecordedColumns(), errors)
    return compiler.compile()


@dataclass(slots=True)
class _Compiler:
    statements: list[Statement]
    config: Config
    root: Path
    capabilities: Mapping[str, Capabilities]
    known: RecordedColumns
    errors: list[WaterclockError]
    drafts: dict[str, UnresolvedTable] = field(default_factory=dict)

    def compile(self) -> Flow | None:
        variables, errors = self.config.variables, self.errors
        grants = [each for each in self.statements if each.kind is StatementKind.GRANT]
        self.statements = [each for each in self.statements if each.kind is not StatementKind.GRANT]
        self.statements = add_tables(self.statements, variables, errors)
        by_kind = names_of(self.statements, errors)
        connections, views = by_kind[StatementKind.CONNECTION].values(), by_kind[StatementKind.VIEW]
        systems = resolve_connections(connections, self.config, self.root, self.capabilities, errors)
        functions = {
            name: function_of(function, variables, errors) for name, function in by_kind[StatementKind.FUNCTION].items()
        }
        errors.extend(check_circles(by_kind[StatementKind.FUNCTION]))
        made = by_kind[StatementKind.COLLECT] | by_kind[StatementKind.TRANSFORM]
        for statement in made.values():
            self.drafts[statement.name] = draft_of(statement, self.config, systems, errors)
        publishes = self._publishes(systems)
        queries = QueryResolver(made, frozenset(publishes), views, errors, FlatResolver(dict(self.drafts), errors))
        reads = ReadResolver(self.drafts, queries, self.config, errors)
        view_columns: dict[str, Columns] = {}
        for name, view in views.items():
            queries.of_view(name)
            reads.check_query(view)
            view_columns[name] = columns_of(view, variables, errors)
        reads.resolve_all()
        for draft in publishes.values():
            reads.resolve_publish(draft, systems)
        self.drafts.update(publishes)
        reads.resolve_references()
        flow = UnresolvedFlow(self.drafts, reads.spans, self.statements, queries, functions, systems, self.config)
        errors.extend(check_names_and_circles(flow))
        Cadences(self.drafts, self.config, errors).resolve_all()
        for draft in self.drafts.values():
            resolve_choices(draft, queries.choices.get(draft.name, ()), variables, errors)
        errors.extend(resolve_keys(self.drafts, reads.spans))
        errors.extend(check_clauses(flow))
        schemas = Schemas(queries, self.known)
        errors.extend(schemas.check(upstream_first(self.drafts)))
        granted = GrantResolver(self.drafts, schemas, functions, self.config, errors).resolve(grants)
        if errors:
            errors[:] = locate_errors(errors, self.statements)
            return None
        built = FlowBuilder(self.drafts, queries, functions, view_columns, self.config, systems, granted).build()
        errors.extend(check_published_personal_data(built, self.drafts))
        return None if errors else built

    def _publishes(self, systems: ValidConnections) -> dict[str, UnresolvedTable]:
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
                        f"{draft.name} is declared twice",
                        why=f"first at {first.span.place}; a PUBLISH has the name of its destination",
                        fix="publish to another name",
                    )
                )
                continue
            publishes[draft.name] = draft
        return publishes
