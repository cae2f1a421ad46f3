"""Tells in which state a SQLite database file is, without SQLite.

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
    """Return what changes with every commit: the file's change counter and times, and what the WAL's index counts.

    In WAL mode a commit need not touch the counter, and the index goes with the last connection: then a checkpoint
    has written the file, which its time tells. All may change without a commit too (a checkpoint alone), never the
    other way, but for the few milliseconds in which the clock of a file system stands still.
    """
    with Path(path).open("rb") as file:
        head = file.read(100)
    index, log = Path(f"{path}-shm"), Path(f"{path}-wal")
    frames = index.read_bytes()[:48] if index.exists() else b""
    parts = [head[24:28].hex(), head[92:96].hex(), *_times_of(Path(path))]
    if any(frames[16:20]):
        parts += [frames[16:20].hex(), frames[24:48].hex()]
    if log.exists() and log.stat().st_size:
        parts += _times_of(log)
    return " ".join(parts)


def _times_of(path: Path) -> list[str]:
    stat = path.stat()
    return [str(stat.st_mtime_ns), str(stat.st_size)]


def state_seen_from_outside(path: str) -> str:
    """Ask a process of its own, some 50 ms."""
    command = [sys.executable, "-m", "waterclock.connectors.sqlite.change_counter", path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.stdout.write(state_of(sys.argv[1]))
