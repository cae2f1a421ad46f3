"""Reads the state of a SQLite database file without SQLite, to detect commits.

Several connections cannot share a read transaction. But if all of them find the same state before and after they read,
they have read the same rows. When a process closes a file, it loses all its locks on the file, including those of
SQLite. So this module must run in a process that has no open connection to the database.

Source: SQLite's file format, "file change counter" and "WAL-index header"
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def state_of(path: str) -> str:
    """Return a text that differs after every commit, from counters and times of the file and of the WAL index.

    In WAL mode, a commit may leave the counter unchanged, and the index is deleted with the last connection. In that
    case a checkpoint has written the file, which changes its modification time. The text may also differ without a
    commit, for example after a checkpoint. It misses a commit only within the resolution of the file system's clock,
    which is a few milliseconds.
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
    """Return the state of a database file, read by a separate process. Cost: about 50 ms."""
    command = [sys.executable, "-P", "-m", "waterclock.connectors.sqlite.change_counter", path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.stdout.write(state_of(sys.argv[1]))
