"""Assigns arrived items, such as files, to windows by their time stamps. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from waterclock.connectors.interface import Item
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window

# A stamp is the last second that an item contains, so the item ends one second later.
STAMP_RESOLUTION = timedelta(seconds=1)


def assign_items(
    items: Iterable[Item], windows: Sequence[Window], sealed: IntervalSet, *, others_open: Sequence[Window] = ()
) -> Mapping[datetime, tuple[Item, ...]]:
    """Map the label of each of `windows` (oldest first) to its items. A window without items gets an empty tuple.

    An item belongs to the window of its stamp. If that window is sealed, or is before the oldest open one, the item
    goes into the oldest open window, so that no late item is lost. `others_open` are open windows that are not being
    made now: items that belong to them are left out. So are items stamped after the last window.
    """
    taken: dict[datetime, list[Item]] = {window.start: [] for window in windows}
    if not windows:
        return {}
    oldest_open = min((*windows, *others_open), key=lambda window: window.start)
    for item in sorted(items, key=lambda item: (item.stamp, item.name)):
        home = next((window for window in windows if window.contains(item.stamp)), None)
        if home is None and (item.stamp < oldest_open.start or sealed.covers_instant(item.stamp)):
            home = oldest_open if oldest_open.start in taken else None
        if home is not None:
            taken[home.start].append(item)
    return {label: tuple(found) for label, found in taken.items()}


def complete_until(newest_stamp: datetime) -> datetime:
    """Return the instant up to which a source with stamped items is complete, given its newest stamp."""
    return newest_stamp + STAMP_RESOLUTION
