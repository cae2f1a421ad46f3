"""In which state is a SQLite database file, told without SQLite?

Several connections cannot share a read transaction. Where they see the same state before and after they read, they read
the same rows. Closing a file drops all locks that its process holds on it, SQLite's too: so this is asked only where
the process has no connection to that database open, or of a process of its own.

Source  SQLite's file format: "file change counter", "WAL-index header"
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def state_of(path: str) -> str:
    """Give what changes with every commit: the file's change counter, and what the head of the WAL index counts.

    It may change without a commit too (a checkpoint), never the other way.
    """
    with Path(path).open("rb") as file:
        head = file.read(100)
    index = Path(f"{path}-shm")
    log = b""
    if index.exists():
        with index.open("rb") as file:
            log = file.read(48)
    last_frame, salts_and_sums = log[16:20], log[24:48]
    has_frames = any(last_frame)
    return (head[24:28] + head[92:96] + (last_frame + salts_and_sums if has_frames else b"")).hex()


def state_seen_from_outside(path: str) -> str:
    """Ask a process of its own, some 50 ms."""
    command = [sys.executable, "-m", "waterclock.connectors.sqlite_state", path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.stdout.write(state_of(sys.argv[1]))
