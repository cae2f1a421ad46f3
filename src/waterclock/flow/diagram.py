"""Draws the data model of a flow as a Graphviz graph: tables with columns, keys and types, and their references."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from html import escape

from waterclock.flow.declarations import Column, Flow, Table
from waterclock.flow.enums import Kind
from waterclock.flow.merge_settings import RECORD
from waterclock.flow.references import Reference
from waterclock.timelabel.label import TIMELABEL

MOST_COLUMNS = 14
FILLS = {Kind.COLLECT: "#d9e8f6", Kind.TRANSFORM: "#e3f0da"}
QUIET = "#55606b"
_ROW_INCHES, _GAP_INCHES, _BOX_INCHES = 0.27, 0.3, 3.4  # of a row, between boxes, of a box with the space to the next
_WIDER = 1.5
_TYPES = dict(zip(RECORD, ("timestamp", "timestamp", "boolean"), strict=True))
HEAD = """\
digraph model {
  graph [rankdir=LR, nodesep=0.3, ranksep=1.2, fontname="Helvetica", fontsize=13, bgcolor="white", pad=0.3];
  node [shape=plain, fontname="Helvetica", fontsize=11];
  edge [fontname="Helvetica", fontsize=10, color="#55606b", dir=both, arrowtail=crow, arrowhead=none];
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A column in the drawing; `type` is empty if it is not known yet."""

    name: str
    type: str
    is_key: bool = False
    references: Reference | None = None


def diagram(flow: Flow, known: Mapping[str, Mapping[str, str]], tables: Collection[str] | None = None) -> str:
    """Return a drawing, in Graphviz's DOT language, of the collected and transformed tables, or only of `tables`.

    `known` maps tables to their columns and types in earlier batches, for columns that are not declared. A box shows at
    most 14 columns: keys, then references, then others. A referenced table that is not in the drawing is a dashed box.
    """
    wanted = flow.tables if tables is None else tables
    drawn = drawn_tables(flow, wanted)
    fields = {name: fields_of(table, known.get(name, {})) for name, table in drawn.items()}
    referred = {each.references.table for of in fields.values() for each in of if each.references}
    lines = [HEAD.rstrip()]
    for schema in dict.fromkeys(name.partition(".")[0] for name in drawn):
        inside = [name for name in drawn if name.partition(".")[0] == schema]
        lone = {name: fields[name] for name in inside if name not in referred and not _has_references(fields[name])}
        lines.append(f'  subgraph "cluster_{schema}" {{')
        lines.append(f'    label="{schema}"; labeljust=l; style="rounded"; color="#c5ccd3"; fontcolor="#55606b";')
        lines += [f"    {_node(drawn[name], fields[name])}" for name in inside]
        lines += [f"    {chain}" for chain in _row_edges(lone)]
        lines.append("  }")
    beyond = referred - set(drawn)
    lines += [f'  "{name}" [shape=box, style=dashed, color="#c5ccd3"];' for name in sorted(beyond)]
    lines += [f"  {edge}" for name in drawn for edge in _edges(name, fields)]
    return "\n".join([*lines, "}", ""])


def drawn_tables(flow: Flow, wanted: Collection[str]) -> dict[str, Table]:
    """Return the tables among `wanted` that the diagram shows: all except publishes."""
    return {name: table for name, table in flow.tables.items() if name in wanted and table.kind is not Kind.PUBLISH}


def fields_of(table: Table, known: Mapping[str, str]) -> tuple[Field, ...]:
    """Return a table's columns as its readers see them: keys, then references, then the others in the table's order.

    For a TEMPORAL table the start of the version follows the keys. `known` are types by column from earlier batches.
    """
    declared = {column.name: column for column in table.columns.named}
    names = list(dict.fromkeys((*declared, *(name for name in known if name != TIMELABEL))))
    if table.temporal is not None:
        names = list(dict.fromkeys(table.temporal.outputs(name for name in names if name not in RECORD)))
    keys = {*table.columns.keys, *table.keys}
    fields = [_field(name, declared.get(name), known.get(name, ""), is_key=name in keys) for name in names]
    if table.temporal is not None:
        fields = [Field(each.name, _TYPES[each.name]) if each.name in _TYPES else each for each in fields]
    first = RECORD[0] if table.temporal is not None else ""
    return tuple(sorted(fields, key=lambda each: (not each.is_key, each.name != first, each.references is None)))


def _field(name: str, column: Column | None, known: str, *, is_key: bool) -> Field:
    type_text = (column.type or known) if column else known
    return Field(name, type_text.lower(), is_key, column.references if column else None)


def _has_references(fields: tuple[Field, ...]) -> bool:
    return any(each.references for each in fields)


def _row_edges(lone: Mapping[str, tuple[Field, ...]]) -> Iterator[str]:
    """Yield invisible edges that arrange tables without references in rows; Graphviz would put them all in one column.

    The number of tables in a row makes the drawing 1.5 times as wide as high, like a screen.
    """
    names = list(lone)
    height = sum((min(len(fields), MOST_COLUMNS) + 2) * _ROW_INCHES + _GAP_INCHES for fields in lone.values())
    across = max(1, round(math.sqrt(_WIDER * height / _BOX_INCHES)))
    for at in range(0, len(names), across):
        row = names[at : at + across]
        if len(row) > 1:
            yield " -> ".join(f'"{name}"' for name in row) + " [style=invis];"


def _node(table: Table, fields: tuple[Field, ...]) -> str:
    shown, left = fields[:MOST_COLUMNS], len(fields) - MOST_COLUMNS
    rows = heading(table, table.name)
    rows += [_row(index, each) for index, each in enumerate(shown)]
    if left > 0:
        rows.append(quiet_row(f"and {left} more"))
    elif table.columns.is_open and not fields:
        rows.append(quiet_row("its columns are known after its first batch"))
    body = "".join(rows)
    look = 'border="1" cellborder="0" cellspacing="0" cellpadding="4" color="#8a949e"'
    return f'"{table.name}" [label=<<table {look}>{body}</table>>];'


def _row(index: int, field: Field) -> str:
    name = render_name(field.name, is_key=field.is_key, refers=field.references is not None)
    return (
        f'<tr><td align="left" port="in{index}">{name}</td>'
        f'<td align="left" port="out{index}">{font(field.type, QUIET)}</td></tr>'
    )


def render_name(name: str, *, is_key: bool, refers: bool) -> str:
    """Return the HTML of a column's name, followed by "key" for a key or an arrow for a reference."""
    html = f"<b>{escape(name)}</b>" if is_key else escape(name)
    mark = "key" if is_key else "→" if refers else ""
    return f"{html} {font(mark, '#8a5a00')}" if mark else html


def font(text: str, color: str) -> str:
    """Return the HTML of a small colored text; empty for no text, because Graphviz rejects an empty font element."""
    return f'<font point-size="9" color="{color}">{escape(text)}</font>' if text else ""


def heading(table: Table, name: str) -> list[str]:
    """Return the HTML rows at the top of a table's box: `name`, and the table's kind, mode and cadence."""
    about = f"{table.kind} · {table.type if table.is_partitioned else table.mode} · {table.cadence}"
    cell = f'<tr><td colspan="2" bgcolor="{FILLS[table.kind]}" align="left"'
    return [f'{cell} port="head"><b>{escape(name)}</b></td></tr>', f"{cell}>{font(about, QUIET)}</td></tr>"]


def quiet_row(text: str) -> str:
    """Return an HTML row with a gray text over the whole width of the box."""
    return f'<tr><td colspan="2" align="left"><i>{font(text, QUIET)}</i></td></tr>'


def _edges(name: str, fields: Mapping[str, tuple[Field, ...]]) -> Iterator[str]:
    for index, field in enumerate(fields[name]):
        if field.references is not None:
            port = f"out{index}" if index < MOST_COLUMNS else "head"
            words = [field.references.role or "", f"at {field.references.at}" if field.references.at else ""]
            label = " ".join(word for word in words if word)
            attributes = f' [label="{escape(label)}"]' if label else ""
            yield f'"{name}":{port}:e -> {_target(field.references, fields)}{attributes};'


def _target(reference: Reference, fields: Mapping[str, tuple[Field, ...]]) -> str:
    columns = fields.get(reference.table)
    if columns is None:
        return f'"{reference.table}"'
    names = [each.name.lower() for each in columns[:MOST_COLUMNS]]
    meant = reference.columns[0] if reference.columns else next((each.name for each in columns if each.is_key), "")
    meant = meant.lower()
    return f'"{reference.table}":{f"in{names.index(meant)}" if meant in names else "head"}:w'
