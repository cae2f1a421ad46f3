"""Writes text to stdout. If the reader has closed the pipe (`| head`), the command continues without an error."""

from __future__ import annotations

import os
import sys
from typing import IO


def write_out(text: str) -> None:
    """Write a text to stdout and flush it. Without a stdout, nothing is written."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)


def discard(stream: IO[str]) -> None:
    """Discard all further output to a stream whose reader is gone. Python would report it again at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
