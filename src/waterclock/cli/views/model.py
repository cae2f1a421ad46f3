"""Prints the data model as text: each table with its columns, keys, types and references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.cli.views.lineage import kind_words
from waterclock.flow.diagram import Field

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.flow.declarations import Flow
    from waterclock.flow.flat_diagram import FlatPart
    from waterclock.flow.references import Reference

_AS_PICTURE = "as a picture: waterclock model{flat} --out model.svg"
Row = tuple[str, str, str]


def print_model(to: Console, flow: Flow, fields: Mapping[str, Sequence[Field]]) -> None:
    """Print tables under their schemas, with aligned columns. `fields` is keyed by table."""
    for name, of_table in fields.items():
        table = flow.tables[name]
        to.print(Text.assemble((name, "name"), (f"  {kind_words(table)}", "quiet")), soft_wrap=True)
        _print_rows(to, [(each.name, each.type, _key_words(each)) for each in of_table], indent=2)
        if not of_table:
            to.print(Text("  its columns are known after its first batch", style="quiet"), soft_wrap=True)
        to.print()
    to.print(Text(_AS_PICTURE.format(flat=""), style="quiet"), soft_wrap=True)


def print_flat_model(to: Console, name: str, found: Iterable[FlatPart]) -> None:
    """Print the columns of a flat read: those of the table and, indented below them, those of each joined parent."""
    to.print(Text(f"FLAT({name})", style="name"))
    for each in found:
        indent = 2 * each.depth
        if each.join is not None:
            role = f" as {each.join.role}" if each.join.role else ""
            how = f"  by {', '.join(each.join.columns)}, {each.version_choice}"
            to.print(Text.assemble(" " * indent, (f"{each.table}{role}", "name"), (how, "quiet")), soft_wrap=True)
        rows = [
            (name_shown, field.type, _key_words(field) if each.join is None else "")
            for name_shown, field in each.columns
        ]
        _print_rows(to, rows, indent=indent + 2)
        if each.is_open:
            to.print(Text(f"{' ' * (indent + 2)}and the other columns of {each.table}", style="quiet"), soft_wrap=True)
    to.print()
    to.print(Text(_AS_PICTURE.format(flat=f" --flat {name}"), style="quiet"), soft_wrap=True)


def _print_rows(to: Console, rows: Sequence[Row], *, indent: int) -> None:
    names = max((len(name) for name, _, _ in rows), default=0)
    types = max((len(kind) for _, kind, _ in rows), default=0)
    for name, kind, mark in rows:
        line = Text(f"{' ' * indent}{name:<{names}}  ")
        line.append(f"{kind:<{types}}  ", style="quiet").append(mark)
        line.rstrip()
        to.print(line, soft_wrap=True)


def _key_words(field: Field) -> str:
    words = ["key"] if field.is_key else []
    if field.references:
        words.append(_reference_words(field.references))
    return ", ".join(words)


def _reference_words(reference: Reference) -> str:
    role = f" as {reference.role}" if reference.role else ""
    at = f" at {reference.at}" if reference.at else ""
    return f"→ {reference.table}{role}{at}"
