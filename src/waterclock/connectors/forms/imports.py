"""Compares rows that people paste or import with the current rows.

A blank cell keeps the value that is there. Rows and columns that the text does not have stay as they are, and no row is
ever deleted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from waterclock.connectors.forms.changes import MOST_EDITS, Edit, StoredRow, key_text, read_rows, show_row
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.row_checks import find_broken, hidden_columns_of
from waterclock.connectors.forms.row_files import MOST_COLUMNS, unescape_formula, unreadable_error
from waterclock.connectors.forms.values import InvalidValue, parse_value
from waterclock.flow.form_rights import FormRights
from waterclock.flow.forms import Entity, FormField


class RowStatus(StrEnum):
    """The effect of importing a row."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class ReviewedCell:
    """A cell of an imported row: the value before and after, and the reason if it cannot be saved, or a warning."""

    field: str
    before: str | None
    after: str | None
    problem: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class ReviewedRow:
    """An imported row: its line from 1, its key, and what importing it does.

    `is_refused`: the person may not make a part of the change. The row is invalid then.
    """

    line: int
    key: tuple[str, ...]
    status: RowStatus
    cells: tuple[ReviewedCell, ...]
    version: int | None = None
    is_refused: bool = False

    @property
    def problems(self) -> tuple[str, ...]:
        """The reasons why the row cannot be saved, each with its column."""
        return tuple(f"{cell.field}: {cell.problem}" for cell in self.cells if cell.problem)


@dataclass(frozen=True, slots=True)
class Review:
    """Imported rows, compared with the current ones. `ignored` are columns that the entity does not have."""

    rows: tuple[ReviewedRow, ...]
    ignored: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = dataclasses.field(default=(), repr=False)

    def count(self, status: RowStatus) -> int:
        """Return the number of rows with a status."""
        return sum(row.status is status for row in self.rows)

    @property
    def can_be_applied(self) -> bool:
        """Whether no row is invalid, and at least one changes something."""
        return bool(self.edits) and not self.count(RowStatus.INVALID)

    @property
    def is_refused(self) -> bool:
        """Whether the person may not change some row as it was imported."""
        return any(row.is_refused for row in self.rows)


def review_rows(
    database: FormsDatabase,
    entity: Entity,
    rows: Sequence[Sequence[str]],
    *,
    by: FormRights,
    decimal_comma: bool = False,
) -> Review:
    """Compare rows of cells with the current rows, without changing any. Raises E891 if they have no KEY.

    Changes that the person `by` may not make are invalid, by the checks of `apply`. `entity` has the columns that are
    shown to the person. A row that is not shown is invalid without a reason. Columns of a row that are not shown stay
    as they are.

    The first row has the names of the columns in any case and order. If it has none, the columns are those of the
    entity in their order.
    """
    if len(rows) > MOST_EDITS + 1:
        raise unreadable_error(f"at most {MOST_EDITS} rows are imported at once")
    if any(len(row) > MOST_COLUMNS for row in rows):
        raise unreadable_error(f"a row has at most {MOST_COLUMNS} cells")
    fields, ignored, body, first = _map_columns(entity, rows)
    parsed = [
        _ParsedRow.of(entity, line, fields, cells, decimal_comma=decimal_comma)
        for line, cells in enumerate(body, first)
    ]
    keys = {key_text(row.key) for row in parsed if all(row.key)}
    with database.open_for_reading(entity.table) as session:
        stored = {row.key: row for row in read_rows(session, entity, keys)}
    lines: dict[str, int] = {}
    reviewed, edits = [], []
    for row in parsed:
        text = key_text(row.key)
        result = _review(entity, by, row, stored.get(text), lines.setdefault(text, row.line))
        reviewed.append(result)
        if result.status in {RowStatus.NEW, RowStatus.CHANGED}:
            values = {cell.field: cell.after for cell in result.cells if cell.after != cell.before}
            edits.append(Edit(result.key, values, result.version))
    return Review(tuple(reviewed), ignored, tuple(edits))


@dataclass(frozen=True, slots=True)
class _ParsedRow:
    line: int
    key: tuple[str, ...]
    values: Mapping[str, str | None]
    problems: Mapping[str, str]

    @classmethod
    def of(
        cls,
        entity: Entity,
        line: int,
        fields: Sequence[FormField | None],
        cells: Sequence[str],
        *,
        decimal_comma: bool,
    ) -> _ParsedRow:
        values: dict[str, str | None] = {}
        problems: dict[str, str] = {}
        for at, field in enumerate(fields):
            if field is None:
                continue
            text = cells[at] if at < len(cells) else ""
            text = unescape_formula(text)
            try:
                value = parse_value(field, text, entity.zone, decimal_comma=decimal_comma)
            except InvalidValue as error:
                problems[field.name], values[field.name] = error.message, text
                continue
            if value is not None or field.is_key:
                values[field.name] = value
        if any(cell.strip() for cell in cells[len(fields) :]):
            problems[entity.fields[-1].name] = "the row has more cells than the header"
        return cls(line, tuple(values.get(field.name) or "" for field in entity.keys), values, problems)


def _map_columns(
    entity: Entity, rows: Sequence[Sequence[str]]
) -> tuple[list[FormField | None], tuple[str, ...], Sequence[Sequence[str]], int]:
    """Return the field of each column, the names of other columns, the rows below the header, and their first line."""
    header = [cell.strip() for cell in rows[0]] if rows else []
    found = [entity.field(name) for name in header]
    if not any(found):
        return list(entity.fields), (), rows, 1
    names = [field.name for field in found if field is not None]
    if len(set(names)) < len(names) or any(field.name not in names for field in entity.keys):
        keys = ", ".join(field.name for field in entity.keys)
        raise unreadable_error(f"its header has {', '.join(header)}, and the KEY is {keys}; each column comes once")
    ignored = tuple(name for name, field in zip(header, found, strict=True) if field is None and name)
    return found, ignored, rows[1:], 2


def _review(entity: Entity, by: FormRights, row: _ParsedRow, stored: StoredRow | None, first_line: int) -> ReviewedRow:
    """Compare an imported row with the current one, whether or not that is shown to the person."""
    there = show_row(by.view, stored)
    is_taken = stored is not None and there is None
    shown = None if by.view is None or there is None or stored is None else by.view.columns_of(stored.content)
    before = {} if there is None else there.content
    refusals = {} if is_taken else _find_refusals(entity, by, row, stored, shown)
    is_same = there is not None and all(before.get(name) == value for name, value in row.values.items())
    broken, warnings = ({}, {}) if is_taken or is_same else _find_broken(entity, by, row, stored)
    cells = []
    for field in entity.fields:
        after = row.values.get(field.name, before.get(field.name))
        is_kept = there is not None and not there.is_waiting and before.get(field.name) == after
        is_old_choice = is_kept and bool(field.choices)
        problem = ("" if is_old_choice else row.problems.get(field.name, "")) or refusals.get(field.name, "")
        if not problem and after is None and not is_same and (shown is None or field.name in shown):
            if field.is_required:
                problem = "a value is required"
            elif field.choices and not is_old_choice:
                problem = f"it must be one of {', '.join(field.choices[:20])}"
        if not problem and field.is_key and first_line != row.line:
            problem = f"line {first_line} has the same key"
        if not problem and field.is_key and is_taken:
            problem = "this key is not available"
        problem = problem or broken.get(field.name, "")
        cells.append(ReviewedCell(field.name, before.get(field.name), after, problem, warnings.get(field.name, "")))
    if any(cell.problem for cell in cells):
        status = RowStatus.INVALID
    elif there is None:
        status = RowStatus.NEW
    else:
        status = RowStatus.CHANGED if any(cell.before != cell.after for cell in cells) else RowStatus.SAME
    version = None if there is None else there.version
    return ReviewedRow(row.line, row.key, status, tuple(cells), version, is_refused=bool(refusals))


def _find_broken(
    entity: Entity, by: FormRights, row: _ParsedRow, stored: StoredRow | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the rules that an imported row breaks by column: those that refuse it, and those that warn.

    Rules on columns with an invalid value are left out.
    """
    before = None if stored is None else stored.content
    after = {**(before or {}), **row.values}
    whole = entity if by.view is None else by.view.entity
    hidden = hidden_columns_of(whole, by.view, before) | set(row.problems)
    refusing, warning = (
        find_broken(entity, after, before, by.view, hidden, refuses=refuses) for refuses in (True, False)
    )
    return refusing, warning


def _find_refusals(
    entity: Entity, by: FormRights, row: _ParsedRow, stored: StoredRow | None, shown: Collection[str] | None
) -> dict[str, str]:
    """Map each imported value that the person may not set to the reason. Reasons for the whole row are at its KEY.

    A value for a column that is not shown is refused whatever is stored, so that nothing follows from the answer.
    """
    if not all(row.key):
        return {}
    given = {name: value for name, value in row.values.items() if value is not None}
    hidden = set() if shown is None else set(given) - set(shown)
    kept = {name: value for name, value in given.items() if name not in hidden and name not in row.problems}
    before = None if stored is None else stored.content
    after = {**(before or {}), **kept}
    found = {} if before == after else by.find_refusals(before, after)
    of_row = found.pop("", "")
    found |= dict.fromkeys(hidden, "you may not change it")
    return found | ({entity.keys[0].name: of_row} if of_row else {})
