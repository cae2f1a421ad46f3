"""Finds the lineage of tables and columns: completely, for a number of steps, or between two tables."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import ReadKind
from waterclock.flow.linked_projects import upstream_of
from waterclock.flow.shared_views import readers_of_shared
from waterclock.operations.project_opening import columns_collected
from waterclock.selection import select
from waterclock.similar_names import did_you_mean

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.dpl.query.impact import Impact
    from waterclock.dpl.query.lineage import Branch, ColumnLineage
    from waterclock.flow.code_lineage import CodeLineage
    from waterclock.ledger.ledger import Ledger

Arrows = Mapping[str, Mapping[str, str]]
"""Maps each table to its direct inputs or readers, each with a description of how it is read."""
_lock = threading.Lock()
_kept: list[ColumnLineage] = []  # the lineage that was used last, which keeps the columns that it traced


@dataclass(frozen=True, slots=True)
class LineageTreeNode:
    """A table in a lineage tree: how it is read, and the tables beyond it. `is_seen`: an earlier node has these."""

    table: str
    how: str = ""
    beyond: tuple[LineageTreeNode, ...] = ()
    is_seen: bool = False

    def names(self) -> list[str]:
        """Return the tables of the tree without its root, nearest first, each once."""
        found: dict[str, None] = {}
        edge = [self]
        while edge:
            edge = [each for one in edge for each in one.beyond]
            found.update(dict.fromkeys(each.table for each in edge))
        found.pop(self.table, None)
        return list(found)


@dataclass(frozen=True, slots=True)
class TableLineage:
    """The tables upstream and downstream of one table."""

    flow: Flow
    table: str
    up: LineageTreeNode
    down: LineageTreeNode

    def to_json(self) -> dict[str, Any]:
        """Return, for JSON, the upstream and downstream tables, nearest first, and the edges between them."""
        from waterclock.json_models.lineage import LineageAnswer

        return LineageAnswer.build(
            table=self.table,
            made_from=self.up.names(),
            went_into=self.down.names(),
            arrows=[
                {
                    "from": read.table,
                    "to": name,
                    "read": str(read),
                    "choices": _list_choices(self.flow.tables[name], read),
                }
                for name in [*self.up.names(), self.table, *self.down.names()]
                for read in self.flow.tables[name].reads
            ],
            shared={
                view: readers
                for view, readers in readers_of_shared(self.flow).items()
                if not {*self.up.names(), self.table}.isdisjoint(readers)
            },
            collected={
                name: upstream
                for name in (*self.up.names(), self.table)
                if (upstream := upstream_of(self.flow.tables[name])) is not None
            },
        ).to_json()


@dataclass(frozen=True, slots=True)
class ColumnTrees:
    """The upstream and downstream columns of one column."""

    column: str
    up: Branch
    down: Branch

    def to_json(self) -> dict[str, Any]:
        """Return both trees for JSON. A node has table, column, expression, note, and its further nodes in `beyond`."""
        from waterclock.json_models.lineage import ColumnLineageAnswer

        return ColumnLineageAnswer.build(column=self.column, made_from=self.up, went_into=self.down).to_json()


@dataclass(frozen=True, slots=True)
class ColumnImpact:
    """All tables that depend on a column, including publishes."""

    flow: Flow
    column: str
    found: tuple[Impact, ...]

    def to_json(self) -> dict[str, Any]:
        """Return each table with its uses of the column, its owner, and the destination of a publish."""
        from waterclock.json_models.lineage import ImpactAnswer

        return ImpactAnswer.build(
            column=self.column, impact=[self._impact_fields(each) for each in self.found]
        ).to_json()

    def _impact_fields(self, each: Impact) -> dict[str, Any]:
        table = self.flow.tables[each.table]
        return {
            "table": each.table,
            "kind": table.kind.value,
            "owner": table.about.owner,
            "comment": table.about.comment,
            "to": None if table.destination is None else str(table.destination),
            "columns": dict(each.columns),
            "uses": sorted(each.uses),
            "is_sure": each.is_sure,
            "why": sorted(each.why),
            "through": sorted(each.through),
        }


def column_lineage_of(project: Project, ledger: Ledger | None = None) -> ColumnLineage:
    """Return the column lineage of a project; for Python transforms, from the plans recorded with their batches.

    `ledger` is the project's, if it is open already. If it cannot be opened, Python transforms are not analysed. Cost:
    a query of the ledger if the project has Python transforms. A query is parsed when its lineage is needed.
    """
    from waterclock.dpl.query.lineage import ColumnLineage

    return ColumnLineage(project.flow, columns_collected(project), _read_code_lineage(project, ledger))


def _read_code_lineage(project: Project, ledger: Ledger | None) -> Mapping[str, CodeLineage]:
    if not any(table.function is not None for table in project.flow.tables.values()):
        return {}
    if ledger is not None:
        return ledger.lineage.of_code(project.flow)
    from waterclock.engine.ledger_opening import open_ledger

    try:
        opened = open_ledger(project)
        if opened is None:
            return {}
        with closing(opened):
            return opened.lineage.of_code(project.flow)
    except WaterclockError:  # its errors are reported elsewhere; the lineage works without it
        return {}


@contextmanager
def _shared_lineage(project: Project, ledger: Ledger | None) -> Iterator[ColumnLineage]:
    """Yield the column lineage of a project to one thread at a time. Queries that were traced before are kept."""
    lineage = column_lineage_of(project, ledger)
    with _lock:
        for kept in _kept:
            if kept.flow is lineage.flow and (kept.schemas, kept.of_code) == (lineage.schemas, lineage.of_code):
                lineage = kept
        _kept[:] = [lineage]
        yield lineage


def column_impact(project: Project, table: str, column: str) -> ColumnImpact:
    """Find all tables that depend on a column. Raises E517 if unknown. Cost: milliseconds per downstream query."""
    from waterclock.dpl.query.column_trace import ColumnOf
    from waterclock.dpl.query.impact import impact_of

    lineage = column_lineage_of(project)
    known = {each.lower(): each for each in lineage.columns(table)}
    of = ColumnOf(table, known.get(column.lower(), column))
    lineage.trace_column(of)
    return ColumnImpact(project.flow, str(of), impact_of(lineage, of))


def table_lineage(flow: Flow, name: str, depth: int | None = None) -> TableLineage:
    """Return the tables upstream and downstream of one: all, or those at most `depth` steps away."""
    up = {
        table.name: [(read.table, describe_read(table, read)) for read in table.reads if read.table in flow.tables]
        for table in flow.tables.values()
    }
    down: dict[str, list[tuple[str, str]]] = {table: [] for table in flow.tables}
    for table in flow.tables.values():
        for read in table.reads:
            if read.table in down:
                how = describe_read(table, read)
                is_plain = read.kind is ReadKind.PLAIN
                down[read.table].append((table.name, "" if how == read.table else how if is_plain else f"as {how}"))
    return TableLineage(flow, name, _build_tree(name, "", up, depth, set()), _build_tree(name, "", down, depth, set()))


def column_trees(
    project: Project, table: str, column: str, depth: int | None = None, ledger: Ledger | None = None
) -> ColumnTrees:
    """Find the upstream and downstream columns of a column.

    Cost: a parse of each query on the way that was not parsed for the same flow before, some milliseconds.

    Raises E517 if the table does not have the column; the error lists similar names.
    """
    from waterclock.dpl.query.column_trace import ColumnOf

    with _shared_lineage(project, ledger) as lineage:
        known = {each.lower(): each for each in lineage.columns(table)}
        of = ColumnOf(table, known.get(column.lower(), column))
        lineage.trace_column(of)
        return ColumnTrees(str(of), lineage.trace_upstream(of, depth=depth), lineage.trace_downstream(of, depth=depth))


def list_lineage_columns(project: Project, table: str, ledger: Ledger | None = None) -> tuple[str, ...]:
    """Return the columns of a table whose lineage is known. Cost: at first a parse of the queries upstream."""
    with _shared_lineage(project, ledger) as lineage:
        return lineage.columns(table)


def table_and_column(flow: Flow, which: str) -> tuple[str, str | None]:
    """Parse `schema.table` or `schema.table.column`. The column may have dots and backticks.

    Raises E511 for an unknown table, with the nearest names.
    """
    if which in flow.tables:
        return which, None
    owner = max((name for name in flow.tables if which.startswith(f"{name}.")), key=len, default=None)
    if owner is not None and (column := which[len(owner) + 1 :]):
        is_quoted = len(column) > 2 and column[0] == column[-1] == "`"
        return owner, column[1:-1].replace("``", "`") if is_quoted else column
    name = which.rpartition(".")[0]
    if "." in name:
        raise WaterclockError(
            "E511",
            f"no table matches {name}",
            why="a column is written schema.table.column",
            fix=did_you_mean(name, flow.tables, otherwise="name a table of the project"),
        )
    return select(flow, which).tables[0], None


def describe_read(table: Table, read: Read) -> str:
    """Describe how `table` reads an input, and by which of its WHEN queries unless by all of them."""
    by = [str(choice) for choice in table.choices if read in choice.reads]
    if len(by) == len(table.choices):
        return str(read)
    queries = f"by {', '.join(by)}"
    return queries if read.kind is ReadKind.PLAIN else f"{read} {queries}"


def _list_choices(table: Table, read: Read) -> list[str] | None:
    return [str(it) for it in table.choices if read in it.reads] if table.choices else None


def map_inputs(flow: Flow) -> Arrows:
    """Map each table to its direct inputs, each with how it is read."""
    return {
        table.name: {read.table: describe_read(table, read) for read in table.reads if read.table in flow.tables}
        for table in flow.tables.values()
    }


def reverse_arrows(arrows: Arrows) -> Arrows:
    """Reverse the direction: map each table to its readers if `arrows` maps tables to their inputs."""
    found: dict[str, dict[str, str]] = {name: {} for name in arrows}
    for name, others in arrows.items():
        for other, how in others.items():
            found[other][name] = how
    return found


def tables_within(arrows: Arrows, names: Iterable[str], steps: int | None = None) -> set[str]:
    """Return the given tables and those that can be reached from them in at most `steps` steps, or any number."""
    found, edge = set(names), set(names)
    while edge and steps != 0:
        edge = {other for name in edge for other in arrows[name]} - found
        found |= edge
        steps = None if steps is None else steps - 1
    return found


def tables_on_paths(arrows: Arrows, one: str, other: str) -> set[str]:
    """Return the tables on all paths between two tables, whichever is upstream, or an empty set without a path."""
    back = reverse_arrows(arrows)
    paths = (tables_within(arrows, [low]) & tables_within(back, [high]) for low, high in ((one, other), (other, one)))
    return set().union(*paths)


def _build_tree(
    name: str, how: str, arrows: Mapping[str, Collection[tuple[str, str]]], depth: int | None, seen: set[str]
) -> LineageTreeNode:
    if name in seen or depth == 0:
        return LineageTreeNode(name, how, is_seen=name in seen and bool(arrows[name]))
    seen.add(name)
    less = None if depth is None else depth - 1
    return LineageTreeNode(
        name, how, tuple(_build_tree(other, read, arrows, less, seen) for other, read in arrows[name])
    )
