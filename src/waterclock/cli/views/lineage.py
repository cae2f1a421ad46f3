"""Prints the inputs and readers of a table or column as trees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from waterclock.cli.views.theme import console
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind
from waterclock.flow.linked_projects import upstream_of
from waterclock.flow.shared_views import readers_of_shared
from waterclock.operations.formatting import count_words
from waterclock.operations.lineage import (
    ColumnTrees,
    LineageTreeNode,
    TableLineage,
    column_trees,
    table_and_column,
    table_lineage,
)
from waterclock.operations.project_opening import open_project

if TYPE_CHECKING:
    from waterclock.dpl.query.lineage import Branch

_DIRECTIONS = ("made from", "went into")


def lineage_of(folder: Path, env: str | None, which: str, depth: int | None) -> TableLineage | ColumnTrees:
    """Return the lineage of `schema.table` or `schema.table.column`. Raises E511, E517 for unknown names."""
    project = open_project(folder, env)
    name, column = table_and_column(project.flow, which)
    if column is None:
        return table_lineage(project.flow, name, depth)
    return column_trees(project, name, column, depth)


def print_lineage(found: TableLineage | ColumnTrees) -> None:
    """Print two trees: what the table or column is made from, and what is made from it."""
    to = console()
    if isinstance(found, ColumnTrees):
        to.print(_column_tree(found.up, "made from"))
        to.print()
        to.print(_column_tree(found.down, "went into"))
        return
    table = found.flow.tables[found.table]
    to.print(Text.assemble((found.table, "name"), f"  {kind_words(table)}"))
    if (upstream := upstream_of(table)) is not None:
        to.print(Text(f"collects {upstream}, of another project", style="quiet"))
    for view, readers in readers_of_shared(found.flow).items():
        if table.name in readers:
            others = ", ".join(name for name in readers if name != table.name)
            to.print(Text(f"reads {view}, SHARED with {others}", style="quiet"))
    if table.about.comment:
        to.print(Text(table.about.comment, style="quiet"))
    for heading, reach in zip(_DIRECTIONS, (found.up, found.down), strict=True):
        to.print()
        count = len(reach.names())
        tree = Tree(Text(f"{heading} {count_words(count, 'table')}", style="head"), guide_style="quiet")
        for each in reach.beyond:
            _add_branch(tree, found.flow, each)
        to.print(tree)


def kind_words(table: Table) -> str:
    """Describe a table: `partitioned transform, append, every DAY ZONE 'America/New_York'`."""
    return f"{table.type} {table.kind}, {table.mode}, {table.cadence}"


def _add_branch(tree: Tree, flow: Flow, reach: LineageTreeNode) -> None:
    table = flow.tables[reach.table]
    line = Text(reach.table, style="name")
    if reach.how and reach.how != reach.table:
        line.append(f"  {reach.how}", style="where")
    line.append(f"  {table.kind}", style="quiet")
    if table.kind is Kind.COLLECT and table.source is not None:
        line.append(f" from {table.source.unit}", style="quiet")
    if reach.is_seen:
        line.append("  (see above)", style="quiet")
    branch = tree.add(line)
    for each in reach.beyond:
        _add_branch(branch, flow, each)


def _column_tree(branch: Branch, heading: str) -> Tree:
    tree = Tree(_column_line(branch, heading=heading), guide_style="quiet")
    for each in branch.beyond:
        _add_column_branch(tree, each)
    return tree


def _add_column_branch(tree: Tree, branch: Branch) -> None:
    grown = tree.add(_column_line(branch))
    for each in branch.beyond:
        _add_column_branch(grown, each)


def _column_line(branch: Branch, *, heading: str = "") -> Text:
    line = Text(f"{heading} " if heading else "", style="head")
    column = "every column" if branch.column.column == "*" else branch.column.column
    line.append(
        f"{branch.column.table}.{column}" if column != "every column" else f"{branch.column.table}, every column",
        style="name",
    )
    expression = branch.made.expression
    if expression and expression.rpartition(".")[2].lower() != branch.column.column.lower():
        line.append(f" = {expression}")
    if branch.is_unknown:
        line.append("  maybe", style="quiet")
    if branch.made.note:
        line.append(f"  {branch.made.note}", style="quiet")
    if branch.is_seen:
        line.append("  (see above)", style="quiet")
    return line
