"""Explains syntax errors in Gherkin files, and suggests the intended word."""

from __future__ import annotations

import re
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Place
from waterclock.similar_names import did_you_mean

_POSITION_PREFIX = re.compile(r"^\(\d+:\d+\): ")
_TABLE = re.compile(r"\b[a-z]\w*\.\w+\b")
_KEYWORDS = (
    "Feature:", "Rule:", "Background:", "Scenario:", "Scenario Outline:", "Examples:", "Given", "When", "Then", "And",
    "But",
)  # fmt: skip


def gherkin_error(error: Any, text: str, file: str) -> WaterclockError:
    """Convert an error of the Gherkin parser to the error E350."""
    line, column = error.location["line"], error.location.get("column") or 1
    message = _POSITION_PREFIX.sub("", str(error))
    lines = text.splitlines()
    words = lines[line - 1].split() if 0 < line <= len(lines) else []
    if "inconsistent cell count" in message:
        what, fix = "the lines of this table have different numbers of cells", "write NULL where there is no value"
    elif "unexpected end of file" in message:
        what, fix = "the file ends too early", "write a feature with scenarios, and scenarios with steps"
    else:
        what = f"{' '.join(words)[:60]!r} is not expected here"
        near = did_you_mean(words[0], _KEYWORDS) if words else None
        fix = near or "begin the line with Given, When, Then, And, a | of a table, or Scenario:"
    return WaterclockError(
        "E350",
        what,
        where=str(Place(file, line, max(column, 1))),
        why=message.replace("#", "").partition(", got ")[0],
        fix=fix,
        excerpt=_excerpt(lines, line, max(column, 1)),
    )


def _excerpt(lines: list[str], line: int, column: int) -> str | None:
    if not 0 < line <= len(lines):
        return None
    width = len(str(line))
    return f"{line} | {lines[line - 1]}\n{' ' * width} | {' ' * (column - 1)}^"


def suggest_keyword(lines: list[str]) -> str | None:
    """Return a correction for the first line with a misspelled Given, When or Then before a table's name."""
    for line in lines:
        word, _, rest = line.partition(" ")
        if word and _TABLE.search(rest) and (near := did_you_mean(word, ("Given", "When", "Then", "And", "But"))):
            return f"{near} In: {line}"
    return None


def empty(file: str, what: str) -> WaterclockError:
    """Build the error E350 for a file without a specification."""
    return WaterclockError(
        "E350",
        what,
        where=str(Place(file, 1, 1)),
        why="a specification is a Feature with Scenarios, each of steps Given, When, Then",
        fix="write a scenario, or remove the file",
    )
