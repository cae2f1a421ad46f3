"""Prints the tables that depend on a column, how they use it, and who owns them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.cli.views.theme import console
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Kind
from waterclock.operations.formatting import count_words
from waterclock.operations.lineage import ColumnImpact, column_impact, list_lineage_columns, table_and_column
from waterclock.operations.project_opening import open_project

if TYPE_CHECKING:
    from waterclock.dpl.query.impact import Impact
    from waterclock.flow.declarations import Table

_USES = {
    "filter": "filters by it",
    "join": "joins by it",
    "group": "groups by it",
    "sort": "sorts by it",
    "window": "orders or partitions a window function by it",
    "value": "uses it inside the query",
    "reference": "refers to it",
    "rows": "its rows depend on it",
    "may read": "may read it",
}


def impact_on(folder: Path, env: str | None, which: str) -> ColumnImpact:
    """Find all tables that depend on `schema.table.column`. Raises E378 without a column, E511, E517."""
    project = open_project(folder, env)
    name, column = table_and_column(project.flow, which)
    if column is None:
        known = list_lineage_columns(project, name)
        raise WaterclockError(
            "E378",
            f"{name} is a table, and --impact needs a column",
            why=f"its columns are {', '.join(known)}" if known else None,
            fix=f"name one: waterclock lineage {name}.{known[0] if known else 'COLUMN'} --impact",
        )
    return column_impact(project, name, column)


def print_impact(impact: ColumnImpact) -> None:
    """Print a block for each table: its name, kind and owner, its uses of the column, and the tables in between."""
    to = console()
    if not impact.found:
        to.print(Text.assemble((impact.column, "name"), "  nothing depends on it"))
        return
    unsure = sum(not each.is_sure for each in impact.found)
    line = Text.assemble((impact.column, "name"), (f"  {_format_dependents(impact)}", "head"))
    if unsure:
        line.append(f", {unsure} of which may read it", style="quiet")
    to.print(line)
    for each in impact.found:
        to.print()
        _print_impact_on_table(impact, each)


def _format_dependents(impact: ColumnImpact) -> str:
    publishes = sum(impact.flow.tables[each.table].kind is Kind.PUBLISH for each in impact.found)
    words = [count_words(len(impact.found) - publishes, "table")] if len(impact.found) > publishes else []
    words += [f"{publishes} publish" + ("es" if publishes > 1 else "")] if publishes else []
    return f"{' and '.join(words)} depend on it" if len(impact.found) > 1 else f"{words[0]} depends on it"


def _print_impact_on_table(impact: ColumnImpact, each: Impact) -> None:
    to, table = console(), impact.flow.tables[each.table]
    line = Text.assemble((each.table, "name"), (f"  {_kind_words(table)}", "quiet"))
    if table.about.owner:
        line.append(f"  owner {table.about.owner}")
    to.print(line)
    if table.about.comment:
        to.print(Text(f"  {table.about.comment}", style="quiet"))
    for column, how in each.columns.items():
        to.print(Text(f"  {column} {_describe_column_use(how)}"))
    for use in (word for word in _USES if word in each.uses):
        why = f": {'; '.join(sorted(each.why))}" if use == "may read" and each.why else ""
        to.print(Text(f"  {_USES[use]}{why}"))
    between = sorted(each.through - {impact.column.rpartition(".")[0]})
    if between:
        to.print(Text(f"  through {', '.join(between)}", style="quiet"))


def _kind_words(table: Table) -> str:
    return f"{table.kind} to {table.destination}" if table.destination is not None else f"{table.kind}"


def _describe_column_use(how: str) -> str:
    return {"copied": "is copied from it", "computed": "is computed from it"}.get(how, "may be made from it")
