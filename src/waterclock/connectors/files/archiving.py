"""Moves collected files from the landing folder to the archive, under the same path.

A file is first put into the archive, unless the same content is already there, and then removed from the landing
folder. After a crash between the two steps it is in both places, and is archived again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from waterclock.connectors.files.bucket_listing import mark_arrival
from waterclock.connectors.files.file_name_matching import is_stamped
from waterclock.connectors.files.landing import Landing
from waterclock.connectors.interface import Item, Report
from waterclock.faults import fault
from waterclock.files.filesystem import (
    entry_path,
    file_exists,
    is_same_content,
    make_folder,
    map_each,
    path_below,
    put_copy_if_absent,
    put_file_if_absent,
    remove_file,
    stat_file,
)
from waterclock.files.object_stores import is_remote
from waterclock.permissions.ownership import foreign_writer, open_below, remove_below


def archive_items(landing: Landing, items: Sequence[Item]) -> tuple[Report, ...]:
    """Move files to the archive, under the same path as in the landing folder.

    Return reports about files that stay, and about those that changed since they were listed.

    Idempotent: a file that is already in the archive with the same content is only removed from the landing folder. A
    file that another table archives at the same time is skipped. Other content is never overwritten. If one file cannot
    be archived, the others still are, and the first error is raised at the end.
    """
    stores = [folder for folder in (landing.folder, landing.archive) if is_remote(folder)]
    found = map_each(items, lambda item: _try_archive_item(landing, item), at=stores[0] if stores else landing.folder)
    failures = [each for each in found if isinstance(each, Exception)]
    if failures:
        raise failures[0]
    return tuple(each for each in found if isinstance(each, Report))


def _try_archive_item(landing: Landing, item: Item) -> Report | Exception | None:
    try:
        return _archive_item(landing, item)
    except Exception as error:  # noqa: BLE001 - raised when the others are archived
        return error


def _archive_item(landing: Landing, item: Item) -> Report | None:
    relative = path_below(item.path, landing.folder)
    if relative is None:
        return None
    target = entry_path(landing.archive, relative)
    try:
        is_new = _put_into_archive(landing, item, relative, target)
        has_changed = is_new and _has_changed(landing, item, target)
        is_safe = is_new and not (has_changed and is_remote(landing.folder))  # else it may have changed after its copy
        is_put = is_safe or is_same_content(item.path, target)
    except FileNotFoundError:
        if file_exists(item.path):
            raise
        return None  # another table has archived it in the meantime
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EINVAL):
            raise
        return Report(item.path, "a link", "it was replaced by a link after it was read, and is not moved")
    if not is_put:
        return Report(item.path, "same name, other content", f"{target} has other content")
    fault("archive.put")
    if is_remote(landing.folder):
        remove_file(item.path)
    else:
        remove_below(landing.folder, relative)
    if has_changed:
        why = (
            "the archive has the changed file, and the table the rows of the one before; have it sent under another "
            "name, and restore the one before there"
        )
        return Report(str(target), "changed between its read and its archiving", why)
    return None


def _put_into_archive(landing: Landing, item: Item, relative: str, target: Path) -> bool:
    make_folder(target.parent)
    if is_remote(target) and not is_stamped(item.name):
        mark_arrival(target, item.stamp)
        fault("archive.marked")
    if is_remote(landing.folder) or is_remote(target):
        is_put = put_file_if_absent(item.path, target, item.size)
    else:
        with os.fdopen(open_below(landing.folder, relative), "rb") as file:
            is_put = _archive_opened_file(file, item.path, target)
    return is_put


def _has_changed(landing: Landing, item: Item, target: Path) -> bool:
    """Return whether a file that was just archived differs from the one that was listed.

    A local file is compared by size and last modification, an object by size and ETag, for one request.
    """
    if item.changed is None:
        return False
    if not is_remote(landing.folder):
        found = stat_file(item.path if is_remote(target) else target)
        return (found.size, found.changed) != (item.size, item.changed)
    if item.etag is None:
        return False
    found = stat_file(item.path)
    return (found.size, found.etag) != (item.size, item.etag)


def _archive_opened_file(file: IO[bytes], path: str, target: Path) -> bool:
    """Put an open file into the archive, as a hard link if no other user can change the file, else as a copy.

    A linked file can still be changed by its owner, through its other hard links, and by processes that have it open.
    """
    status = os.fstat(file.fileno())
    if status.st_nlink > 1 or foreign_writer(status, file.fileno()) is not None:
        return put_copy_if_absent(file, target)
    if not put_file_if_absent(path, target):
        return False
    if target.is_symlink():  # the file was replaced by a link since it was opened
        target.unlink()
        return put_copy_if_absent(file, target)
    return True
