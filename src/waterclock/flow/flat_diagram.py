"""Draws FLAT(u) as a Graphviz graph: the columns of table u, and below them the columns of each parent table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from waterclock.flow.declarations import Flat, FlatJoin, Flow
from waterclock.flow.diagram import HEAD, QUIET, Field, fields_of, font, heading, quiet_row, render_name
from waterclock.flow.merge_settings import RECORD

_PARENT = "#f4efe2"
_INDENT = "    "  # no-break spaces: Graphviz drops others


@dataclass(frozen=True, slots=True)
class FlatPart:
    """The columns that one table adds to FLAT(u), and the join that finds its row; `join` is None for u itself.

    - `depth`: the number of joins from u to the table.
    - `columns`: pairs of a column's name in the result and the column.
    - `role`: the suffix of these names, made of the roles of all joins from u.
    - `of_versions`: u is TEMPORAL.
    - `is_open`: the table may have more columns, which are not known.
    """

    table: str
    depth: int
    columns: tuple[tuple[str, Field], ...]
    role: str = ""
    join: FlatJoin | None = None
    of_versions: bool = False
    is_open: bool = False

    @property
    def version_choice(self) -> str:
        """Describes how a parent's row is found: by its key, or by the time that selects its version; empty for u."""
        if self.join is None:
            return ""
        if not self.join.parent.is_temporal:
            return "by its key"
        if self.join.at:
            return f"at {self.join.at}"
        return "when each version begins" if self.of_versions else "at the same time"


def list_flat_parts(flat: Flat, flow: Flow, known: Mapping[str, Mapping[str, str]]) -> tuple[FlatPart, ...]:
    """Return the columns that each table adds to FLAT(u): first u, then its parents, depth first."""
    return tuple(_walk_flat_parts(flat, flow, known, None, "", 0, of_versions=flat.is_temporal))


def flat_diagram(flat: Flat, flow: Flow, known: Mapping[str, Mapping[str, str]]) -> str:
    """Return a drawing of FLAT(u) in DOT: one box, with each parent's columns indented below those of its child."""
    table = flow.tables[flat.read.table]
    rows = heading(table, str(flat))
    for each in list_flat_parts(flat, flow, known):
        if each.join is not None:
            rows.append(_heading(each, each.join))
        rows += [_row(each, name, field) for name, field in each.columns]
        if each.is_open:
            rows.append(quiet_row(f"{_INDENT * each.depth}and other columns of {each.table}"))
    look = 'border="1" cellborder="0" cellspacing="0" cellpadding="4" color="#8a949e"'
    return f'{HEAD}  "{flat.read.table}" [label=<<table {look}>{"".join(rows)}</table>>];\n}}\n'


def _walk_flat_parts(
    flat: Flat,
    flow: Flow,
    known: Mapping[str, Mapping[str, str]],
    join: FlatJoin | None,
    suffix: str,
    depth: int,
    *,
    of_versions: bool,
) -> Iterator[FlatPart]:
    name = flat.read.table
    table = flow.tables[name]
    record = RECORD if join and flat.is_temporal else ()
    left_out = {each.lower() for each in (*join.parent_columns, *record)} if join else set()
    fields = fields_of(table, known.get(name, {}))
    columns = tuple((each.name + suffix, each) for each in fields if each.name.lower() not in left_out)
    is_open = table.columns.is_open and name not in known
    yield FlatPart(
        name,
        depth,
        columns,
        suffix.removeprefix("_"),
        join,
        of_versions=of_versions,
        is_open=is_open,
    )
    for above in flat.joins:
        longer = (f"_{above.role}" if above.role else "") + suffix
        yield from _walk_flat_parts(above.parent, flow, known, above, longer, depth + 1, of_versions=of_versions)


def _heading(each: FlatPart, join: FlatJoin) -> str:
    role = f" as {join.role}" if join.role else ""
    title = f"{escape(each.table)}{escape(role)}"
    how = font(f"{', '.join(join.columns)} · {each.version_choice}", QUIET)
    indent = _INDENT * (each.depth - 1)
    return (
        f'<tr><td bgcolor="{_PARENT}" align="left">{indent}<b>{title}</b></td>'
        f'<td bgcolor="{_PARENT}" align="left">{how}</td></tr>'
    )


def _row(each: FlatPart, name: str, field: Field) -> str:
    shown = render_name(name, is_key=field.is_key and each.join is None, refers=field.references is not None)
    return (
        f'<tr><td align="left">{_INDENT * each.depth}{shown}</td><td align="left">{font(field.type, QUIET)}</td></tr>'
    )
