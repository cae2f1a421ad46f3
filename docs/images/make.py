# noqa: INP001 - a script
"""Draw what `waterclock status` prints for a project as docs/images/grid.svg.

./bin/demo
.venv/bin/python docs/images/make.py --project examples/flights --now 2013-01-06T05:00Z
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI

from waterclock.cli.views.status import print_status
from waterclock.cli.views.status_input import collect_status_input
from waterclock.cli.views.theme import theme
from waterclock.operations.project_opening import open_read_only

HERE = Path(__file__).resolve().parent
WIDTH = 80


def drawing(project: Path, now: str, title: str) -> str:
    """The grid as an SVG in the colours of a dark terminal; it names no font of another host."""
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, theme=theme("dark"), force_terminal=True,
        color_system="truecolor", highlight=False,
    )  # fmt: skip
    with open_read_only(project, None, now) as at:
        print_status(console, collect_status_input(at, None, None, None, WIDTH), at.zone)
    template = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title=title, theme=MONOKAI, code_format=template, unique_id="grid")


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--now", required=True)
    given = parser.parse_args()
    picture = drawing(given.project, given.now, f"waterclock status --now {given.now}")
    (HERE / "grid.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
