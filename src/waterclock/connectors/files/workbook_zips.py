"""Refuses workbooks whose zip two programs may read differently.

zipfile checks the sheets of a workbook, and calamine reads them. A file with two lists of members, or a member with two
names, could show each of them other sheets. So a workbook must have the plain structure that all programs write: one
list of members directly before the end of the file, whose entries agree with the members themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, NoReturn

MOST_LISTED = 16 << 20
"""The maximum size of a zip's list of members in bytes."""
_OLE = bytes.fromhex("d0cf11e0a1b11ae1")  # .xls
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_LONGEST_COMMENT = (1 << 16) - 1
_MOST_16, _MOST_32 = (1 << 16) - 1, (1 << 32) - 1
_SIZES_64, _UNICODE_PATH = 0x0001, 0x7075
_UNICODE_PATH_HEAD = 5  # bytes: a version and a checksum
_EXTRA_64, _SIZE_64 = 8, 44


@dataclass(frozen=True, slots=True)
class _Member:
    """An entry of the list of members, and the offset of the member."""

    name: bytes
    method: int
    packed_size: int
    at: int


def require_plain_zip(file: IO[bytes]) -> None:
    """Refuse a workbook whose zip two programs could read differently, such as one with two lists of members.

    An .xls passes, because it is no zip. The file is at its beginning afterwards.
    Raises ValueError for such a zip.
    """
    file.seek(0)
    if file.read(len(_OLE)) != _OLE:
        begin, end, count = _list_of_members(file)
        members = list(_entries(_read_at(file, begin, end - begin), count))
        places = sorted((member.at, _end_of(file, member)) for member in members)
        limits = [at for at, _ in places[1:]] + [begin]
        if any(after > limit for (_, after), limit in zip(places, limits, strict=False)):
            _refuse("its members overlap")
    file.seek(0)


def _list_of_members(file: IO[bytes]) -> tuple[int, int, int]:
    """Return the offsets at which the list of members begins and ends, and the number of members."""
    size = file.seek(0, 2)
    tail = _read_at(file, max(0, size - _END.size - _LONGEST_COMMENT), _END.size + _LONGEST_COMMENT)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        _refuse("it does not end with a list of members")
    _, *values, comment = _END.unpack_from(tail, at)
    if at + _END.size + comment != len(tail):
        _refuse("it continues after its list of members")
    end, found = size - len(tail) + at, tuple(map(int, values))
    if _read_at(file, max(0, end - _LOCATOR.size), 4) == b"PK\6\7":
        found, end = _list_by_end_64(file, found, end - _LOCATOR.size)
    disk, first_disk, here, count, length, begin = found
    if disk or first_disk or here != count or begin + length != end:
        _refuse("it may have two lists of members")
    if length > MOST_LISTED:
        _refuse(f"its list of members has more than {MOST_LISTED} bytes")
    return begin, end, count


def _list_by_end_64(file: IO[bytes], found: tuple[int, ...], locator: int) -> tuple[tuple[int, ...], int]:
    """Return the values of the longer end record, which must agree with those of the short one, and its offset."""
    end = locator - _END_64.size
    _, _, at, _ = _LOCATOR.unpack(_read_at(file, locator, _LOCATOR.size).ljust(_LOCATOR.size, b"\0"))
    mark, size, _, _, *values = _END_64.unpack(_read_at(file, max(0, end), _END_64.size).ljust(_END_64.size, b"\0"))
    agree = all(short in (value, most) for short, value, most in zip(found, values, _ALL_ONES, strict=True))
    if at != end or mark != b"PK\6\6" or size != _SIZE_64 or not agree:
        _refuse("it may have two lists of members")
    return tuple(values), end


_ALL_ONES = (_MOST_16, _MOST_16, _MOST_16, _MOST_16, _MOST_32, _MOST_32)


def _entries(listed: bytes, count: int) -> Iterator[_Member]:
    at = found = 0
    while at < len(listed):
        if len(listed) - at < _ENTRY.size or not listed.startswith(b"PK\1\2", at):
            _refuse("its list of members is broken")
        values = _ENTRY.unpack_from(listed, at)
        method, packed, unpacked, name_length, extra_length, comment_length = (values[n] for n in (4, 8, 9, 10, 11, 12))
        begin = at + _ENTRY.size
        name, extra = listed[begin:][:name_length], listed[begin + name_length :][:extra_length]
        at, found = begin + name_length + extra_length + comment_length, found + 1
        if at > len(listed):
            _refuse("its list of members is broken")
        _require_one_name(name, extra)
        packed, offset = _with_sizes_64(unpacked, packed, values[16], extra)
        yield _Member(name, method, packed, offset)
    if found != count:
        _refuse(f"it lists {found} members, and declares {count}")


def _require_one_name(name: bytes, extra: bytes) -> None:
    if b"\0" in name:
        _refuse("a member's name contains a zero byte")
    for kind, content in _extras(extra):
        if kind == _UNICODE_PATH and content[_UNICODE_PATH_HEAD:] != name:
            _refuse(f"its member {name.decode(errors='replace')[:100]!r} has a second name")


def _with_sizes_64(unpacked: int, packed: int, offset: int, extra: bytes) -> tuple[int, int]:
    """Return the packed size and the offset of a member, whose values of eight bytes are in its extra fields."""
    numbers = b"".join(content for kind, content in _extras(extra) if kind == _SIZES_64)
    found = []
    for number in (unpacked, packed, offset):
        if number != _MOST_32:
            found.append(number)
            continue
        if len(numbers) < _EXTRA_64:
            _refuse("its list of members is broken")
        found.append(int.from_bytes(numbers[:_EXTRA_64], "little"))
        numbers = numbers[_EXTRA_64:]
    return found[1], found[2]


def _extras(extra: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        yield kind, extra[at + 4 : at + 4 + size]
        at += 4 + size


def _end_of(file: IO[bytes], member: _Member) -> int:
    """Return the offset after the content of a member, whose own header must have the name and method of the list."""
    head = _read_at(file, member.at, _LOCAL.size)
    if len(head) < _LOCAL.size or not head.startswith(b"PK\3\4"):
        _refuse(f"its member {member.name.decode(errors='replace')[:100]!r} is not where the list has it")
    *_, name_length, extra_length = _LOCAL.unpack(head)
    named = _read_at(file, member.at + _LOCAL.size, name_length + extra_length)
    if named[:name_length] != member.name or head[8:10] != member.method.to_bytes(2, "little"):
        _refuse(f"its member {member.name.decode(errors='replace')[:100]!r} has another name or method in the list")
    _require_one_name(member.name, named[name_length:])
    return member.at + _LOCAL.size + len(named) + member.packed_size


def _read_at(file: IO[bytes], at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _refuse(why: str) -> NoReturn:
    raise ValueError(f"the workbook cannot be read: {why}; programs differ in what they read from such a zip")
