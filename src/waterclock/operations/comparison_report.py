"""Describes a comparison of tables: as JSON, and as sections of text for the terminal and for Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from waterclock.engine.query.row_comparison import CHANGED, ColumnChanges, DifferingRow
from waterclock.engine.query.table_comparison import LabelDifference, TableComparison
from waterclock.operations.comparing import ComparedTable, Comparison
from waterclock.operations.formatting import count_words, local_label, local_range, number_words
from waterclock.operations.query_results import plain_value, value_words
from waterclock.printable import look_alike, printable_line
from waterclock.timelabel.label import instant_of

if TYPE_CHECKING:
    from waterclock.flow.declarations import Flow
    from waterclock.json_models.comparison import DiffAnswer, TableComparisonPart
    from waterclock.timelabel.cadence import Cadence

MOST_LABELS = 40  # lines of labels, of measures and of columns that are shown; --json has all
_LONGEST = 60  # characters of a value that are shown
_SHARED = 20  # characters that are shown before the first one that differs, if a long text differs late
_MOST_VALUES = 8  # values of a row that are shown, next to the key of a changed row
ARROW = "→"
# in texts: what separates the values of a row, and starts like a quoted text
_SEPARATOR = re.compile(rf'^["…]|, |: |{ARROW}')
_UNUSUAL_NAME = re.compile(rf"[\s,:`\"{ARROW}]")


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A table of text about one aspect of a comparison. Columns in `numbers` are aligned right."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    note: str = ""


@dataclass(frozen=True, slots=True)
class TableReport:
    """The text about one table: its summary, notes and sections."""

    name: str
    summary: str
    differs: bool
    notes: tuple[str, ...] = ()
    sections: tuple[ReportSection, ...] = ()


def report_tables(compared: Comparison, flow: Flow) -> list[TableReport]:
    """Describe the compared tables, in their order."""
    return [_Reporter(compared, each, flow.tables[each.name].cadence).report() for each in compared.tables]


def summarize(compared: Comparison) -> str:
    """Describe the whole comparison, and its two sides."""
    differing = sum(1 for each in compared.tables if each.found is not None and each.found.differing)
    failed = sum(1 for each in compared.tables if each.error is not None)
    parts = [
        f"{count_words(differing, 'table')} of {number_words(len(compared.tables))} differ{'s' * (differing == 1)}"
    ]
    parts += [f"{count_words(failed, 'table')} could not be compared"] if failed else []
    return printable_line(f"{', '.join(parts)}. Before: {compared.before}. After: {compared.after}.")


@dataclass(frozen=True, slots=True)
class _Reporter:
    """Describes one table. Labels are shown in the zone of its cadence."""

    compared: Comparison
    table: ComparedTable
    cadence: Cadence

    def report(self) -> TableReport:
        found = self.table.found
        if found is None:
            what = "" if self.table.error is None else f"{self.table.error.code} {self.table.error.what}"
            return TableReport(
                self.table.name, printable_line(f"not compared: {what}"), differs=False, notes=tuple(self._notes())
            )
        sections = (
            self._labels(found.labels),
            self._measures(found.labels),
            self._types(found),
            self._columns(found),
            self._rows(found),
        )
        return TableReport(
            self.table.name,
            self._summary(found),
            bool(found.differing),
            tuple(self._notes()),
            tuple(each for each in sections if each is not None),
        )

    def _summary(self, found: TableComparison) -> str:
        counts, both = found.counts, [each for each in found.differing if None not in (each.before, each.after)]
        only = {
            self.compared.after: sum(each.before is None for each in found.differing),
            self.compared.before: sum(each.after is None for each in found.differing),
        }
        parts = [f"{count_words(found.equal, 'label')} equal"]
        parts += [f"{count_words(len(both), 'label')} differ{'s' * (len(both) == 1)}"] if both else []
        parts += [f"{count_words(number, 'label')} only {side}" for side, number in only.items() if number]
        if counts.differing:
            kinds = (("changed", counts.changed), ("added", counts.added), ("removed", counts.removed))
            parts.append(f"rows: {', '.join(f'{number_words(number)} {kind}' for kind, number in kinds if number)}")
        return printable_line("; ".join(parts))

    def _notes(self) -> Iterator[str]:
        table = self.table
        if table.found is not None and table.found.read and not table.found.key:
            yield "the rows have no key, so they were compared as a whole: a changed row counts as removed and added"
        if table.found is not None and table.found.unlike:
            yield printable_line(f"values with types too different to compare: {', '.join(table.found.unlike)}")
        if table.single:
            yield f"{count_words(table.single, 'label')} without an earlier revision"
        if table.dropped_before is not None:
            yield f"without labels before {local_label(table.dropped_before, self.cadence)}, which RETAIN dropped"
        for held, where in ((table.held, ""), (table.held_before, f" {self.compared.before}")):
            if held:
                named = ", ".join(local_label(label, self.cadence) for label in held[:3])
                rows = f"a rule holds rows of {named}{', …' if len(held) > 3 else ''}{where}"
                yield printable_line(f"{rows}, which are not compared")

    def _labels(self, labels: Sequence[LabelDifference]) -> ReportSection | None:
        rows = [row for _, each in groupby(_number_runs(labels, self.cadence), key=lambda it: it[0])
                for row in self._label_rows([it for _, it in each])]  # fmt: skip
        head = ("label", "rows before", "after", "changed", "added", "removed", "")
        return build_section(head, rows, numbers={1, 2, 3, 4, 5})

    def _label_rows(self, run: Sequence[LabelDifference]) -> Iterator[tuple[str, ...]]:
        """Yield the line of a label, or one line for a run of labels that only one side has."""
        one, last = run[0], run[-1]
        before = None if one.before is None else sum(each.before or 0 for each in run)
        after = None if one.after is None else sum(each.after or 0 for each in run)
        count = "" if len(run) == 1 else f"{count_words(len(run), 'label')} "
        note = (
            f"only {self.compared.after}" if before is None else f"only {self.compared.before}" if after is None else ""
        )
        yield (
            local_range(one.label, last.label, self.cadence),
            *("" if number is None else number_words(number) for number in (before, after)),
            *(number_words(n) if n else "" for n in (one.counts.changed, one.counts.added, one.counts.removed)),
            f"{count}{note}" if note else "other columns" if one.has_other_columns else "",
        )

    def _measures(self, labels: Sequence[LabelDifference]) -> ReportSection | None:
        rows = [
            (local_label(each.label, self.cadence), name, *("" if value is None else _cut(value) for value in values))
            for each in labels
            for name, values in each.measures.items()
        ]
        return build_section(("label", "measure", "before", "after"), rows, numbers={2, 3})

    def _types(self, found: TableComparison) -> ReportSection | None:
        rows = [
            (each.column, each.before or "missing", each.after or "missing", number_words(each.labels))
            for each in found.types
        ]
        return build_section(("column", "before", "after", "labels"), rows, numbers={3})

    def _columns(self, found: TableComparison) -> ReportSection | None:
        rows = [(each.column, number_words(each.rows), *self._largest(found, each)) for each in found.columns]
        return build_section(("column", "changed rows", "largest change", "in"), rows, numbers={1})

    def _largest(self, found: TableComparison, column: ColumnChanges) -> tuple[str, str]:
        largest = column.largest
        if largest is None:
            return "", ""
        row = _name_values(dict(zip(found.key, largest.key, strict=True)))
        label = local_label(instant_of(largest.label), self.cadence)
        return describe_change(largest.before, largest.after), f"{label}, {row}"

    def _rows(self, found: TableComparison) -> ReportSection | None:
        rows = [
            (each.kind, local_label(instant_of(each.label), self.cadence), _describe_row(each, found.key))
            for each in found.sample
        ]
        shown, total = sum(each.times for each in found.sample), found.counts.differing
        note = f"{count_words(total - shown, 'more row')}; --limit shows more" if total > shown else ""
        return ReportSection(("", "label", "row"), _printable_rows(rows), note=note) if rows else None


def build_section(
    head: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, numbers: Iterable[int] = ()
) -> ReportSection | None:
    """Build a section of at most `MOST_LABELS` lines, with all characters printable. None without lines."""
    if not rows:
        return None
    more = len(rows) - MOST_LABELS
    note = f"{count_words(more, 'more line')}; --json lists all" if more > 0 else ""
    return ReportSection(head, _printable_rows(rows[:MOST_LABELS]), frozenset(numbers), note)


def _printable_rows(rows: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Escape control characters and line breaks in all cells. Names of columns may contain them, as values do."""
    return tuple(tuple(map(printable_line, row)) for row in rows)


def _number_runs(labels: Sequence[LabelDifference], cadence: Cadence) -> Iterator[tuple[int, LabelDifference]]:
    """Number the labels that differ, with the same number for consecutive labels that only one side has."""
    number, end, side = 0, None, (False, False)
    for each in labels:
        if not each.differs:
            continue
        own = each.before is None, each.after is None
        number += not (any(own) and own == side and end == each.label)
        end, side = cadence.next(each.label), own
        yield number, each


def _describe_row(row: DifferingRow, key: Sequence[str]) -> str:
    times = f"{number_words(row.times)} times: " if row.times > 1 else ""
    if row.kind == CHANGED and row.before is not None and row.after is not None:
        changes = [
            f"{_name_words(name)} {describe_change(row.before[name], value)}"
            for name, value in row.after.items()
            if name not in key and repr(row.before[name]) != repr(value)
        ]
        changes[_MOST_VALUES:] = ["…"] if len(changes) > _MOST_VALUES else []
        return f"{_name_values({name: row.after[name] for name in key})}: {', '.join(changes)}"
    values = row.before if row.after is None else row.after
    shown = dict(list((values or {}).items())[:_MOST_VALUES])
    return f"{times}{_name_values(shown)}{', …' if len(values or ()) > len(shown) else ''}"


def _name_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{_name_words(name)} {_words(value)}" for name, value in values.items())


def describe_change(before: Any, after: Any) -> str:
    """Describe a changed value, so that both values look different.

    Values that would look alike, such as texts with a space at the end or NULL and the text "null", are shown with
    quotes and escapes. Texts that differ after a long common start are shown from shortly before the difference.
    """
    full = _full_words(before), _full_words(after)
    shown = _shorten_pair(*full)
    if look_alike(*shown) or look_alike(str(before), str(after)):
        shown = _shorten_pair(_exact_words(before), _exact_words(after))
    return f" {ARROW} ".join(shown)


def _shorten_pair(old: str, new: str) -> tuple[str, str]:
    shared = _length_of_shared_start(old, new)
    start = shared - _SHARED if shared > _LONGEST - _SHARED and max(len(old), len(new)) > _LONGEST else 0
    before, after = (_cut(f"…{text[start:]}" if start else text) for text in (old, new))
    return before, after


def _length_of_shared_start(one: str, other: str) -> int:
    differing = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(differing, min(len(one), len(other)))


def _exact_words(value: Any) -> str:
    """Format a value in ASCII, a text with quotes."""
    if isinstance(value, str):
        return json.dumps(value)
    return _full_words(value).encode("ascii", "backslashreplace").decode()


def _full_words(value: Any) -> str:
    """Format a value. A text that could pass for several values of a row, or for a change, is quoted."""
    if isinstance(value, str) and _SEPARATOR.search(value):
        return printable_line(json.dumps(value, ensure_ascii=False))
    return "null" if value is None else printable_line(value_words(value))


def _name_words(name: str) -> str:
    """Format the name of a column. A name that could pass for several values of a row is quoted."""
    return f"`{name.replace('`', '``')}`" if _UNUSUAL_NAME.search(printable_line(name)) else name


def _words(value: Any) -> str:
    return _cut(_full_words(value))


def _cut(text: str) -> str:
    line = printable_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def comparison_answer(compared: Comparison) -> DiffAnswer:
    """Build the JSON response of a comparison."""
    from waterclock.json_models.comparison import DiffAnswer

    return DiffAnswer.build(compared, tables=[_table_part(each) for each in compared.tables])


def _table_part(table: ComparedTable) -> TableComparisonPart:
    from waterclock.json_models.comparison import TableComparisonPart

    found = table.found or TableComparison(table.name)
    return TableComparisonPart.build(
        table=table.name,
        differs=bool(found.differing),
        key=list(found.key),
        equal=found.equal,
        read=found.read,
        single=table.single,
        dropped_before=table.dropped_before,
        held=list(table.held),
        held_before=list(table.held_before),
        labels=[_label_part(each) for each in found.labels],
        types=list(found.types),
        unlike=list(found.unlike),
        columns=[_column_part(each, found.key) for each in found.columns],
        rows=[_row_part(each) for each in found.sample],
        error=None if table.error is None else table.error.to_dict(),
    )


def _label_part(label: LabelDifference) -> dict[str, Any]:
    counts = label.counts
    return {
        "label": label.label, "differs": label.differs, "before": label.before, "after": label.after,
        "added": counts.added, "removed": counts.removed, "changed": counts.changed,
        "has_other_columns": label.has_other_columns,
        "measures": [{"name": name, "before": old, "after": new} for name, (old, new) in label.measures.items()],
    }  # fmt: skip


def _column_part(column: ColumnChanges, key: Sequence[str]) -> dict[str, Any]:
    largest = column.largest
    return {
        "column": column.column,
        "rows": column.rows,
        "largest": largest
        and {
            "label": largest.label,
            "key": _plain_values(dict(zip(key, largest.key, strict=True))),
            "before": plain_value(largest.before),
            "after": plain_value(largest.after),
        },
    }


def _row_part(row: DifferingRow) -> dict[str, Any]:
    return {
        "kind": row.kind, "label": row.label, "times": row.times,
        "before": _plain_values(row.before), "after": _plain_values(row.after),
    }  # fmt: skip


def _plain_values(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if values is None else {name: plain_value(value) for name, value in values.items()}
