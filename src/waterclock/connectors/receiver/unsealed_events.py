"""Reads the events of segments that are not sealed yet, for open windows (CONTINUOUS). It changes no segment.

Each segment is listed as the sealed file that it becomes, with the same name. So a batch takes these events in the same
window, and an event is never listed twice.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from waterclock.connectors.interface import Item
from waterclock.connectors.receiver.segment_names import Segment, landed_segment, segments_in
from waterclock.connectors.receiver.segment_sealing import lines_of_segment
from waterclock.errors import WaterclockError
from waterclock.permissions.ownership import create_private_file

_SCRATCH = "open-windows-"
_SCRATCH_SECONDS = 3600  # a folder that is older was left behind by a process that was killed
_ENDING = ".seg"


def list_unsealed(folder: Path) -> list[Item]:
    """Return an item for each segment of a stream, open or closed, as far as it is written now.

    Call it before sealed files are listed: a segment that is sealed in between is then in both lists, not in none.
    """
    found = []
    for segment in segments_in(folder):
        path = folder / segment.name
        with suppress(FileNotFoundError):
            if segment.state != "damaged" and (size := path.stat().st_size):
                name = f"{folder.name}/{segment.landed_name}"
                found.append(Item(name, segment.label, size, str(path), bytes_read=0))
    return found


def is_unsealed(item: Item) -> bool:
    """Return whether an item is a segment."""
    return item.path.endswith(_ENDING)


class UnsealedEvents:
    """Copies of the events of segments in a folder of their own next to the stream, until it is closed."""

    def __init__(self, folder: Path) -> None:
        _remove_old_folders(folder)
        self._folder = folder
        self._scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=folder))  # for this user alone

    def copy(self, items: Mapping[datetime, Sequence[Item]]) -> dict[datetime, tuple[Item, ...]]:
        """Return the items with a file of events in place of each segment. Cost: each event is read and written once.

        A file has the events from `bytes_read` up to the size with which the segment was listed. Raises E807
        (transient) for a segment whose events were collected since.
        """
        return {
            label: tuple(self._copy(item) if is_unsealed(item) else item for item in of) for label, of in items.items()
        }

    def close(self) -> None:
        """Remove the copies."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _copy(self, item: Item) -> Item:
        segment = landed_segment(item.name.rpartition("/")[2])
        path = self._scratch / Path(segment.landed_name).with_suffix("").name
        for state in ("open", "closed"):
            with suppress(FileNotFoundError):
                source = self._folder / segment.with_state(state).name
                size = _copy_events(source, segment, item.bytes_read or 0, item.size, path)
                return replace(item, path=str(path), size=size)
        if not item.bytes_read:
            landed = self._folder / segment.landed_name
            with suppress(FileNotFoundError):
                return replace(item, path=str(landed), size=landed.stat().st_size)
        raise WaterclockError(
            "E807",
            f"{item.name} changed while it was read",
            where=str(self._folder),
            why="its events were collected in the meantime",
            fix="none: the next tick reads the remaining ones",
            transient=True,
        )


def _copy_events(path: Path, segment: Segment, least: int, most: int, target: Path) -> int:
    with path.open("rb") as source, open(create_private_file(target), "wb") as sink:  # noqa: PTH123 - a descriptor
        sink.writelines(lines_of_segment(source, segment, least, most))
        return sink.tell()


def _remove_old_folders(folder: Path) -> None:
    limit = time.time() - _SCRATCH_SECONDS
    for path in folder.glob(f"{_SCRATCH}*"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < limit:
                shutil.rmtree(path, ignore_errors=True)
