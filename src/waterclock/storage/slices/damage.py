"""Finds the table file that an error message names, and checks whether a sealed slice is complete and readable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import arrow_source, entry_path, stat_file
from waterclock.storage.lake import STAGE
from waterclock.storage.slices.manifest import DataFile, Manifest, read_manifest
from waterclock.timelabel.label import instant_of, label_of_hive_path

LOG = "_delta_log"
_LEAF = re.compile(rf"{STAGE}/y=\d+/m=\d+/d=\d+/h=\d+/n=\d+/c=\d+")


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A file of a table or of a publish stage: `path` is relative to its folder.

    `slice_path` and `label` are set for a file of a slice.
    """

    table: str
    path: str
    slice_path: str | None = None
    label: datetime | None = None

    @property
    def is_of_log(self) -> bool:
        """Whether the file belongs to the table's Delta log."""
        return self.path.startswith(LOG)


def place_in(root: str, text: str) -> FilePlace | None:
    """Return the first file of a table below `root` that a text contains, also as an escaped URI, or None."""
    below = re.escape(unquote(root).rstrip("/"))
    found = re.search(rf"{below}/(?:tables/([^/\s]+)/([^/\s]+)|(publish/[^/\s]+))/([^\s'\",;)\]]+)", unquote(text))
    if found is None:
        return None
    schema, name, publish, path = found.groups()
    path = path.rstrip(".:")
    table = publish or f"{schema}.{name}"
    leaf = _LEAF.match(path)
    if leaf is None:
        return FilePlace(table, path)
    return FilePlace(table, path, leaf[0], instant_of(label_of_hive_path(leaf[0])))


def require_whole(folder: str, manifest: Manifest) -> None:
    """Raise E605 if a slice's rows cannot be read. Cost: a scan of all its columns in this process."""
    why = damage_of(folder, manifest.slice_path, is_deep=True)
    if why is not None:
        raise WaterclockError(
            "E605",
            "the slice is damaged",
            where=f"{folder}/{manifest.slice_path}",
            why=why,
            fix="run `waterclock recompute TABLE@LABEL` for this slice",
        )


def damage_of(folder: str, slice_path: str, *, is_deep: bool = False) -> str | None:
    """Return a text with the fault of a sealed slice, or None if there is none.

    A fault is an unreadable manifest, or a file that is missing, truncated or has no footer. Cost: a read of each
    file's footer. `is_deep` also finds unreadable rows, by a scan of all columns in this process.
    """
    try:
        manifest = read_manifest(folder, slice_path)
    except WaterclockError as error:
        return error.why
    faults = (damage_of_file(folder, file, is_deep=is_deep) for file in (*manifest.files, *manifest.aside))
    return next(filter(None, faults), None)


def damage_of_file(folder: str, file: DataFile, *, is_deep: bool = False) -> str | None:
    """Return a text with the fault of one file of a slice, or None if there is none. Cost: as `damage_of`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = entry_path(folder, file.path)
    try:
        size = stat_file(path).size
        with pq.ParquetFile(arrow_source(path)) as parquet:
            rows = parquet.metadata.num_rows
            if is_deep:
                for _ in parquet.iter_batches():
                    pass
    except FileNotFoundError:
        return f"{path.name} is gone"
    except (OSError, pa.ArrowException) as error:
        return f"{path.name} cannot be read: {str(error).splitlines()[0]}"
    if (size, rows) == (file.size, file.rows):
        return None
    return f"{path.name} has {size} bytes and {rows} rows, but was sealed with {file.size} bytes and {file.rows} rows"
