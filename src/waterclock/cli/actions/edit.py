"""Shows, changes, imports and exports the rows of a form. Each change is recorded with its reason."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.connectors.forms.changes import Applied, Edit, Origin, StoredRow, apply
from waterclock.connectors.forms.history import (
    Change,
    find_row,
    iterate_rows,
    list_changes,
    undo,
)
from waterclock.connectors.forms.imports import Review, RowStatus, review_rows
from waterclock.connectors.forms.row_files import (
    MOST_BYTES,
    FileText,
    is_workbook,
    read_file,
    read_text,
    write_csv,
    write_workbook,
)
from waterclock.connectors.forms.row_lists import RowQuery, list_rows
from waterclock.connectors.forms.suggestions import suggest_values
from waterclock.connectors.forms.values import DECIMAL_POINT
from waterclock.errors import WaterclockError
from waterclock.operations.formatting import count_words
from waterclock.operations.forms import OpenedForm, open_form, parse_key, require_value
from waterclock.operations.project_opening import one_table, open_project
from waterclock.operations.required_reasons import need_reason_of_edit
from waterclock.similar_names import did_you_mean

if TYPE_CHECKING:
    from rich.console import RenderableType

    from waterclock.json_models.editing import FormReviewPart

_MOST_SHOWN = 20  # rows of a review on the terminal
_CHANGE_PARTS = ("batch", "at", "who", "why", "origin", "before", "after", "approved_by", "proposal")


def open_table(folder: Path, env: str | None, table: str) -> OpenedForm:
    """Open the form of a table. Raises E511 for an unknown table, E894 if it is no form, E893 for another KEY."""
    project = open_project(folder, env)
    return open_form(project, one_table(project.flow, table)[0])


def show_rows(form: OpenedForm, given: Sequence[str], *, after: str, is_waiting: bool, is_json: bool) -> None:
    """Print a page of rows, or those with the given values `column=value`. Raises E891 for an unknown column."""
    keys, equal = _split(form, given)
    if keys:
        raise usage_error("list takes no key", "write column=value, or --after KEY")
    values = {name: value or "" for name, value in equal.items()}
    query = RowQuery(after=after, equal=values, is_waiting=is_waiting, is_bounded=False)
    found = list_rows(form.database, form.entity, query)
    rows, more = found.rows, found.next is not None
    if is_json:
        from waterclock.json_models.editing import EditAnswer

        parts = [
            {
                "key": row.key,
                "version": row.version,
                "values": row.content,
                "waiting": row.is_waiting,
                "hints": row.hints,
            }
            for row in rows
        ]
        print_answer(EditAnswer.build(table=form.entity.table, rows=parts, more=more))
        return
    shown = Table(box=None, pad_edge=False)
    for field in form.entity.fields:
        shown.add_column(Text(field.name))
    has_hints = any(row.hints for row in rows)
    if has_hints:
        shown.add_column(Text("hints"))
    for row in rows:
        cells = [_cell(row, field.name, is_required=field.is_required) for field in form.entity.fields]
        hints = ", ".join(f"{name}: {value}" for name, value in (row.hints or {}).items())
        shown.add_row(*cells, *([Text(hints)] if has_hints else []))
    to = console()
    to.print(shown if rows else "no rows", soft_wrap=True)
    if more:
        to.print(f"more rows follow: --after {rows[-1].key}", soft_wrap=True)


def set_row(form: OpenedForm, given: Sequence[str], why: str, *, decimal_comma: bool, is_json: bool) -> None:
    """Add or change a row. Raises E891 for an invalid value, E892 if another person changes it meanwhile."""
    need_reason_of_edit(why)
    keys, texts = _split(form, given, decimal_comma=decimal_comma)
    key = parse_key(form.entity, keys)
    there = find_row(form.database, form.entity, key)
    edit = Edit(key, texts, None if there is None else there.version)
    done = apply(form.database, form.entity, by=form.rights, why=why, edits=[edit])
    print_applied(form, done, is_json=is_json)


def delete_row(form: OpenedForm, given: Sequence[str], why: str, *, yes: bool, is_json: bool) -> None:
    """Delete a row after a confirmation. Its history stays. Raises E894 if there is no such row."""
    need_reason_of_edit(why)
    key = parse_key(form.entity, given)
    there = find_row(form.database, form.entity, key)
    if there is None:
        raise _missing_row_error(form, key)
    confirm(f"Delete {there.key} of {form.entity.table}?", yes=yes)
    edit = Edit(key, None, there.version)
    done = apply(form.database, form.entity, by=form.rights, why=why, edits=[edit])
    print_applied(form, done, is_json=is_json)


def show_suggestions(form: OpenedForm, given: Sequence[str], *, is_json: bool) -> None:
    """Print values of rows with alike keys for a row that waits. Raises E894 if there is no such row."""
    key = parse_key(form.entity, given)
    there = find_row(form.database, form.entity, key)
    if there is None:
        raise _missing_row_error(form, key)
    found = suggest_values(form.database, form.entity, there)
    if is_json:
        from waterclock.json_models.editing import EditAnswer

        names = ("values", "like", "likeness", "rows")
        parts = [{name: getattr(each, name) for name in names} for each in found]
        print_answer(EditAnswer.build(table=form.entity.table, suggestions=parts))
        return
    to = console()
    for each in found:
        values = " ".join(f"{name}={value}" for name, value in each.values.items())
        alike = f"like {each.like}, {round(each.likeness * 100)} %, {count_words(each.rows, 'row')}"
        to.print(Text(f"{values}  {alike}"), soft_wrap=True)
    if not found:
        to.print("no alike keys" if there.is_waiting else "the row does not wait", soft_wrap=True)


def show_history(form: OpenedForm, given: Sequence[str], *, is_json: bool) -> None:
    """Print the changes of a row, newest first. Raises E894 if there are none."""
    key = parse_key(form.entity, given)
    changes = list_changes(form.database, form.entity, key)
    if not changes:
        raise _missing_row_error(form, key)
    if is_json:
        from waterclock.json_models.editing import EditAnswer

        parts = [{name: getattr(it, name) for name in _CHANGE_PARTS} | {"version": it.number} for it in changes]
        print_answer(EditAnswer.build(table=form.entity.table, changes=parts))
        return
    to = console()
    for change in changes:
        approved = f" (approved by {change.approved_by})" if change.approved_by else ""
        to.print(Text(f"batch {change.batch}  {change.at:%Y-%m-%d %H:%M:%S}Z  {change.who}{approved}: {change.why}"))
        to.print(Text("\n".join(f"  {line}" for line in _difference_lines(change))))


def undo_batch(form: OpenedForm, given: Sequence[str], why: str, *, yes: bool, is_json: bool) -> None:
    """Restore the rows of a batch. Raises E894 for an unknown batch, E892 if a row was changed since."""
    need_reason_of_edit(why)
    if len(given) != 1 or not given[0].isascii() or not given[0].isdigit():
        raise usage_error("undo takes the number of a batch", "`waterclock edit history TABLE KEY` shows it")
    confirm(f"Undo batch {given[0]} of {form.entity.table}?", yes=yes)
    done = undo(form.database, form.entity, int(given[0]), by=form.rights, why=why)
    print_applied(form, done, is_json=is_json)


def import_file(
    form: OpenedForm, given: Sequence[str], why: str, *, decimal_comma: bool, yes: bool, is_json: bool
) -> None:
    """Show what the rows of a CSV file or workbook change, ask, and save them as one batch.

    Raises E891 if a row is invalid, and saves nothing then.
    """
    need_reason_of_edit(why)
    if len(given) != 1:
        raise usage_error("import takes a file", "write the path of a .csv, .tsv or .xlsx file")
    try:
        found = _read_file(Path(given[0]))
        is_comma = decimal_comma and not found.is_workbook
        review = review_rows(form.database, form.entity, read_text(found.text), by=form.rights, decimal_comma=is_comma)
    except WaterclockError as error:
        error.at(given[0])
        raise
    if not is_json:
        _print_review(review, [field.name for field in form.entity.fields])
    if review.count(RowStatus.INVALID):
        why = "; ".join(_invalid_lines(review, 5))
        comma = ", or read decimal commas by --decimal-comma" if DECIMAL_POINT in why else ""
        raise WaterclockError(
            "E891",
            f"{count_words(review.count(RowStatus.INVALID), 'row')} of {given[0]} cannot be saved",
            where=form.entity.table,
            why=why,
            fix=f"correct these rows in the file{comma}; nothing was saved",
        )
    done = Applied(None, 0)
    if review.can_be_applied:
        confirm(f"Save {count_words(len(review.edits), 'row')} of {form.entity.table}?", yes=yes)
        done = apply(form.database, form.entity, by=form.rights, why=why, edits=review.edits, origin=Origin.IMPORT)
    print_applied(form, done, is_json=is_json, review=review)


def export_rows(form: OpenedForm, given: Sequence[str]) -> None:
    """Write all rows to a new file, a workbook if its name ends in .xlsx, or as CSV to the terminal.

    Values that look like formulas get an apostrophe.

    Raises E891 if the file exists or cannot be written.
    """
    if len(given) > 1:
        raise usage_error("export takes one file", "leave it out to print the rows")
    rows = iterate_rows(form.database, form.entity)
    if not given:
        sys.stdout.writelines(line.replace("\r\n", "\n") for line in write_csv(form.entity, rows))
        return
    path = Path(given[0])
    try:
        if is_workbook(path.name):
            with path.open("xb") as book:
                write_workbook(form.entity, rows, book)
        else:
            with path.open("x", encoding="utf-8", newline="") as file:
                file.writelines(write_csv(form.entity, rows))
    except OSError as error:
        raise WaterclockError(
            "E891",
            f"{given[0]} cannot be written",
            why=error.strerror or str(error),
            fix="name a new file in a folder that exists",
        ) from error


def _split(
    form: OpenedForm, given: Iterable[str], *, decimal_comma: bool = False
) -> tuple[list[str], dict[str, str | None]]:
    """Return the arguments that are values of the KEY, and the stored texts of the others, which are `column=value`."""
    keys, texts = [], {}
    for argument in given:
        name, sign, text = argument.partition("=")
        field = form.entity.field(name)
        if sign and field is not None and field.is_key:
            keys.append(text)
        elif sign and field is None:
            require_value(form.entity, name, text)
        elif sign and field is not None:
            texts[field.name] = require_value(form.entity, name, text, decimal_comma=decimal_comma)
        else:
            keys.append(argument)
    return keys, texts


def _read_file(path: Path) -> FileText:
    if not path.is_file() or path.stat().st_size > MOST_BYTES:
        why = f"it has more than {MOST_BYTES >> 20} MB" if path.is_file() else "there is no such file"
        raise WaterclockError("E891", f"{path} cannot be imported", why=why, fix="name a .csv, .tsv or .xlsx file")
    with path.open("rb") as file:
        found = read_file(path.name, file)
    if found.encoding:
        raise WaterclockError(
            "E891",
            f"{path} is not UTF-8",
            why=f"it may be {found.encoding}, which cannot be known",
            fix="save it as CSV UTF-8; or read it on the page *Paste rows*, and compare the letters",
        )
    return found


def _cell(row: StoredRow, name: str, *, is_required: bool) -> Text:
    value = row.content.get(name)
    return Text("! missing" if value is None and is_required else value or "")


def _difference_lines(change: Change) -> list[str]:
    return ["deleted"] if change.after is None else difference_lines(change.differences)


def difference_lines(differences: Iterable[tuple[str, str | None, str | None]]) -> list[str]:
    """Return a line for each column that changes, with its value before and after."""
    return [
        f"{name}: {'' if old is None else f'{old} '}→ {'empty' if new is None else new}"
        for name, old, new in differences
    ]


def _print_review(review: Review, columns: Sequence[str]) -> None:
    to = console()
    counts = [f"{review.count(status)} {status}" for status in RowStatus]
    to.print(", ".join(counts))
    if review.ignored:
        near = ((name, did_you_mean(name, columns)) for name in review.ignored)
        named = (f"{name} ({question})" if question else name for name, question in near)
        to.print(Text(f"ignored columns: {', '.join(named)}"), soft_wrap=True)
    shown: list[RenderableType] = []
    for row in review.rows:
        if row.status in {RowStatus.NEW, RowStatus.CHANGED} and len(shown) < _MOST_SHOWN:
            cells = [
                f"{cell.field}: {'' if cell.before is None else f'{cell.before} '}→ {cell.after}"
                for cell in row.cells
                if cell.before != cell.after
            ]
            shown.append(Text(f"line {row.line}, {row.status}: {', '.join(cells)}"))
    for line in shown:
        to.print(line, soft_wrap=True)
    if len(review.edits) > len(shown):
        to.print(f"and {len(review.edits) - len(shown)} more", soft_wrap=True)
    warnings = [
        f"warning: line {row.line}, {cell.field}: {cell.warning}"
        for row in review.rows
        for cell in row.cells
        if cell.warning
    ]
    for line in warnings[:_MOST_SHOWN]:
        to.print(Text(line), soft_wrap=True)
    if len(warnings) > _MOST_SHOWN:
        to.print(f"and {len(warnings) - _MOST_SHOWN} more warnings", soft_wrap=True)


def _invalid_lines(review: Review, most: int) -> list[str]:
    invalid = [row for row in review.rows if row.status is RowStatus.INVALID]
    lines = [f"line {row.line}: {', '.join(row.problems)}" for row in invalid[:most]]
    return lines + ([f"and {len(invalid) - most} more"] if len(invalid) > most else [])


def _review_part(review: Review) -> FormReviewPart:
    from waterclock.json_models.editing import FormReviewPart

    return FormReviewPart(
        new=review.count(RowStatus.NEW),
        changed=review.count(RowStatus.CHANGED),
        same=review.count(RowStatus.SAME),
        invalid=_invalid_lines(review, 1000),
        ignored=list(review.ignored),
    )


def print_applied(form: OpenedForm, done: Applied, *, is_json: bool, review: Review | None = None) -> None:
    """Print the batch or the proposal of a change."""
    if is_json:
        from waterclock.json_models.editing import EditAnswer

        part = None if review is None else _review_part(review)
        print_answer(
            EditAnswer(
                table=form.entity.table,
                batch=done.batch,
                proposal=done.proposal,
                changed=done.rows,
                warnings=list(done.warnings),
                review=part,
            )
        )
        return
    count = count_words(done.rows, "row")
    words = "nothing changed" if done.batch is None else f"batch {done.batch}: {count} saved"
    if done.batch is None and done.proposal is not None and done.rows:
        words = (
            f"proposal {done.proposal}: {count} {'waits' if done.rows == 1 else 'wait'} for another person's approval"
        )
    to = console()
    to.print(words, soft_wrap=True)
    for line in () if review is not None else done.warnings:
        to.print(Text(f"warning: {line}"), soft_wrap=True)


def _missing_row_error(form: OpenedForm, key: Sequence[str]) -> WaterclockError:
    return WaterclockError(
        "E894",
        f"{form.entity.table} has no row {', '.join(key)}",
        fix=f"`waterclock edit list {form.entity.table}` shows the rows",
    )


def usage_error(what: str, fix: str) -> WaterclockError:
    """Build the error of arguments that an action does not take."""
    return WaterclockError("E891", what, fix=fix)
