"""The process that reads a workbook."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import waterclock
from waterclock.connectors.files import workbook_process
from waterclock.connectors.files.sheet_rows import Cells, SheetRequest
from waterclock.errors import WaterclockError


def test_a_request_is_the_same_after_the_way_to_the_process() -> None:
    whole = SheetRequest("S", Cells(1, 2, None, 4), False, True, "–", ("a", "ä\n"), (1,), True)
    for request in (SheetRequest(), whole):
        assert SheetRequest.from_json(request.to_json()) == request


def test_the_process_imports_little() -> None:
    """It is started twice for each workbook."""
    code = "import sys; sys.path.append(sys.argv[1]); import waterclock.connectors.files.sheet_rows"
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"{code}; print(*sys.modules)",
        str(Path(waterclock.__file__).parents[1]),
    ]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    files = ("", ".sheet_rows", ".sheet_size_limits", ".workbook_zips", ".xlsx_checks")
    assert {name.removeprefix("waterclock.") for name in modules if name.startswith("waterclock.")} == {
        *("errors", "printable", "similar_names", "connectors"),
        *(f"connectors.files{each}" for each in files),
    }


def test_a_process_without_an_answer_is_an_error_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook_process, "_PROCESS_CODE", "raise ImportError('no such library')")
    with pytest.raises(ValueError, match="the workbook cannot be read: ImportError: no such library"):
        workbook_process.read_columns(io.BytesIO(b"x"), SheetRequest())


def test_the_memory_of_the_process_that_starts_it_does_not_count() -> None:
    """Regression: Linux adds it to `ru_maxrss`, so each unreadable workbook counted as too large."""
    code = f"""
import io
from waterclock.connectors.files import workbook_process
from waterclock.connectors.files.sheet_rows import SheetRequest
workbook_process._MOST_MEMORY = {600 << 20}
kept = bytearray(b"x") * {400 << 20}
try:
    workbook_process.read_columns(io.BytesIO(b"PK no workbook"), SheetRequest())
except Exception as error:
    print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "ValueError\n"


def test_a_process_without_an_answer_in_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook_process, "_PROCESS_CODE", "import time; time.sleep(600)")
    monkeypatch.setattr(workbook_process, "_MOST_WAIT_SECONDS", 0.1)
    with pytest.raises(WaterclockError) as caught:
        workbook_process.read_columns(io.BytesIO(b"x"), SheetRequest(null="x" * 1_000))
    assert (caught.value.code, caught.value.why) == ("E882", "reading it takes more than 0.1 seconds")


def test_a_large_file_is_refused_without_a_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(workbook_process, "_MOST_BYTES", 1 << 20)
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, (1 << 20) + 1)
    with path.open("rb") as file, pytest.raises(WaterclockError) as caught:
        workbook_process.read_columns(file, SheetRequest())
    assert (caught.value.code, caught.value.why) == ("E882", "it has more than 1048576 bytes")
    with pytest.raises(WaterclockError):
        workbook_process.read_columns(io.BytesIO(bytes((1 << 20) + 1)), SheetRequest())
