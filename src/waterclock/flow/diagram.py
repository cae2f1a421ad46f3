"""The data model of a flow as a Graphviz drawing: tables with keys and types, and what refers to what. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from html import escape

from waterclock.flow.declarations import RECORD, Column, Flow, Kind, Reference, Table

MOST_COLUMNS = 14
FILLS = {Kind.COLLECT: "#d9e8f6", Kind.TRANSFORM: "#e3f0da"}
QUIET = "#55606b"
_TYPES = dict(zip(RECORD, ("timestamp", "timestamp", "boolean"), strict=True))
HEAD = """\
digraph model {
  graph [rankdir=LR, nodesep=0.3, ranksep=1.2, fontname="Helvetica", fontsize=13, bgcolor="white", pad=0.3];
  node [shape=plain, fontname="Helvetica", fontsize=11];
  edge [fontname="Helvetica", fontsize=10, color="#55606b", dir=both, arrowtail=crow, arrowhead=none];
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A column as it is drawn; `type` is empty where nobody knows it yet."""

    name: str
    type: str
    is_key: bool = False
    references: Reference | None = None


def diagram(flow: Flow, known: Mapping[str, Mapping[str, str]], tables: Collection[str] | None = None) -> str:
    """Draw collected and transformed tables, or those named, in Graphviz's DOT language.

    `known` are columns and types by table as batches left them, for those that are not declared. Keys come first, then
    what refers to others, then as many of the rest as fit. A table that is referred to and not drawn is a dashed box.
    """
    wanted = flow.tables if tables is None else tables
    drawn = {name: table for name, table in flow.tables.items() if name in wanted and table.kind is not Kind.PUBLISH}
    fields = {name: fields_of(table, known.get(name, {})) for name, table in drawn.items()}
    lines = [HEAD.rstrip()]
    for schema in dict.fromkeys(name.partition(".")[0] for name in drawn):
        lines.append(f'  subgraph "cluster_{schema}" {{')
        lines.append(f'    label="{schema}"; labeljust=l; style="rounded"; color="#c5ccd3"; fontcolor="#55606b";')
        lines += [f"    {_node(drawn[name], fields[name])}" for name in drawn if name.partition(".")[0] == schema]
        lines.append("  }")
    beyond = {each.references.table for of in fields.values() for each in of if each.references} - set(drawn)
    lines += [f'  "{name}" [shape=box, style=dashed, color="#c5ccd3"];' for name in sorted(beyond)]
    lines += [f"  {edge}" for name in drawn for edge in _edges(name, fields)]
    return "\n".join([*lines, "}", ""])


def fields_of(table: Table, known: Mapping[str, str]) -> tuple[Field, ...]:
    """Give a table's columns as its readers see them: keys, then what refers to others, then the rest, in its order.

    Of a TEMPORAL table the key and since when come first, and until when comes last.
    """
    declared = {column.name: column for column in table.columns.named}
    names = list(dict.fromkeys((*declared, *(name for name in known if name != "timelabel"))))
    if table.temporal is not None:
        names = list(dict.fromkeys(table.temporal.outputs(name for name in names if name not in RECORD)))
    keys = {*table.columns.keys, *table.keys}
    fields = [_field(name, declared.get(name), known.get(name, ""), is_key=name in keys) for name in names]
    if table.temporal is not None:
        fields = [Field(each.name, _TYPES[each.name]) if each.name in _TYPES else each for each in fields]
    first = RECORD[0] if table.temporal is not None else ""
    return tuple(sorted(fields, key=lambda each: (not each.is_key, each.name != first, each.references is None)))


def _field(name: str, column: Column | None, known: str, *, is_key: bool) -> Field:
    said = (column.type or known) if column else known
    return Field(name, said.lower(), is_key, column.references if column else None)


def _node(table: Table, fields: tuple[Field, ...]) -> str:
    shown, left = fields[:MOST_COLUMNS], len(fields) - MOST_COLUMNS
    about = f"{table.kind} · {table.type if table.is_partitioned else table.mode} · {table.cadence}"
    title = f'<b>{escape(table.name)}</b><br align="left"/>{font(about, QUIET)}'
    rows = [f'<tr><td colspan="3" bgcolor="{FILLS[table.kind]}" align="left" port="head">{title}</td></tr>']
    rows += [_row(index, each) for index, each in enumerate(shown)]
    if left > 0:
        rows.append(quiet_row(f"and {left} more"))
    elif table.columns.is_open and not fields:
        rows.append(quiet_row("its columns are known after its first batch"))
    body = "".join(rows)
    look = 'border="1" cellborder="0" cellspacing="0" cellpadding="4" color="#8a949e"'
    return f'"{table.name}" [label=<<table {look}>{body}</table>>];'


def _row(index: int, field: Field) -> str:
    mark = "key" if field.is_key else "→" if field.references else ""
    name = f"<b>{escape(field.name)}</b>" if field.is_key else escape(field.name)
    return (
        f'<tr><td align="left" port="in{index}">{font(mark, "#8a5a00")}</td><td align="left">{name}</td>'
        f'<td align="left" port="out{index}">{font(field.type, QUIET)}</td></tr>'
    )


def font(text: str, color: str) -> str:
    """Colour a text; Graphviz takes no font around nothing."""
    return f'<font point-size="9" color="{color}">{escape(text)}</font>' if text else ""


def quiet_row(text: str) -> str:
    """Give a row of one quiet text, as wide as the table."""
    return f'<tr><td colspan="3" align="left"><i>{font(text, QUIET)}</i></td></tr>'


def _edges(name: str, fields: Mapping[str, tuple[Field, ...]]) -> Iterator[str]:
    for index, field in enumerate(fields[name]):
        if field.references is not None:
            port = f"out{index}" if index < MOST_COLUMNS else "head"
            words = [field.references.role or "", f"at {field.references.at}" if field.references.at else ""]
            label = " ".join(word for word in words if word)
            said = f' [label="{escape(label)}"]' if label else ""
            yield f'"{name}":{port}:e -> {_target(field.references, fields)}{said};'


def _target(reference: Reference, fields: Mapping[str, tuple[Field, ...]]) -> str:
    columns = fields.get(reference.table)
    if columns is None:
        return f'"{reference.table}"'
    names = [each.name.lower() for each in columns[:MOST_COLUMNS]]
    meant = reference.columns[0] if reference.columns else next((each.name for each in columns if each.is_key), "")
    meant = meant.lower()
    return f'"{reference.table}":{f"in{names.index(meant)}" if meant in names else "head"}:w'
