"""Names runners, and checks whether a named runner has ended."""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

_PLACE_LETTERS, _RUNNER_LETTERS = 4, 8


def runner_name() -> str:
    """Return a unique runner name: `host:pid:` and letters, the first of which identify the pid namespace."""
    return f"{socket.gethostname()}:{os.getpid()}:{_namespace_letters()}{uuid.uuid4().hex[:_RUNNER_LETTERS]}"


def has_ended(runner: str) -> bool:
    """Return whether a runner's process is certainly gone. False for a runner elsewhere, whose state is unknown."""
    host, _, rest = runner.partition(":")
    pid, _, letters = rest.partition(":")
    is_here = host == socket.gethostname() and letters.startswith(_namespace_letters()) and pid.isdecimal()
    return is_here and len(letters) == _PLACE_LETTERS + _RUNNER_LETTERS and not _is_process_alive(int(pid))


@lru_cache
def _namespace_letters() -> str:
    """Return letters that identify this boot and pid namespace: processes see only the pids of their own namespace."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return blake2b("\n".join(parts).encode(), digest_size=_PLACE_LETTERS // 2).hexdigest()


def _is_process_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    with suppress(OSError):
        # a zombie: a process that has ended and whose parent has not waited for it yet
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    return True
