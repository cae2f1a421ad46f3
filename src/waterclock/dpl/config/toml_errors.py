"""Builds the error for a project file that is not valid TOML, and finds a key or table that is declared twice."""

from __future__ import annotations

import re

from waterclock.dpl.config.toml_positions import Declaration, declarations_of
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError

_POSITION = re.compile(r"line (\d+), column (\d+)")
# tomllib's words for a key or a table that an earlier line has declared, or has completed by an inline table
_TWICE = ("Cannot declare", "Cannot overwrite", "Cannot mutate immutable", "Duplicate inline table key")


def unreadable_error(source: SourceText, error: str) -> WaterclockError:
    """Build the error (E240) for a text with tomllib's error. It names both places of a key that is declared twice."""
    offset = _offset_of(source.text, error)
    if error.startswith(_TWICE) and (pair := _find_pair(declarations_of(source), offset)) is not None:
        return _declared_twice(*pair)
    reason = error.partition(" (at ")[0]
    return source.span(min(offset, max(len(source.text) - 1, 0))).refuse(
        "E240",
        "the project file is not valid TOML",
        why=reason[:1].lower() + reason[1:],
        fix="quote strings, and close brackets",
    )


def _offset_of(text: str, error: str) -> int:
    match = _POSITION.search(error)
    if match is None:
        return len(text)
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    return starts[min(int(match[1]), len(starts)) - 1] + int(match[2]) - 1


def _find_pair(found: list[Declaration], offset: int) -> tuple[Declaration, Declaration] | None:
    """Return the declaration that ends at `offset`, and the earlier one of the same key or of a table around it."""
    around = [each for each in found if each.start < offset <= each.end]
    if not around:
        return None
    refused = max(around, key=lambda each: each.start)
    earlier = [each for each in found if each.start < refused.start and _overlap(each.path, refused.path)]
    same = [each for each in earlier if each.path == refused.path]
    if same:
        return same[0], refused
    return (max(earlier, key=lambda each: len(each.path)), refused) if earlier else None


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _declared_twice(first: Declaration, second: Declaration) -> WaterclockError:
    first_line, second_line = first.span.place.line, second.span.place.line
    one, other = first.describe(), second.describe()
    what, why = (
        f"{other} is declared twice",
        f"{other} is declared in line {first_line}, and again in line {second_line}",
    )
    if first.path != second.path:
        shared = ".".join(first.path if len(first.path) < len(second.path) else second.path)
        what = f"{other} contradicts {one}"
        why = f"{one} in line {first_line} is complete, so line {second_line} cannot add to it or replace it"
        fix = f"write all keys of `{shared}` in one place"
    elif first_line == second_line:
        why, fix = f"{other} is declared twice in line {first_line}", "remove one of them, or merge both"
    elif first.is_header and second.is_header:
        fix = f"move the keys below line {second_line} to {one} in line {first_line}, and remove line {second_line}"
    else:
        fix = f"merge both into line {first_line}, and remove line {second_line}"
    return second.span.refuse("E240", what, why=why, fix=fix)
