"""Copies original files unchanged to the destination of a PUBLISH with `format 'raw'`, and verifies each checksum.

A copy is first written to a temporary file below `_waterclock/parts`, called its part, and read back. It is moved to
its final path only if it equals the collected file. The part's name is a hash of the final path, the checksum and the
modification time. So the next attempt, by any runner or claim, reuses the parts of an interrupted one. A file that is
intact at its final path is not copied again.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.files.raw_files import TYPES, digest_of
from waterclock.connectors.slice_rows import batches_of
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import (
    make_delivery_folder,
    move_file,
    names_in,
    open_for_reading,
    open_for_writing,
    remove_file,
    stat_file,
)
from waterclock.files.object_stores import is_remote
from waterclock.flow.declarations import Unit

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Copy:
    """A file that a label delivers: its final path, size and checksum, and the path of its temporary file, the part.

    Both paths are below the connection's folder. `part` is empty if the file was already at its final path. `changed`:
    the last modification of the original, in ISO 8601; None if it is unknown or not preserved.
    """

    target: str
    size: int
    sha256: str
    changed: str | None = None
    part: str = ""

    def problem(self, folder: Path) -> str | None:
        """Check the file at the final path. Return its problem; None if it is intact. Cost: the file is read."""
        place = folder / self.target
        try:
            size = stat_file(place).size
            if size != self.size:
                return f"{place.name} has {size} bytes, {self.size} were delivered"
            found = digest_of(place)
        except FileNotFoundError:
            return f"{place.name} is gone"
        return None if found == self.sha256 else f"{place.name} has other content: its SHA-256 is {found[:12]}…"


@dataclass(frozen=True, slots=True)
class Original:
    """A collected file, as described by its row in the slice."""

    name: str
    stamp: datetime
    changed: datetime | None
    size: int
    sha256: str


def originals_of(delivery: Delivery) -> list[Original]:
    """Return the collected files that a label delivers, in order of arrival. Cost: the label's slice is read."""
    rows = (row for batch in batches_of(delivery.files, list(TYPES)) for row in batch.to_pylist())
    found = [Original(**row) for row in rows]
    return sorted(found, key=lambda one: (one.stamp, one.name))


@dataclass(frozen=True, slots=True)
class Copier:
    """Copies the files of one claim to temporary files below the folder of a connection, and verifies them.

    `earlier` returns the final paths of all copies that this publish delivered before. It is called only if a file with
    other content is at a final path.
    """

    folder: Path
    parts: Path
    unit: Unit
    claim: int
    keeps_times: bool
    earlier: Callable[[], Collection[str]]

    def copies(self, delivery: Delivery, inner: Path, places: Mapping[str, str]) -> Iterator[Copy]:
        """Yield the copy of each file of a label once it is verified, at a temporary path or at its final path.

        `inner` is the folder of the final paths. `places` maps the names of the originals to their paths.
        Raises E383 for an original that is missing or changed, and for a copy that differs; E820 if a file that this
        publish did not deliver is at the final path.
        """
        for one in originals_of(delivery):
            yield self._copy_file(delivery, one, inner, places)

    def _copy_file(self, delivery: Delivery, one: Original, inner: Path, places: Mapping[str, str]) -> Copy:
        target = inner / one.name
        changed = one.changed if self.keeps_times else None
        copy = Copy(str(target), one.size, one.sha256, changed.isoformat() if changed else None)
        where = f"{self.unit}@{delivery.label_text}"
        if self._is_in_place(copy, where):
            return copy
        key = hashlib.sha256(f"{target}\n{one.sha256}\n{copy.changed}".encode()).hexdigest()[:40]
        part = Path(self.parts, key)
        if not self._is_complete_part(self.folder / str(part), one):
            source = places.get(one.name)
            if source is None:
                raise _missing_original_error(one, where)
            self._copy_to_part(source, one, changed, self.folder / str(part), where)
        fault("deliver.copied")
        return Copy(copy.target, copy.size, copy.sha256, copy.changed, str(part))

    def _is_in_place(self, copy: Copy, where: str) -> bool:
        """Return whether a file is intact at its final path, with its modification time if that is preserved.

        Raises E820 if another file is there that this publish did not deliver.
        """
        place = self.folder / copy.target
        try:
            stat_file(place)
        except (FileNotFoundError, NotADirectoryError):
            return False
        problem = copy.problem(self.folder)
        if problem is None:
            return not self.keeps_times or copy.changed is None or stat_file(place).changed.isoformat() == copy.changed
        if copy.target not in self.earlier():
            raise WaterclockError(
                "E820",
                f"{copy.target} exists already, with other content",
                where=where,
                why="no delivery of this publish wrote it",
                fix="move it away, or publish into another folder; then `waterclock retry`",
            )
        return False

    def _is_complete_part(self, part: Path, one: Original) -> bool:
        try:
            return stat_file(part).size == one.size and digest_of(part) == one.sha256
        except FileNotFoundError:
            return False

    def _copy_to_part(self, source: str, one: Original, changed: datetime | None, part: Path, where: str) -> None:
        """Copy a file to a temporary name that only this attempt uses, read it back, and rename it to `part`."""
        make_delivery_folder(part.parent)
        temporary = part if is_remote(part) else part.with_name(f"{self.claim}.{part.name}.{uuid.uuid4().hex}.tmp")
        try:
            with open_for_reading(source) as reading, open_for_writing(temporary) as writing:
                _copy_content(one, source, (reading, writing), where)  # after an error no object is created
            _verify_copy(one, temporary, where)
        except BaseException:
            remove_file(temporary)
            raise
        if temporary is part:
            return
        if changed is not None:
            stamp = round(changed.timestamp() * 1_000_000) * 1000
            os.utime(temporary, ns=(stamp, stamp))
        move_file(temporary, part)


def tidy_parts(parts: Path, claim: int) -> None:
    """Remove the temporary files that interrupted attempts of a claim did not remove."""
    for name in names_in(parts, f"{claim}."):
        remove_file(parts / name)


def of_record(entries: Iterable[Mapping[str, Any]]) -> tuple[Copy, ...]:
    """Build the copies of a label from the JSON of a delivery record."""
    return tuple(Copy(**entry) for entry in entries)


def _copy_content(one: Original, source: str, files: tuple[IO[bytes], IO[bytes]], where: str) -> None:
    """Copy the content of an open file to another one. Raises E383 if it is not the content that was collected."""
    reading, writing = files
    found = hashlib.sha256()
    while chunk := reading.read(_CHUNK):
        found.update(chunk)
        writing.write(chunk)
    if found.hexdigest() != one.sha256:
        raise _changed_original_error(one, found.hexdigest(), source, where)


def _verify_copy(one: Original, copy: Path, where: str) -> None:
    if digest_of(copy) != one.sha256:
        raise _bad_copy_error(one, where)


def _missing_original_error(one: Original, where: str) -> WaterclockError:
    return WaterclockError(
        "E383",
        f"{one.name} cannot be copied",
        where=where,
        why="it is neither where it arrived nor in the archive",
        fix="put it back into the archive, then `waterclock retry`",
    )


def _changed_original_error(one: Original, found: str, source: str, where: str) -> WaterclockError:
    return WaterclockError(
        "E383",
        f"{one.name} is not the file that was collected",
        where=where,
        why=f"{source} has the SHA-256 {found[:12]}…, {one.sha256[:12]}… when it was collected; nothing was sent",
        fix="restore the collected file in the archive, then `waterclock retry`",
    )


def _bad_copy_error(one: Original, where: str) -> WaterclockError:
    return WaterclockError(
        "E383",
        f"the copy of {one.name} differs from the file that was sent",
        where=where,
        why="read back, it has another SHA-256: the disk or the store changed the data",
        fix="it is tried again; check the disk if it happens again",
        transient=True,
    )
