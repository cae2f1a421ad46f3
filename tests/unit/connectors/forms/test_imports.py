from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.forms import PRODUCTS, place_of, save, version_of
from waterclock.connectors.forms.changes import MOST_EDITS, Edit, Origin, StoredRow, apply
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.history import iterate_rows
from waterclock.connectors.forms.imports import Review, RowStatus, review_rows
from waterclock.connectors.forms.row_files import (
    FileText,
    escape_formula,
    read_file,
    read_text,
    read_workbook,
    write_block,
    write_csv,
    write_workbook,
)
from waterclock.connectors.forms.row_lists import RowCounts, count_rows
from waterclock.connectors.forms.values import InvalidValue, parse_value
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights
from waterclock.flow.forms import Entity, FormField

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


def test_a_row_that_waits_is_the_same_until_a_cell_changes(database: FormsDatabase) -> None:
    edits = [Edit(("S1",), {}, None)]
    apply(database, PRODUCTS, by=FormRights("publish"), why="x", edits=edits, origin=Origin.PUBLISH)
    assert counts(reviewed(database, HEADER + "S1\t\t\t\n")) == {"same": 1}
    assert counts(reviewed(database, HEADER + "S1\t\t2\t\n")) == {"invalid": 1}


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


def typed_form() -> Entity:
    kinds = [
        "STRING",
        "INT",
        "BIGINT",
        "DECIMAL(9,2)",
        "DECIMAL(38,4)",
        "DOUBLE",
        "FLOAT",
        "BOOLEAN",
        "DATE",
        "TIMESTAMP",
    ]
    fields = [FormField(f"c{at}", kind) for at, kind in enumerate([*kinds, "STRING"])]
    return Entity("typed", "forms", "mdm.typed", (FormField("id", "STRING", is_key=True, is_required=True), *fields))


TYPED = typed_form()
_DATES = st.dates().map(str)
_VALUES = st.tuples(
    _TEXT,
    st.integers(-(2**31), 2**31 - 1).map(str),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.decimals(-999_999, 999_999, places=2).map(str),
    st.decimals(-(10**30), 10**30, places=4).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.sampled_from(["true", "false"]),
    _DATES | st.sampled_from(["1900-01-01", "1900-02-28", "1900-03-01", "1899-12-31", "0001-01-01"]),
    st.datetimes().map(lambda at: f"{at.isoformat(sep=' ')}Z"),
    st.sampled_from(
        [
            *("007", "1e5", "2026-11-30 00:00:00", "TRUE", "=cmd|'/c calc'!A0", "'=1", "_x0041_", "שלום, עולם"),
            *('مرحبا\n"x"', "\u202eabc", "1,5", "#N/A", " \u00a0x", "a\tb"),
        ]
    ),
)  # fmt: skip


def exported(entity: Entity, rows: Iterable[StoredRow], kind: str) -> FileText:
    if kind == "csv":
        return read_file("rows.csv", io.BytesIO("".join(write_csv(entity, rows)).encode()))
    file = io.BytesIO()
    write_workbook(entity, rows, file)
    file.seek(0)
    return read_file("rows.xlsx", file)


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_importing_an_unchanged_export_changes_nothing(kind: str, tmp_path: Path) -> None:
    @settings(max_examples=100 if kind == "csv" else 4, deadline=None)
    @given(st.dictionaries(_TEXT, _VALUES, min_size=0 if kind == "csv" else 20, max_size=8 if kind == "csv" else 40))
    def run(rows: dict[str, tuple[str, ...]]) -> None:
        database = place_of("sqlite", Path(tempfile.mkdtemp(dir=tmp_path))).database
        edits = {}
        for key, texts in rows.items():
            stored: list[str | None] = []
            for field, text in zip(TYPED.fields, (key, *texts), strict=True):
                try:
                    stored.append(parse_value(field, text, "UTC"))
                except InvalidValue:
                    stored.append(None)
            if stored[0]:
                edits[stored[0]] = Edit(
                    (stored[0],), dict(zip([it.name for it in TYPED.values], stored[1:], strict=True)), None
                )
        apply(database, TYPED, by=FormRights("ada"), why="test", edits=list(edits.values()))
        found = exported(TYPED, iterate_rows(database, TYPED), kind)
        review = review_rows(database, TYPED, read_text(found.text), by=FormRights("ada"))
        assert counts(review) == ({"same": len(edits)} if edits else {})

    run()


def test_a_workbook_has_numbers_and_dates_as_such_and_no_formula(database: FormsDatabase) -> None:
    import openpyxl

    values = {"c0": "=1+1", "c1": "12", "c2": "9223372036854775807", "c3": "12.50", "c8": "2026-11-30", "c10": "007"}
    apply(database, TYPED, by=FormRights("ada"), why="test", edits=[Edit(("-1",), values, None)])
    file = io.BytesIO()
    write_workbook(TYPED, iterate_rows(database, TYPED), file)
    cells = list(openpyxl.load_workbook(file).active.rows)[1]
    found = {cell.column_letter: (cell.data_type, cell.value) for cell in cells if cell.value is not None}
    assert found == {
        "A": ("s", "'-1"), "B": ("s", "'=1+1"), "C": ("n", 12), "D": ("s", "9223372036854775807"), "E": ("n", 12.5),
        "J": ("d", datetime.fromisoformat("2026-11-30")), "L": ("s", "007"),
    }  # fmt: skip


def test_stored_results_dates_and_errors_of_a_workbook_are_read_and_a_sheet_is_chosen() -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["not this one"])
    sheet = book.create_sheet("Rows")
    for row in (
        ["supplier_sku", "since"],
        ["S1", date(2026, 11, 30)],
        ["S2", datetime.combine(date(2026, 11, 30), datetime.min.time())],
        [None],
        [3.0, 1.5],
    ):
        sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    rows = read_workbook(file, "rows")
    assert rows[0] == ["supplier_sku", "since"]
    assert {parse_value(FormField("since", "DATE"), row[1], "UTC") for row in rows[1:3]} == {"2026-11-30"}
    assert rows[3:] == [["3", "1.5"]]
    with pytest.raises(WaterclockError, match="no sheet other"):
        read_workbook(file, "other")
    for content in (b"", b"no workbook", b"PK\x03\x04" + bytes(100)):
        with pytest.raises(WaterclockError, match="cannot be read"):
            read_file("rows.xlsx", io.BytesIO(content))


def test_a_workbook_with_too_many_columns_or_a_zip_bomb_is_refused() -> None:
    import zipfile

    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["x"] * 2001)
    file = io.BytesIO()
    book.save(file)
    with pytest.raises(WaterclockError, match="cannot be read"):
        read_file("rows.xlsx", file)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/worksheets/sheet1.xml", bytes(100 << 20))
    file.seek(0)
    with pytest.raises(WaterclockError, match="too large") as raised:
        read_file("rows.xlsx", file)
    assert raised.value.code == "E882"


@pytest.mark.parametrize(
    ("encoding", "guess"),
    [
        *(("utf-8", ""), ("utf-8-sig", ""), ("utf-16", ""), ("utf-32", "")),
        *((name, name) for name in ("utf-16-le", "utf-16-be", "windows-1252")),
    ],
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_encoding_and_the_separator_of_a_file_are_found(encoding: str, guess: str, separator: str) -> None:
    lines = [["supplier_sku", "sku, old; or new", "remark"], ["S1", "Käse 5 €", "x"]]
    text = "".join(f'{a}{separator}"{b}"{separator}{c}\r\n' for a, b, c in lines)
    found = read_file("rows.csv", io.BytesIO(text.encode(encoding)))
    assert found.encoding == guess
    assert read_text(found.text) == lines
    assert read_text(write_block(lines)) == lines


def test_a_file_that_is_no_text_is_refused() -> None:
    with pytest.raises(WaterclockError, match="cannot be read"):
        read_file("rows.csv", io.BytesIO(b"S1;\x81\xff"))


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
    assert rows == [["supplier_sku", "sku", "pack_size"], ["S1", "A", "12"], ["S2", "B"]]
    assert counts(review_rows(database, PRODUCTS, rows, by=FormRights("ada"))) == {"new": 2}


def test_a_row_of_very_many_cells_is_refused_before_its_columns_are_found(database: FormsDatabase) -> None:
    for text in ("supplier_sku;sku" + ";x" * 2000 + "\nS1;A\n", "supplier_sku;sku\nS1;A" + ";x" * 2000 + "\n"):
        with pytest.raises(WaterclockError, match="at most 2000 cells"):
            reviewed(database, text)


def test_rows_after_the_most_are_not_parsed() -> None:
    assert len(read_text("a,b\n" * (MOST_EDITS + 10))) == MOST_EDITS + 2
