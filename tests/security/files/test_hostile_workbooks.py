"""A small workbook cannot make calamine or our own checks use memory or time without bounds."""

from __future__ import annotations

import io
import resource
import struct
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from waterclock.connectors.files import workbook_process
from waterclock.connectors.files.excel_reading import columns_of, reader_of
from waterclock.connectors.files.reading_options import parse_read_options
from waterclock.connectors.files.xlsx_checks import check_cells
from waterclock.errors import WaterclockError

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def cell(place: str, value: str) -> str:
    said = f' r="{place}"' if place else ""
    return f'<c{said} t="inlineStr"><is><t>{value}</t></is></c>'


HEAD = f'<row r="1">{cell("A1", "id")}{cell("B1", "n")}</row><row r="2">{cell("A2", "1")}{cell("B2", "2")}</row>'


def workbook(
    rows: str,
    behind: str = "",
    *,
    prefix: str = "r",
    second: str = "",
    target: str = "worksheets/sheet1.xml",
    more: Mapping[str, str] = MappingProxyType({}),
) -> io.BytesIO:
    """Build a workbook with one sheet, as an attacker would. `second` is the content of a further, unlisted sheet."""
    members = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{TYPES}.sheet.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="rId1" Type="{OFFICE}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:{prefix}="{OFFICE}"><sheets>'
        f'<sheet name="S" sheetId="1" {prefix}:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="rId1" '
        f'Type="{OFFICE}/worksheet" Target="{target}"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData>{behind}</worksheet>',
    }
    if second:
        members["XL/Worksheets/Sheet1.xml"] = second
    members.update(more)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    file.seek(0)
    return file


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


def read(file: io.BytesIO, **options: str) -> list[list[str | None]]:
    reading = parse_read_options(options)
    names = columns_of(file, reading, ())
    file.seek(0)
    return [list(row.values())[:-1] for batch in reader_of(reading, names)(file) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "rows",
    [
        f'<row r="1">{cell("A1", "id")}</row><row r="1048576">{cell("XFD1048576", "x")}</row>',
        f'<row r="1">{cell("A1", "id")}</row><row r="100000">{cell("ALL100000", "x")}</row>',
        f'<row r="1">{cell("A1", "id")}</row><row r="1048576"><c r="XFC1048576"/>{cell("", "x")}</row>',
        f'<row r="1">{cell("A1", "id")}</row><row r="99"></row><row><c x=">" r="XFD1"/>{cell("xfd1048576", "x")}</row>',
        f"<row r='1'>{cell('A1', 'id')}</row><row><c r='XFD1048576'><v>1</v></c></row>",
        f'<row r="1">{cell("A1", "id")}</row><!-- <c --><row><c y="/>" r="XFD1048576" x="/>"><v>1</v></c></row>',
    ],
)
def test_two_cells_far_apart_are_refused_before_memory_is_allocated(rows: str) -> None:
    # calamine would abort the process here: it allocates 512 GiB
    with pytest.raises(WaterclockError) as caught:
        columns_of(workbook(rows), parse_read_options({}), ())
    assert caught.value.code == "E882"
    assert "used range" in str(caught.value.why)


def test_a_sheet_is_checked_whatever_the_prefix_of_its_relation() -> None:
    rows = f'<row r="1">{cell("A1", "id")}</row><row r="1048576">{cell("XFD1048576", "x")}</row>'
    with pytest.raises((WaterclockError, ValueError)):
        columns_of(workbook(rows, prefix="q"), parse_read_options({}), ())


def test_members_whose_names_differ_by_case_are_refused() -> None:
    with pytest.raises(ValueError, match="two members of the same name"):
        columns_of(workbook(HEAD, second="<worksheet/>"), parse_read_options({}), ())


FAR = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
UNRECKONED = "<row><c><f>1+1</f></c></row>"


def sheet_of(rows: str) -> str:
    return f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'


@pytest.mark.parametrize(
    ("target", "member"),
    [
        ("./worksheets/sheet1.xml", "xl/./worksheets/sheet1.xml"),
        ("../xl/worksheets/sheet1.xml", "xl/../xl/worksheets/sheet1.xml"),
        ("worksheets//sheet1.xml", "xl/worksheets//sheet1.xml"),
        ("worksheets/../worksheets/sheet1.xml", "xl/worksheets/../worksheets/sheet1.xml"),
        ("//xl/worksheets/sheet1.xml", "/xl/worksheets/sheet1.xml"),
        ("worksheets/sheet&#49;.xml", "xl/worksheets/sheet&#49;.xml"),
        ("worksheets\\sheet1.xml", "xl/worksheets\\sheet1.xml"),
    ],
)
@pytest.mark.parametrize("rows", [FAR, UNRECKONED])
def test_a_sheet_whose_path_programs_read_differently_is_refused(target: str, member: str, rows: str) -> None:
    """The library uses the path literally, so a resolved path would belong to another, harmless sheet."""
    head = f'<row r="1">{cell("A1", "id")}</row>'
    with pytest.raises(ValueError, match=r"two members|programs differ in how they read it"):
        columns_of(workbook(HEAD, target=target, more={member: sheet_of(head + rows)}), parse_read_options({}), ())


@pytest.mark.parametrize("rows", [FAR, UNRECKONED])
def test_a_path_that_begins_like_the_folder_of_sheets_is_the_one_that_is_checked(rows: str) -> None:
    more = {"xl/xl/worksheets/sheet1.xml": sheet_of(f'<row r="1">{cell("A1", "id")}</row>{rows}')}
    with pytest.raises(WaterclockError) as caught:
        columns_of(workbook(HEAD, target="xl/worksheets/sheet1.xml", more=more), parse_read_options({}), ())
    assert caught.value.code in {"E882", "E884"}


@pytest.mark.parametrize("target", ["/xl/worksheets/sheet1.xml", "worksheets/Sheet1.XML"])
def test_an_absolute_path_and_one_in_another_case_are_read(target: str) -> None:
    assert read(workbook(HEAD, target=target)) == [["1", "2"]]


def test_a_workbook_whose_members_are_named_with_backslashes_is_read() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(workbook(HEAD)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name.replace("/", "\\"), old.read(name))
    file.seek(0)
    assert read(file) == [["1", "2"]]


LONG = "".join(f'<row r="{at}"><c r="A{at}"><v>{at}</v></c></row>' for at in range(3, 60_000))


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ('<row r="3"><c r="A3"><v>1</v></c><c r="A3"><v>2</v></c></row>', "cell A3"),
        ('<row r="3"><c r="A3" t="n"><v>1</v></c><c t="n" r="a3"><v>2</v></c></row>', "cell A3"),
        ('<row r="3"><c r="A3"><v>1</v></c></row><row r="4"><c r="A3"><v>2</v></c></row>', "cell A3"),
        ('<row r="3"><c r="A3"><v>1</v></c></row><row r="3"><c r="B3"><v>2</v></c></row>', "row 3"),
        ('<row r="4"><c r="A4"><v>1</v></c></row><row r="3"/><row><c r="A4"><v>2</v></c></row>', "row 4"),
        ('<row r="3"><c><v>1</v></c><c r="A3"><v>2</v></c></row>', "cell A3"),
        (LONG + '<row r="3"><c r="B3"><v>2</v></c></row>', "row 3"),
        (LONG + '<row r="60000"><c r="A4"><v>2</v></c></row>', "cell A4"),
        (LONG + '<row r="60000"><c r="A59999"><v>2</v></c></row>', "cell A59999"),
    ],
)
def test_a_duplicate_cell_or_row_of_a_sheet_is_refused(rows: str, place: str) -> None:
    # the library uses the last one; Excel reports a damaged file and shows the parts that it can repair
    with pytest.raises(ValueError, match=f"it has the {place} twice"):
        columns_of(workbook(HEAD + rows), parse_read_options({}), ())


def test_a_duplicate_cell_is_found_across_any_chunk_boundary() -> None:
    for size in range((1 << 20) - 60, (1 << 20) + 60, 7):
        wide = f'<row r="3" x="{"y" * size}"><c r="A3"><v>1</v></c><c r="B3"><v>1</v></c><c r="A3"><v>2</v></c></row>'
        with pytest.raises(ValueError, match="it has the cell A3 twice"):
            check_cells(workbook(HEAD + wide), "S")


def test_rows_in_another_order_are_read() -> None:
    rows = '<row r="4"><c r="B4"><v>4</v></c><c r="A4"><v>3</v></c></row><row r="3"><c r="A3"><v>5</v></c></row>'
    assert read(workbook(HEAD + rows)) == [["1", "2"], ["5", None], ["3", "4"]]


@pytest.mark.parametrize("place", ["ZZZZZZ3", "XFE3", "A1048577", "A99999999999999999999", "3"])
def test_a_cell_that_no_sheet_has_is_refused(place: str) -> None:
    rows = HEAD + f'<row r="3"><c r="A3" t="e"><v>#N/A</v></c><c r="{place}" t="e"><v>#N/A</v></c></row>'
    with pytest.raises(ValueError, match="which is outside of any sheet"):
        columns_of(workbook(rows), parse_read_options({}), ())


@pytest.mark.parametrize("part", ["<c ", "<c r='A3' ", '<c r="A3" t="e" ', "<f"])
def test_the_check_of_cells_is_linear(part: str) -> None:
    file = workbook(HEAD, behind=f'<!-- {part * (1 << 18)} <f t="e" -->')
    begun = cpu_seconds()
    try:
        assert read(file) == [["1", "2"]]
    except ValueError as error:
        assert "the XML of its sheet" in str(error)  # noqa: PT017 - both are acceptable, in bounded time
    assert cpu_seconds() - begun < 10


def test_empty_styled_cells_far_away_are_no_used_range() -> None:
    rows = HEAD + '<row r="1048576" hidden="1"><c r="XFD1048576" s="1"/></row>'
    assert read(workbook(rows)) == [["1", "2"]]


def test_merged_cells_are_bounded_by_the_used_rows() -> None:
    merged = '<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>'
    assert len(read(workbook(HEAD, merged), merged="fill")) == 1
    many = "<mergeCells>" + '<mergeCell ref="A1:XFD1048576"/>' * 100 + "</mergeCells>"
    with pytest.raises(ValueError, match="merged cells cover"):
        read(workbook(HEAD, many), merged="fill")


STRINGS = (
    f'<Relationships xmlns="{RELATIONS}"><Relationship Id="rId1" Type="{OFFICE}/worksheet" '
    f'Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="{OFFICE}/sharedStrings" '
    'Target="sharedStrings.xml"/></Relationships>'
)


def test_a_workbook_that_ends_its_process_is_refused_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text that many cells share is copied for each of them."""
    monkeypatch.setattr(workbook_process, "_MOST_MEMORY", 1 << 29)
    cells = '<c t="s"><v>0</v></c>' * 1_000
    text = f'<sst xmlns="{MAIN}"><si><t>{"x" * (8 << 20)}</t></si></sst>'
    more = {"xl/_rels/workbook.xml.rels": STRINGS, "xl/sharedStrings.xml": text}
    with pytest.raises(WaterclockError) as caught:
        columns_of(workbook(f"{HEAD}<row>{cells}</row>", more=more), parse_read_options({}), ())
    assert caught.value.code == "E882"
    assert caught.value.why is not None
    assert "more than 536870912 bytes of memory" in caught.value.why
    assert read(workbook(HEAD)) == [["1", "2"]]


@pytest.mark.parametrize("part", ['<mergeCell ref="D9:D9"/>', "<si/>"])
def test_many_small_parts_of_a_workbook_are_refused_if_they_need_too_much_memory(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(workbook_process, "_MOST_MEMORY", 100 << 20)
    parts = part * ((15 << 20) // len(part))
    strings = {"xl/_rels/workbook.xml.rels": STRINGS, "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{parts}</sst>'}
    is_merge = part.startswith("<merge")
    file = workbook(HEAD, f"<mergeCells>{parts}</mergeCells>" if is_merge else "", more={} if is_merge else strings)
    with pytest.raises(WaterclockError) as caught:
        columns_of(file, parse_read_options({}), ())
    assert (caught.value.code, caught.value.what) == ("E882", "the workbook is too large")


def test_a_process_that_is_killed_is_no_fault_of_the_workbook(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel kills this process first when the machine is out of memory."""
    monkeypatch.setattr(workbook_process, "_PROCESS_CODE", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(WaterclockError, match="the process that reads the workbook was killed") as caught:
        columns_of(workbook(HEAD), parse_read_options({}), ())
    assert caught.value.transient


def test_a_file_on_disk_is_read_in_place_and_may_be_left_before_its_end(tmp_path: Path) -> None:
    path = tmp_path / "long.xlsx"
    path.write_bytes(workbook(HEAD + LONG).getvalue())
    with path.open("rb") as file:
        batches = reader_of(parse_read_options({}), ("id", "n"))(file)
        assert next(batches).num_rows == 10_000
        batches.close()  # type: ignore[attr-defined]
        assert sum(batch.num_rows for batch in reader_of(parse_read_options({}), ("id", "n"))(file)) == 59_998


def ods(rows: str) -> io.BytesIO:
    urn = "urn:oasis:names:tc:opendocument:xmlns"
    head = f'<office:document-content xmlns:office="{urn}:office:1.0" xmlns:table="{urn}:table:1.0" '
    head += f'xmlns:text="{urn}:text:1.0"><office:body><office:spreadsheet><table:table table:name="S">'
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        packed.writestr("META-INF/manifest.xml", "<manifest/>")
        end = "</table:table></office:spreadsheet></office:body></office:document-content>"
        packed.writestr("content.xml", head + rows + end)
    file.seek(0)
    return file


CELL = '<table:table-cell office:value-type="string"{}><text:p>{}</text:p></table:table-cell>'


def test_repeated_cells_of_an_ods_are_counted_before_memory_is_allocated() -> None:
    repeated = CELL.format(' table:number-columns-repeated="16384"', "x")
    for rows in (
        f'<table:table-row table:number-rows-repeated="1048576">{repeated}</table:table-row>',
        (
            '<table:table-row table:number-rows-repeated="1048575"><table:table-cell/></table:table-row>'
            f'<table:table-row><table:table-cell table:number-columns-repeated="16383"/>{CELL.format("", "x")}'
            "</table:table-row>"
        ),
    ):
        file = ods(f"<table:table-row>{CELL.format('', 'id')}</table:table-row>{rows}")
        with pytest.raises(WaterclockError) as caught:
            columns_of(file, parse_read_options({}), ())
        assert caught.value.code == "E882"


def test_the_limit_of_cells_is_that_of_all_tables_of_an_ods_together() -> None:
    row = f"<table:table-row>{CELL.format('', 'id')}</table:table-row>"
    repeated = CELL.format(' table:number-columns-repeated="17"', "x")
    table = f'<table:table-row table:number-rows-repeated="1000000">{repeated}</table:table-row></table:table>'
    file = ods(f'{row}</table:table><table:table table:name="T">{table}<table:table table:name="U">{table[:-14]}')
    with pytest.raises(WaterclockError) as caught:
        columns_of(file, parse_read_options({"sheet": "S"}), ())
    assert caught.value.code == "E882"
    assert caught.value.why == (
        "the used ranges of its sheets have 34000001 cells, including empty ones, and the limit is 33554432"
    )


@pytest.mark.parametrize(
    "value", ['value="1"', 'string-value="x"', 'date-value="2020-01-01"', 'time-value="PT1H"', 'boolean-value="true"']
)
def test_cells_of_an_ods_that_have_a_value_without_its_type_are_counted(value: str) -> None:
    repeated = f'<table:table-cell table:number-columns-repeated="60" office:{value}/>'
    rows = f'<table:table-row table:number-rows-repeated="1000000">{repeated}</table:table-row>'
    with pytest.raises(WaterclockError) as caught:
        columns_of(ods(f"<table:table-row>{CELL.format('', 'id')}</table:table-row>{rows}"), parse_read_options({}), ())
    assert caught.value.code == "E882"
    assert "60000060 cells" in str(caught.value.why)


def test_an_ods_with_empty_rows_at_its_end_is_read() -> None:
    rows = "".join(f"<table:table-row>{CELL.format('', value)}</table:table-row>" for value in ("id", "1"))
    rows += '<table:table-row table:number-rows-repeated="1048574"><table:table-cell '
    rows += 'table:number-columns-repeated="16384"/></table:table-row>'
    assert read(ods(rows)) == [["1"]]


def record(kind: int, content: bytes = b"") -> bytes:
    """Return a record of [MS-XLSB]: its number and its size, with 7 bits per byte, and its content."""

    def numbered(number: int) -> bytes:
        return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7])

    return numbered(kind) + numbered(len(content)) + content


def words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in numbers)


def wide(text: str) -> bytes:
    return words(len(text)) + text.encode("utf-16-le")


def xlsb(cells: dict[int, dict[int, str]], *, path: str = "worksheets/sheet1.bin") -> io.BytesIO:
    """Build a workbook in Excel's binary format, with the texts of its cells by row and column."""
    rows = b"".join(
        record(0, words(row) + bytes(13)) + b"".join(record(6, words(column, 0) + wide(text)) for column, text in said)
        for row, said in ((row, columns.items()) for row, columns in cells.items())
    )
    sheet = record(0x81) + record(0x94, words(0, 1, 0, 1)) + record(0x91) + rows + record(0x92) + record(0x82)
    listed = record(0x9C, words(0, 1) + wide("rId1") + wide("S"))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/workbook.bin", record(0x83) + listed + record(0x90) + record(0x84))
        packed.writestr(
            "xl/_rels/workbook.bin.rels",
            f'<Relationships xmlns="{RELATIONS}"><Relationship Id="rId1" Type="{OFFICE}/worksheet" '
            f'Target="{path}"/></Relationships>',
        )
        packed.writestr(f"xl/{path}", sheet)
    file.seek(0)
    return file


def test_an_xlsb_is_read() -> None:
    assert read(xlsb({0: {0: "id", 1: "n"}, 1: {0: "1", 1: "x" * 200}, 300: {0: "2", 1: "3"}})) == [
        ["1", "x" * 200],
        ["2", "3"],
    ]


@pytest.mark.parametrize("path", ["worksheets/sheet1.bin", "any/where.xml"])
def test_cells_of_an_xlsb_far_apart_are_refused_before_memory_is_allocated(path: str) -> None:
    with pytest.raises(WaterclockError) as caught:
        columns_of(xlsb({0: {0: "id"}, 1_048_575: {16_383: "x"}}, path=path), parse_read_options({}), ())
    assert caught.value.code == "E882"


@pytest.mark.parametrize("disguise", ["content.xml", "xl/worksheets/sheet1.bin"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_xlsb_in_disguise_is_checked_all_the_same(disguise: str) -> None:
    """It may also have the member of an .ods, or a harmless one with the sheet's name."""
    file = xlsb({0: {0: "id"}, 1_048_575: {16_383: "x"}})
    with zipfile.ZipFile(file, "a") as packed:
        packed.writestr(disguise, "<a/>")
    file.seek(0)
    with pytest.raises(WaterclockError) as caught:
        columns_of(file, parse_read_options({}), ())
    assert caught.value.code == "E882"


def test_a_cell_of_an_xlsb_that_no_sheet_has_is_refused() -> None:
    with pytest.raises(ValueError, match="which is outside of any sheet"):
        columns_of(xlsb({0: {0: "id", 16_384: "x"}}), parse_read_options({}), ())


NONE, END = 0xFFFFFFFF, 0xFFFFFFFE


def part(kind: int, content: bytes) -> bytes:
    return struct.pack("<HH", kind, len(content)) + content


def xls(*cells: tuple[int, int], dimensions: tuple[int, ...] = ()) -> io.BytesIO:
    """Build a workbook of the old format: a header, a sector of the chains, one of directories, and the stream."""
    sheet = part(0x200, struct.pack("<IIHHH", *dimensions)) if dimensions else b""
    sheet += b"".join(part(0x203, struct.pack("<HHHd", row, column, 0, 7)) for row, column in cells)
    beginning = [part(0x809, struct.pack("<HHHHII", 0x600, kind, 0, 1997, 0, 6)) for kind in (5, 0x10)]
    book = beginning[0] + part(0x42, struct.pack("<H", 1200))
    book += part(0x85, struct.pack("<IBB", len(book) + 17, 0, 0) + b"\1\0S") + part(0x0A, b"")
    stream = (book + beginning[1] + sheet + part(0x0A, b"")).ljust(4096, b"\0")
    chains = [0xFFFFFFFD, END, *range(3, 10), END]
    root = "Root Entry".encode("utf-16-le").ljust(64, b"\0") + struct.pack("<HBBIII", 22, 5, 1, NONE, NONE, 1)
    entry = "Workbook".encode("utf-16-le").ljust(64, b"\0") + struct.pack("<HBBIII", 18, 2, 1, NONE, NONE, NONE)
    folder = root + bytes(36) + struct.pack("<IQ", END, 0) + entry + bytes(36) + struct.pack("<IQ", 2, len(stream))
    head = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    head += struct.pack("<9I", 0, 1, 1, 0, 4096, END, 0, END, 0) + struct.pack("<109I", 0, *[NONE] * 108)
    table = struct.pack("<128I", *chains, *[NONE] * (128 - len(chains)))
    return io.BytesIO(head + table + folder.ljust(512, b"\0") + stream)


def test_an_xls_is_read() -> None:
    assert read(xls((0, 0), (1, 0), dimensions=(0, 2, 0, 1, 0))) == [["7"]]


@pytest.mark.parametrize(
    "file",
    [
        xls((0, 0), (65_535, 65_535)),
        xls((0, 0), (1, 1), dimensions=(0, 0xFFFFFFFF, 0, 0xFFFF, 0)),
        io.BytesIO(xls((0, 0), (65_535, 65_535)).getvalue() + workbook(HEAD).getvalue()),
    ],
    ids=["cells", "dimensions", "disguise"],
)
def test_an_xls_that_needs_too_much_memory_is_refused_before_it_is_allocated(file: io.BytesIO) -> None:
    with pytest.raises(WaterclockError) as caught:
        columns_of(file, parse_read_options({}), ())
    assert caught.value.code == "E882"
    assert "bytes of memory" in str(caught.value.why)


def test_a_corrupt_xls_file_is_reported_as_unreadable() -> None:
    for file in (xls().getvalue()[:100], xls().getvalue()[:600] + b"\xff" * 5_000):
        with pytest.raises(ValueError, match="the workbook cannot be read"):
            columns_of(io.BytesIO(file), parse_read_options({}), ())


STUCK = """
import sys
sys.path += sys.argv[4:]
from waterclock.connectors.files import sheet_rows
def stick(*_):
    while True:
        pass
sheet_rows._read_messages = stick
sheet_rows.main()
"""


def test_reading_a_workbook_may_take_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook_process, "_MOST_SECONDS", 1)
    monkeypatch.setattr(workbook_process, "_PROCESS_CODE", STUCK)
    with pytest.raises(WaterclockError) as caught:
        columns_of(workbook(HEAD), parse_read_options({}), ())
    assert (caught.value.code, caught.value.why) == ("E882", "reading it takes more than 1 seconds")
