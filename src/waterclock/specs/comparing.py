"""Compares the rows of a table with those that are expected, and tells the differences so that people see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from waterclock.specs.values import are_equal, text_of

Values = tuple[Any, ...]


class Mark(StrEnum):
    """What is to say of one row."""

    SAME = "same"
    CHANGED = "changed"
    MISSING = "missing"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Line:
    """One row as it was expected, as it was got, or both; `wrong` are the places of the columns that differ."""

    mark: Mark
    expected: Values | None
    got: Values | None
    wrong: frozenset[int] = frozenset()

    def cells(self) -> tuple[str, ...]:
        """Write the row, a wrong cell as `expected 3, got 2`."""
        if self.expected is None or self.got is None:
            return tuple(text_of(value) for value in self.expected or self.got or ())
        return tuple(
            f"expected {text_of(expected)}, got {text_of(got)}" if at in self.wrong else text_of(expected)
            for at, (expected, got) in enumerate(zip(self.expected, self.got, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The columns compared and all lines: those expected in their order, then those that nobody expected."""

    columns: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return all(line.mark is Mark.SAME for line in self.lines)

    def summary(self) -> str:
        """Count what differs: `1 row missing, 2 changed`."""
        counts = [(mark, sum(line.mark is mark for line in self.lines)) for mark in Mark if mark is not Mark.SAME]
        told = [f"{count} {mark}" for mark, count in counts if count]
        return f"rows differ: {', '.join(told)}" if told else "rows are as expected"

    def text(self) -> str:
        """Draw the table with a sign before each line that differs: - missing, + unexpected, ~ changed."""
        rows = [self.columns, *(line.cells() for line in self.lines)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(self.columns))]
        signs = [" ", *(_SIGNS[line.mark] for line in self.lines)]
        notes = ["", *("" if line.mark is Mark.SAME else f"  {line.mark}" for line in self.lines)]
        return "\n".join(
            f"{sign} | {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |{note}"
            for sign, row, note in zip(signs, rows, notes, strict=True)
        )


_SIGNS = {Mark.SAME: " ", Mark.CHANGED: "~", Mark.MISSING: "-", Mark.UNEXPECTED: "+"}


def compare(
    columns: Sequence[str],
    expected: Sequence[Values],
    got: Sequence[Values],
    *,
    keys: Sequence[str] = (),
    may_be_more: bool = False,
) -> Comparison:
    """Compare rows by `keys`, or where there are none as bags of whole rows; their order does not count.

    A row that is missing and one that is unexpected are told as one that changed, where they have the same key, or,
    without keys, half of their cells. `may_be_more`: unexpected rows are no difference.
    """
    left = list(got)
    lines: list[Line | None] = []
    for row in expected:
        at = next((at for at, other in enumerate(left) if not _wrong(row, other)), None)
        lines.append(None if at is None else Line(Mark.SAME, row, left.pop(at)))
    places = [list(columns).index(key) for key in keys]
    for index, row in enumerate(expected):
        if lines[index] is not None:
            continue
        at = _partner(row, left, places)
        if at is None:
            lines[index] = Line(Mark.MISSING, row, None)
        else:
            other = left.pop(at)
            lines[index] = Line(Mark.CHANGED, row, other, _wrong(row, other))
    unexpected = () if may_be_more else (Line(Mark.UNEXPECTED, None, row) for row in left)
    return Comparison(tuple(columns), (*filter(None, lines), *unexpected))


def doubled(rows: Sequence[Values], places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return each row whose key another row before it has, with that one."""
    seen: dict[tuple[str, ...], int] = {}
    for index, row in enumerate(rows):
        key = tuple(text_of(row[place]) for place in places)
        if key in seen:
            yield index, seen[key]
        seen.setdefault(key, index)


def _wrong(expected: Values, got: Values) -> frozenset[int]:
    pairs = enumerate(zip(expected, got, strict=True))
    return frozenset(at for at, (one, other) in pairs if not are_equal(one, other))


def _partner(row: Values, left: Sequence[Values], places: Sequence[int]) -> int | None:
    """Find the row that was meant: of the same key, else the most alike of those that are half alike."""
    wrongs = [(len(wrong := _wrong(row, other)), at, wrong) for at, other in enumerate(left)]
    if places:
        return next((at for _, at, wrong in sorted(wrongs, key=lambda each: each[:2]) if not wrong & set(places)), None)
    count, at, _ = min(wrongs, key=lambda each: each[:2], default=(len(row), -1, None))
    return at if at >= 0 and count * 2 <= len(row) and count < len(row) else None
