"""Opens a workbook of the old format (.xls) in a process with bounded memory and time, before calamine opens it here.

Calamine trusts many sizes of such a file: of its container, of sheets and of cells far apart. It ends its process if
memory for them is refused. The trial needs as much memory as the read, as calamine parses all sheets at once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from waterclock.errors import WaterclockError

_CONTAINER = bytes.fromhex("d0cf11e0a1b11ae1")  # how a file begins that calamine reads as .xls, even if it is a zip too
_MOST_BYTES = 512 << 20
_MOST_MEMORY = 2 << 30
"""Enough for all 65,536 rows and 256 columns of a sheet, with their formulas."""
_MOST_SECONDS = 120  # of the CPU
_MOST_WAITED = 1200  # on a busy machine
_TRIAL = """
import io, resource, sys
folder, memory, seconds = sys.argv[1], *map(int, sys.argv[2:])
for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
    hard = resource.getrlimit(kind)[1]
    try:
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    except (OSError, ValueError):
        pass  # macOS has no bound of a process's memory
sys.path.insert(0, folder)
import python_calamine
try:
    python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(sys.stdin.buffer.read()))
except python_calamine.CalamineError:
    pass  # raised again where the workbook is read
"""


def try_opening(file: IO[bytes], library: Any) -> None:
    """Check that a workbook of the old format can be opened, and leave the file at its beginning.

    Raises  E882 for one that needs too much memory or time, ValueError for one that makes calamine fail otherwise
    Cost    a process that opens the workbook, about 0.1 s for a small one
    """
    file.seek(0)
    is_old = file.read(len(_CONTAINER)) == _CONTAINER
    file.seek(0)
    if not is_old:
        return
    content = file.read(_MOST_BYTES + 1)
    file.seek(0)
    if len(content) > _MOST_BYTES:
        raise _too_large(f"it has more than {_MOST_BYTES} bytes")
    folder = str(Path(library.__file__).parents[1])
    limits = (str(_MOST_MEMORY), str(_MOST_SECONDS))
    command = [sys.executable, "-I", "-c", _TRIAL, folder, *limits]
    try:
        trial = subprocess.run(command, input=content, capture_output=True, check=False, timeout=_MOST_WAITED)
    except subprocess.TimeoutExpired as error:
        raise _too_large(f"opening it takes more than {_MOST_WAITED} seconds") from error
    if trial.returncode == -signal.SIGXCPU:
        raise _too_large(f"opening it takes more than {_MOST_SECONDS} seconds")
    said = trial.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    if trial.returncode < 0 or said == "MemoryError":
        raise _too_large(f"opening it takes more than {_MOST_MEMORY} bytes of memory, as for cells far from the data")
    if trial.returncode:
        raise ValueError(f"the workbook cannot be read: {said}")


def _too_large(why: str) -> WaterclockError:
    return WaterclockError(
        "E882",
        "the workbook is too large",
        why=why,
        fix="delete the cells that are far from the data, or split it, or send it as CSV or Parquet",
    )
