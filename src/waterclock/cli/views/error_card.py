"""Formats an error as a card of four parts: what happened, where, why, and how to fix it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.text import Text

from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.output import write_out
from waterclock.cli.views.theme import console
from waterclock.errors import ProjectErrors, WaterclockError, indent_further_lines
from waterclock.printable import printable_line

if TYPE_CHECKING:
    from rich.console import Console


def fail(error: WaterclockError) -> int:
    """Print an error that ends a command, as JSON for `--json`, and return the exit code."""
    from waterclock.cli.views.json import is_json, print_json

    if is_json():
        print_json({"error": error.to_dict()})
    else:
        write_out("")
        show_errors(console(stderr=True), [error])
    return ExitCode.FAILED


def usage_json(error: Any) -> int:
    """Print a usage error of Typer as JSON, and return its exit code."""
    from waterclock.cli.views.json import print_json

    path = error.ctx.command_path if getattr(error, "ctx", None) else "waterclock"
    what = error.format_message().rstrip(".")
    reported = WaterclockError("E906", what, where=path, fix=f"`{path} --help` shows the usage")
    print_json({"error": reported.to_dict()})
    return int(error.exit_code)


def show_errors(to: Console, errors: Iterable[WaterclockError]) -> None:
    """Print errors as cards separated by blank lines. A ProjectErrors is printed as one card for each of its errors."""
    is_first = True
    for error in flatten_errors(errors):
        if not is_first:
            to.print()
        is_first = False
        to.print(style_error(error, width=to.width if to.is_terminal else None), soft_wrap=True)


def flatten_errors(errors: Iterable[WaterclockError]) -> list[WaterclockError]:
    """Return all errors, with each ProjectErrors replaced by the errors in it."""
    return [one for error in errors for one in (error.errors if isinstance(error, ProjectErrors) else (error,))]


def style_error(error: WaterclockError, *, width: int | None = None) -> Text:
    """Return an error as styled text with the words of `WaterclockError.render`. Long parts wrap at `width`."""
    loud = "warn.loud" if error.code.startswith("W") else "fail.loud"
    lines = [Text.assemble((error.code, loud), " ", (printable_line(error.what), "head"))]
    for name, text in error.parts():
        if name == "where":
            lines.append(Text(f"  {printable_line(text)}", style="where"))
        elif name == "excerpt":
            lines += [_excerpt(line, loud) for line in _crop_lines(text.splitlines(), width)]
        else:
            lines.append(_label_part(name, text, width))
    return Text("\n").join(lines)


def _excerpt(line: str, loud: str) -> Text:
    return Text(f"  {line}", style=loud if _is_carets(line) else "")


def _is_carets(line: str) -> bool:
    return "^" in line and set(line) <= set(" |^~0123456789")


def _crop_lines(lines: list[str], width: int | None) -> list[str]:
    """Crop all lines equally if one is wider than the terminal, so that carets stay below the text that they mark."""
    room = 0 if width is None else width - 3
    at = min((line.index("^") for line in lines if _is_carets(line)), default=0)
    gutter = max((line.find("| ") + 2 for line in lines), default=0)
    if room < gutter + 20 or max(map(len, lines)) <= room:
        return lines
    start = max(0, min(at - gutter - room // 3, max(map(len, lines)) - room))
    end = start + room - gutter
    return [line[:gutter] + _cut(line[gutter:], start, end) for line in lines]


def _cut(text: str, start: int, end: int) -> str:
    shown = text[start:end]
    if not text.strip(" ^~"):
        return shown
    if start and shown:
        shown = "…" + shown[1:]
    return shown[:-1] + "…" if len(text) > end else shown


def _label_part(label: str, part: str, width: int | None) -> Text:
    text = indent_further_lines(part)
    if width is not None and width > 20:
        text = "\n".join(_wrap_line(line, width - 1) for line in part.split("\n")).strip()
    return Text.assemble((label, "quiet"), "  ", text)


def _wrap_line(line: str, width: int) -> str:
    indent = " " * 5
    return textwrap.fill(
        line, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
