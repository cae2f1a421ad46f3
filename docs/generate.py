# noqa: INP001 - a script
"""Write the reference pages that are made from the code.

python docs/generate.py            write them
python docs/generate.py --check    write nothing, and leave with 1 where a page is not up to date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from waterclock.cli.app import COMMANDS, EPILOG, app
from waterclock.cli.shapes import ALIKE, SHAPES

DOCS = Path(__file__).resolve().parent


def commands_page() -> str:
    """The commands with their arguments, options and JSON, as `--help` has them."""
    group: Any = typer.main.get_command(app)
    lines = [
        "# Commands",
        "",
        "*Made from the code by `python docs/generate.py`.*",
        "",
        f"`waterclock COMMAND --help` says the same on the terminal. {EPILOG}",
        "",
        "Every command takes `--json`: it then prints one JSON object on stdout and nothing else there; an error is",
        '`{"error": {code, what, where, why, fix, excerpt, transient}}`. Colours heed `NO_COLOR`, and',
        "`WATERCLOCK_THEME` (`light` or `dark`) where the terminal does not tell its ground.",
        "",
    ]
    for heading, functions in COMMANDS.items():
        lines += [f"## {heading}", ""]
        for function in functions:
            lines += _command(group.commands[function.__name__])
    return "\n".join(lines)


def _command(command: Any) -> Iterator[str]:
    name = command.name
    context = command.make_context("waterclock " + name, [], resilient_parsing=True)
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield from (f"### {name}", "", " ".join(command.help.split()), "", f"    {' '.join(usage.split())}", "")
    rows = [row for row in (_parameter(each) for each in command.params) if row is not None]
    if rows:
        yield from ("| | |", "|---|---|")
        yield from (f"| {_cell(what)} | {_cell(says)} |" for what, says in rows)
        yield ""
    yield from _shape(name)


def _parameter(parameter: Any) -> tuple[str, str] | None:
    if "--help" in parameter.opts:
        return None
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar}`", parameter.help or ""
    takes = "" if parameter.is_flag else f" {parameter.metavar}"
    says = parameter.help or ""
    if parameter.envvar:
        says += f" Also `{parameter.envvar}`."
    if parameter.default not in {None, False} and not parameter.required:
        says += f" Default: `{parameter.default}`."
    return ", ".join(f"`{option}{takes}`" for option in reversed(parameter.opts)), says


def _shape(name: str) -> Iterator[str]:
    if name in ALIKE:
        yield from (f"`--json`: as [{ALIKE[name]}](#{ALIKE[name]}).", "")
        return
    yield from ("`--json`:", "", "| key | |", "|---|---|")
    yield from (f"| `{key}` | {_cell(says)} |" for key, says in SHAPES[name].items())
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES: Mapping[str, Callable[[], str]] = {"reference/commands.md": commands_page}


def main() -> int:
    """Write the pages, or say which are not up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    old = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        old.append(name)
        if not is_check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    sys.stdout.write("".join(f"{name}: {'not up to date' if is_check else 'written'}\n" for name in old))
    return int(is_check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
