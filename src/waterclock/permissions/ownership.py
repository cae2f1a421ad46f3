"""Checks by owner and mode who can change a file, and creates folders and files that other users cannot read.

A folder with the setgid bit passes its permissions on to new files and folders in it: this is how a group shares a
storage (docs/howto/share-a-project.md). Everywhere else new folders have mode 0700 and new files 0600, whatever the
umask.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from waterclock.errors import WaterclockError

_FOLDER, _FILE = 0o700, 0o600
_ACL = "system.posix_acl_access"


def trusted_file_owners() -> frozenset[int]:
    """Return the users whose files this process trusts: its own, root and, under sudo, the user that called it."""
    user = os.geteuid()
    caller = os.environ.get("SUDO_UID", "") if user == 0 else ""
    return frozenset({0, user, *([int(caller)] if caller.isascii() and caller.isdigit() else [])})


def foreign_writer(status: os.stat_result, place: int | str) -> str | None:
    """Return a description of the other user that can change a file or folder, or None if no other user can.

    `place` is its descriptor or path. The owner's private group counts as the owner: it has the owner's name, no other
    member, and is no other user's primary group. Debian and Fedora give new users such a group and the umask 002.
    """
    if status.st_uid not in trusted_file_owners():
        return f"it belongs to {_user_name(status.st_uid)}"
    if status.st_mode & stat.S_IWOTH:
        return "every user of this machine can write to it"
    if status.st_mode & stat.S_IWGRP and (_has_acl(place) or not is_private_group(status.st_gid, status.st_uid)):
        return f"its group {_group_name(status.st_gid)} can write to it"
    return None


def cache_folder() -> Path:
    """Return the folder of Waterclock's cache for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waterclock"


def make_private_folder(path: Path) -> None:
    """Create a folder that other users cannot read, and missing folders above it. An existing folder stays as it is."""
    try:
        path.mkdir(_FOLDER)
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_private_folder(path.parent)
        make_private_folder(path)
        return
    except OSError:  # an existing folder may cause another error, as one on a read-only file system does
        if not path.is_dir():
            raise
        return
    if (shared := _shared_mode(path.parent)) is not None:
        path.chmod(_FOLDER | shared | stat.S_ISGID)


def create_private_file(path: Path, flags: int = 0) -> int:
    """Create a file that other users cannot read; return its descriptor. Raises FileExistsError, also for a link."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, _FILE)
    if (shared := _shared_mode(path.parent)) is not None:
        os.fchmod(descriptor, _FILE | shared & 0o666)
    return descriptor


def require_private_folder(path: Path, *, why: str, fix: str) -> Path:
    """Create a folder for this user alone, and return it. Raises E931 for a link or another owner, or OSError."""
    make_private_folder(path.parent)
    with suppress(FileExistsError):  # the next lines report an existing link or file
        path.mkdir(_FOLDER, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        found = "is a symbolic link" if stat.S_ISLNK(status.st_mode) else "is not a folder"
    elif status.st_uid != os.geteuid():
        found = f"belongs to {_user_name(status.st_uid)}"
    else:
        if status.st_mode & 0o077:
            path.chmod(_FOLDER)
        return path
    raise WaterclockError("E931", f"the folder {path} {found}", where=str(path), why=why, fix=fix)


def open_below(root: Path | str, relative: str) -> int:
    """Open a file below a folder for reading, and return its descriptor. No link on the path is followed.

    Each folder is opened relative to the one above it, so that no name can be exchanged between a check and the
    opening.

    Raises OSError with ELOOP if a part of the path is a link, and with EINVAL if the path is not that of a regular
    file.
    """
    *folders, name = Path(relative).parts
    with _folder_below(root, folders) as at:
        # without O_NONBLOCK a named pipe would wait for a writer
        descriptor = _open_at(name, os.O_NONBLOCK, at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no plain file", relative)
    return descriptor


def remove_below(root: Path | str, relative: str) -> None:
    """Remove a file below a folder if it exists. No link on the path is followed."""
    *folders, name = Path(relative).parts
    with suppress(FileNotFoundError), _folder_below(root, folders) as at:
        os.unlink(name, dir_fd=at)


@contextmanager
def _folder_below(root: Path | str, folders: Sequence[str]) -> Iterator[int]:
    if ".." in folders:
        raise OSError(errno.EINVAL, "a path with ..", "/".join(folders))
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = _open_at(folder, os.O_DIRECTORY, at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _open_at(name: str, flags: int, at: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=at)
    except NotADirectoryError:  # the error of O_DIRECTORY for a link
        if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def _shared_mode(folder: Path) -> int | None:
    """Return the permissions that a folder passes on to its group and to others, or None if it passes none on."""
    mode = folder.stat().st_mode
    return mode & 0o077 if mode & stat.S_ISGID else None


@lru_cache
def is_private_group(group: int, owner: int) -> bool:
    """Return whether a group has only its owner: it has the owner's name, and no other user is in it."""
    try:
        user, found = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        return False
    is_of_owner = found.gr_name == user.pw_name and user.pw_gid == group and set(found.gr_mem) <= {user.pw_name}
    # members by their primary group are not in the group's own list
    return is_of_owner and not any(each.pw_gid == group and each.pw_uid != owner for each in pwd.getpwall())


def _has_acl(place: int | str) -> bool:
    """Return whether a file has an access control list, whose mask replaces the group's permission bits."""
    try:
        return _ACL in os.listxattr(place)
    except (AttributeError, OSError):  # not on Linux, or a file system without ACLs
        return False


def _user_name(user: int) -> str:
    try:
        return f"{pwd.getpwuid(user).pw_name} (user {user})"
    except KeyError:
        return f"user {user}"


def _group_name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
