"""Decodes the messages of PostgreSQL's built-in output plugin pgoutput, protocol version 1."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from datetime import datetime

from waterclock.connectors.postgres.log_changes import Begin, Event, LogChange, Op, instant_of_log

_UNCHANGED, _NULL, _TEXT = b"u", b"n", b"t"
_OPS = {b"I": Op.INSERT, b"U": Op.UPDATE, b"D": Op.DELETE}


@dataclass(frozen=True, slots=True)
class Relation:
    """The description of a table in pgoutput's messages: its columns, and those of its replica identity.

    `named` are the columns in the form of `LogChange.columns`, with None as their number.
    """

    columns: tuple[str, ...]
    identity: frozenset[str]
    named: tuple[tuple[str, None], ...]


def options(publication: str) -> dict[str, str]:
    """Return the plugin options of pgoutput for reading a publication."""
    return {"proto_version": "1", "publication_names": f'"{publication.replace(chr(34), chr(34) * 2)}"'}


def events(messages: Iterable[bytes], table: int) -> Generator[Event]:
    """Yield the starts of all transactions, and the changes of one table, in log order.

    `table` is the table's oid, which does not change if the table is renamed. `messages` are complete transactions from
    one read of a slot. In each read, the server describes a table before its first change.

    Raises ValueError for invalid messages.
    """
    relations: dict[int, Relation] = {}
    begin: Begin | None = None
    number = 0
    for message in messages:
        reader = _MessageReader(message)
        kind = reader.take(1)
        if kind == b"B":
            committed_at, micros, xid = reader.unpack("!qqI")
            begin, number = Begin(xid, committed_at, _instant(micros)), 0
            yield begin
        elif kind == b"R":
            oid, relation = _parse_relation(reader)
            relations[oid] = relation
        elif kind in _OPS or kind == b"T":
            change = _parse_change(kind, reader, relations, begin, number, table)
            if change is not None:
                yield change
                number += 1


def _instant(micros: int) -> datetime:
    try:
        return instant_of_log(micros)
    except OverflowError:
        raise ValueError(f"a commit at {micros} microseconds since 2000") from None


def _parse_change(
    kind: bytes,
    reader: _MessageReader,
    relations: dict[int, Relation],
    begin: Begin | None,
    number: int,
    wanted: int,
) -> LogChange | None:
    if begin is None:
        raise ValueError("a change outside of a transaction")
    if kind == b"T":
        count, _ = reader.unpack("!iB")
        is_ours = wanted in [reader.unpack("!I")[0] for _ in range(_require_size(count))]
        return LogChange(Op.TRUNCATE, begin, number) if is_ours else None
    (oid,) = reader.unpack("!I")
    if oid != wanted:
        return None
    relation = relations.get(oid)
    if relation is None:
        raise ValueError(f"a change of table {oid}, which was not described before")
    after = before = None
    while reader.has_more:
        part = reader.take(1)
        row = _parse_row(reader, relation)
        if part == b"N":
            after = row
        elif part == b"K":
            before = {name: value for name, value in row.items() if name in relation.identity}
        else:
            before = row
    if before is None and after is not None and kind == b"U":  # its identity did not change
        before = {name: value for name, value in after.items() if name in relation.identity}
    return LogChange(_OPS[kind], begin, number, after, before, relation.named)


def _parse_relation(reader: _MessageReader) -> tuple[int, Relation]:
    (oid,) = reader.unpack("!I")
    for _ in ("schema", "table"):
        reader.text()
    _, count = reader.unpack("!ch")
    columns, identity = [], set()
    for _ in range(_require_size(count)):
        (flags,) = reader.unpack("!B")
        name = reader.text()
        reader.unpack("!Ii")
        columns.append(name)
        if flags & 1:
            identity.add(name)
    return oid, Relation(tuple(columns), frozenset(identity), tuple((name, None) for name in columns))


def _parse_row(reader: _MessageReader, relation: Relation) -> dict[str, str | None]:
    """Parse a row. Values that an update left unchanged are missing in it."""
    (count,) = reader.unpack("!h")
    row: dict[str, str | None] = {}
    for name in relation.columns[: _require_size(count)]:
        kind = reader.take(1)
        if kind == _NULL:
            row[name] = None
        elif kind == _TEXT:
            (size,) = reader.unpack("!i")
            row[name] = reader.take(size).decode()
        elif kind != _UNCHANGED:
            raise ValueError(f"a value of the unknown kind {kind!r}")
    return row


def _require_size(size: int) -> int:
    """Return a size from a message. Raises ValueError if it is negative, as the reader would then never end."""
    if size < 0:
        raise ValueError(f"a size of {size}")
    return size


class _MessageReader:
    """Reads the fields of one message in order."""

    def __init__(self, message: bytes) -> None:
        self._bytes = message
        self._at = 0

    @property
    def has_more(self) -> bool:
        return self._at < len(self._bytes)

    def take(self, size: int) -> bytes:
        taken = self._bytes[self._at : self._at + _require_size(size)]
        if len(taken) < size:
            raise ValueError("a message is cut off")
        self._at += size
        return taken

    def unpack(self, layout: str) -> tuple[int, ...]:
        values: tuple[int, ...] = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return values

    def text(self) -> str:
        end = self._bytes.find(b"\0", self._at)
        if end < 0:
            raise ValueError("a message is cut off")
        found = self._bytes[self._at : end].decode()
        self._at = end + 1
        return found
