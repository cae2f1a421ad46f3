"""A workbook is refused if its zip shows the checks other members than the library that reads it."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

import pytest

from tests.security.files.test_hostile_workbooks import HEAD, UNRECKONED, ods, read, sheet_of, workbook, xls, xlsb
from waterclock.connectors.files.excel_reading import columns_of
from waterclock.connectors.files.reading_options import parse_read_options
from waterclock.connectors.files.workbook_zips import require_plain_zip

SHEET = b"xl/worksheets/sheet1.xml"
END = struct.Struct("<4s4H2LH")


def end_of(content: bytes) -> tuple[int, int, int, int]:
    """Return the offset of the end record, the number of members, and the size and offset of their list."""
    at = content.rindex(b"PK\5\6")
    _, _, _, _, count, size, begin, _ = END.unpack_from(content, at)
    return at, count, size, begin


def with_end(body: bytes, count: int, size: int, begin: int, comment: bytes = b"") -> io.BytesIO:
    return io.BytesIO(body + END.pack(b"PK\5\6", 0, 0, count, count, size, begin, len(comment)) + comment)


def two_lists() -> io.BytesIO:
    """Build a workbook with two lists of members: one at the end, and one where the end record declares it."""
    shown, hidden = workbook(HEAD).getvalue(), workbook(HEAD + UNRECKONED).getvalue()
    _, count, size, begin = end_of(hidden)
    at, _, own_size, own_begin = end_of(shown)
    assert size == own_size
    gap = bytes(begin - own_begin)  # zipfile adds the distance of the two lists to all offsets
    body = hidden[: begin + size] + shown[:own_begin] + gap + shown[own_begin:at]
    return with_end(body, count, size, begin)


def two_lists_of_other_sizes() -> io.BytesIO:
    content = workbook(HEAD).getvalue()
    at, count, size, begin = end_of(content)
    return with_end(content[:begin] + b"\0" * 40 + content[begin:at], count, size, begin)


def unicode_path(name: bytes, other: bytes) -> bytes:
    field = b"\1" + struct.pack("<L", zlib.crc32(name)) + other
    return struct.pack("<2H", 0x7075, len(field)) + field


def with_extra(name: bytes, extra: bytes, *, is_local: bool = False) -> io.BytesIO:
    """Build a workbook in which the member `name` has a further field in the list, or in its own header."""
    file = io.BytesIO()
    with zipfile.ZipFile(workbook(HEAD)) as source, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for member in source.infolist():
            info = zipfile.ZipInfo(member.filename)
            own = member.filename.encode() == name
            info.extra = extra if own and is_local else b""
            packed.writestr(info, source.read(member))
            info.extra = extra if own and not is_local else b""
    file.seek(0)
    return file


def with_second_sheet(name: str, other: str) -> io.BytesIO:
    """Build a workbook with a member `other`, which the list calls `name`."""
    content = workbook(HEAD, more={other: sheet_of(HEAD + UNRECKONED)}).getvalue()
    _, _, _, begin = end_of(content)
    assert len(name) == len(other)
    return io.BytesIO(content[:begin] + content[begin:].replace(other.encode(), name.encode()))


def declares_fewer() -> io.BytesIO:
    """zipfile reads the list up to its end, calamine as many members as are declared."""
    content = workbook(HEAD, more={"more.xml": "<a/>"}).getvalue()
    at, count, size, begin = end_of(content)
    return with_end(content[:at], count - 1, size, begin)


def with_zip64(entries: int = 0) -> io.BytesIO:
    content = workbook(HEAD).getvalue()
    at, count, size, begin = end_of(content)
    longer = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, begin)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
    return with_end(content[:at] + longer + locator, entries or 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)


def with_elsewhere_zip64() -> io.BytesIO:
    """Return a workbook whose longer end record is at another position, and lists nothing."""
    content = workbook(HEAD).getvalue()
    at, count, size, begin = end_of(content)
    longer = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 0, 0, 0, at)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
    return with_end(content[:at] + longer + b"gap" + locator, count, size, begin)


def overlapping() -> io.BytesIO:
    """Two entries of the list share one member, which is how a small zip unpacks to any size."""
    content = workbook(HEAD, more={"a.xml": "x" * 99, "b.xml": "x" * 99}).getvalue()
    at, count, size, begin = end_of(content)
    listed = content[begin:at]
    first, second = listed.rindex(b"PK\1\2", 0, listed.rindex(b"a.xml")), listed.rindex(b"PK\1\2")
    offset = listed[first + 42 : first + 46]
    listed = listed[: second + 42] + offset + listed[second + 46 : -5] + b"a.xml"
    return with_end(content[:begin] + listed, count, size, begin)


AMBIGUOUS: dict[str, Callable[[], io.BytesIO]] = {
    "two lists of members": two_lists,
    "a gap behind the list": two_lists_of_other_sizes,
    "bytes before the zip": lambda: io.BytesIO(b"PK\3\4" + workbook(HEAD).getvalue()),
    "bytes behind the zip": lambda: io.BytesIO(workbook(HEAD).getvalue() + b"x" * 40),
    "many bytes behind the zip": lambda: io.BytesIO(workbook(HEAD).getvalue() + bytes(1 << 17)),
    "fewer members declared": declares_fewer,
    "another path in Unicode": lambda: with_extra(b"[Content_Types].xml", unicode_path(b"[Content_Types].xml", SHEET)),
    "another path of the member": lambda: with_extra(SHEET, unicode_path(SHEET, b"xl/other.xml"), is_local=True),
    "another name of the member": lambda: with_second_sheet("xl/other2.xml", "xl/other1.xml"),
    "a zero byte": lambda: with_second_sheet("xl/worksheets/sheet1.xml\0", "xl/worksheets/sheet1.xml_"),
    "an end record of 64 bits elsewhere": with_elsewhere_zip64,
    "other values of 64 bits": lambda: with_zip64(entries=1),
    "members that overlap": overlapping,
    "no zip": lambda: io.BytesIO(b"PK\3\4" + bytes(100)),
}


@pytest.mark.parametrize("build", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_a_zip_that_programs_read_differently_is_refused(build: Callable[[], io.BytesIO]) -> None:
    with pytest.raises(ValueError, match="programs differ in what they read"):
        require_plain_zip(build())


def second_name() -> io.BytesIO:
    """Build a workbook whose member `more.xml` has the name of the sheet as its second one, which calamine reads."""
    file = workbook(HEAD)
    member = zipfile.ZipInfo("more.xml")
    member.extra = unicode_path(b"more.xml", SHEET)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(member, sheet_of(HEAD + '<row r="3"><c r="A3"><v>666</v></c><c r="B3"><f>1+1</f></c></row>'))
    file.seek(0)
    return file


def test_calamine_reads_no_sheet_that_the_checks_did_not_see() -> None:
    """The third row was read, with an empty cell in place of the formula without a value."""
    with pytest.raises(ValueError, match=r"its member 'more.xml' has a second name"):
        columns_of(second_name(), parse_read_options({}), ())


def unseekable() -> io.BytesIO:
    """Write a zip as a stream, with the sizes of members after their data."""

    class Stream(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, content: object) -> int:
            return sink.write(content)  # type: ignore[arg-type]

    sink = io.BytesIO()
    with zipfile.ZipFile(workbook(HEAD)) as source, zipfile.ZipFile(Stream(), "w", zipfile.ZIP_DEFLATED) as packed:
        for member in source.infolist():
            with packed.open(member.filename, "w", force_zip64=True) as to:
                to.write(source.read(member))
    return io.BytesIO(sink.getvalue())


def commented() -> io.BytesIO:
    content = workbook(HEAD).getvalue()
    at, count, size, begin = end_of(content)
    return with_end(content[:at], count, size, begin, b"made by hand, PK\5")


PLAIN: dict[str, Callable[[], io.BytesIO]] = {
    "xlsx": lambda: workbook(HEAD),
    "xlsb": lambda: xlsb({0: {0: "id"}}),
    "ods": lambda: ods("<table:table-row/>"),
    "xls": lambda: xls((0, 0)),
    "a stream": unseekable,
    "64 bits": with_zip64,
    "a comment": commented,
    "the same path in Unicode": lambda: with_extra(SHEET, unicode_path(SHEET, SHEET)),
    "another field": lambda: with_extra(SHEET, struct.pack("<2HL", 0xCAFE, 4, 1) + b"\0\0"),
}


@pytest.mark.parametrize("build", PLAIN.values(), ids=PLAIN)
def test_a_plain_zip_is_accepted(build: Callable[[], io.BytesIO]) -> None:
    file = build()
    require_plain_zip(file)
    assert file.tell() == 0


def test_a_workbook_of_a_stream_is_read() -> None:
    assert read(unseekable()) == [["1", "2"]]
