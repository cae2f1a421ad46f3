"""Control characters of any text are printed as escapes on a terminal; a spreadsheet's formulas can be escaped."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from waterclock.cli.views.error_card import show_errors
from waterclock.cli.views.theme import make_console
from waterclock.connectors.files.file_writing import WriteOptions, find_write_option_errors, write_file
from waterclock.dpl.adhoc import adhoc_query
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.printable import printable

HOSTILE = "a\x1b]0;owned\x07b\x1b[2Jc\x9b31md\x08\x7fe\u202ef\ud800g\x00h\rDONE\u2028i"
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def printed(*objects: object, is_terminal: bool = False, **how: bool) -> str:
    """Return the text that a console writes."""
    stream = io.StringIO()
    console = make_console(stream, width=200)
    console._force_terminal = is_terminal
    console.print(*objects, **how)  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize("soft_wrap", [False, True])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_nothing_that_a_console_prints_is_obeyed(*, soft_wrap: bool, is_terminal: bool) -> None:
    table = Table(HOSTILE)
    table.add_row(HOSTILE, Text(HOSTILE))
    for each in (HOSTILE, Text(HOSTILE), table, Panel(HOSTILE, title=HOSTILE), Text.assemble(("x", "head"), HOSTILE)):
        text = printed(each, soft_wrap=soft_wrap, is_terminal=is_terminal)
        assert not _OBEYED.search(re.sub(r"\x1b\[[0-9;]*m", "", text)), repr(text)
        assert "\x1b[2J" not in text
        assert "\x1b[31m" not in text.replace("\\x9b", "")
        assert "owned" in text
        text.encode()


def test_errors_are_printed_and_rendered_without_terminal_control_characters() -> None:
    error = WaterclockError("E204", HOSTILE, where=HOSTILE, why=HOSTILE, fix=HOSTILE, excerpt=f"1 | {HOSTILE}\n  | ^")
    stream = io.StringIO()
    show_errors(make_console(stream), [error])
    for text in (stream.getvalue(), error.render(), str(ProjectErrors([error]))):
        assert not _OBEYED.search(text)
        assert r"\x1b[2J" in text


def test_a_refused_text_is_not_logged_by_the_parser(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ProjectErrors, match="E210"):
        adhoc_query(f"CREATE CONNECTION x '{HOSTILE}'", Flow(project="x", tables={}))
    assert not caplog.records


def test_library_logs_are_printed_without_terminal_control_characters() -> None:
    logged = f"""
import logging
from waterclock.printable import escape_logs
escape_logs()
logging.getLogger("some.library").warning({HOSTILE!a})
"""
    printed = subprocess.run([sys.executable, "-c", logged], capture_output=True, text=True, check=True, timeout=60)
    assert not _OBEYED.search(printed.stderr)
    assert r"\x1b[2J" in printed.stderr


def test_plain_text_stays() -> None:
    text = "größer ✕ ■ 中文 😀\tx\nnext line"
    assert printable(text) == text
    assert printed("größer ✕ 中文 😀") == "größer ✕ 中文 😀\n"


FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "'=1",
    "\uff1d1",
    "plain",
    "",
    None,
    "a=1",
    "1-2",
]


def rows(path: Path, *, formulas: bool) -> list[dict[str, str]]:
    """Write a CSV file with hostile texts and read it back."""
    batch = pa.RecordBatch.from_pydict(
        {"=n": pa.array(FORMULAS), "amount": pa.array([-5] * len(FORMULAS), pa.int32()),
         "of": pa.array([["=x"]] * len(FORMULAS), pa.list_(pa.string()))}
    )  # fmt: skip
    columns = [("=n", "STRING"), ("amount", "INT"), ("of", "ARRAY<STRING>")]
    write_file(path, iter([batch]), columns, WriteOptions(escapes_formulas=formulas))
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline="")))


def test_formulas_are_escaped_on_request(tmp_path: Path) -> None:
    found = rows(tmp_path / "a.csv", formulas=True)
    assert not [value for row in found for value in row.values() if re.match("[=+@\t\r\n\uff1d]", value)]
    assert {row["amount"] for row in found} == {"-5"}
    texts = [row["'=n"] for row in found]
    assert texts[0] == "'=cmd|' /C calc'!A0"
    assert [re.sub("^'", "", text) for text in texts] == [text or "" for text in FORMULAS]


def test_formulas_are_not_escaped_by_default(tmp_path: Path) -> None:
    assert [row["=n"] for row in rows(tmp_path / "a.csv", formulas=False)] == [text or "" for text in FORMULAS]


def test_only_csv_escapes_formulas() -> None:
    assert not list(find_write_option_errors({"formulas": "escape"}))
    [wrong] = find_write_option_errors({"format": "excel", "formulas": "escape"})
    assert (wrong.code, wrong.option) == ("E334", "formulas")
