"""Runs parts of a test as another user of the machine, a real one if the tests run as root."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ANN, MALLORY, TEAM = 61_001, 61_002, 61_500
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def as_user(user: int, work: Callable[[], Any], *, groups: tuple[int, ...] = (), umask: int = 0o022) -> Any:
    """Call a function in a child process as another user and return its result; an exception is raised here."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.setgroups(list(groups))
            os.setgid(user)
            os.setuid(user)
            os.umask(umask)
            answer = (True, work())
        except BaseException:  # noqa: BLE001 - the parent raises it
            answer = (False, traceback.format_exc())
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    is_done, found = pickle.loads(content)
    if not is_done:
        raise AssertionError(found)
    return found


@contextmanager
def meeting_place() -> Iterator[Path]:
    """Yield a folder that every user can enter and write to, like /tmp; pytest's own folders belong to root."""
    folder = Path(tempfile.mkdtemp(prefix="waterclock-strangers-", dir="/tmp"))
    folder.chmod(0o1777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def give(folder: Path, user: int) -> None:
    """Change the owner of a folder and all its content."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)
