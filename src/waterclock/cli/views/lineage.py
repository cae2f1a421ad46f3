"""Shows what a table or a column is made of, and what is made of it: as trees for people, as lists for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text
from rich.tree import Tree

from waterclock.cli.views.theme import console
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.choices import Kind
from waterclock.flow.declarations import Flow, Table
from waterclock.operations.opening import columns_collected, open_project
from waterclock.operations.words import count_words
from waterclock.selection import select

if TYPE_CHECKING:
    from waterclock.dpl.query.lineage import Branch

_DIRECTIONS = ("made from", "went into")


@dataclass(frozen=True, slots=True)
class Reach:
    """A table on the way, by how it is read, with those beyond it; one that was shown before ends there."""

    table: str
    how: str = ""
    beyond: tuple[Reach, ...] = ()
    is_seen: bool = False


@dataclass(frozen=True, slots=True)
class TableLineage:
    """The tables around one table."""

    flow: Flow
    table: str
    up: Reach
    down: Reach

    def to_json(self) -> dict[str, Any]:
        """Return the tables up and down, nearest first, and the arrows between them."""
        return {
            "table": self.table,
            "made_from": _names(self.up),
            "went_into": _names(self.down),
            "arrows": [
                {"from": read.table, "to": name, "read": str(read)}
                for name in [*_names(self.up), self.table, *_names(self.down)]
                for read in self.flow.tables[name].reads
            ],
        }


@dataclass(frozen=True, slots=True)
class ColumnTrees:
    """What one column is made of, and what is made of it."""

    column: str
    up: Branch
    down: Branch

    def to_json(self) -> dict[str, Any]:
        """Return both trees: each node with column, expression, note, and those beyond it in `from` or `into`."""
        return {"column": self.column, "made_from": _branch_json(self.up), "went_into": _branch_json(self.down)}


def lineage_of(folder: Path, env: str | None, which: str, depth: int | None) -> TableLineage | ColumnTrees:
    """Find the lineage of `schema.table` or `schema.table.column`.

    Raises  E511 for an unknown table, E517 for an unknown column, both with the nearest names
    """
    project = open_project(folder, env)
    flow = project.flow
    name, column = _parted(flow, which)
    if column is None:
        return TableLineage(flow, name, _up(flow, name, depth), _down(flow, name, depth))
    from waterclock.dpl.query.column_trace import ColumnOf
    from waterclock.dpl.query.lineage import ColumnLineage

    lineage = ColumnLineage(flow, columns_collected(project))
    of = ColumnOf(name, column)
    lineage.made(of)
    return ColumnTrees(str(of), lineage.up(of, depth=depth), lineage.down(of, depth=depth))


def print_lineage(found: TableLineage | ColumnTrees) -> None:
    """Print both directions as trees."""
    to = console()
    if isinstance(found, ColumnTrees):
        to.print(_column_tree(found.up, "made from"))
        to.print()
        to.print(_column_tree(found.down, "went into"))
        return
    table = found.flow.tables[found.table]
    to.print(Text.assemble((found.table, "name"), f"  {kind_words(table)}"))
    if table.about.comment:
        to.print(Text(table.about.comment, style="quiet"))
    for heading, reach in zip(_DIRECTIONS, (found.up, found.down), strict=True):
        to.print()
        count = len(_names(reach))
        tree = Tree(Text(f"{heading} {count_words(count, 'table')}", style="head"), guide_style="quiet")
        for each in reach.beyond:
            _grow(tree, found.flow, each)
        to.print(tree)


def kind_words(table: Table) -> str:
    """Say what a table is: `partitioned transform, append, every DAY ZONE 'America/New_York'`."""
    return f"{table.type} {table.kind}, {table.mode}, {table.cadence}"


def _parted(flow: Flow, which: str) -> tuple[str, str | None]:
    if which in flow.tables:
        return which, None
    name, _, column = which.rpartition(".")
    if name in flow.tables and column:
        return name, column
    if "." in name:
        raise WaterclockError(
            "E511",
            f"no table matches {name}",
            why="a column is written schema.table.column",
            fix=did_you_mean(name, flow.tables, otherwise="name a table of the project"),
        )
    return select(flow, which).tables[0], None


def _up(flow: Flow, name: str, depth: int | None) -> Reach:
    arrows = {
        table.name: [(read.table, str(read)) for read in table.reads if read.table in flow.tables]
        for table in flow.tables.values()
    }
    return _reach(name, "", arrows, depth, set())


def _down(flow: Flow, name: str, depth: int | None) -> Reach:
    arrows: dict[str, list[tuple[str, str]]] = {table: [] for table in flow.tables}
    for table in flow.tables.values():
        for read in table.reads:
            if read.table in arrows:
                arrows[read.table].append((table.name, f"as {read}" if str(read) != read.table else ""))
    return _reach(name, "", arrows, depth, set())


def _reach(
    name: str, how: str, arrows: Mapping[str, list[tuple[str, str]]], depth: int | None, seen: set[str]
) -> Reach:
    if name in seen or depth == 0:
        return Reach(name, how, is_seen=name in seen and bool(arrows[name]))
    seen.add(name)
    less = None if depth is None else depth - 1
    return Reach(name, how, tuple(_reach(other, read, arrows, less, seen) for other, read in arrows[name]))


def _names(reach: Reach) -> list[str]:
    """Return the tables of a tree but its root, nearest first, each once."""
    found: dict[str, None] = {}
    edge = [reach]
    while edge:
        edge = [each for one in edge for each in one.beyond]
        found.update(dict.fromkeys(each.table for each in edge))
    found.pop(reach.table, None)
    return list(found)


def _grow(tree: Tree, flow: Flow, reach: Reach) -> None:
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
        _grow(branch, flow, each)


def _column_tree(branch: Branch, heading: str) -> Tree:
    tree = Tree(_column_line(branch, heading=heading), guide_style="quiet")
    for each in branch.beyond:
        _grow_column(tree, each)
    return tree


def _grow_column(tree: Tree, branch: Branch) -> None:
    grown = tree.add(_column_line(branch))
    for each in branch.beyond:
        _grow_column(grown, each)


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
    if branch.made.note:
        line.append(f"  {branch.made.note}", style="quiet")
    if branch.is_seen:
        line.append("  (see above)", style="quiet")
    return line


def _branch_json(branch: Branch) -> dict[str, Any]:
    return {
        "table": branch.column.table,
        "column": branch.column.column,
        "expression": branch.made.expression,
        "note": branch.made.note,
        "is_seen": branch.is_seen,
        "beyond": [_branch_json(each) for each in branch.beyond],
    }
