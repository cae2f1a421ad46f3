"""Lets one process at a time create, run or delete a branch.

The ledger of a branch is a local file, so all its processes are on one machine, and a lock of a local file is enough.
The kernel releases the lock of a process that was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from waterclock.dpl.config.branches import BRANCH_FILE, BRANCHES
from waterclock.engine.branching.branch_places import require_branch_name, require_no_linked_folder
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import file_exists, remove_file
from waterclock.permissions.ownership import create_private_file, make_private_folder

_MOST_ATTEMPTS = 100  # each other process that removes the file at its end costs one
_MOST_DIGITS = 20


@contextmanager
def lock_branch(root: Path, name: str) -> Iterator[None]:
    """Lock a branch for the block, without waiting for another process.

    Raises E477 if another process has the lock, E476 for a name or a folder that no branch can have.
    """
    require_branch_name(name)
    require_no_linked_folder(root, name)
    path = root / BRANCHES / f".{name}.lock"
    descriptor = _open_locked(path, name)
    try:
        yield
    finally:
        _remove_leftovers(root / BRANCHES / name)
        path.unlink(missing_ok=True)
        os.close(descriptor)
        with suppress(OSError):  # it contains other branches
            path.parent.rmdir()


def _remove_leftovers(folder: Path) -> None:
    """Remove what a killed process left in the folder of a branch that does not exist."""
    if not file_exists(folder / BRANCH_FILE):
        for draft in folder.glob(f".{BRANCH_FILE}.*"):
            remove_file(draft)
        with suppress(OSError):  # it contains other files, or does not exist
            folder.rmdir()


def _open_locked(path: Path, name: str) -> int:
    """Create the lock file and lock it. Return its descriptor.

    If its owner removed the file after it was opened here, another file is created.
    """
    for _ in range(_MOST_ATTEMPTS):
        try:
            descriptor = _open(path)
        except FileNotFoundError:  # it or its folder was removed meanwhile
            continue
        except OSError as error:
            raise _unusable_lock_error(path, name, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_in_place(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, str(os.getpid()).encode())
                return descriptor
        except BlockingIOError:
            owner = _read_owner(descriptor)
            os.close(descriptor)
            raise _used_branch_error(name, owner) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise _used_branch_error(name, "")


def _open(path: Path) -> int:
    make_private_folder(path.parent)
    with suppress(FileExistsError):
        os.close(create_private_file(path))
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.fstat(descriptor).st_nlink > 1:  # the number of this process would replace the content of another file
        os.close(descriptor)
        raise OSError(errno.EMLINK, "it is a hard link to another file")
    return descriptor


def _is_in_place(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


def _read_owner(descriptor: int) -> str:
    """Return the number of the process that has the lock, or nothing if it has not written it yet."""
    found = os.pread(descriptor, _MOST_DIGITS, 0)
    return found.decode() if found.isdigit() else ""


def _used_branch_error(name: str, owner: str) -> WaterclockError:
    return WaterclockError(
        "E477",
        f"another process is using the branch {name}",
        why=f"{f'process {owner}' if owner else 'it'} creates, runs or deletes the branch now",
        fix="wait until it has ended, or end it; then repeat the command",
    )


def _unusable_lock_error(path: Path, name: str, error: OSError) -> WaterclockError:
    return WaterclockError(
        "E476",
        f"the branch {name} cannot be locked",
        where=str(path),
        why=error.strerror,
        fix=f"remove {path}"
        if error.errno == errno.EMLINK
        else f"make {path.parent} writable for this user: the lock of each branch is a file there",
    )
