"""Checks whether a Unix socket is protected from other users.

Every user can create files in /tmp, where some servers have their sockets, while the server does not run. Every user
can also create an abstract socket, which has no file.
"""

from __future__ import annotations

import stat
from pathlib import Path


def is_protected(path: str) -> bool:
    """Return whether no folder above a socket is writable for every user. `path` is the socket or its folder.

    False for a path that is not absolute: a name, or an abstract socket.
    """
    if not path.startswith("/"):
        return False
    try:
        real = Path(path).resolve(strict=True)
        return not any(stat.S_ISDIR(mode) and mode & stat.S_IWOTH for mode in map(_mode_of, (real, *real.parents)))
    except (OSError, RuntimeError):  # the path does not exist, or has a cycle of links
        return False


def _mode_of(path: Path) -> int:
    return path.stat().st_mode
