"""Finds files and folders with data or private keys that other users of this machine can reach."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from waterclock.errors import WaterclockError
from waterclock.permissions.ownership import is_private_group

_OTHERS, _GROUP = stat.S_IRWXO, stat.S_IRWXG


@dataclass(frozen=True, slots=True)
class OpenPlace:
    """A file or folder that other users can reach: `who` they are, and its permissions, such as 0755."""

    path: Path
    who: str
    mode: int


def find_open_places(paths: Iterable[Path]) -> Iterator[OpenPlace]:
    """Yield the existing paths that the group or all users of this machine can read, write or enter.

    A path is not reported if a folder above it keeps them out. The group of a folder with the setgid bit, and of a file
    in one, was chosen on purpose, and the owner's private group has no other member: neither is reported. Access
    control lists are not read.
    """
    for path in dict.fromkeys(path.absolute() for path in paths):
        try:
            status = path.stat()
            if status.st_mode & _OTHERS and all(_lets_in(above, stat.S_IXOTH) for above in path.parents):
                yield OpenPlace(path, "every user of this machine", stat.S_IMODE(status.st_mode))
            elif _is_open_to_group(path, status):
                yield OpenPlace(path, "its group", stat.S_IMODE(status.st_mode))
        except OSError:  # it does not exist, or this process itself cannot reach it
            continue


def open_place_warnings(paths: Iterable[Path]) -> Iterator[WaterclockError]:
    """Yield the warning W205 for each path that `find_open_places` finds."""
    for found in find_open_places(paths):
        command = f"chmod {0o700 if found.path.is_dir() else 0o600:o} {shlex.quote(str(found.path))}"
        yield WaterclockError(
            "W205",
            f"{found.who} can reach {found.path}",
            where=str(found.path),
            why=f"its permissions are {found.mode:04o}",
            fix=f"`{command}`, or share it with a group (docs/howto/share-a-project.md)",
        )


def _is_open_to_group(path: Path, status: os.stat_result) -> bool:
    folder = status if stat.S_ISDIR(status.st_mode) else path.parent.stat()
    if not status.st_mode & _GROUP or folder.st_mode & stat.S_ISGID or is_private_group(status.st_gid, status.st_uid):
        return False
    return all(_lets_in(above, stat.S_IXOTH | stat.S_IXGRP) for above in path.parents)


def _lets_in(folder: Path, bits: int) -> bool:
    return bool(folder.stat().st_mode & bits)
