"""The decoders of the log: each line or message alone, and messages written by the test and decoded again."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.postgres import pgoutput, wal2json
from waterclock.connectors.postgres.log_changes import (
    POSTGRES_EPOCH,
    Begin,
    Event,
    LogChange,
    Op,
    position_of,
    position_text,
)

TABLE = ("public", "t")
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
NAMES = ("id", "ä b", "c")
VALUES = st.fixed_dictionaries(dict.fromkeys(NAMES, st.none() | TEXT))


@st.composite
def transactions(draw: st.DrawFn) -> list[list[Event]]:
    made: list[list[Event]] = []
    position = draw(st.integers(0, 2**63 - 10**6))
    for _ in range(draw(st.integers(0, 4))):
        position += draw(st.integers(1, 1000))
        at = POSTGRES_EPOCH + timedelta(microseconds=draw(st.integers(0, 10**15)))
        begin = Begin(draw(st.integers(1, 2**32 - 1)), position, at)
        made.append([begin, *(draw(_changes(begin, number)) for number in range(draw(st.integers(0, 4))))])
    return made


@st.composite
def _changes(draw: st.DrawFn, begin: Begin, number: int) -> LogChange:
    op = draw(st.sampled_from([Op.INSERT, Op.UPDATE, Op.DELETE, Op.TRUNCATE]))
    after = dict(draw(VALUES)) if op in {Op.INSERT, Op.UPDATE} else None
    if after is not None and op is Op.UPDATE and draw(st.booleans()):
        del after["c"]  # large and unchanged
    whole: Mapping[str, str | None] = dict(draw(VALUES))
    key: Mapping[str, str | None] = {"id": draw(TEXT)}
    before: Mapping[str, str | None] | None = None
    if op is Op.DELETE:
        before = draw(st.sampled_from((whole, key)))
    if op is Op.UPDATE:
        before = draw(st.none() | st.sampled_from((whole, key)))
    return LogChange(op, begin, number, after, before)


def _as_wal2json(made: list[list[Event]]) -> list[str]:
    lines: list[str] = []
    actions = {Op.INSERT: "I", Op.UPDATE: "U", Op.DELETE: "D", Op.TRUNCATE: "T"}
    for transaction in made:
        for each in transaction:
            begin = each if isinstance(each, Begin) else each.begin
            said: dict[str, Any] = {"xid": begin.xid, "timestamp": f"{begin.at:%Y-%m-%d %H:%M:%S.%f}+00"}
            said["lsn"] = position_text(begin.committed_at)
            if isinstance(each, Begin):
                said["action"] = "B"
            else:
                said |= {"action": actions[each.op], "schema": "public", "table": "t"}
                for name, row in (("columns", each.after), ("identity", each.before)):
                    if row is not None:
                        said[name] = [{"name": key, "type": "text", "value": value} for key, value in row.items()]
            lines.append(json.dumps(said))
        lines.append(json.dumps({"action": "C", "xid": 1}))
    return lines


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _row(row: Any) -> bytes:
    parts = [struct.pack("!h", len(NAMES))]
    for name in NAMES:
        value = row.get(name)
        if name not in row:
            parts.append(b"u")
        elif value is None:
            parts.append(b"n")
        else:
            parts.append(b"t" + struct.pack("!i", len(value.encode())) + value.encode())
    return b"".join(parts)


def _as_pgoutput(made: list[list[Event]]) -> list[bytes]:
    relation = b"R" + struct.pack("!I", 7) + _text("public") + _text("t") + b"d" + struct.pack("!h", len(NAMES))
    for name in NAMES:
        relation += struct.pack("!B", name == "id") + _text(name) + struct.pack("!Ii", 25, -1)
    messages = []
    for transaction in made:
        for each in transaction:
            if isinstance(each, Begin):
                micros = (each.at - POSTGRES_EPOCH) // timedelta(microseconds=1)
                messages += [b"B" + struct.pack("!qqI", each.committed_at, micros, each.xid), relation]
            elif each.op is Op.TRUNCATE:
                messages.append(b"T" + struct.pack("!iBI", 1, 0, 7))
            else:
                message = {Op.INSERT: b"I", Op.UPDATE: b"U", Op.DELETE: b"D"}[each.op] + struct.pack("!I", 7)
                if each.before is not None:
                    is_key = set(each.before) == {"id"}
                    row = {**dict.fromkeys(NAMES), **each.before} if is_key else each.before
                    message += (b"K" if is_key else b"O") + _row(row)
                messages.append(message + (b"N" + _row(each.after) if each.after is not None else b""))
        messages.append(b"C" + struct.pack("!Bqqq", 0, 1, 2, 3))
    return messages


def _with_identity(each: Event) -> Event:
    """Return a change with the identity of an unchanged row, which pgoutput does not write."""
    if isinstance(each, Begin) or each.op is not Op.UPDATE or each.before is not None or each.after is None:
        return each
    return replace(each, before={"id": each.after["id"]})


@given(transactions())
def test_transactions_written_by_either_plugin_are_decoded_unchanged(made: list[list[Event]]) -> None:
    expected = [each for transaction in made for each in transaction]
    assert list(wal2json.events(_as_wal2json(made), *TABLE)) == expected
    assert list(pgoutput.events(_as_pgoutput(made), 7)) == [_with_identity(each) for each in expected]


@given(transactions())
def test_changes_of_other_tables_are_left_out_and_not_counted(made: list[list[Event]]) -> None:
    begins = [transaction[0] for transaction in made]
    assert list(wal2json.events(_as_wal2json(made), "public", "other")) == begins
    assert list(pgoutput.events(_as_pgoutput(made), 8)) == begins


@given(st.integers(0, 2**64 - 1))
def test_positions_are_written_and_read(position: int) -> None:
    assert position_of(position_text(position)) == position


def test_wal2json_values_keep_every_digit_and_get_the_text_form_of_their_type() -> None:
    columns = [
        {"name": "n", "type": "numeric", "value": 0},
        {"name": "b", "type": "boolean", "value": True},
        {"name": "x", "type": "bytea", "value": "dead"},
        {"name": "j", "type": "jsonb", "value": '{"a": 1.10}'},
    ]
    text = json.dumps({"action": "I", "schema": "public", "table": "t", "columns": columns})
    text = text.replace('"numeric", "value": 0', '"numeric", "value": 12345678901234567890.10')
    begin = '{"action":"B","xid":5,"timestamp":"2026-01-02 03:04:05+00","lsn":"0/A"}'
    came = list(wal2json.events([begin, text], *TABLE))
    assert came[0] == Begin(5, 10, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert isinstance(came[1], LogChange)
    assert came[1].after == {"n": "12345678901234567890.10", "b": "t", "x": "\\xdead", "j": '{"a": 1.10}'}


def test_special_characters_in_names_are_escaped_in_plugin_options() -> None:
    assert wal2json.options("public", "a.b c")["add-tables"] == "public.a\\.b\\ c"
    assert pgoutput.options('a"b')["publication_names"] == '"a""b"'


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_message_that_breaks_off_is_refused(cut: int) -> None:
    whole = b"B" + struct.pack("!qqI", 1, 2, 3)
    with pytest.raises(ValueError, match="cut off"):
        list(pgoutput.events([whole[:cut]], 7))


def test_a_change_outside_of_a_transaction_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        list(pgoutput.events([b"I"], 7))
    with pytest.raises(ValueError, match="outside"):
        list(wal2json.events(['{"action":"T","schema":"public","table":"t"}'], *TABLE))


_BEGIN = b"B" + struct.pack("!qqI", 1, 1, 1)
_RELATION = b"R" + struct.pack("!I", 7) + _text("s") + _text("t") + b"d" + struct.pack("!hB", 1, 1) + _text("a")
_TABLE = _RELATION + struct.pack("!Ii", 25, -1)
_INSERT = b"I" + struct.pack("!I", 7) + b"N"


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([_BEGIN, _TABLE, _INSERT + struct.pack("!hci", 1, b"t", -8)], "a size of -8"),
        ([_BEGIN, _TABLE, _INSERT + struct.pack("!hci", 1, b"t", 2**31 - 1)], "cut off"),
        ([_BEGIN, _TABLE, _INSERT + struct.pack("!h", -1)], "a size of -1"),
        ([_BEGIN, _TABLE, _INSERT + struct.pack("!hci", 1, b"t", 1) + b"\xff"], "decode"),
        ([b"R" + struct.pack("!I", 7) + _text("s") + _text("t") + b"d" + struct.pack("!h", -1)], "a size of -1"),
        ([_BEGIN, b"T" + struct.pack("!iB", -1, 0)], "a size of -1"),
        ([_BEGIN, _INSERT + struct.pack("!hc", 1, b"n")], "not described"),
        ([b"B" + struct.pack("!qqI", 1, 2**62, 1)], "microseconds since 2000"),
    ],
)
def test_a_message_with_a_size_or_a_number_that_cannot_be_is_refused(messages: list[bytes], why: str) -> None:
    refused: list[str] = []

    def read() -> None:
        try:
            list(pgoutput.events(messages, 7))
        except ValueError as error:
            refused.append(str(error))

    reading = threading.Thread(target=read, daemon=True)  # regression: it read backwards and never ended
    reading.start()
    reading.join(10)
    assert why in "".join(refused)


_LINE = '{"action":"B","xid":5,"timestamp":"2026-01-02 03:04:05+00","lsn":"0/A"}'


def _insert(columns: str, action: str = '"I"') -> str:
    return f'{{"action":{action},"schema":"public","table":"t"{columns}}}'


def _column(value: str, name: str = '"a"', kind: str = "int4", position: str = "1") -> str:
    return f'{{"name":{name},"type":"{kind}","value":{value},"position":{position}}}'


@pytest.mark.parametrize(
    "lines",
    [
        ["5"], ["[]"], ["null"], ['"action"'], ["[" * 200_000 + "]" * 200_000], [_LINE + _LINE],
        ['{"action":"B","xid":1}'], [_LINE.replace('"0/A"', "null")], [_LINE.replace('"0/A"', '"zz"')],
        [_LINE.replace("5,", "[1],", 1)], [_LINE.replace('"2026-01-02 03:04:05+00"', "null")],
        [_LINE.replace("2026-01-02 03:04:05+00", "x")], [_LINE.replace("+00", "")],
        [_LINE, _insert("")], [_LINE, _insert("", '"U"')], [_LINE, _insert(',"columns":[]', '"i"')],
        [_LINE, _insert(',"columns":[]', '"Q"')], [_LINE, _insert(',"columns":[]', "[]")],
        [_LINE, _insert(',"columns":{"name":1}')], [_LINE, _insert(',"columns":"abc"')],
        [_LINE, _insert(f',"columns":[{_column("1")},{_column("2")}]')],
        [_LINE, _insert(f',"columns":[{_column("1")}],"columns":[{_column("2")}]')],
        [_LINE, _insert(f',"identity":[{_column("1")},{_column("2")}]', '"D"')],
        *([_LINE, _insert(f',"columns":[{each}]')] for each in (
            _column("[1]"), _column('{"x":1}', kind="jsonb"), _column("[1]", kind="bytea"), _column("1", "true"),
            _column("1", "[5]"), _column("1", position='"x"'), _column("1", position="[]"),
            _column("[" * 50_000 + "]" * 50_000),
        )),
    ],
)  # fmt: skip
def test_a_line_that_is_not_of_wal2json_is_refused(lines: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(wal2json.events(lines, *TABLE))


def test_commits_messages_and_other_tables_are_no_changes() -> None:
    lines = [_LINE, '{"action":"M"}', _insert("").replace('"t"', '"other"'), '{"action":"C"}']
    assert [type(each) for each in wal2json.events(lines, *TABLE)] == [Begin]
