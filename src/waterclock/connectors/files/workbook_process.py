"""Reads each workbook in a separate process with limits of memory and time.

Calamine trusts sizes that a file declares, and aborts its process if that much memory is not available. So it never
runs in the runner's process, and a crash is an error of one workbook only.

Linux enforces all limits; macOS has no memory limit for a process. The process ends if its parent has ended, or at its
limit of CPU time.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

from waterclock.connectors.drivers import missing_library_error
from waterclock.connectors.files import sheet_rows
from waterclock.connectors.files.sheet_rows import OUT_OF_MEMORY, SheetRequest
from waterclock.errors import WaterclockError

_LIBRARY = "python_calamine"
_MOST_BYTES = 512 << 20
_MOST_MEMORY = 3 << 30
_MOST_SECONDS = 300  # of CPU time
_MOST_WAIT_SECONDS = 1200  # seconds for a line, on a busy machine
_PIECE = 1 << 20
_PROCESS_CODE = f"import sys; sys.path += sys.argv[4:]; from {sheet_rows.__name__} import main; main()"
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")


def read_columns(file: IO[bytes], request: SheetRequest) -> tuple[str, ...]:
    """Return the column names of a sheet.

    Raises E882 for a workbook that is too large, or needs too much memory or time; E884 for a sheet that does not
    exist, has no header or a formula without a result; E885 for merged cells in the data; E888 if python-calamine is
    missing; ValueError for a file that is no workbook.
    Cost: a process of about 0.05 s of CPU time, which parses the whole workbook.
    """
    names: tuple[str, ...] = ()
    for kind, found in _read_messages(file, replace(request, is_header_only=True)):
        if kind == "names":
            names = tuple(found)
    return names


def read_rows(file: IO[bytes], request: SheetRequest) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield batches of rows, each as a list of columns. The last column has the row numbers.

    `request.declared` are the names that `read_columns` returned.
    Raises the errors of `read_columns`.
    """
    for kind, found in _read_messages(file, request):
        if kind == "rows":
            yield found


def _read_messages(file: IO[bytes], request: SheetRequest) -> Iterator[tuple[str, Any]]:
    """Start the process and yield its messages (see `sheet_rows.main`) up to the end of the workbook."""
    with _open_for_process(file) as number, tempfile.TemporaryFile() as errors:
        process, requests, answers = _start_process(number, errors)
        try:
            _write_all(requests, request.to_json().encode())
            for line in _read_lines(answers):
                kind, *content = json.loads(line)
                if kind == "end":
                    return
                if kind == "error":
                    raise WaterclockError(**content[0])
                if kind == "unreadable":
                    raise ValueError(content[0])
                yield kind, content[0]
            raise _explain_exit(process.wait(), errors)
        finally:
            process.kill()
            process.wait()
            requests.close()
            answers.close()


def _start_process(number: int, errors: IO[bytes]) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
    """Start a process that reads the file with this descriptor. Return the process, its stdin and its stdout."""
    found = importlib.util.find_spec(_LIBRARY)
    if found is None or found.origin is None:
        raise missing_library_error("Excel", "python-calamine", "excel", is_of_workers=True)
    folders = [str(Path(__file__).parents[3]), str(Path(found.origin).parents[1])]  # of this package and the library
    limits = map(str, (number, _MOST_MEMORY, _MOST_SECONDS))
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROCESS_CODE, *limits, *folders],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        pass_fds=[number],
        env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ} | {"RUST_BACKTRACE": "0"},
        start_new_session=True,  # so that Ctrl-C does not end it: running batches finish
    )
    return process, cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)


def _write_all(pipe: IO[bytes], content: bytes) -> None:
    """Write all content and close the pipe. Ignore a process that has died: reading its answer reports that."""
    left = memoryview(content)
    with suppress(BrokenPipeError), pipe:
        while left:
            left = left[pipe.write(left) :]


def _read_lines(pipe: IO[bytes]) -> Iterator[bytes]:
    """Yield the complete lines that a process writes. Raises E882 if the next line takes too long."""
    pieces: list[bytes] = []
    with selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        while True:
            if not ready.select(_MOST_WAIT_SECONDS):
                raise _too_large_error(f"reading it takes more than {_MOST_WAIT_SECONDS} seconds")
            piece = os.read(pipe.fileno(), _PIECE)
            if not piece:
                return
            *ended, last = piece.split(b"\n")
            for part in ended:
                yield b"".join((*pieces, part))
                pieces = []
            pieces.append(last)


def _explain_exit(code: int, errors: IO[bytes]) -> WaterclockError | ValueError:
    if code == -signal.SIGXCPU:
        return _too_large_error(f"reading it takes more than {_MOST_SECONDS} seconds")
    if code == -signal.SIGKILL:  # the kernel ends this process before all others if the machine has no memory left
        return WaterclockError(
            "E882",
            "the process that reads the workbook was killed",
            why="most likely the machine ran out of memory: this process is then killed first",
            fix="run it again; if it fails again, give the machine more memory, or run fewer batches at once",
            transient=True,
        )
    if code < 0 or code == OUT_OF_MEMORY:
        return _too_large_error(
            f"reading it takes more than {_MOST_MEMORY} bytes of memory, as for cells far from the data"
        )
    errors.seek(0)
    last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
    return ValueError(f"the workbook cannot be read: {last or f'its process ended with {code}'}")


@contextmanager
def _open_for_process(file: IO[bytes]) -> Iterator[int]:
    """Yield a descriptor for another process: of the file itself or, if it is not on disk, of a temporary copy.

    Raises E882 if the file is too large.
    """
    with ExitStack() as stack:
        on_disk = file
        if not (isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO)):
            on_disk = stack.enter_context(tempfile.TemporaryFile())
            file.seek(0)
            copied = 0
            while copied <= _MOST_BYTES and (piece := file.read(_PIECE)):
                copied += on_disk.write(piece)
            on_disk.flush()
        if os.fstat(on_disk.fileno()).st_size > _MOST_BYTES:
            raise _too_large_error(f"it has more than {_MOST_BYTES} bytes")
        on_disk.seek(0)
        try:
            yield on_disk.fileno()
        finally:
            file.seek(0)


def _too_large_error(why: str) -> WaterclockError:
    return WaterclockError(
        "E882",
        "the workbook is too large",
        why=why,
        fix="delete the cells that are far from the data, or split it, or send it as CSV or Parquet",
    )
