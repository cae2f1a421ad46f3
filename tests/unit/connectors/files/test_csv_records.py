"""CSV records: quotes and line breaks as in RFC 4180, and quotes that are never closed."""

from __future__ import annotations

import csv
import io
import re
from time import process_time
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from waterclock.connectors.files import csv_records
from waterclock.connectors.files.csv_records import Quotes, Record, has_open_lines, split_records
from waterclock.connectors.files.encodings import decode_file

QUICK = settings(max_examples=200, deadline=None, phases=[Phase.explicit, Phase.generate, Phase.shrink])
RFC = Quotes(",", '"')
VALUES = st.text(st.sampled_from('a",\n\r;\\ é'), max_size=6)


def split(text: str, quotes: Quotes = RFC) -> list[tuple[int, str, bool]]:
    return [(found.line, found.text, found.is_open) for found in split_records(io.StringIO(text, newline=""), quotes)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,b\n1,2\n", [(1, "a,b", False), (2, "1,2", False)]),
        ('1,"two\nlines"\n2,x', [(1, '1,"two\nlines"', False), (3, "2,x", False)]),
        ('1,"two\r\nlines"\r\n2,x\r\n', [(1, '1,"two\r\nlines"', False), (3, "2,x", False)]),
        ('1,"a\n\nb"\n\n2,x\n', [(1, '1,"a\n\nb"', False), (5, "2,x", False)]),
        ('1,"unclosed\n2,x\n3,y\n', [(1, '1,"unclosed', True), (2, "2,x", False), (3, "3,y", False)]),
        ('1,"unclosed\n2,"x"\n', [(1, '1,"unclosed', True), (2, '2,"x"', False)]),
        ('1,"unclosed', [(1, '1,"unclosed', True)]),
        ('1,"a ""b"" c"\n', [(1, '1,"a ""b"" c"', False)]),
        ('1,"a ""\nb"\n', [(1, '1,"a ""\nb"', False)]),
        ('1,5" disk\n2,"x"\n', [(1, '1,5" disk', False), (2, '2,"x"', False)]),
        ('1,5" disk,"a\nb"\n', [(1, '1,5" disk,"a\nb"', False)]),
        ('1,"ab"c\n2,x\n', [(1, '1,"ab"c', False), (2, "2,x", False)]),
        ('"a\nb","c\nd",e\nf\n', [(1, '"a\nb","c\nd",e', False), (4, "f", False)]),
        ("a\rb\r", [(1, "a", False), (2, "b", False)]),
        ("\n \n", []),
    ],
)
def test_a_record_ends_where_its_quotes_are_closed(text: str, found: list[tuple[int, str, bool]]) -> None:
    assert split(text) == found


def test_a_quote_behind_an_escape_closes_nothing() -> None:
    slashed = Quotes(",", '"', "\\")
    assert split('1,"a \\" b\nc \\\\"\n2,x\n', slashed) == [(1, '1,"a \\" b\nc \\\\"', False), (3, "2,x", False)]


def test_without_quotes_each_line_is_a_record() -> None:
    assert split('1,"a\n2,b\n', Quotes(",", "")) == [(1, '1,"a', False), (2, "2,b", False)]


def test_a_record_beyond_the_bound_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "MOST_OF_A_RECORD", 10)
    assert split('1,"aaaaaaa\nbbbbb\nccc"\n2,x\n')[0] == (1, '1,"aaaaaaa', True)


OPENING = ['x","y\n', '"\n', 'a"\n', 'a"b\n', ',"\n', "a\n", '"a",\n', "\n", '""\n']


def looked_ahead_for_each(lines: list[str], most: int) -> list[Record]:
    """Split like `split_records`, but read ahead again for each line with an open field."""
    found, at = list[Record](), 0
    while at < len(lines):
        line, end, is_open = lines[at], at + 1, RFC.is_open_after(lines[at].rstrip("\n"))
        while is_open and end < len(lines) and sum(map(len, lines[at:end])) <= most:
            is_open = RFC.is_open_after(lines[end].rstrip("\n"), is_open=True)
            end += 1
        end = end if is_open is False else at + 1
        if line.strip():
            found.append(Record(at + 1, "".join(lines[at:end]).rstrip("\n"), is_open=is_open is not False))
        at = end
    return found


@QUICK
@given(
    lines=st.lists(
        st.sampled_from(['x","y\n', '"\n', 'a"\n', 'a"b\n', ',"\n', "a\n", '"a",\n', "\n", '""\n']), max_size=12
    ),
    most=st.sampled_from([0, 3, 5, 10, 20, 1 << 20]),
)
def test_reading_ahead_once_finds_the_same_records(lines: list[str], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_records, "MOST_OF_A_RECORD", most)
        assert list(split_records(lines, RFC)) == looked_ahead_for_each(lines, most)


@pytest.mark.parametrize("line", ['x","y\n', '"\n', 'a,"b\n', '","\n'])
@pytest.mark.parametrize("most", [100, csv_records.MOST_OF_A_RECORD])
def test_lines_that_each_open_a_field_take_linear_time(monkeypatch: pytest.MonkeyPatch, line: str, most: int) -> None:
    monkeypatch.setattr(csv_records, "MOST_OF_A_RECORD", most)
    begun = process_time()
    for end in ("", 'a"b\n'):
        assert sum(1 for _ in split_records([line] * 20_000 + [end], RFC)) >= 10_000
    assert process_time() - begun < 1


@QUICK
@given(rows=st.lists(st.lists(VALUES, min_size=2, max_size=3), max_size=6), end=st.sampled_from(["\n", "\r\n"]))
def test_written_records_are_split_into_the_same_records(rows: list[list[str]], end: str) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    found = split(text.getvalue())
    assert [next(csv.reader([text])) for _, text, _ in found] == rows
    assert not any(is_open for *_, is_open in found)


@QUICK
@given(text=st.text(st.sampled_from('a",\n'), max_size=40))
def test_the_sql_check_finds_every_open_line_and_without_one_each_line_is_a_record(text: str) -> None:
    lines = text.splitlines(keepends=True)
    if not has_open_lines(lines, RFC):
        told = [Record(at, line.rstrip("\n")) for at, line in enumerate(lines, 1) if line.strip()]
        assert list(split_records(lines, RFC)) == told
    for line in lines:
        if RFC.is_open_after(line.rstrip("\n")):
            assert _by_sql(line.rstrip("\n"))


def _by_sql(value: str) -> bool:
    """Do in Python what `Quotes.open_in_sql` does in Spark; an integration test compares the two readers."""
    bare = value.replace('""', "")
    return re.search('(^|,)"', re.sub('(^|,)"[^"]*"(?=,|$)', r"\1", bare)) is not None


@pytest.mark.parametrize("name", ["UTF-16", "UTF-16LE", "UTF-16BE", "utf-16", "UTF-32", "UTF-8", "windows-1252"])
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-8", "utf-32-le", "utf-32-be", "cp1252"])
@pytest.mark.parametrize("has_mark", [True, False])
def test_a_byte_order_mark_is_left_out_and_decides(name: str, codec: str, has_mark: bool) -> None:
    family = {"u": name.upper()[:6], "w": "cp1252"}[name.lower()[0]]
    is_same = codec.upper().startswith(family.rstrip("-").upper()) or codec == family
    other_order = name.upper()[-2:] in ("LE", "BE") and codec.upper()[-2:] != name.upper()[-2:]
    if not is_same or (other_order and not has_mark) or (has_mark and codec == "cp1252"):
        pytest.skip("no file with this encoding")
    mark = "\ufeff" if has_mark else ""
    file: Any = io.BytesIO(f"{mark}id,é\n1,2\n".encode(codec))
    assert decode_file(file, name).read() == "id,é\n1,2\n"
