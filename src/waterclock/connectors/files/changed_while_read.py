"""Checks, after files were read, that they have not changed since they were listed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from waterclock.connectors.files.file_name_matching import FileNaming, has_stamp
from waterclock.connectors.files.landing import Landing, find_items
from waterclock.connectors.interface import Item
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import FileInfo, map_each, stat_file
from waterclock.files.object_stores import is_remote


def require_unchanged(
    landing: Landing, names: FileNaming, items: Collection[Item], *, accepts_growth: bool = False
) -> None:
    """Raise E807 (transient) if the size or last modification of a file has changed: a part of it may have been read.

    A file that another table archived in the meantime is checked in the archive, by its size. With `accepts_growth`, a
    file without a stamp in its name may be larger now: its sender may append rows of later windows to it.
    Cost: a check of each file that was not archived when it was listed; in a bucket one request each.
    """
    fresh = [item for item in items if not item.is_archived]
    if not fresh:
        return
    found = map_each(fresh, _stat_or_none, at=landing.folder)
    gone = [item for item, now in zip(fresh, found, strict=True) if now is None]
    for item, now in zip(fresh, found, strict=True):
        if now is not None and accepts_growth and now.size > item.size and not has_stamp(names, item.name):
            continue
        if now is not None and (now.size != item.size or not _is_same_time(landing, item.changed, now.changed)):
            raise _changed_file_error(item, now.size)
    _require_archived(landing, names, gone)


def _require_archived(landing: Landing, names: FileNaming, gone: Sequence[Item]) -> None:
    archived = {item.name: item for item in find_items(landing, names, {item.name for item in gone})} if gone else {}
    for item in gone:
        now = archived.get(item.name)
        if now is None or now.size != item.size:
            raise _changed_file_error(item, None if now is None else now.size)


def _stat_or_none(item: Item) -> FileInfo | None:
    try:
        return stat_file(item.path)
    except FileNotFoundError:
        return None


def _is_same_time(landing: Landing, before: datetime | None, now: datetime) -> bool:
    if before is None or not is_remote(landing.folder):
        return before is None or before == now
    return int(before.timestamp()) == int(now.timestamp())  # a listing may be more precise than response headers


def _changed_file_error(item: Item, size: int | None) -> WaterclockError:
    now = "it is gone now" if size is None else f"it has {size} now"
    return WaterclockError(
        "E807",
        f"{item.name} changed while it was read",
        where=item.path,
        why=f"it had {item.size} bytes when the batch began, and {now}: the batch may have read a part of it",
        fix="nothing was archived, and it is read again at the next attempt; if its sender appends to it, OPTIONS "
        "(settle 60) waits until it is unchanged for a minute",
        transient=True,
    )
