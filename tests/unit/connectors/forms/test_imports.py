from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forms import PRODUCTS, place_of, save, version_of
from waterclock.connectors.forms.changes import MOST_EDITS, Edit, Origin, apply
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.history import iterate_rows
from waterclock.connectors.forms.imports import (
    Review,
    RowStatus,
    escape_formula,
    read_text,
    read_workbook,
    review_rows,
    write_csv,
)
from waterclock.connectors.forms.row_lists import RowCounts, count_rows
from waterclock.connectors.forms.values import InvalidValue, parse_value
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights

HEADER = "supplier_sku\tsku\tpack_size\tremark\n"


@pytest.fixture
def database(tmp_path: Path) -> FormsDatabase:
    return place_of("sqlite", tmp_path).database


def reviewed(database: FormsDatabase, text: str, *, decimal_comma: bool = False) -> Review:
    return review_rows(database, PRODUCTS, read_text(text), by=FormRights("ada"), decimal_comma=decimal_comma)


def counts(review: Review) -> dict[str, int]:
    return {status.value: count for status in RowStatus if (count := review.count(status))}


def test_rows_are_new_changed_same_or_invalid_and_the_reason_is_named(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A", "pack_size": "1"})
    save(database, "S2", {"sku": "B"})
    review = reviewed(database, HEADER + "S1\tA\t2\t\nS2\tB\t\t\nS3\tC\t\tnew\nS4\t\t\t\nS5\tE\tmany\t\n")
    assert [row.status.value for row in review.rows] == ["changed", "same", "new", "invalid", "invalid"]
    assert [row.problems for row in review.rows[3:]] == [
        ("sku: a value is required",),
        ("pack_size: it is not a number",),
    ]
    assert not review.can_be_applied


def test_an_import_is_one_batch_and_leaves_all_else(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A", "pack_size": "1", "remark": "kept"})
    save(database, "S9", {"sku": "Z"})
    review = reviewed(database, "sku;supplier_sku;pack size\nB;S1;9\nC;S2;7\n")
    assert review.ignored == ("pack size",)
    apply(database, PRODUCTS, by=FormRights("ada"), why="import", edits=review.edits, origin=Origin.IMPORT)
    found = {row.key: dict(row.content) for row in iterate_rows(database, PRODUCTS)}
    assert found["S1"] == {"supplier_sku": "S1", "sku": "B", "pack_size": "1", "remark": "kept"}
    assert found.keys() == {"S1", "S2", "S9"}


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + HEADER + "S1\tA\t\t\n\t\t\t\n\n",
        "S1\tA\t\t\r\n",
        'supplier_sku,sku,remark\r\n"S1",A,""\r\n',
        "SKU;Supplier_SKU\n A ; S1 \n",
    ],
)
def test_a_block_of_a_spreadsheet_is_read(database: FormsDatabase, text: str) -> None:
    (row,) = reviewed(database, text).rows
    assert (row.key, row.status) == (("S1",), RowStatus.NEW)
    assert {cell.field: cell.after for cell in row.cells if cell.after} == {"supplier_sku": "S1", "sku": "A"}


def test_a_quoted_cell_has_several_lines_and_separators(database: FormsDatabase) -> None:
    (row,) = reviewed(database, 'supplier_sku,sku,remark\nS1,A,"one, ""two""\nthree"\n').rows
    assert row.cells[-1].after == 'one, "two"\nthree'


def test_a_duplicate_key_is_invalid(database: FormsDatabase) -> None:
    review = reviewed(database, HEADER + "S1\tA\t\t\nS1\tB\t\t\n")
    assert counts(review) == {"new": 1, "invalid": 1}
    assert review.rows[1].problems == ("supplier_sku: line 2 has the same key",)


def test_a_row_that_changed_after_the_review_is_a_conflict(database: FormsDatabase) -> None:
    save(database, "S1", {"sku": "A"})
    review = reviewed(database, HEADER + "S1\tB\t\t\n")
    save(database, "S1", {"sku": "C"}, version_of(database, "S1"))
    with pytest.raises(WaterclockError, match="changed since it was read"):
        apply(database, PRODUCTS, by=FormRights("ada"), why="import", edits=review.edits, origin=Origin.IMPORT)


@pytest.mark.parametrize("text", ["sku\tpack_size\nA\t1\n", "supplier_sku\tsku\tSKU\nS1\tA\tB\n", 'S1,"A\n'])
def test_text_that_cannot_be_read_is_refused(database: FormsDatabase, text: str) -> None:
    with pytest.raises(WaterclockError) as raised:
        reviewed(database, text)
    assert raised.value.code == "E891"


def test_a_text_has_a_bound(database: FormsDatabase) -> None:
    with pytest.raises(WaterclockError, match="cannot be read"):
        reviewed(database, "x" * 20_000_001)


def test_decimals_with_a_comma_are_a_choice(database: FormsDatabase) -> None:
    assert counts(reviewed(database, HEADER + "S1\tA\t1.000\t\n", decimal_comma=True)) == {"new": 1}
    assert reviewed(database, HEADER + "S1\tA\t1.000,0\t\n", decimal_comma=True).rows[0].cells[2].after == "1000"


@pytest.mark.parametrize("value", ["=cmd|'/c calc'!A0", "+1", "-1+1", "@sum(1)", "'=1", "''@"])
def test_a_formula_is_escaped_and_read_back(database: FormsDatabase, value: str) -> None:
    save(database, "S1", {"sku": value})
    text = "".join(write_csv(PRODUCTS, iterate_rows(database, PRODUCTS)))
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in read_text(text) for cell in row)
    assert counts(reviewed(database, text)) == {"same": 1}


def test_a_negative_number_is_no_formula() -> None:
    assert escape_formula("-5", PRODUCTS.field("pack_size")) == "-5"
    assert escape_formula("-5", PRODUCTS.field("sku")) == "'-5"


_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12) | st.sampled_from(
    ["a\nb", '"', ";", "'", "a,b", "=1", "\tx"]
)


@given(st.dictionaries(_TEXT, st.tuples(_TEXT, st.none() | st.integers(-9, 9), _TEXT), max_size=8))
def test_importing_an_unchanged_export_changes_nothing(rows: dict[str, tuple[str, int | None, str]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        database = place_of("sqlite", Path(folder)).database
        edits = {}
        for key, (sku, size, remark) in rows.items():
            try:
                stored = [parse_value(PRODUCTS.fields[0], text, "UTC") for text in (key, sku, remark)]
            except InvalidValue:
                continue
            if stored[0] and stored[1]:
                values = {"sku": stored[1], "pack_size": None if size is None else str(size), "remark": stored[2]}
                edits[stored[0]] = Edit((stored[0],), values, None)
        apply(database, PRODUCTS, by=FormRights("ada"), why="test", edits=list(edits.values()))
        text = "".join(write_csv(PRODUCTS, iterate_rows(database, PRODUCTS)))
        assert counts(reviewed(database, text)) == ({"same": len(edits)} if edits else {})


def test_ten_thousand_pasted_rows_take_two_seconds_at_most(database: FormsDatabase) -> None:
    text = HEADER + "".join(f"S{n}\tK{n}\t{n}\tremark {n}\n" for n in range(10_000))
    begin = time.process_time()
    review = reviewed(database, text)
    apply(database, PRODUCTS, by=FormRights("ada"), why="paste", edits=review.edits, origin=Origin.IMPORT)
    assert time.process_time() - begin <= 2
    assert count_rows(database, PRODUCTS) == RowCounts(10_000, 0)


def test_a_workbook_is_read(database: FormsDatabase, tmp_path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["supplier_sku", "sku", "pack_size"])
    sheet.append(["S1", "A", 12])
    sheet.append(["S2", "B", None])
    file = io.BytesIO()
    book.save(file)
    path = tmp_path / "rows.xlsx"
    path.write_bytes(file.getvalue())
    with path.open("rb") as opened:
        rows = read_workbook(opened)
    assert rows == [["supplier_sku", "sku", "pack_size"], ["S1", "A", "12"], ["S2", "B", ""]]
    assert counts(review_rows(database, PRODUCTS, rows, by=FormRights("ada"))) == {"new": 2}


def test_a_row_of_very_many_cells_is_refused_before_its_columns_are_found(database: FormsDatabase) -> None:
    for text in ("supplier_sku;sku" + ";x" * 2000 + "\nS1;A\n", "supplier_sku;sku\nS1;A" + ";x" * 2000 + "\n"):
        with pytest.raises(WaterclockError, match="at most 2000 cells"):
            reviewed(database, text)


def test_rows_after_the_most_are_not_parsed() -> None:
    assert len(read_text("a,b\n" * (MOST_EDITS + 10))) == MOST_EDITS + 2
