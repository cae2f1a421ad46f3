"""Cells are converted to the texts from which typed columns are read."""

from __future__ import annotations

import io
import zipfile
from datetime import timedelta
from typing import Any

import openpyxl
import pytest

from waterclock.connectors.files.excel_reading import columns_of, reader_of
from waterclock.connectors.files.reading_options import parse_read_options
from waterclock.connectors.files.sheet_rows import _cell_text
from waterclock.errors import WaterclockError


def book(*sheets: tuple[str, list[list[Any]]], hidden: str = "") -> io.BytesIO:
    made = openpyxl.Workbook()
    made.remove(made.worksheets[0])
    for name, rows in sheets:
        sheet = made.create_sheet(name)
        sheet.sheet_state = "hidden" if name == hidden else "visible"
        for row in rows:
            sheet.append(row)
    if hidden:
        made.active = 1
    file = io.BytesIO()
    made.save(file)
    return file


def rows_of(file: io.BytesIO, **options: str) -> list[dict[str, Any]]:
    reading = parse_read_options(options)
    names = columns_of(file, reading, ())
    file.seek(0)
    return [dict(zip(names, row.values(), strict=False)) for batch in reader_of(reading, names)(file)
            for row in batch.to_pylist()]  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (timedelta(hours=30, seconds=1.5), "30:00:01.5"),
        (timedelta(seconds=9), "00:00:09"),
        (timedelta(seconds=59, microseconds=999_999), "00:00:59.999999"),
        (timedelta(hours=-1, minutes=-2), "-01:02:00"),
        (3.0, "3"),
        (0.5, "0.5"),
        (1e22, "1e+22"),
        ("", None),
    ],
)
def test_a_cell_is_converted_to_its_equivalent_text(cell: object, text: str | None) -> None:
    assert _cell_text(cell) == text


@pytest.mark.parametrize(
    ("cell", "text", "near"),
    [
        (0.1 + 0.2, "0.3", "0.30000000000000004"),
        (3 * 1.1, "3.3", "3.3000000000000003"),
        (7.125, "7.125", "7.125"),
        (1 / 3, "0.3333333333333333", "0.3333333333333333"),
    ],
)
def test_floating_point_error_is_rounded_off_the_text_of_a_cell(cell: float, text: str, near: str) -> None:
    assert (_cell_text(cell), _cell_text(cell, is_near=True)) == (text, near)


def test_a_hidden_sheet_is_read_where_it_is_named_alone() -> None:
    file = book(("old", [["a"], [1]]), ("new & old", [["b"], [2]]), hidden="old")
    assert rows_of(file) == [{"b": "2"}]
    file.seek(0)
    assert rows_of(file, sheet="old") == [{"a": "1"}]


def test_an_error_of_a_cell_is_its_text_and_no_empty_cell() -> None:
    lines: list[list[Any]] = [
        ["a", "b", "c"],
        [1, "#N/A", None],
        [2, "#DIV/0!", "#N/A"],
        ["#REF!", None, None],
        [None, "#N/A", "x"],
    ]
    file = book(("s", lines))
    assert rows_of(file) == [
        {"a": "1", "b": "#N/A", "c": None},
        {"a": "2", "b": "#DIV/0!", "c": "#N/A"},
        {"a": "#REF!", "b": None, "c": None},
        {"a": None, "b": "#N/A", "c": "x"},
    ]
    file.seek(0)
    assert [row["b"] for row in rows_of(file, null="#N/A")] == [None, "#DIV/0!", None, None], (
        "with the option they are not empty"
    )
    file.seek(0)
    assert rows_of(file, range="B1:C3")[1] == {"b": "#DIV/0!", "c": "#N/A"}


@pytest.mark.slow
def test_errors_are_found_wherever_a_large_sheet_is_cut() -> None:
    lines: list[list[Any]] = [["a", "b"], *([at, "#N/A"] for at in range(21_000))]
    assert {row["b"] for row in rows_of(book(("s", lines)))} == {"#N/A"}


@pytest.mark.parametrize("rows", [[["a", "b"], [1, "=A2+1"]], [["a"], ["=1+1"]]])
def test_a_formula_without_a_computed_value_is_refused(rows: list[list[Any]]) -> None:
    file = book(("else", [["a"], [1]]), ("a & b", rows))
    with pytest.raises(WaterclockError) as caught:
        rows_of(file, sheet="a & b")
    assert caught.value.code == "E884"
    assert ("B2" if len(rows[0]) == 2 else "A2") in caught.value.what
    file.seek(0)
    assert rows_of(file, sheet="else") == [{"a": "1"}], "another sheet is not mentioned"


@pytest.mark.parametrize(
    ("cell", "value"),
    [('<c r="A2"><f>1+1</f><v>2</v></c>', "2"), ('<c r="A2" t="str"><f>B1&amp;""</f><v></v></c>', None)],
)
def test_a_formula_with_its_value_is_that_value(cell: str, value: str | None) -> None:
    file = book(("s", [["a", "b"], [7, 5]]))
    changed = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b'<c r="A2" t="n"><v>7</v></c>', cell.encode()))
    assert rows_of(changed) == [{"a": value, "b": "5"}]


def changed_book(file: io.BytesIO, *changes: tuple[bytes, bytes]) -> io.BytesIO:
    """Return a workbook with texts of its members replaced; fails if a text is missing."""
    changed, left = io.BytesIO(), dict(changes)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            for before, after in changes:
                if before in content:
                    content, _ = content.replace(before, after), left.pop(before, None)
            new.writestr(name, content)
    assert not left
    return changed


def test_formulas_of_validations_and_sparklines_are_of_no_cell() -> None:
    """Excel writes them after the cells, with a prefix: `<xm:f>`."""
    spaces = 'xmlns:x14="http://x14" xmlns:xm="http://xm"'
    told = f"<extLst><ext {spaces}><x14:dataValidation><x14:formula1><xm:f>lists!$A$1:$A$9</xm:f></x14:formula1>"
    told += "<xm:sqref>A2</xm:sqref></x14:dataValidation></ext></extLst>"
    file = book(("s", [["a", "b"], [7, "#N/A"]]))
    changed = changed_book(file, (b"</worksheet>", told.encode() + b"</worksheet>"))
    assert rows_of(changed) == [{"a": "7", "b": "#N/A"}]


def test_the_errors_of_another_sheet_are_never_values_of_this_one() -> None:
    """The prefix of a relationship is arbitrary, and a workbook may refer to none of its sheets."""
    first: tuple[str, list[list[Any]]] = ("first", [["a"], [1]])
    second: tuple[str, list[list[Any]]] = ("second", [["a"], ["#N/A"]])
    space = b'="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    prefixed = changed_book(book(first, second), (b"xmlns:r" + space, b"xmlns:q" + space), (b" r:id=", b" q:id="))
    for sheet, value in (("first", "1"), ("second", "#N/A")):
        prefixed.seek(0)
        assert rows_of(prefixed, sheet=sheet) == [{"a": value}]


def test_errors_are_left_out_where_it_is_not_clear_which_sheet_is_read() -> None:
    file = book(("first", [["a"], [1]]), ("second", [["a"], ["#N/A"]]))
    with zipfile.ZipFile(file) as packed:
        relations = packed.read("xl/_rels/workbook.xml.rels")
    first = next(each for each in relations.split(b"<") if b"sheet1.xml" in each)
    twice = changed_book(file, (b"</Relationships>", b"<" + first + b"</Relationships>"))
    assert rows_of(twice, sheet="first") == [{"a": "1"}]
