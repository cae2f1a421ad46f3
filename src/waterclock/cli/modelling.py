"""How is the data model drawn: as text for Graphviz, or by it?"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from waterclock.cli.answers import print_json
from waterclock.cli.look import console
from waterclock.cli.opening import columns_stored, open_project, selected
from waterclock.errors import WaterclockError
from waterclock.flow import Kind
from waterclock.flow.diagram import diagram, fields_of

_PICTURES = {".svg": "svg", ".png": "png"}


def drawn(folder: Path, env: str | None, selection: list[str] | None, out: Path | None, *, is_json: bool) -> None:
    """Draw a project's tables, or those selected; to stdout as DOT where no file is named.

    Raises  E907 for a file of another kind, E908 where Graphviz is missing or fails
    """
    project = open_project(folder, env)
    found, _ = selected(project.flow, selection)
    known = columns_stored(project, found.tables)
    text = diagram(project.flow, known, found.tables)
    if out is not None:
        _write(text, out)
    if is_json:
        print_json(
            {
                "tables": [
                    {
                        "table": name,
                        "columns": [
                            {
                                "name": each.name,
                                "type": each.type or None,
                                "is_key": each.is_key,
                                "references": each.references.table if each.references else None,
                                "role": each.references.role if each.references else None,
                            }
                            for each in fields_of(project.flow.tables[name], known.get(name, {}))
                        ],
                    }
                    for name in found.tables
                    if project.flow.tables[name].kind is not Kind.PUBLISH
                ],
                "file": None if out is None else str(out),
            }
        )
    elif out is None:
        sys.stdout.write(text)
    else:
        console().print(f"drawn: {out}", soft_wrap=True)


def _write(text: str, out: Path) -> None:
    suffix = out.suffix.lower()
    if suffix == ".dot":
        out.write_text(text, encoding="utf-8")
        return
    if suffix not in _PICTURES:
        raise WaterclockError(
            "E907", f"{out.name} is no kind of drawing", why="there are .svg, .png and .dot", fix="--out model.svg"
        )
    dot = shutil.which("dot")
    if dot is None:
        raise WaterclockError(
            "E908",
            "Graphviz is missing",
            why="its command dot makes pictures, and is not on PATH",
            fix="install it (apt-get install graphviz, brew install graphviz), or write --out model.dot",
        )
    done = subprocess.run(
        [dot, f"-T{_PICTURES[suffix]}", "-o", str(out)], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise WaterclockError("E908", "Graphviz could not draw the model", why=done.stderr.strip() or "it does not say")
