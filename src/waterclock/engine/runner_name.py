"""What a runner is called, and whether the one of a name has ended."""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

_OF_A_PLACE, _OF_A_RUNNER = 4, 8


def runner_name() -> str:
    """Return a name that no other runner has: `host:pid:` and letters, the first of which tell who shares pids."""
    return f"{socket.gethostname()}:{os.getpid()}:{_place()}{uuid.uuid4().hex[:_OF_A_RUNNER]}"


def has_ended(runner: str) -> bool:
    """Tell whether a runner's process is sure to be gone; False for one of elsewhere, of which nobody here can tell."""
    host, _, rest = runner.partition(":")
    pid, _, letters = rest.partition(":")
    is_here = host == socket.gethostname() and letters.startswith(_place()) and pid.isdecimal()
    return is_here and len(letters) == _OF_A_PLACE + _OF_A_RUNNER and not _is_there(int(pid))


@lru_cache
def _place() -> str:
    """Return some letters of the boot and of the pid namespace: containers on one host do not see each other's pids."""
    said = [socket.gethostname()]
    with suppress(OSError):
        said.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        said.append(str(Path("/proc/self/ns/pid").readlink()))
    return blake2b("\n".join(said).encode(), digest_size=_OF_A_PLACE // 2).hexdigest()


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    with suppress(OSError):
        # a process that has ended and that nobody has asked for yet
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    return True
