"""Replaces columns in expressions for rows that do not have them, as slices of MERGE and TEMPORAL tables may."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from waterclock.dpl.syntax.tokens import dialect


def without_absent_columns(text: str, absent: Mapping[str, str]) -> str:
    """Return an expression in which each column that the rows do not have is NULL.

    `absent` maps these columns, in lower case, to their types.
    """
    if not any(name in text.lower() for name in absent):
        return text
    start = "SELECT "
    tree = dialect().parse(start + text)[0]
    found: list[tuple[int, int, str]] = []
    for column in tree.find_all(exp.Column) if tree is not None else ():
        first = column.parts[0]
        if (kind := absent.get(first.name.lower())) is not None and "start" in first.meta:
            low, high = first.meta["start"] - len(start), first.meta["end"] + 1 - len(start)
            found.append((low, high, f"CAST(NULL AS {kind})"))
    for low, high, value in sorted(found, reverse=True):
        text = text[:low] + value + text[high:]
    return text
