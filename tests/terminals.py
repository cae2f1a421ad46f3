"""Processes on their own pseudo-terminal: their output, and keys pressed meanwhile."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass
class Terminal:
    """A process on a terminal of 100 columns and 30 rows."""

    process: subprocess.Popen[bytes]
    _master: int
    _printed: list[bytes] = field(default_factory=list)
    _reader: threading.Thread | None = None

    def reads(self) -> None:
        """Start to read the output of the process; until then the buffer may fill up and block it."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def presses_ctrl_c(self) -> None:
        os.write(self._master, b"\x03")

    def ends(self, timeout: float) -> str:
        """Wait for the end, and return the whole output."""
        self.process.wait(timeout)
        if self._reader is None:
            self.reads()
        assert self._reader is not None
        self._reader.join(timeout)
        return self.printed

    @property
    def printed(self) -> str:
        return b"".join(self._printed).decode(errors="replace")

    def _read(self) -> None:
        with suppress(OSError):  # EIO: no process has the other end open
            while chunk := os.read(self._master, 65536):
                self._printed.append(chunk)


@contextmanager
def terminal(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, reads: bool = True, cwd: Path | None = None
) -> Iterator[Terminal]:
    """Start a command on a terminal, and clean up at the end of the block."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _AS_SESSION, *command],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env={key: value for key, value in os.environ.items() if key not in {"COLUMNS", "NO_COLOR"}}
        | {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **(env or {})},
        start_new_session=True,
    )
    os.close(slave)
    opened = Terminal(process, master)
    try:
        if reads:
            opened.reads()
        yield opened
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


# a terminal sends Ctrl-C to the processes that it controls
_AS_SESSION = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
