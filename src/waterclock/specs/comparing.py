"""Compares the rows of a table with the expected ones, and formats the differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from waterclock.specs.values import are_equal, text_of

Values = tuple[Any, ...]


class RowMark(StrEnum):
    """The result of comparing one row."""

    SAME = "same"
    CHANGED = "changed"
    MISSING = "missing"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """A row as expected, as found, or both. `wrong`: the indexes of the columns that differ."""

    mark: RowMark
    expected: Values | None
    got: Values | None
    wrong: frozenset[int] = frozenset()

    def cells(self) -> tuple[str, ...]:
        """Return the row's cells as text, a wrong cell as `expected 3, got 2`."""
        if self.expected is None or self.got is None:
            return tuple(text_of(value) for value in self.expected or self.got or ())
        return tuple(
            f"expected {text_of(expected)}, got {text_of(got)}" if at in self.wrong else text_of(expected)
            for at, (expected, got) in enumerate(zip(self.expected, self.got, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison: the expected rows in their order, then the unexpected ones."""

    columns: tuple[str, ...]
    lines: tuple[CheckedRow, ...]

    @property
    def is_same(self) -> bool:
        """Whether all rows are as expected."""
        return all(line.mark is RowMark.SAME for line in self.lines)

    def summary(self) -> str:
        """Return a count of the differences: `1 row missing, 2 changed`."""
        counts = [(mark, sum(line.mark is mark for line in self.lines)) for mark in RowMark if mark is not RowMark.SAME]
        texts = [f"{count} {mark}" for mark, count in counts if count]
        return f"rows differ: {', '.join(texts)}" if texts else "rows are as expected"

    def text(self) -> str:
        """Return the table as text, with a sign before each line that differs: - missing, + unexpected, ~ changed."""
        rows = [self.columns, *(line.cells() for line in self.lines)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(self.columns))]
        signs = [" ", *(_SIGNS[line.mark] for line in self.lines)]
        notes = ["", *("" if line.mark is RowMark.SAME else f"  {line.mark}" for line in self.lines)]
        return "\n".join(
            f"{sign} | {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |{note}"
            for sign, row, note in zip(signs, rows, notes, strict=True)
        )


_SIGNS = {RowMark.SAME: " ", RowMark.CHANGED: "~", RowMark.MISSING: "-", RowMark.UNEXPECTED: "+"}


def compare(
    columns: Sequence[str],
    expected: Sequence[Values],
    got: Sequence[Values],
    *,
    keys: Sequence[str] = (),
    may_be_more: bool = False,
) -> Comparison:
    """Compare rows by `keys`, or without keys as multisets of whole rows. Row order is ignored.

    A missing and an unexpected row are reported as one changed row if they have the same key. Without keys, at least
    half of their cells must be equal. With `may_be_more`, unexpected rows are ignored.
    """
    left = list(got)
    lines: list[CheckedRow | None] = []
    for row in expected:
        at = next((at for at, other in enumerate(left) if not _differing_columns(row, other)), None)
        lines.append(None if at is None else CheckedRow(RowMark.SAME, row, left.pop(at)))
    places = [list(columns).index(key) for key in keys]
    for index, row in enumerate(expected):
        if lines[index] is not None:
            continue
        at = _find_similar_row(row, left, places)
        if at is None:
            lines[index] = CheckedRow(RowMark.MISSING, row, None)
        else:
            other = left.pop(at)
            lines[index] = CheckedRow(RowMark.CHANGED, row, other, _differing_columns(row, other))
    unexpected = () if may_be_more else (CheckedRow(RowMark.UNEXPECTED, None, row) for row in left)
    return Comparison(tuple(columns), (*filter(None, lines), *unexpected))


def find_duplicate_rows(rows: Sequence[Values], places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the index of each row whose key an earlier row has, and the index of the first row with that key.

    `places` are the indexes of the key's columns.
    """
    seen: dict[tuple[str, ...], int] = {}
    for index, row in enumerate(rows):
        key = tuple(text_of(row[place]) for place in places)
        if key in seen:
            yield index, seen[key]
        seen.setdefault(key, index)


def _differing_columns(expected: Values, got: Values) -> frozenset[int]:
    pairs = enumerate(zip(expected, got, strict=True))
    return frozenset(at for at, (one, other) in pairs if not are_equal(one, other))


def _find_similar_row(row: Values, left: Sequence[Values], places: Sequence[int]) -> int | None:
    """Return the index of the row in `left` with the same key, or without keys of the most similar row, or None.

    `places` are the indexes of the key's columns. A similar row has at least half of its cells equal.
    """
    wrongs = [(len(wrong := _differing_columns(row, other)), at, wrong) for at, other in enumerate(left)]
    if places:
        return next((at for _, at, wrong in sorted(wrongs, key=lambda each: each[:2]) if not wrong & set(places)), None)
    count, at, _ = min(wrongs, key=lambda each: each[:2], default=(len(row), -1, None))
    return at if at >= 0 and count * 2 <= len(row) and count < len(row) else None
