"""Draws the data model as text for a terminal, as DOT for Graphviz, or as an image by Graphviz."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.cli.views.json import print_answer
from waterclock.cli.views.model import print_flat_model, print_model
from waterclock.cli.views.output import write_out
from waterclock.cli.views.theme import console
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.diagram import diagram, drawn_tables, fields_of
from waterclock.flow.enums import Kind
from waterclock.flow.flat_diagram import FlatPart, flat_diagram, list_flat_parts
from waterclock.flow.flat_joins import flat_of
from waterclock.operations.project_opening import columns_stored, one_table, open_project, select_tables

if TYPE_CHECKING:
    from waterclock.json_models.tables import FlatTable

_PICTURES = {".svg": "svg", ".png": "png"}


def draw_model(folder: Path, env: str | None, selection: list[str] | None, out: Path | None, *, is_json: bool) -> None:
    """Draw tables of a project: as text on a terminal, as DOT in a pipe, or into a file. Raises E907, E908."""
    project = open_project(folder, env)
    found, _ = select_tables(project.flow, selection)
    known = columns_stored(project, found.tables)
    text = diagram(project.flow, known, found.tables)
    if out is not None:
        _write_drawing(text, out)
    if is_json:
        from waterclock.json_models.tables import ModelAnswer

        tables = [
            {
                "table": name,
                "columns": [
                    {
                        "name": each.name,
                        "type": each.type,
                        "is_key": each.is_key,
                        "references": each.references.table if each.references else None,
                        "role": each.references.role if each.references else None,
                    }
                    for each in fields_of(project.flow.tables[name], known.get(name, {}))
                ],
            }
            for name in found.tables
            if project.flow.tables[name].kind is not Kind.PUBLISH
        ]
        print_answer(ModelAnswer.build(flat=None, tables=tables, file=None if out is None else str(out)))
    elif out is None and is_read_by_people():
        shown = drawn_tables(project.flow, found.tables)
        print_model(console(), project.flow, {name: fields_of(of, known.get(name, {})) for name, of in shown.items()})
    elif out is None:
        write_out(text)
    else:
        console().print(f"drawn: {out}", soft_wrap=True)


def draw_flat(folder: Path, env: str | None, text: str, out: Path | None, *, is_json: bool) -> None:
    """Draw the tables that FLAT joins to a table, in the formats of `draw_model`.

    Raises E237 if FLAT cannot read the table.
    """
    project = open_project(folder, env)
    name, _ = one_table(project.flow, text)
    errors: list[WaterclockError] = []
    flat = flat_of(project.flow.tables, name, errors)
    if flat is None:
        raise errors[0] if len(errors) == 1 else ProjectErrors(errors)
    known = columns_stored(project, [read.table for read in flat.included_reads])
    if out is not None:
        _write_drawing(flat_diagram(flat, project.flow, known), out)
    if is_json:
        from waterclock.json_models.tables import FlatModelAnswer

        parts = [_build_flat_table(each) for each in list_flat_parts(flat, project.flow, known)]
        print_answer(FlatModelAnswer.build(flat=name, tables=parts, file=None if out is None else str(out)))
    elif out is None and is_read_by_people():
        print_flat_model(console(), name, list_flat_parts(flat, project.flow, known))
    elif out is None:
        write_out(flat_diagram(flat, project.flow, known))
    else:
        console().print(f"drawn: {out}", soft_wrap=True)


def is_read_by_people() -> bool:
    """Return whether stdout is a terminal, where the model is drawn as text. A pipe or file gets DOT for Graphviz."""
    return sys.stdout is not None and sys.stdout.isatty()


def _build_flat_table(each: FlatPart) -> FlatTable:
    from waterclock.json_models.tables import FlatTable

    return FlatTable.build(
        table=each.table,
        role=each.role,
        by=each.join.columns if each.join else [],
        chosen=each.version_choice,
        columns=[{"name": name, "column": field.name, "type": field.type} for name, field in each.columns],
    )


def _write_drawing(text: str, out: Path) -> None:
    suffix = out.suffix.lower()
    if suffix == ".dot":
        out.write_text(text, encoding="utf-8")
        return
    if suffix not in _PICTURES:
        raise WaterclockError(
            "E907",
            f"{out.name} has an unknown image format",
            why="the formats are .svg, .png and .dot",
            fix="write --out model.svg",
        )
    dot = shutil.which("dot")
    if dot is None:
        raise WaterclockError(
            "E908",
            "Graphviz is missing",
            why="images need its command dot, which is not on PATH",
            fix="install it (apt-get install graphviz, brew install graphviz), or write --out model.dot",
        )
    done = subprocess.run(
        [dot, f"-T{_PICTURES[suffix]}", "-o", str(out)], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise WaterclockError(
            "E908",
            "Graphviz could not draw the model",
            why=done.stderr.strip() or "it gave no reason",
            fix="write --out model.dot, and check this input of Graphviz",
        )
